package nfs

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func share(name string, age time.Duration) *v1alpha1.Nfs {
	n := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u-" + "1", CreationTimestamp: metav1.NewTime(start.Add(-age))}}
	n.Spec.Server, n.Spec.Path = "nas", "/export"
	return n
}

func good(at time.Time) *Look {
	return &Look{At: at, Node: "n1", Prepared: true, Report: sharedvolume.Seen{
		ID: "id-1", Usage: sharedvolume.Usage{Total: 100 << 30, Used: 40 << 30, Free: 60 << 30}, Version: "4.2",
	}}
}

func bad(at time.Time, reason string) *Look {
	return &Look{At: at, Node: "n2", Report: sharedvolume.Seen{Problem: &sharedvolume.Problem{Reason: reason, Message: "from node n2: no answer"}}}
}

func TestView_dueEveryTenSeconds(t *testing.T) {
	n := share("a", 0)
	var none *View
	if look, prepare := none.Due(n, start); !look || !prepare {
		t.Error("the first look does not try whether volumes can be made")
	}
	v := none.Next(n, backend.World{}, good(start), start)
	for _, c := range []struct {
		after         time.Duration
		look, prepare bool
	}{{time.Second, false, false}, {9 * time.Second, false, false}, {10 * time.Second, true, false}, {10 * time.Minute, true, true}} {
		if look, prepare := v.Due(n, start.Add(c.after)); look != c.look || prepare != c.prepare {
			t.Errorf("after %s: look %t, prepare %t", c.after, look, prepare)
		}
	}
	if w := v.Whole(nil).Wake; w != Every {
		t.Errorf("looked at again after %s", w)
	}
	changed := share("a", 0)
	changed.Generation = 2
	if look, prepare := v.Due(changed, start); !look || !prepare {
		t.Error("a changed spec is not tried")
	}
}

func TestView_conditions(t *testing.T) {
	n := share("a", 0)
	var none *View
	w := none.Next(n, backend.World{}, good(start), start).Whole(nil)
	if c := w.Facts[0]; c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "n1") || !strings.Contains(c.Message, "4.2") || !w.Serves {
		t.Errorf("reached: %+v, serves %t", c, w.Serves)
	}
	if w.Class.Parameters[v1alpha1.ParameterNfs] != string(n.UID) {
		t.Errorf("class %+v", w.Class)
	}
	w = none.Next(n, backend.World{}, bad(start, sharedvolume.ReasonUnreachable), start).Whole(nil)
	if c := w.Facts[0]; c.Status != metav1.ConditionFalse || c.Reason != sharedvolume.ReasonUnreachable || !strings.Contains(c.Message, "n2") || w.Serves {
		t.Errorf("not reached: %+v, serves %t", c, w.Serves)
	}
}

func TestView_aControllerThatHasJustStartedKeepsWhatIsKnown(t *testing.T) {
	n := share("a", 0)
	n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionShareReachable, Status: metav1.ConditionTrue, Message: "before"}}
	nobody := &Look{At: start, Report: sharedvolume.Seen{Problem: &sharedvolume.Problem{Reason: v1alpha1.ReasonNoAgent, Message: "No agent answers."}}}
	var none *View
	v := none.Next(n, backend.World{}, nobody, start)
	if c := v.Whole(nil).Facts[0]; c.Status != metav1.ConditionTrue || c.Message != "before" {
		t.Errorf("%+v", c)
	}
	if look, _ := v.Due(n, start.Add(2*time.Second)); !look {
		t.Error("an agent that connects is not asked soon")
	}
	later := start.Add(time.Minute)
	nobody.At = later
	if c := v.Next(n, backend.World{}, nobody, later).Whole(nil).Facts[0]; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNoAgent {
		t.Errorf("nobody has answered for a minute: %+v", c)
	}
}

func TestView_capacityOncePerMinuteAndKept(t *testing.T) {
	n := share("a", 0)
	var none *View
	// The file system keeps 5 GiB and a little back for root.
	first := good(start)
	first.Report.Used, first.Report.Free = 35<<30-1, 60<<30-1
	v := none.Next(n, backend.World{}, first, start)
	if c := v.Whole(nil).Capacity; c.Total.Value() != 100<<30 || c.Used.Value() != 35<<30-1 || c.Free.Value() != 60<<30-1 {
		t.Errorf("%s, %s used, %s free", c.Total, c.Used, c.Free)
	}
	at := start.Add(20 * time.Second)
	fuller := good(at)
	fuller.Report.Used, fuller.Report.Free = 45<<30, 50<<30
	v = v.Next(n, backend.World{}, fuller, at)
	if c := v.Whole(nil).Capacity; c.Used.Value() != 35<<30-1 || c.Free.Value() != 60<<30-1 {
		t.Errorf("taken over after 20 s: %s used, %s free", c.Used, c.Free)
	}
	at = start.Add(60 * time.Second)
	fuller.At = at
	v = v.Next(n, backend.World{}, fuller, at)
	if c := v.Whole(nil).Capacity; c.Used.Value() != 45<<30 || c.Free.Value() != 50<<30 {
		t.Errorf("after a minute: %s used, %s free", c.Used, c.Free)
	}
	v = v.Next(n, backend.World{}, bad(at, sharedvolume.ReasonUnreachable), at)
	if c := v.Whole(nil).Capacity; c.Free.Value() != 50<<30 {
		t.Errorf("what was known of the size is lost: %s", c.Free)
	}
}

func TestView_theYoungerOfTwoIsTold(t *testing.T) {
	old, young := share("old", time.Hour), share("young", 0)
	old.UID = "u-old"
	var none *View
	v := none.Next(young, backend.World{Others: []v1alpha1.Storage{old}}, good(start), start)
	if c := v.Whole(nil).Warnings[0]; c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonSameShare || !strings.Contains(c.Message, "old") {
		t.Errorf("%+v", c)
	}
	v = none.Next(old, backend.World{Others: []v1alpha1.Storage{young}}, good(start), start)
	if c := v.Whole(nil).Warnings[0]; c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}

func TestView_nestedSharesAreTold(t *testing.T) {
	outer, inner, beside := share("outer", time.Hour), share("inner", 0), share("beside", 0)
	outer.Spec.Server, outer.Spec.Path = "NAS.", "/export"
	inner.Spec.Server, inner.Spec.Path = "nas", "/export/team"
	beside.Spec.Server, beside.Spec.Path = "nas", "/export-2"
	all := []*v1alpha1.Nfs{outer, inner, beside}
	for name, want := range map[string]string{"outer": "Nfs inner is inside", "inner": "Nfs outer is around", "beside": ""} {
		var of *v1alpha1.Nfs
		var others []v1alpha1.Storage
		for _, n := range all {
			if n.Name == name {
				of = n
			} else {
				others = append(others, n)
			}
		}
		var none *View
		c := none.Next(of, backend.World{Others: others}, good(start), start).Whole(nil).Warnings[0]
		if want == "" {
			if c.Status != metav1.ConditionTrue {
				t.Errorf("%s: %+v", name, c)
			}
			continue
		}
		if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonNestedShare || !strings.Contains(c.Message, want) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestView_theSameShareInOtherWords(t *testing.T) {
	for want, servers := range map[metav1.ConditionStatus][2]string{
		metav1.ConditionFalse: {"fd00::1", "fd00:0:0:0:0:0:0:1"}, metav1.ConditionTrue: {"fd00::1", "fd00::2"},
	} {
		old, young := share("old", time.Hour), share("young", 0)
		old.UID, old.Spec.Server, young.Spec.Server = "u-old", servers[0], servers[1]
		var none *View
		v := none.Next(young, backend.World{Others: []v1alpha1.Storage{old}}, good(start), start)
		if c := v.Whole(nil).Warnings[0]; c.Status != want {
			t.Errorf("%v: %+v", servers, c)
		}
	}
}

// TestView_theSameShareUnderAnotherName recognises a share by its identity, where a name and an address, or two paths, lead to it.
func TestView_theSameShareUnderAnotherName(t *testing.T) {
	const unique, same, nested = v1alpha1.ReasonShareUnique, v1alpha1.ReasonSameShare, v1alpha1.ReasonNestedShare
	unseen := func(*v1alpha1.Nfs, *v1alpha1.Nfs, *Look) {}
	seen := func(old, _ *v1alpha1.Nfs, _ *Look) { old.Status.ShareID = "id-1" }
	for name, c := range map[string]struct {
		edit func(old, young *v1alpha1.Nfs, look *Look)
		// oldSays and youngSays are the reasons of both.
		oldSays, youngSays string
	}{
		"nobody has seen the older one": {unseen, unique, unique},
		"both have one identity":        {seen, unique, same},
		"another identity":              {func(old, _ *v1alpha1.Nfs, _ *Look) { old.Status.ShareID = "id-2" }, unique, unique},
		"nobody has seen the younger one": {func(old, _ *v1alpha1.Nfs, look *Look) {
			old.Status.ShareID, look.Report = "id-1", bad(start, sharedvolume.ReasonUnreachable).Report
		}, unique, unique},
		"the younger one was seen before": {func(old, young *v1alpha1.Nfs, look *Look) {
			old.Status.ShareID, young.Status.ShareID, look.Report = "id-1", "id-1", bad(start, sharedvolume.ReasonUnreachable).Report
		}, unique, same},
		"the younger one shows another share": {func(old, young *v1alpha1.Nfs, look *Look) {
			old.Status.ShareID, young.Status.ShareID, look.Report = "id-1", "id-2", bad(start, sharedvolume.ReasonOtherShare).Report
			look.Report.ID = "id-1"
		}, unique, unique},
		"another path of one server": {func(old, young *v1alpha1.Nfs, look *Look) {
			seen(old, young, look)
			old.Spec.Server, old.Spec.Path = young.Spec.Server, "/"
		}, nested, same},
		"a path inside, with an identity of its own": {func(old, young *v1alpha1.Nfs, _ *Look) {
			old.Spec.Server, old.Spec.Path, old.Status.ShareID = young.Spec.Server, "/", "id-2"
		}, nested, nested},
	} {
		t.Run(name, func(t *testing.T) {
			old, young, look := share("old", time.Hour), share("young", 0), good(start)
			old.UID, old.Spec.Server = "u-old", "192.0.2.1"
			c.edit(old, young, look)
			var none *View
			says := func(n, other *v1alpha1.Nfs, look *Look) metav1.Condition {
				return none.Next(n, backend.World{Others: []v1alpha1.Storage{other}}, look, start).Whole(nil).Warnings[0]
			}
			if got := says(young, old, look); got.Reason != c.youngSays || c.youngSays == same && !strings.Contains(got.Message, "Nfs old") {
				t.Errorf("the younger one: %+v", got)
			}
			if got := says(old, young, bad(start, sharedvolume.ReasonUnreachable)); got.Reason != c.oldSays {
				t.Errorf("the older one: %+v", got)
			}
		})
	}
}

func TestInvalid_pathsOfRecords(t *testing.T) {
	n := share("a", 0)
	n.Spec.Server, n.Spec.Path = "nas", "/export/.quarry/volumes"
	if p := Invalid(n); p == nil || !strings.Contains(p.Message, "records") {
		t.Errorf("%+v", p)
	}
}

func TestShareID_recordOutranks(t *testing.T) {
	n := share("a", 0)
	w := backend.World{Volumes: map[string][]backend.Volume{"": {{Attributes: map[string]string{sharedvolume.KeyShareID: "of-a-volume"}}}}}
	if got := ShareID(n, backend.World{}); got != "" {
		t.Errorf("nothing is recorded: %q", got)
	}
	if got := ShareID(n, w); got != "of-a-volume" {
		t.Errorf("the status is lost: %q", got)
	}
	n.Status.ShareID = "recorded"
	if got := ShareID(n, w); got != "of-a-volume" {
		t.Errorf("the status outranks the volumes: %q", got)
	}
	if got := ShareID(n, backend.World{}); got != "recorded" {
		t.Errorf("without volumes: %q", got)
	}
	var none *View
	none.Next(n, w, good(start), start).Fill(n)
	if n.Status.ShareID != "id-1" || n.Status.VolumeCount != 1 || n.Status.CheckedFrom != "n1" || n.Status.Version != "4.2" {
		t.Errorf("%+v", n.Status)
	}
}

func TestInvalid_servers(t *testing.T) {
	long := "/" + strings.Repeat("b", 230)
	for _, c := range []struct{ server, path, want string }{
		{"0.0.0.0", "/a", "spec.server"},
		{"::", "/a", "spec.server"},
		{"224.0.0.1", "/a", "spec.server"},
		{"nas.1", "/a", "spec.server"},
		{strings.Repeat("a", 64), "/a", "spec.server"},
		{"nas", long + strings.Repeat("b", 30), "spec.path"},
		{"nas", "/a\u202eb", "spec.path"},
		{"nas.storage.example.internal", long, "together"},
		{"nas", long, ""},
		{"[fd00::1]", "/a", ""},
		{"fe80::1%eth0", "/a", ""},
	} {
		n := share("a", 0)
		n.Spec.Server, n.Spec.Path = c.server, c.path
		p := Invalid(n)
		if c.want == "" && p != nil || c.want != "" && (p == nil || p.Reason != sharedvolume.ReasonInvalid || !strings.Contains(p.Message, c.want)) {
			t.Errorf("%s:%s: %+v", c.server, c.path, p)
		}
	}
}

func TestInvalid(t *testing.T) {
	n := share("a", 0)
	n.Spec.Server, n.Spec.Path = "nas", "/a"
	n.Spec.MountOptions = []v1alpha1.MountOption{"vers=4.1"}
	if p := Invalid(n); p != nil {
		t.Errorf("%+v", p)
	}
	n.Spec.MountOptions = []v1alpha1.MountOption{"addr=10.0.0.1"}
	if p := Invalid(n); p == nil || !strings.Contains(p.Message, "addr") {
		t.Errorf("%+v", p)
	}
}

func TestElsewhere(t *testing.T) {
	for reason, want := range map[string]bool{
		sharedvolume.ReasonUnreachable: true, sharedvolume.ReasonRefused: true, v1alpha1.ReasonAgentUnreachable: true,
		sharedvolume.ReasonTooManyCalls: true,
		sharedvolume.ReasonOtherShare:   false, sharedvolume.ReasonInvalid: false, sharedvolume.ReasonNoSpace: false,
	} {
		if got := Elsewhere(&sharedvolume.Problem{Reason: reason}); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}
