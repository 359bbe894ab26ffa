package volume

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/agent/internal/plan"
)

// suspended is the stocked group in which killed commands left volumes and pools.
func suspended(names ...string) plan.Snapshot {
	g := stocked()
	for _, name := range names {
		for i := range g.LogicalVolumes {
			g.LogicalVolumes[i].Suspended = g.LogicalVolumes[i].Suspended || g.LogicalVolumes[i].Name == name
		}
		for i := range g.Pools {
			g.Pools[i].Suspended = g.Pools[i].Suspended || g.Pools[i].Name == name
		}
	}
	return plan.Snapshot{Groups: []plan.Group{g}}
}

func said(p plan.Plan) []string {
	var out []string
	for _, s := range p.Steps {
		out = append(out, s.String())
	}
	return out
}

// TestResumed: what a killed command left suspended is let go of before a call says that all is well.
func TestResumed(t *testing.T) {
	copyOf := func(w *Spec) { w.Source, w.Snapshot, w.SizeBytes = "thin", true, 0 }
	for name, c := range map[string]struct {
		suspended []string
		decide    Decide
		want      Spec
		steps     []string
	}{
		"a volume that is there":          {[]string{"lin"}, Create, volume("lin", 100), []string{"resume vg/lin"}},
		"a snapshot that is there":        {[]string{"thin"}, Create, volume("snap", 0, copyOf), []string{"resume vg/thin"}},
		"a new snapshot":                  {[]string{"thin"}, Create, volume("more", 0, copyOf), []string{"resume vg/thin", "create snapshot vg/more of thin"}},
		"a snapshot in a pool":            {[]string{"pool"}, Create, volume("snap", 0, copyOf), []string{"resume vg/pool"}},
		"a volume of the size":            {[]string{"lin"}, Resize, volume("lin", 100), []string{"resume vg/lin"}},
		"a volume that grows":             {[]string{"lin"}, Resize, volume("lin", 104), []string{"resume vg/lin", "extend vg/lin to 109051904 bytes"}},
		"a volume that is active":         {[]string{"lin"}, Activate, volume("lin", 0), []string{"resume vg/lin"}},
		"a new volume that is used":       {[]string{"lin"}, Settle, volume("lin", 0), []string{"resume vg/lin", "settle vg/lin"}},
		"a volume that goes":              {[]string{"lin"}, Delete, volume("lin", 0), []string{"resume vg/lin", "remove volume vg/lin"}},
		"one that somebody looks at":      {[]string{"open"}, Delete, volume("open", 0), []string{"resume vg/open", "remove volume vg/open"}},
		"another volume":                  {[]string{"thin", "pool"}, Activate, volume("lin", 0), nil},
		"a pool that is not ours":         {[]string{"alien"}, Activate, volume("lin", 0), nil},
		"an absent volume, to be deleted": {[]string{"lin"}, Delete, volume("absent", 0), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.decide(suspended(c.suspended...), c.want)
			if err != nil || p.Volume.Suspended {
				t.Errorf("%+v, %v", p.Volume, err)
			}
			if diff := cmp.Diff(c.steps, said(p.Plan)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
	p, err := EnsurePool(suspended("pool"), PoolSpec{Group: "vg", OwnerUID: me, Name: "pool", SizeBytes: 400 * mb})
	if diff := cmp.Diff([]string{"resume vg/pool"}, said(p.Plan)); diff != "" || err != nil || p.Pool.Suspended {
		t.Errorf("pool: %v (-want +got):\n%s", err, diff)
	}
}

func TestResume(t *testing.T) {
	s := suspended("thin", "lin", "other", "pool", "alien")
	if diff := cmp.Diff([]string{"resume vg/pool", "resume vg/lin", "resume vg/thin"}, said(Resume(s, "vg"))); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if p := Resume(s, "another"); len(p.Steps) > 0 {
		t.Errorf("another group: %v", said(p))
	}
	if p := Resume(suspended(), "vg"); len(p.Steps) > 0 {
		t.Errorf("nothing is suspended: %v", said(p))
	}
}

// TestResume_takesBackWhatReturned: a group that was changed without one of its devices takes that back, and only that.
func TestResume_takesBackWhatReturned(t *testing.T) {
	device := plan.Device{Path: "/dev/b", PVUUID: "pv-b"}
	for name, c := range map[string]struct {
		device plan.Device
		pv     plan.PV
		steps  []string
	}{
		"it is back":                 {device, plan.PV{Path: "/dev/b", UUID: "pv-b", Returned: true}, []string{"take /dev/b back into group vg"}},
		"it never went":              {device, plan.PV{Path: "/dev/b", UUID: "pv-b"}, nil},
		"it is missing":              {device, plan.PV{UUID: "pv-b"}, nil},
		"another is in its place":    {plan.Device{Path: "/dev/b", PVUUID: "pv-c"}, plan.PV{Path: "/dev/b", UUID: "pv-b", Returned: true}, nil},
		"something cannot be read":   {plan.Device{Path: "/dev/b", PVUUID: "pv-b", Unreadable: []string{"size"}}, plan.PV{Path: "/dev/b", UUID: "pv-b", Returned: true}, nil},
		"it is not seen at the path": {plan.Device{Path: "/dev/c", PVUUID: "pv-b"}, plan.PV{Path: "/dev/b", UUID: "pv-b", Returned: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := suspended()
			s.Devices = []plan.Device{c.device}
			s.Groups[0].PVs = append(s.Groups[0].PVs, c.pv)
			if diff := cmp.Diff(c.steps, said(Resume(s, s.Groups[0].UUID))); diff != "" {
				t.Error(diff)
			}
			cutOff(&s.Groups[0])
			if diff := cmp.Diff(c.steps, said(Resume(s, s.Groups[0].UUID))); diff != "" {
				t.Errorf("while a move is cut off: %s", diff)
			}
		})
	}
}

// TestMeasure: pools are activated of which nobody knows how full they are, and nothing is put into them before.
func TestMeasure(t *testing.T) {
	g := stocked()
	g.Access = plan.AccessOwn
	other := g.Pools[1]
	for i := range g.Pools {
		g.Pools[i].UsageUnknown = true
	}
	s := plan.Snapshot{Groups: []plan.Group{g}}
	if got := said(Measure(s, g.UUID)); !cmp.Equal(got, []string{"activate pool vg/pool"}) || len(Measure(s, "another").Steps) > 0 {
		t.Errorf("steps %q", got)
	}
	if _, err := Create(s, volume("new", 4, func(w *Spec) { w.Pool = "pool" })); !errors.Is(err, plan.ErrUsageUnknown) {
		t.Errorf("create: %v", err)
	}
	for i := range g.Pools {
		g.Pools[i].Damage = "its first block is zero"
	}
	if got := said(Measure(s, g.UUID)); len(got) > 0 {
		t.Errorf("a damaged pool: steps %q", got)
	}
	for i := range g.Pools {
		g.Pools[i].Health, g.Pools[i].Damage = "partial", ""
	}
	if got := said(Measure(s, g.UUID)); len(got) > 0 {
		t.Errorf("of %+v: steps %q", other, got)
	}
}

// TestResume_stale: what leads to a disk that dropped off gets a new device once nobody has it open, and a pool only with all that is in it.
func TestResume_stale(t *testing.T) {
	for name, c := range map[string]struct {
		stale []string
		edit  func(g *plan.Group)
		want  []string
	}{
		"a linear volume":            {[]string{"lin"}, func(*plan.Group) {}, []string{"deactivate vg/lin", "activate vg/lin"}},
		"one that is open":           {[]string{"open"}, func(*plan.Group) {}, nil},
		"one that is nobody's":       {[]string{"other"}, func(*plan.Group) {}, nil},
		"a pool":                     {[]string{"pool", "thin", "clone"}, func(*plan.Group) {}, []string{"deactivate vg/clone", "deactivate vg/thin", "deactivate vg/pool", "activate pool vg/pool"}},
		"a pool of an open volume":   {[]string{"pool", "thin", "clone"}, func(g *plan.Group) { g.LogicalVolumes[0].Open = true }, nil},
		"a pool that lacks a part":   {[]string{"pool", "thin"}, func(g *plan.Group) { g.Pools[1].Health = plan.HealthPartial }, nil},
		"a pool that is not ours":    {[]string{"alien"}, func(*plan.Group) {}, nil},
		"a group of another node":    {[]string{"lin"}, func(g *plan.Group) { g.Access = plan.AccessOther }, nil},
		"a suspended one is resumed": {[]string{"lin"}, func(g *plan.Group) { g.LogicalVolumes[1].Suspended = true }, []string{"resume vg/lin"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := stocked()
			for _, v := range c.stale {
				g = g.Stale(v)
			}
			c.edit(&g)
			if diff := cmp.Diff(c.want, said(Resume(plan.Snapshot{Groups: []plan.Group{g}}, g.UUID))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestActivate_stale: a volume that is wanted gets its new device at once, and never one beside a user of the old one.
func TestActivate_stale(t *testing.T) {
	s := plan.Snapshot{Groups: []plan.Group{stocked().Stale("lin").Stale("open").Stale("thin")}}
	p, err := Activate(s, volume("lin", 0))
	if diff := cmp.Diff([]string{"deactivate vg/lin", "activate vg/lin"}, said(p.Plan)); diff != "" || err != nil || p.Volume.Stale {
		t.Errorf("%v, %+v\n%s", err, p.Volume, diff)
	}
	for _, name := range []string{"open", "thin"} {
		if p, err := Activate(s, volume(name, 0)); !errors.Is(err, plan.ErrStale) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, err, said(p.Plan))
		}
	}
	g := stocked().Stale("pool")
	for i := range g.LogicalVolumes {
		g.LogicalVolumes[i].Active = false
	}
	if p, err := Activate(plan.Snapshot{Groups: []plan.Group{g}}, volume("thin", 0)); !errors.Is(err, plan.ErrStale) || len(p.Steps) > 0 {
		t.Errorf("not active, in a pool that is stale: %v, %v", err, said(p.Plan))
	}
}

// TestResize_stale: nothing grows, and so gets a new device, under a user whose writes went to a disk that dropped off.
func TestResize_stale(t *testing.T) {
	for name, stale := range map[string]string{"open": "open", "thin": "thin", "clone": "pool"} {
		s := plan.Snapshot{Groups: []plan.Group{stocked().Stale(stale)}}
		if p, err := Resize(s, volume(name, 250)); !errors.Is(err, plan.ErrPartial) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, err, said(p.Plan))
		}
	}
	s := plan.Snapshot{Groups: []plan.Group{stocked().Stale("pool")}}
	if p, err := EnsurePool(s, PoolSpec{Group: "vg", OwnerUID: me, Name: "pool", SizeBytes: 600 * mb}); !errors.Is(err, plan.ErrPartial) || len(p.Steps) > 0 {
		t.Errorf("%v, %v", err, said(p.Plan))
	}
}

// TestDamagedPool: nothing is put into a pool with damaged metadata, taken out of it or activated in it; and a volume in a pool that is not active
// is activated only after a look at the pool.
func TestDamagedPool(t *testing.T) {
	thin := func(edit func(*plan.Pool)) plan.Snapshot {
		g := stocked()
		for i := range g.Pools {
			edit(&g.Pools[i])
		}
		for i := range g.LogicalVolumes {
			g.LogicalVolumes[i].Active = false
		}
		return plan.Snapshot{Groups: []plan.Group{g}}
	}
	p, err := Activate(thin(func(p *plan.Pool) { p.Active = false }), volume("thin", 0))
	if diff := cmp.Diff([]string{"activate pool vg/pool", "activate vg/thin"}, said(p.Plan)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if pool, ok := p.Steps[0].(ActivatePool); !ok || !pool.Holds {
		t.Errorf("%+v", p.Steps[0])
	}
	if p, err := Activate(thin(func(p *plan.Pool) { p.Active = true }), volume("thin", 0)); len(p.Steps) != 1 || err != nil {
		t.Errorf("in an active pool: %v, %v", said(p.Plan), err)
	}
	broken := thin(func(p *plan.Pool) { p.UsageUnknown, p.Damage = true, "its first block is zero" })
	for name, decide := range map[string]Decide{"activate": Activate, "delete": Delete} {
		if p, err := decide(broken, volume("thin", 0)); !errors.Is(err, plan.ErrDamaged) || len(p.Steps) > 0 {
			t.Errorf("%s: %v, %v", name, said(p.Plan), err)
		}
	}
	if _, err := Create(broken, volume("new", 4, func(w *Spec) { w.Pool = "pool" })); !errors.Is(err, plan.ErrDamaged) {
		t.Errorf("create: %v", err)
	}
}
