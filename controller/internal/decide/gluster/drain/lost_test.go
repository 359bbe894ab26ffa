package drain

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// TestDecideLost: the node is gone for ever, and what was moved off it may not be whole elsewhere.
func TestDecideLost(t *testing.T) {
	ago := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(-d)} }
	unanswered := func(m *v1alpha1.GlusterMove) { m.Answered = false }
	gone := func(f *Facts) { f.Nodes[0].State, (*f.Pool.Peers)[0].Online = nodestate.Abandoned, false }
	moved := func(f *Facts) { *f.brick(0) = brick("4", "d-id") }
	empty := func(f *Facts) { moved(f); f.brick(0).Size.Used = gi }
	successor := func(m *v1alpha1.GlusterMove) {
		m.Successor, m.HealAsked, m.CleanSince = "4", ago(10*time.Minute), ago(10*time.Minute)
	}
	for name, row := range map[string]struct {
		move  func(*v1alpha1.GlusterMove)
		edits []edit
		want  string
	}{
		"the brick was not replaced":          {nil, nil, "Rest"},
		"the request may still be done":       {unanswered, nil, "Wait AnswerLost? after 9m0s"},
		"it was done after all":               {unanswered, []edit{moved}, "Record 4"},
		"the successor is to be filled":       {func(m *v1alpha1.GlusterMove) { m.Successor = "4" }, []edit{empty}, "Ask HealVolume"},
		"it is not full":                      {successor, []edit{empty}, "Wait Healing after 1m0s"},
		"it is full":                          {successor, []edit{moved}, "Record whole"},
		"the record says so":                  {func(m *v1alpha1.GlusterMove) { m.Successor, m.Whole = "4", true }, []edit{empty}, "Rest"},
		"the volume was deleted":              {successor, []edit{func(f *Facts) { f.Pool.Volumes = &[]gluster.Volume{} }}, "Record whole"},
		"nobody tells":                        {nil, []edit{func(f *Facts) { f.Pool.Volumes = nil }}, "Wait PoolUnknown?"},
		"nobody looked meanwhile":             {successor, []edit{func(f *Facts) { f.Pool.Volumes = nil }}, "Record unclean"},
		"a brick that was replaced came back": {successor, nil, "Rest"},
	} {
		t.Run(name, func(t *testing.T) {
			d := DecideLost("a", apply(append([]edit{moving(0, row.move), gone}, row.edits...)...))
			if d.String() != row.want || d.Message == "" {
				t.Errorf("got %q, want %q: %s", d, row.want, d.Message)
			}
		})
	}
	if d := DecideLost("a", apply(gone)); d.Action != Rest {
		t.Errorf("nothing was moved: %s", d)
	}
	// Meanwhile no brick of the same volume is moved off another node, and those of others are.
	f := apply(moving(0, successor), gone, empty, func(f *Facts) { f.Nodes[1].State = nodestate.Failed; (*f.Pool.Devices)[1].Enabled = false })
	if d := Decide("b", f); d.Action == Ask {
		t.Errorf("a brick beside an empty one is moved: %s", d)
	}
}
