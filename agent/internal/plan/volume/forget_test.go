package volume

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

// cutOff is a move of extents that was cut off.
func cutOff(g *plan.Group) { g.Moving = &plan.Moving{FromUUID: "pv-a", Bytes: 1} }

// TestDelete_moving: a move that was cut off holds back no volume but those that LVM moves, and those in a pool.
func TestDelete_moving(t *testing.T) {
	g := stocked()
	cutOff(&g)
	for name, want := range map[string]error{"lin": nil, "thin": plan.ErrMoving} {
		if p, err := Delete(plan.Snapshot{Groups: []plan.Group{g}}, volume(name, 0)); !errors.Is(err, want) || (len(p.Steps) == 1) != (want == nil) {
			t.Errorf("%s: %v, %v", name, err, lines(p.Plan))
		}
	}
}

// TestCreate_moving: nothing is made or grown in a group with an unfinished move.
func TestCreate_moving(t *testing.T) {
	g := stocked()
	cutOff(&g)
	s := plan.Snapshot{Groups: []plan.Group{g}}
	if p, err := Create(s, volume("new", 1<<30)); !errors.Is(err, plan.ErrMoving) || len(p.Steps) > 0 {
		t.Errorf("create: %v, %v", err, lines(p.Plan))
	}
	if p, err := Resize(s, volume("lin", 1<<40)); !errors.Is(err, plan.ErrMoving) || len(p.Steps) > 0 {
		t.Errorf("grow: %v, %v", err, lines(p.Plan))
	}
	// The refusal says how the move ends, and promises nothing where nobody but a person ends it.
	const byItself = "the agent finishes that by itself"
	g.Moving.FromUUID = g.PVs[0].UUID
	for bytes, want := range map[int64]bool{1: true, 1 << 40: false} {
		g.Moving.Bytes = bytes
		if _, err := Create(plan.Snapshot{Groups: []plan.Group{g}}, volume("new", 1<<30)); strings.Contains(err.Error(), byItself) != want {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
}

// TestForget: a group goes on without exactly the devices, and loses exactly the volumes, that were approved.
func TestForget(t *testing.T) {
	const drop = "drop the missing devices of group vg"
	pv := func(edit func(*plan.PV)) func(*plan.Group) {
		return func(g *plan.Group) { edit(&g.PVs[len(g.PVs)-1]) }
	}
	for name, c := range map[string]struct {
		edits   []func(*plan.Group)
		devices []plan.Device
		pvs     []string
		volumes []string
		steps   []string
		err     error
		because string
	}{
		"a move is cut off elsewhere":        {edits: []func(*plan.Group){cutOff}, pvs: []string{"pv-b"}, steps: []string{drop}},
		"a volume was being moved to it":     {edits: []func(*plan.Group){cutOff, lacking("lin")}, pvs: []string{"pv-b"}, volumes: []string{"lin"}, err: plan.ErrMoving},
		"nothing is lost":                    {pvs: []string{"pv-b"}, steps: []string{drop}},
		"an unapproved call names no volume": {edits: []func(*plan.Group){lacking("lin")}, pvs: []string{"pv-b"}, err: plan.ErrMismatch, because: "lin lacks a part"},
		"what is named is lost":              {edits: []func(*plan.Group){lacking("lin")}, pvs: []string{"pv-b"}, volumes: []string{"lin"}, steps: []string{"remove volume vg/lin", drop}},
		"less is left after a death":         {edits: []func(*plan.Group){lacking("lin")}, pvs: []string{"pv-b"}, volumes: []string{"gone", "lin"}, steps: []string{"remove volume vg/lin", drop}},
		"it is forgotten already":            {edits: []func(*plan.Group){func(g *plan.Group) { g.PVs = g.PVs[:1] }}, pvs: []string{"pv-b"}},
		"another volume would be lost":       {edits: []func(*plan.Group){lacking("lin", "other")}, pvs: []string{"pv-b"}, volumes: []string{"lin"}, err: plan.ErrMismatch, because: "other lacks a part"},
		"somebody's volume would be lost":    {edits: []func(*plan.Group){lacking("other")}, pvs: []string{"pv-b"}, volumes: []string{"other"}, err: plan.ErrNotOurs},
		"an open volume would be lost":       {edits: []func(*plan.Group){lacking("open")}, pvs: []string{"pv-b"}, volumes: []string{"open"}, err: plan.ErrInUse},
		"a pool would be lost":               {edits: []func(*plan.Group){lacking("pool")}, pvs: []string{"pv-b"}, volumes: []string{"pool"}, err: plan.ErrPartial},
		"a hidden volume would be lost":      {edits: []func(*plan.Group){pv(func(p *plan.PV) { p.FreeBytes-- })}, pvs: []string{"pv-b"}, err: plan.ErrHoldsData},
		"one that is there is not missing":   {pvs: []string{"pv-b", "pv-a"}, err: plan.ErrMismatch, because: "pv-a"},
		"one more is missing":                {edits: []func(*plan.Group){func(g *plan.Group) { g.PVs = append(g.PVs, plan.PV{UUID: "pv-c"}) }}, pvs: []string{"pv-b"}, err: plan.ErrMismatch, because: "pv-c"},
		"it is back":                         {edits: []func(*plan.Group){pv(func(p *plan.PV) { p.Path = "/dev/b" })}, pvs: []string{"pv-b"}, err: plan.ErrMismatch},
		"it is back, and flagged":            {edits: []func(*plan.Group){pv(func(p *plan.PV) { p.Path, p.Returned = "/dev/b", true })}, pvs: []string{"pv-b"}, err: plan.ErrPartial},
		"a device carries its label":         {devices: []plan.Device{{Path: "/dev/b", PVUUID: "pv-b"}}, pvs: []string{"pv-b"}, err: plan.ErrPartial, because: "carries its label"},
		"a device that cannot be read is in": {devices: []plan.Device{{Path: "/dev/b", Type: "disk", Unreadable: []string{"head: error"}}}, pvs: []string{"pv-b"}, err: plan.ErrPartial, because: "may be it"},
	} {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			g.PVs[0].UUID = "pv-a"
			g.Partial, g.PVs = true, append(g.PVs, plan.PV{UUID: "pv-b", SizeBytes: 100, FreeBytes: 100})
			for _, edit := range c.edits {
				edit(&g)
			}
			s := plan.Snapshot{Groups: []plan.Group{g}, Devices: c.devices}
			p, err := Forget(s, ForgetSpec{Group: "vg", OwnerUID: me, PVs: c.pvs, Volumes: c.volumes}, plan.Policy{})
			if !errors.Is(err, c.err) || err != nil && !strings.Contains(err.Error(), c.because) {
				t.Fatalf("got %v, want %v because %q", err, c.err, c.because)
			}
			if diff := cmp.Diff(c.steps, lines(p)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}
