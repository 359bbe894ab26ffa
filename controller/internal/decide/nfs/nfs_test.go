package nfs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const uid = "6d1f8f3e-0000-4000-8000-000000000001"

func kindOf(err error) volume.Kind {
	var r *volume.Refusal
	if errors.As(err, &r) {
		return r.Kind
	}
	return 0
}

func TestOtherNode(t *testing.T) {
	fault := func(k decide.FaultKind, reason string) error {
		return fmt.Errorf("at it: %w", &decide.Fault{Kind: k, Reason: reason})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{fault(decide.FaultUnavailable, ""), true},
		{fault(decide.FaultInternal, ""), true},
		{fault(decide.FaultDenied, ""), true},
		{fault(decide.FaultUnavailable, sharedvolume.ReasonUnreachable), true},
		{fault(decide.FaultPrecondition, sharedvolume.ReasonRootSquashed), true},
		{fault(decide.FaultPrecondition, sharedvolume.ReasonOtherShare), false},
		{fault(decide.FaultPrecondition, sharedvolume.ReasonNotPrepared), false},
		{fault(decide.FaultNoRoom, sharedvolume.ReasonNoSpace), false},
		{fault(decide.FaultPrecondition, ""), false},
		{fault(decide.FaultBusy, ""), false},
		{fault(decide.FaultConflict, ""), false},
		{errors.New("odd"), false},
	} {
		if got := OtherNode(c.err); got != c.want {
			t.Errorf("%v: %t, want %t", c.err, got, c.want)
		}
	}
}

func TestOrder(t *testing.T) {
	online := []string{"c", "a", "b"}
	for name, c := range map[string]struct {
		preferred  []string
		turn, most int
		want       []string
	}{
		"no preference":      {turn: 0, most: 9, want: []string{"a", "b", "c"}},
		"another turn":       {turn: 4, most: 9, want: []string{"b", "c", "a"}},
		"the preferred ones": {preferred: []string{"c", "", "c", "gone", "b"}, turn: 7, most: 9, want: []string{"c", "b", "a"}},
		"not all":            {preferred: []string{"b"}, turn: 1, most: 2, want: []string{"b", "c"}},
		"all are preferred":  {preferred: []string{"a", "b", "c"}, turn: 3, most: 9, want: []string{"a", "b", "c"}},
		"none are wanted":    {preferred: []string{"x", "y"}, turn: 1, most: 0, want: []string{}},
	} {
		if diff := cmp.Diff(c.want, Order(online, c.preferred, c.turn, c.most)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"c", "a", "b"}, online); diff != "" {
		t.Errorf("the input was changed: %s", diff)
	}
}

func media(edit func(*v1alpha1.Nfs)) *v1alpha1.Nfs {
	n := &v1alpha1.Nfs{}
	n.Name, n.UID = "media", uid
	n.Spec.Server, n.Spec.Path = "fd00::1", "/export"
	n.Spec.MountOptions = []v1alpha1.MountOption{"vers=4.1", "nconnect=4"}
	if edit != nil {
		edit(n)
	}
	return n
}

func TestDescribe(t *testing.T) {
	claim := volume.Claim{Namespace: "team", Name: "data", Volume: "pvc-1"}
	for name, c := range map[string]struct {
		edit  func(*v1alpha1.Nfs)
		claim volume.Claim
		dir   string
		p     sharedvolume.Policy
		kind  volume.Kind
	}{
		"plain":                        {claim: claim, dir: "pvc-1", p: sharedvolume.Delete},
		"without notes of the sidecar": {dir: "vol-x", p: sharedvolume.Delete},
		"a template": {
			edit:  func(n *v1alpha1.Nfs) { n.Spec.SubDir, n.Spec.OnDelete = "a/${pvc.namespace}/${pvc.name}", "archive" },
			claim: claim, dir: "a/team/data", p: sharedvolume.Archive,
		},
		"a template without values": {edit: func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.name}" }, kind: volume.Invalid},
		"a template that leads out": {edit: func(n *v1alpha1.Nfs) { n.Spec.SubDir = "../${pv.name}" }, claim: claim, kind: volume.Invalid},
		"a claim that leads out":    {edit: func(n *v1alpha1.Nfs) { n.Spec.SubDir = "${pvc.name}" }, claim: volume.Claim{Name: ".."}, kind: volume.Invalid},
		"a bad server":              {edit: func(n *v1alpha1.Nfs) { n.Spec.Server = "-o" }, claim: claim, kind: volume.Invalid},
		"being deleted": {edit: func(n *v1alpha1.Nfs) {
			now := metav1.Now()
			n.DeletionTimestamp = &now
		}, claim: claim, kind: volume.Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := Describe(media(c.edit), c.claim, "vol-x")
			if kindOf(err) != c.kind || (err != nil) != (c.kind != 0) {
				t.Fatal(err)
			}
			if err == nil && (a.Directory != c.dir || a.OnDelete != c.p || a.Server != "fd00::1" || len(a.MountOptions) != 2) {
				t.Errorf("%+v", a)
			}
		})
	}
}

func TestCheckParameters(t *testing.T) {
	for name, c := range map[string]struct {
		in map[string]string
		ok bool
	}{
		"nothing":      {nil, true},
		"the UID":      {map[string]string{v1alpha1.ParameterNfs: uid}, true},
		"a path":       {map[string]string{v1alpha1.ParameterNfs: "../.."}, false},
		"empty":        {map[string]string{v1alpha1.ParameterNfs: ""}, false},
		"another one":  {map[string]string{"server": "evil"}, false},
		"of a Cluster": {map[string]string{v1alpha1.ParameterCluster: uid}, false},
	} {
		if err := CheckParameters(c.in); (err == nil) != c.ok || !c.ok && kindOf(err) != volume.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShare(t *testing.T) {
	want := sharedvolume.Share{Server: "fd00::1", Path: "/export", MountOptions: []string{"vers=4.1", "nconnect=4"}, Owner: uid}
	if diff := cmp.Diff(want, ShareOf(media(nil))); diff != "" {
		t.Error(diff)
	}
	a, err := Describe(media(nil), volume.Claim{}, "v")
	if err != nil {
		t.Fatal(err)
	}
	want.ID, a.ShareID = "id", "id"
	if diff := cmp.Diff(want, Recorded(uid, a)); diff != "" {
		t.Error(diff)
	}
}

func TestTexts(t *testing.T) {
	reachable := func(status metav1.ConditionStatus) *v1alpha1.Nfs {
		return media(func(n *v1alpha1.Nfs) {
			n.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionShareReachable, Status: status, Message: "no answer"}}
		})
	}
	for name, c := range map[string]struct {
		got      volume.Condition
		abnormal bool
		says     string
	}{
		"reachable":   {Condition(reachable(metav1.ConditionTrue)), false, "nothing is wrong"},
		"not checked": {Condition(media(nil)), false, "nothing is wrong"},
		"unreachable": {Condition(reachable(metav1.ConditionFalse)), true, "media cannot be used: no answer"},
		"no Nfs":      {Condition(nil), true, "does not exist"},
	} {
		if c.got.Abnormal != c.abnormal || !strings.Contains(c.got.Message, c.says) {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
	for want, r := range map[string]sharedvolume.Removal{
		"":                               {OnDelete: sharedvolume.Delete},
		"left where it is":               {OnDelete: sharedvolume.Retain},
		"archived as archived-x; a note": {OnDelete: sharedvolume.Archive, ArchivedAs: "archived-x", Note: "a note"},
	} {
		if got := Outcome(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Progress("v", sharedvolume.Removal{Removed: 12}); !strings.Contains(got, "12 entries") {
		t.Error(got)
	}
}
