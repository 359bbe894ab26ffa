package volume

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

// discards asks for a volume to be discarded.
func discards(w *Spec) { w.Discard = true }

// TestDiscarding: only a linear volume that may be removed now, and that is there as a whole, is discarded. What may not be removed keeps all that
// it holds.
func TestDiscarding(t *testing.T) {
	const marks = "mark vg/lin as one that is removed"
	for name, tt := range map[string]struct {
		group func(*plan.Group)
		want  Spec
		// names is the volume that is discarded then.
		names string
		steps []string
		err   error
	}{
		"a volume":                       {want: volume("lin", 0, discards), names: "lin", steps: []string{marks}},
		"one without a device":           {group: edited(func(v *plan.Volume) { v.Active = false }), want: volume("lin", 0, discards), names: "lin", steps: []string{"activate vg/lin", marks}},
		"one that is suspended":          {group: edited(func(v *plan.Volume) { v.Suspended = true }), want: volume("lin", 0, discards), names: "lin", steps: []string{"resume vg/lin", marks}},
		"one that is half zeroed":        {group: edited(unfinished), want: volume("lin", 0, discards), names: "lin", steps: []string{marks}},
		"one that was marked before":     {group: edited(func(v *plan.Volume) { v.Removing = true }), want: volume("lin", 0, discards), names: "lin"},
		"one of which LVM tells no UUID": {group: edited(func(v *plan.Volume) { v.UUID = "" }), want: volume("lin", 0, discards)},
		"nobody asked":                   {want: volume("lin", 0)},
		"only if unused":                 {want: volume("lin", 0, discards, func(w *Spec) { w.OnlyUnused = true })},
		"a thin one":                     {want: volume("thin", 0, discards)},
		"a snapshot":                     {want: volume("snap", 0, discards)},
		"one that is gone":               {want: volume("n", 0, discards)},
		"one that lacks a part":          {group: lacking("lin"), want: volume("lin", 0, discards)},
		"one on a disk that dropped":     {group: edited(func(v *plan.Volume) { v.Stale = true }), want: volume("lin", 0, discards)},
		"extents are moved":              {group: func(g *plan.Group) { g.Moving = &plan.Moving{} }, want: volume("lin", 0, discards)},
		"one that is open":               {want: volume("open", 0, discards), err: plan.ErrInUse},
		"one of another id":              {want: volume("lin", 0, discards, func(w *Spec) { w.ID = "x" }), err: plan.ErrNotOurs},
		"one that is nobody's":           {want: volume("other", 0, discards), err: plan.ErrNotOurs},
		"in a group of somebody else":    {want: volume("lin", 0, discards, func(w *Spec) { w.OwnerUID = somebody }), err: plan.ErrNotOurs},
		"in a group that is not there":   {want: volume("lin", 0, discards, func(w *Spec) { w.Group = "gone" }), err: plan.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			for i := range g.LogicalVolumes {
				g.LogicalVolumes[i].UUID = "uuid-" + g.LogicalVolumes[i].Name
			}
			if tt.group != nil {
				tt.group(&g)
			}
			p, err := Discarding(plan.Snapshot{Groups: []plan.Group{g}}, tt.want)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Fatalf("%v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(tt.steps, lines(p.Plan)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if p.Volume.Removing != (tt.names != "") {
				t.Errorf("it is remembered that the removal began: %t", p.Volume.Removing)
			}
			next := DiscardNext("vg", p, 0)
			if tt.names == "" {
				if len(next.Steps) > 0 {
					t.Errorf("it is discarded: %v", lines(next))
				}
				return
			}
			want := DiscardLV{Group: "vg", GroupUUID: g.UUID, Name: tt.names, UUID: "uuid-" + tt.names, To: 100 * mb}
			got := next.Steps[0].(DiscardLV)
			got.Reason = ""
			if got != want {
				t.Errorf("discarded is %+v, want %+v", got, want)
			}
		})
	}
}

// TestRemoving: a volume whose removal began is good for nothing but its removal.
func TestRemoving(t *testing.T) {
	g := stocked()
	for i := range g.LogicalVolumes {
		g.LogicalVolumes[i].Removing = true
	}
	s := plan.Snapshot{Groups: []plan.Group{g}}
	for name, tt := range map[string]struct {
		do   Decide
		want Spec
	}{
		"it is made again":          {Create, volume("lin", 100)},
		"it grows":                  {Resize, volume("lin", 140)},
		"it grows, zeroed":          {Resize, volume("lin", 140, zero(ZeroAll))},
		"it has the size already":   {Resize, volume("lin", 100)},
		"a snapshot is taken of it": {Create, volume("new", 0, func(w *Spec) { w.Source, w.Snapshot = "thin", true })},
		"it is cloned":              {Create, volume("new", 200, func(w *Spec) { w.Source = "thin" })},
	} {
		if p, err := tt.do(s, tt.want); !errors.Is(err, plan.ErrRemoving) || len(p.Steps) > 0 {
			t.Errorf("%s: %q, %v", name, lines(p.Plan), err)
		}
	}
	for _, raw := range []bool{false, true} {
		if err := Showable(plan.Volume{Name: "v", Removing: true}, raw); !errors.Is(err, plan.ErrRemoving) {
			t.Errorf("shown, raw: %t: %v", raw, err)
		}
	}
	p, err := Delete(s, volume("lin", 0))
	if diff := cmp.Diff([]string{"remove volume vg/lin"}, lines(p.Plan)); err != nil || diff != "" {
		t.Errorf("removed: %v\n%s", err, diff)
	}
}

// TestDiscardNext: the slices are bounded, leave nothing out, and end at the end of the volume.
func TestDiscardNext(t *testing.T) {
	p := Plan{GroupUUID: "g", Volume: plan.Volume{Name: "v", UUID: "u", SizeBytes: 2*discardSlice + 5*mb}}
	at, slices := int64(0), 0
	for ; ; slices++ {
		next := DiscardNext("vg", p, at)
		if len(next.Steps) == 0 {
			break
		}
		d := next.Steps[0].(DiscardLV)
		if d.From != at || d.To <= d.From || d.To-d.From > discardSlice {
			t.Fatalf("after byte %d comes %v", at, d)
		}
		at = d.To
	}
	if at != p.Volume.SizeBytes || slices != 3 {
		t.Errorf("%d slices end at %d", slices, at)
	}
}
