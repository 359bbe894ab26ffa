package volume

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

func zero(z Zero) func(*Spec) { return func(w *Spec) { w.Zero = z } }

// edited changes the volume "lin" of a group.
func edited(edit func(*plan.Volume)) func(*plan.Group) {
	return func(g *plan.Group) {
		for i := range g.LogicalVolumes {
			if g.LogicalVolumes[i].Name == "lin" {
				edit(&g.LogicalVolumes[i])
			}
		}
	}
}

// withTail gives the volume "lin" a tail of 40 MiB.
func withTail(edit func(*plan.Volume)) func(*plan.Group) {
	return func(g *plan.Group) {
		t := plan.Volume{
			Name: tailName(plan.Volume{Name: "lin"}), UUID: "lv-tail", TailOf: "id-lin", SizeBytes: 40 * mb, Active: true,
			Extents: []plan.Extents{{Path: "/dev/a", First: 30, Count: 10}},
		}
		edit(&t)
		g.LogicalVolumes = append(g.LogicalVolumes, t)
	}
}

func unfinished(v *plan.Volume) { v.Unzeroed, v.ZeroedBytes = true, 8*mb }

// unzeroedCase is what a plan does, and what the caller is told then.
type unzeroedCase struct {
	group func(*plan.Group)
	do    Decide
	want  Spec
	steps []string
	says  string
}

func TestZero_nothingIsShownBefore(t *testing.T) {
	lin := func(mib int64, z Zero) Spec { return volume("lin", mib, zero(z)) }
	for name, tt := range map[string]unzeroedCase{
		"a new raw volume":                {do: Create, want: volume("new", 40, zero(ZeroAll)), steps: []string{"create volume vg/new of 41943040 bytes"}, says: "0 of 41943040"},
		"a new volume with a filesystem":  {do: Create, want: volume("new", 40, zero(ZeroRaw)), steps: []string{"create volume vg/new of 41943040 bytes"}},
		"a new thin volume":               {do: Create, want: volume("new", 40, zero(ZeroAll), func(w *Spec) { w.Pool = "pool" }), steps: []string{"create volume vg/new of 41943040 bytes in pool pool"}},
		"a volume that exists, half done": {group: edited(unfinished), do: Create, want: lin(100, ZeroAll), says: "8388608 of 104857600"},
		"a volume that somebody uses":     {group: edited(func(v *plan.Volume) { unfinished(v); v.New = false }), do: Create, want: lin(100, ZeroAll)},
		"growing":                         {do: Resize, want: lin(140, ZeroAll), steps: []string{"create volume TAIL of 41943040 bytes"}, says: "volume lin grows"},
		"growing a volume of before":      {do: Resize, want: lin(140, ZeroRaw), steps: []string{"create volume TAIL of 41943040 bytes"}, says: "volume lin grows"},
		"growing a filesystem": {
			group: edited(func(v *plan.Volume) { v.FilesystemOnly = true }), do: Resize, want: lin(140, ZeroRaw), steps: []string{"extend vg/lin to 146800640 bytes"},
		},
		"growing unzeroed":   {do: Resize, want: lin(140, ZeroNothing), steps: []string{"extend vg/lin to 146800640 bytes"}},
		"growing, half done": {group: withTail(unfinished), do: Resize, want: lin(140, ZeroAll), says: "8388608 of 41943040"},
		"growing, zeroed": {
			group: withTail(func(*plan.Volume) {}), do: Resize, want: lin(140, ZeroAll), steps: []string{"remove volume TAIL", "extend vg/lin to 146800640 bytes"},
		},
		"growing further than at first": {
			group: withTail(func(*plan.Volume) {}), do: Resize, want: lin(180, ZeroAll), steps: []string{"remove volume TAIL", "extend vg/lin to 146800640 bytes"}, says: "grows to 188743680",
		},
		"growing less than at first": {
			group: withTail(func(*plan.Volume) {}), do: Resize, want: lin(120, ZeroAll), steps: []string{"remove volume TAIL", "extend vg/lin to 125829120 bytes"},
		},
		"a tail that is left over": {group: withTail(unfinished), do: Resize, want: lin(100, ZeroAll), steps: []string{"remove volume TAIL"}},
		"the tail goes first":      {group: withTail(unfinished), do: Delete, want: lin(0, ZeroNothing), steps: []string{"remove volume TAIL", "remove volume vg/lin"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			if tt.group != nil {
				tt.group(&g)
			}
			p, err := tt.do(plan.Snapshot{Groups: []plan.Group{g}}, tt.want)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, line := range tt.steps {
				want = append(want, strings.ReplaceAll(line, "TAIL", "vg/"+tailName(plan.Volume{Name: "lin"})))
			}
			if diff := cmp.Diff(want, lines(p.Plan)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if tt.says == "" && p.Unfinished != nil || tt.says != "" && (!errors.Is(p.Unfinished, plan.ErrUnzeroed) || !strings.Contains(p.Unfinished.Error(), tt.says)) {
				t.Errorf("unfinished: %v, want %q", p.Unfinished, tt.says)
			}
		})
	}
}

// TestZero_growsNothingThatIsNew: a volume that has a claim is zeroed. If its tags say otherwise older metadata of LVM came back, and nothing is asked
// for, whatever it is to grow by. One that somebody used grows all the same.
func TestZero_growsNothingThatIsNew(t *testing.T) {
	for name, tt := range map[string]struct {
		group func(*plan.Group)
		mib   int64
		want  error
	}{
		"it grows":                           {edited(unfinished), 140, plan.ErrUntold},
		"it has its size":                    {edited(unfinished), 100, plan.ErrUntold},
		"it is not known to be new any more": {edited(func(v *plan.Volume) { unfinished(v); v.New = false }), 140, nil},
		"with a tail, half done": {func(g *plan.Group) {
			edited(unfinished)(g)
			withTail(unfinished)(g)
		}, 140, plan.ErrUntold},
	} {
		for _, z := range []Zero{ZeroNothing, ZeroAll, ZeroRaw} {
			g := stocked()
			tt.group(&g)
			p, err := Resize(plan.Snapshot{Groups: []plan.Group{g}}, volume("lin", tt.mib, zero(z)))
			if !errors.Is(err, tt.want) || errors.Is(err, plan.ErrUnzeroed) || tt.want != nil && (len(p.Steps) > 0 || p.Unfinished != nil) {
				t.Errorf("%s, zeroing %d: %q, %v, %v", name, z, lines(p.Plan), p.Unfinished, err)
			}
		}
	}
}

// TestZero_tags: the tags stand on a volume from the command on that makes it.
func TestZero_tags(t *testing.T) {
	s := plan.Snapshot{Groups: []plan.Group{stocked()}}
	for name, tt := range map[string]struct {
		do   Decide
		want Spec
		tags []string
	}{
		"raw":          {Create, volume("new", 40, zero(ZeroAll)), []string{plan.TagVolume + "id-new", plan.TagNew, plan.TagUnzeroed + "0"}},
		"a filesystem": {Create, volume("new", 40, zero(ZeroRaw)), []string{plan.TagVolume + "id-new", plan.TagNew, plan.TagFilesystemOnly}},
		"as it comes":  {Create, volume("new", 40), []string{plan.TagVolume + "id-new", plan.TagNew}},
		"a tail":       {Resize, volume("lin", 140, zero(ZeroAll)), []string{plan.TagTail, plan.TagTailOf + "id-lin", plan.TagUnzeroed + "0"}},
	} {
		p, err := tt.do(s, tt.want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.tags, p.Steps[0].(CreateLV).Tags); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestZero_growsOverWhatWasZeroed: LVM takes these extents and no others.
func TestZero_growsOverWhatWasZeroed(t *testing.T) {
	g := stocked()
	withTail(func(*plan.Volume) {})(&g)
	p, err := Resize(plan.Snapshot{Groups: []plan.Group{g}}, volume("lin", 140, zero(ZeroAll)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.Extents{{Path: "/dev/a", First: 30, Count: 10}}, p.Steps[1].(ExtendLV).Over); diff != "" {
		t.Error(diff)
	}
	g.LogicalVolumes[len(g.LogicalVolumes)-1].Extents = nil
	if _, err := Resize(plan.Snapshot{Groups: []plan.Group{g}}, volume("lin", 140, zero(ZeroAll))); !errors.Is(err, plan.ErrUntold) {
		t.Errorf("of a tail that lies nowhere: %v", err)
	}
}

// TestZero_resumes goes on where the tag says, and writes down a few times only how far it is.
func TestZero_resumes(t *testing.T) {
	g := plan.Group{Name: "vg", UUID: "vg", OwnerUID: me, ExtentBytes: 4 * mb, LogicalVolumes: []plan.Volume{{
		Name: "v", ID: "id-v", UUID: "lv", New: true, Unzeroed: true, ZeroedBytes: 100 * giga, SizeBytes: 640 * giga,
	}}}
	var did []string
	for uuid, upTo := "", int64(0); ; {
		s := plan.Snapshot{Groups: []plan.Group{g}}
		p, there := Prepare(s, "vg", "v", uuid, upTo)
		if !there {
			t.Fatal("the volume is gone")
		}
		did = append(did, lines(p.Plan)...)
		if len(p.Steps) > 0 {
			g = After(s, "vg", p).Groups[0]
		}
		if !p.Volume.ToZero() {
			break
		}
		uuid, upTo = p.Volume.UUID, p.Volume.ZeroedBytes
		for {
			next := ZeroNext(g, p.Volume, upTo)
			if len(next.Steps) == 0 {
				break
			}
			upTo = checkSlice(t, next.Steps[0].(ZeroLV), upTo)
		}
	}
	if did[0] != "activate vg/v" || len(did) != 1+540/20 || !strings.HasSuffix(did[len(did)-1], `by ""`) {
		t.Errorf("%d changes: %q", len(did), did)
	}
	if _, there := Prepare(plan.Snapshot{Groups: []plan.Group{g}}, "vg", "v", "lv", 0); there {
		t.Error("what is zeroed is zeroed again")
	}
}

// checkSlice wants a slice of the volume that follows what is zeroed, and returns its end.
func checkSlice(t *testing.T, z ZeroLV, after int64) int64 {
	t.Helper()
	if z.From != after || z.To <= z.From || z.To-z.From > slice || z.To > 640*giga || z.UUID != "lv" || z.GroupUUID != "vg" {
		t.Fatalf("slice: %+v after %d", z, after)
	}
	return z.To
}

// TestZero_neverWhatIsUsed: a volume that somebody used through an agent that does not know the tag holds that user's data.
func TestZero_neverWhatIsUsed(t *testing.T) {
	unzeroed := plan.Volume{Name: "v", ID: "id-v", UUID: "lv", New: true, Unzeroed: true, SizeBytes: giga, Active: true}
	for name, edit := range map[string]func(*plan.Group, *plan.Volume){
		"used":           func(_ *plan.Group, v *plan.Volume) { v.New = false },
		"nobody's":       func(_ *plan.Group, v *plan.Volume) { v.ID = "" },
		"thin":           func(_ *plan.Group, v *plan.Volume) { v.Pool = "pool" },
		"another":        func(_ *plan.Group, v *plan.Volume) { v.UUID = "other" },
		"lacks a disk":   func(_ *plan.Group, v *plan.Volume) { v.Health = plan.HealthPartial },
		"no UUID yet":    func(_ *plan.Group, v *plan.Volume) { v.UUID = "" },
		"a lone tail":    func(_ *plan.Group, v *plan.Volume) { v.ID, v.TailOf = "", "id-gone" },
		"zeroed already": func(_ *plan.Group, v *plan.Volume) { v.Unzeroed = false },
	} {
		g, v := plan.Group{Name: "vg", UUID: "vg", OwnerUID: me, ExtentBytes: 4 * mb}, unzeroed
		edit(&g, &v)
		g.LogicalVolumes = []plan.Volume{v}
		if p, there := Prepare(plan.Snapshot{Groups: []plan.Group{g}}, "vg", "v", "lv", 0); there {
			t.Errorf("%s: %v", name, p)
		}
	}
}

func TestOrphans(t *testing.T) {
	g := stocked()
	withTail(unfinished)(&g)
	if p := Orphans(plan.Snapshot{Groups: []plan.Group{g}}, "vg"); len(p.Steps) != 0 {
		t.Errorf("with its volume: %q", lines(p))
	}
	edited(func(v *plan.Volume) { v.ID = "id-else" })(&g)
	if got := lines(Orphans(plan.Snapshot{Groups: []plan.Group{g}}, "vg")); len(got) != 1 || !strings.Contains(got[0], "remove volume vg/tail-") {
		t.Errorf("without its volume: %q", got)
	}
}

func TestShowable(t *testing.T) {
	half := plan.Volume{Name: "v", ID: "id", New: true, Unzeroed: true, SizeBytes: giga}
	for name, tt := range map[string]struct {
		v    plan.Volume
		raw  bool
		want error
	}{
		"raw, half done":          {half, true, plan.ErrUnzeroed},
		"a filesystem, half done": {half, false, plan.ErrUnzeroed},
		"a filesystem":            {plan.Volume{FilesystemOnly: true}, false, nil},
		"a filesystem, shown raw": {plan.Volume{FilesystemOnly: true}, true, plan.ErrFilesystemOnly},
		"a volume of before":      {plan.Volume{New: true}, true, nil},
	} {
		if err := Showable(tt.v, tt.raw); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestZero_otherNode: what another node's group still has to zero is that node's work.
func TestZero_otherNode(t *testing.T) {
	g := stocked()
	edited(func(v *plan.Volume) { unfinished(v); v.New, v.Active, v.UUID = true, true, "lv-lin" })(&g)
	withTail(unfinished)(&g)
	g.Access, g.SystemID = plan.AccessOther, "quarry-n2"
	s := plan.Snapshot{Groups: []plan.Group{g}}
	if _, there := Prepare(s, g.UUID, "lin", "", 0); there || len(Unzeroed(g)) > 0 || len(Orphans(s, g.UUID).Steps) > 0 {
		t.Error("this node works on another node's group")
	}
}

// TestForget_tail: what a volume was to grow by is given up with the disk under it, and the volume stays.
func TestForget_tail(t *testing.T) {
	g := stocked()
	withTail(func(v *plan.Volume) { unfinished(v); v.Health = plan.HealthPartial })(&g)
	g.PVs[0].UUID, g.Partial = "pv-a", true
	g.PVs = append(g.PVs, plan.PV{UUID: "pv-b", SizeBytes: 100, FreeBytes: 60})
	lost := g.Lost()
	p, err := Forget(plan.Snapshot{Groups: []plan.Group{g}}, ForgetSpec{Group: "vg", OwnerUID: me, PVs: []string{"pv-b"}, Volumes: lost}, plan.Policy{})
	want := []string{"remove volume vg/" + tailName(plan.Volume{Name: "lin"}), "drop the missing devices of group vg"}
	if diff := cmp.Diff(want, lines(p)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
