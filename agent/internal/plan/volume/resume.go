package volume

import "quarry.storage/quarry/agent/internal/plan"

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
	}
	return out
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
			if p.Ours && p.UsageUnknown && p.Health == "" {
				out.Steps = append(out.Steps, ActivateLV{
					Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Reason: "how full a thin pool is is known only while it is active",
				})
			}
		}
	}
	return out
}

const killed plan.Reason = "a command that changed the device was killed, and left it suspended or with an older table"

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
