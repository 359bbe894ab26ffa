package backend

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

const fullPool, wellPool = "n1: thin pool p is nearly full", "Every thin pool is well."

// pools returns what a backend with thin pools says about the whole.
func pools(full bool) Whole {
	w := Whole{Serves: true, Warnings: []metav1.Condition{
		Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionTrue, v1alpha1.ReasonThinPoolsHealthy, wellPool),
	}}
	if full {
		w.Warnings[0] = Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionFalse, v1alpha1.ReasonThinPoolNearlyFull, fullPool)
	}
	return w
}

func TestSummary_notesAreTold(t *testing.T) {
	s := summaryOf(hostOf("n1"))
	s.Class.Exists = true
	s.Whole.Notes = []string{"A field says nothing."}
	if s.Phase() != v1alpha1.PhaseWarning || s.Message() != "A field says nothing." {
		t.Errorf("%s: %q", s.Phase(), s.Message())
	}
}

// TestSummary_failing: what has failed by its own word is Failed, even if volumes were made before. A risk that the spec asks for is told, and changes no phase.
func TestSummary_failing(t *testing.T) {
	broken := []metav1.Condition{Condition(v1alpha1.ConditionCephHealthy, metav1.ConditionFalse, v1alpha1.ReasonCephError, "HEALTH_ERR")}
	risk := []metav1.Condition{Condition(v1alpha1.ConditionCopiesSafe, metav1.ConditionFalse, v1alpha1.ReasonFewCopies, "There is one copy.")}
	for name, tt := range map[string]struct {
		whole    Whole
		deleting bool
		want     v1alpha1.Phase
		ready    metav1.ConditionStatus
		message  string
	}{
		"a fact is not so":          {Whole{Serves: true, Facts: broken}, false, v1alpha1.PhaseWarning, metav1.ConditionFalse, "HEALTH_ERR"},
		"it has failed":             {Whole{Serves: true, Facts: broken, Failing: true}, false, v1alpha1.PhaseFailed, metav1.ConditionFalse, "HEALTH_ERR"},
		"the same, and it goes":     {Whole{Serves: true, Facts: broken, Failing: true}, true, v1alpha1.PhaseDeleting, metav1.ConditionFalse, "HEALTH_ERR"},
		"a warning":                 {Whole{Serves: true, Warnings: risk}, false, v1alpha1.PhaseWarning, metav1.ConditionTrue, "There is one copy."},
		"a risk that was asked for": {Whole{Serves: true, Risks: risk}, false, v1alpha1.PhaseRunning, metav1.ConditionTrue, "There is one copy."},
	} {
		s := summaryOf(hostOf("n1"))
		s.Class.Exists, s.Whole, s.Deleting = true, tt.whole, tt.deleting
		conditions := s.Conditions()
		if got := s.Phase(); got != tt.want || s.Message() != tt.message {
			t.Errorf("%s: %s, message %q", name, got, s.Message())
		}
		for _, c := range slices.Concat(tt.whole.Facts, tt.whole.Warnings, tt.whole.Risks) {
			if told := meta.FindStatusCondition(conditions, c.Type); told == nil || told.Reason != c.Reason {
				t.Errorf("%s: condition %s is %+v", name, c.Type, told)
			}
		}
		if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready.Status != tt.ready {
			t.Errorf("%s: %+v", name, ready)
		}
	}
}

func TestConditions_driverAndWarnings(t *testing.T) {
	ready := DriverState{Exists: true, Ready: true}
	for name, tt := range map[string]struct {
		whole   Whole
		driver  DriverState
		csi     string
		isReady metav1.ConditionStatus
		want    v1alpha1.Phase
		message string
	}{
		"well":              {pools(false), ready, v1alpha1.ReasonCSIReady, metav1.ConditionTrue, v1alpha1.PhaseRunning, ""},
		"a pool is full":    {pools(true), ready, v1alpha1.ReasonCSIReady, metav1.ConditionTrue, v1alpha1.PhaseWarning, fullPool},
		"driver deploys":    {pools(false), DriverState{}, v1alpha1.ReasonCSIDeploying, metav1.ConditionFalse, v1alpha1.PhaseCreating, ""},
		"driver starts":     {pools(false), DriverState{Progress: "One of two."}, v1alpha1.ReasonCSIDeploying, metav1.ConditionFalse, v1alpha1.PhaseCreating, ""},
		"driver is stuck":   {pools(false), DriverState{Failed: "no image"}, v1alpha1.ReasonCSIFailed, metav1.ConditionFalse, v1alpha1.PhaseWarning, "no image"},
		"both are not well": {pools(true), DriverState{Failed: "no image"}, v1alpha1.ReasonCSIFailed, metav1.ConditionFalse, v1alpha1.PhaseWarning, "no image\n" + fullPool},
	} {
		t.Run(name, func(t *testing.T) {
			s := summaryOf(hostOf("n1"))
			s.Class, s.Whole, s.Driver = Class{Exists: true}, tt.whole, tt.driver
			conditions := s.Conditions()
			pool := tt.whole.Warnings[0].Reason
			for kind, want := range map[string]string{v1alpha1.ConditionCSIReady: tt.csi, v1alpha1.ConditionThinPoolsHealthy: pool} {
				if c := meta.FindStatusCondition(conditions, kind); c == nil || c.Reason != want {
					t.Errorf("condition %s is %+v, want %s", kind, c, want)
				}
			}
			if c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); c.Status != tt.isReady {
				t.Errorf("ready: %+v", c)
			}
			if got := s.Phase(); got != tt.want || s.Message() != tt.message {
				t.Errorf("phase %s, want %s, message %q", got, tt.want, s.Message())
			}
		})
	}
}

// TestSummary_withoutMembers is a backend like Nfs: what is wrong is a fact of the whole.
func TestSummary_withoutMembers(t *testing.T) {
	facts := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{Condition(v1alpha1.ConditionShareReachable, status, v1alpha1.ReasonShareReachable, "The share.")}
	}
	for name, c := range map[string]struct {
		fact   metav1.ConditionStatus
		class  bool
		driver bool
		want   string
	}{
		"well":                      {metav1.ConditionTrue, true, true, "Running Ready"},
		"the driver deploys":        {metav1.ConditionTrue, true, false, "Creating CSIDeploying"},
		"not reached yet":           {metav1.ConditionFalse, false, true, "Failed ShareReachable"},
		"reached, no class yet":     {metav1.ConditionTrue, false, true, "Creating Pending"},
		"the server went away":      {metav1.ConditionFalse, true, true, "Warning ShareReachable"},
		"nobody knows at the start": {metav1.ConditionUnknown, true, true, "Warning ShareReachable"},
		"it is new, nobody knows":   {metav1.ConditionUnknown, false, true, "Creating ShareReachable"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summary{
				Owner: Owner{Kind: "Nfs", Name: "s"}, Class: Class{Exists: c.class}, Driver: DriverState{Exists: true, Ready: c.driver},
				Whole: Whole{Facts: facts(c.fact), Pending: "Not yet."},
			}
			conditions := s.Conditions()
			if told := s.Message() == "The share."; told == (c.fact == metav1.ConditionTrue) {
				t.Errorf("message %q", s.Message())
			}
			if len(conditions) != 4 || s.States() != nil {
				t.Errorf("%+v", conditions)
			}
			if got := fmt.Sprintf("%s %s", s.Phase(), conditions[3].Reason); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestSummary_whatTheAPIServerRefuses(t *testing.T) {
	const refused = "The StorageClass s could not be written: no"
	for name, c := range map[string]struct {
		change             func(s *Summary)
		phase              v1alpha1.Phase
		class, ready, text string
	}{
		"the class": {
			func(s *Summary) { s.Class = Class{Failed: refused} }, v1alpha1.PhaseFailed,
			v1alpha1.ReasonStorageClassFailed, v1alpha1.ReasonStorageClassFailed, refused,
		},
		"a change of the class": {
			func(s *Summary) { s.Class = Class{Exists: true, Failed: refused} }, v1alpha1.PhaseWarning,
			v1alpha1.ReasonStorageClassFailed, v1alpha1.ReasonStorageClassFailed, refused,
		},
		"something else": {
			func(s *Summary) { s.Trouble = "patch nfs s: no" }, v1alpha1.PhaseWarning,
			v1alpha1.ReasonStorageClassReady, v1alpha1.ReasonReady, "patch nfs s: no",
		},
	} {
		s := Summary{
			Owner: Owner{Kind: "Nfs", Name: "s"}, Class: Class{Exists: true}, Driver: DriverState{Exists: true, Ready: true},
			Whole: Whole{Pending: "The StorageClass is made once an agent has reached the share."},
		}
		c.change(&s)
		conditions := s.Conditions()
		class, ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionStorageClassReady), meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
		if class.Reason != c.class || ready.Reason != c.ready || s.Phase() != c.phase || s.Message() != c.text {
			t.Errorf("%s: %s, message %q, %+v, %+v", name, s.Phase(), s.Message(), class, ready)
		}
	}
}

func TestSummary_deletion(t *testing.T) {
	s := summaryOf()
	s.Deleting, s.Driver = true, DriverState{}
	for kind, want := range map[string]string{
		v1alpha1.ConditionStorageClassReady: v1alpha1.ReasonDeleting, v1alpha1.ConditionCSIReady: v1alpha1.ReasonDeleting,
		v1alpha1.ConditionDisksReady: v1alpha1.ReasonDisksReady, v1alpha1.ConditionReady: v1alpha1.ReasonDeleting,
	} {
		if c := meta.FindStatusCondition(s.Conditions(), kind); c == nil || c.Reason != want {
			t.Errorf("%+v, want %s", c, want)
		}
	}
	if c := meta.FindStatusCondition(s.Conditions(), v1alpha1.ConditionReady); c.Message != "The Cluster is being deleted." {
		t.Error(c.Message)
	}
}

func TestMember_ready(t *testing.T) {
	for name, c := range map[string]struct {
		in   HostHealth
		want string
	}{
		"well":                {hostOf("n1"), "True Ready The member serves volumes."},
		"work is under way":   {hostOf("n1", works), "False Preparing its disks are being prepared"},
		"waits":               {hostOf("n1", held), "False ApprovalRequired changes of its disks wait for approval"},
		"down":                {hostOf("n1", down), "False AgentUnreachable the agent does not answer: connection refused"},
		"too early":           {hostOf("n1", early), "True Ready as before"},
		"too early, restored": {hostOf("n1", early, unwritten), "False Pending the connection to the agent is being made"},
		"under maintenance":   {hostOf("n1", quiesced), "False Maintenance The member is under maintenance and takes no new volumes."},
		"and down":            {hostOf("n1", down, quiesced), "False Maintenance is under maintenance and not reachable"},
		"leaves":              {hostOf("n1", leaves), "False HostNotListed Not listed."},
		"is being removed":    {hostOf("n1", goes()), "False Preparing is being removed"},
		"waits for its data":  {hostOf("n1", goes("v1")), "False VolumesExist is being removed and waits until its volumes are deleted: v1"},
		"may not be used":     {hostOf("n1", invalid), "False HostNotFound no such node"},
		"a step of it failed": {hostOf("n1", broken), "False StepFailed no room for metadata"},
	} {
		ready := c.in.Ready()
		if got := fmt.Sprintf("%s %s %s", ready.Status, ready.Reason, ready.Message); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestCapacity_sumsTheHostsThatReport(t *testing.T) {
	s := summaryOf(hostOf("n1"), hostOf("n2", down), hostOf("n3", refuses), hostOf("n4"), hostOf("n5", func(h *HostHealth) { h.Removed = true }))
	got := s.Capacity()
	if text := fmt.Sprintf("%s %s %s", got.Total, got.Used, got.Free); text != "20Gi 12289Mi 8191Mi" {
		t.Errorf("total, used, free: %s", text)
	}
	s.Whole.Capacity = new(SpaceOf(100, 100))
	if got := s.Capacity(); got.Total.Value() != 100 {
		t.Errorf("what the backend says about the whole does not count: %s", got.Total)
	}
}

func TestSpaceOf_roundsWhatIsFree(t *testing.T) {
	for name, c := range map[string]struct{ size, free, want int64 }{
		"nothing":                          {0, 0, 0},
		"all of it is free":                {1010, 1010, 1010},
		"down to a whole percent":          {1000, 999, 990},
		"a whole percent":                  {1000, 500, 500},
		"less than a percent is told":      {1000, 9, 9},
		"one byte is not nothing":          {1 << 40, 1, 1},
		"nothing is free":                  {1000, 0, 0},
		"a size of less than 100 bytes":    {50, 33, 33},
		"a little less than all is not it": {1000, 991, 990},
		"a whole number of MiB":            {4128512 << 10, 4<<30 - 100<<20, 3991 << 20},
		"no whole MiB":                     {2 << 20, 1<<20 - 1, 1048550},
	} {
		got := SpaceOf(c.size, c.free)
		if got.Free.Value() != c.want || got.Total.Value() != c.size || got.Used.Value() != c.size-c.want {
			t.Errorf("%s: %s of %s, %s used", name, got.Free, got.Total, got.Used)
		}
	}
}

func TestStates(t *testing.T) {
	state := func(s nodestate.State) func(*HostHealth) { return func(h *HostHealth) { h.State = s } }
	s := summaryOf(hostOf("n1"), hostOf("n2", state(nodestate.Offline)), hostOf("n3", leaves), hostOf("n4", state(nodestate.Failed)),
		hostOf("n5", state(nodestate.Abandoned)), hostOf("n6", func(h *HostHealth) { h.Object = nil }), hostOf("n7", func(h *HostHealth) { h.Removed = true }))
	want := &v1alpha1.MemberStates{Online: 1, Offline: 1, Quiesced: 1, Failed: 1, Abandoned: 1, Leaving: 1}
	if d := cmp.Diff(want, s.States()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestProblems_areBounded(t *testing.T) {
	hosts := []HostHealth{hostOf("n0"), hostOf("n1", works), hostOf("n2", down, func(h *HostHealth) { h.Removed = true })}
	for i := range 20 {
		hosts = append(hosts, hostOf(fmt.Sprintf("x%d", i), finds(v1alpha1.ReasonPartial, strings.Repeat("long ", 1000))))
	}
	got := summaryOf(hosts...).Problems()
	if len(got) != v1alpha1.MaxProblems || got[0].Node != "x0" || got[0].Reason != v1alpha1.ReasonPartial {
		t.Fatalf("%d: %+v", len(got), got[0])
	}
	if len(got[0].Message) > 520 || len(summaryOf(hosts[:3]...).Problems()) != 0 {
		t.Errorf("%d bytes", len(got[0].Message))
	}
}

func TestUnsupported(t *testing.T) {
	c := Unsupported("There is no backend.")
	if len(c) != 1 || c[0].Type != v1alpha1.ConditionReady || c[0].Reason != v1alpha1.ReasonNotYetSupported || c[0].Status != metav1.ConditionFalse ||
		c[0].Message != "There is no backend." {
		t.Errorf("%+v", c)
	}
}

func TestText_isBounded(t *testing.T) {
	lines := make([]string, 500)
	for i := range lines {
		lines[i] = strings.Repeat("ä", 300)
	}
	if s := Text(lines); len(s) > maxText || !strings.HasSuffix(s, "and 490 more") {
		t.Errorf("%d bytes: …%s", len(s), s[len(s)-40:])
	}
	if s := Text(lines[:1]); s != lines[0] {
		t.Error("a short message was changed")
	}
	if s := Text(strings.Split(strings.Repeat("x ", 12), " ")[:12]); !strings.HasSuffix(s, "\nand 2 more") || strings.Count(s, "\n") != maxLines {
		t.Errorf("%q", s)
	}
	if got := Cut("aä", 2); got != "a…" {
		t.Errorf("%q", got)
	}
}

func TestShorten(t *testing.T) {
	if got := Shorten([]string{"a", "b", "c"}, 2); got != "a, b and 1 more" {
		t.Error(got)
	}
	if got := Shorten([]string{"a", "b"}, 2); got != "a, b" {
		t.Error(got)
	}
}

func TestStepError(t *testing.T) {
	inner := errors.New("boom")
	if e := (&StepError{Reason: "X", Err: inner}); e.Error() != "boom" || !errors.Is(e, inner) {
		t.Errorf("%v", e)
	}
}
