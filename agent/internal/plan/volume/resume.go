package volume

import (
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// Resume plans how a group gets back to work: it takes back devices that it was changed without, and the volumes and pools that a killed
// command left suspended are resumed. Only those of ours are touched, in a group that this node
// may use.
func Resume(s plan.Snapshot, groupUUID string) plan.Plan {
	var out plan.Plan
	for _, g := range s.Groups {
		if g.UUID != groupUUID || !g.Usable() {
			continue
		}
		out.Steps = append(out.Steps, plan.Restore(s, g)...)
		for _, p := range g.Pools {
			out.Steps = append(out.Steps, group{g}.resumePool(p.Name)...)
		}
		for _, v := range g.LogicalVolumes {
			out.Steps = append(out.Steps, group{g}.resume(v.Name)...)
		}
		out.Steps = append(out.Steps, group{g}.remap()...)
	}
	return out
}

const dropped plan.Reason = "its device leads to a disk that dropped off; nobody has it open, so a new one takes its place"

// remap gives volumes and pools that lead to a disk that dropped off new devices. One that is open keeps its own: what its user has written may be
// lost, and only the user's end makes that known. A pool goes with all that is in it, for the kernel's view of it is one.
func (g group) remap() []plan.Step {
	var out []plan.Step
	for _, v := range g.LogicalVolumes {
		if v.Stale && v.Pool == "" && v.ID != "" && !v.Open && !v.Suspended {
			tag := plan.TagVolume + v.ID
			out = append(out, DeactivateLV{Group: g.Ref(), Name: v.Name, Tag: tag, Reason: dropped},
				ActivateLV{Group: g.Ref(), Name: v.Name, Tag: tag, Reason: dropped})
		}
	}
	for _, p := range g.Pools {
		out = append(out, g.remapPool(p)...)
	}
	return out
}

// only is the group with nothing but one volume in it.
func (g group) only(v plan.Volume) plan.Group {
	one := g.Group
	one.LogicalVolumes, one.Pools = []plan.Volume{v}, nil
	return one
}

// remapPool is remap for a pool. Its volumes are activated when they are used next.
func (g group) remapPool(p plan.Pool) []plan.Step {
	var out []plan.Step
	stale := p.Stale
	for _, v := range g.LogicalVolumes {
		if v.Pool != p.Name || !v.Active {
			continue
		}
		if v.Open || v.Suspended || v.ID == "" {
			return nil
		}
		stale = stale || v.Stale
		out = append(out, DeactivateLV{Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: dropped})
	}
	if !stale || !p.Ours || p.Suspended || p.Health == plan.HealthPartial {
		return nil
	}
	return append(out, DeactivateLV{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Reason: dropped},
		g.activatePool(p, dropped))
}

// Measure plans how it becomes known how full the thin pools of a group are, of which only the kernel knows it: they are activated. Only those of
// ours are touched, and none of which LVM says that something is wrong with it. The group names this node: in one that names none, which
// another node may see too, the pool may be active there.
func Measure(s plan.Snapshot, groupUUID string) plan.Plan {
	var out plan.Plan
	for _, g := range s.Groups {
		if g.UUID != groupUUID || g.Access != plan.AccessOwn {
			continue
		}
		for _, p := range g.Pools {
			if p.Ours && p.UsageUnknown && p.Health == "" && p.Damage == "" {
				out.Steps = append(out.Steps, group{g}.activatePool(p, "how full a thin pool is is known only while it is active"))
			}
		}
	}
	return out
}

func (g group) activatePool(p plan.Pool, why plan.Reason) plan.Step {
	return ActivatePool{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Holds: p.Volumes > 0, Reason: why}
}

// damaged is the error of whatever needs a thin pool of which the metadata is damaged.
func (g group) damaged(taker string, p plan.Pool) error {
	return fmt.Errorf("volume %s in thin pool %s/%s: %w: %s", taker, g.Name, p.Name, plan.ErrDamaged, p.Damage)
}

const killed plan.Reason = "a command that changed the device was killed, or somebody used dmsetup, and left it suspended or with an older table"

// resume is what gets one volume back to work; nothing when it is at work.
func (g group) resume(name string) []plan.Step {
	v, _ := g.Volume(name)
	if !v.Suspended || v.ID == "" || v.Health == plan.HealthPartial {
		// LVM refuses to touch a device of which a part is missing.
		return nil
	}
	return []plan.Step{RefreshLV{Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: killed}}
}

// resumePool is the same for a thin pool.
func (g group) resumePool(name string) []plan.Step {
	p, _ := g.Pool(name)
	if !p.Suspended || !p.Ours || p.Health == plan.HealthPartial {
		return nil
	}
	return []plan.Step{RefreshLV{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Reason: killed}}
}

// resumed is a decision that gets its volume, its pool and the source of a copy back to work before anything else: nobody is told of success
// while one of them holds back its writers.
func resumed(s plan.Snapshot, want Spec, decide Decide) (Plan, error) {
	p, err := decide(s, want)
	if err != nil {
		return p, err
	}
	g, err := holder(s, want)
	if err != nil {
		return p, err
	}
	first := g.resumePool(p.Volume.Pool)
	for _, name := range []string{want.Source, want.Name} {
		first = append(first, g.resume(name)...)
	}
	p.Steps, p.Volume.Suspended, p.GroupUUID = append(first, p.Steps...), false, g.UUID
	return p, nil
}
