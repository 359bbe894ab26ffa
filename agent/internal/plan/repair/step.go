package repair

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// quiet plans how nothing of a pool is active any more. It refuses while a volume in it is open, or is active and not ours.
func quiet(g plan.Group, p plan.Pool) (plan.Plan, error) {
	const why plan.Reason = "nothing of a pool is active while its metadata is repaired"
	var out plan.Plan
	var open []string
	for _, v := range g.LogicalVolumes {
		switch {
		case v.Pool != p.Name || !v.Active:
		case v.Open || v.Suspended || v.ID == "":
			open = append(open, v.Name)
		default:
			out.Steps = append(out.Steps, volume.DeactivateLV{Group: g.Ref(), Name: v.Name, Tag: plan.TagVolume + v.ID, Reason: why})
		}
	}
	if len(open) > 0 {
		return plan.Plan{}, fmt.Errorf("thin pool %s/%s: %w: end the pods that use %s", g.Name, p.Name, plan.ErrInUse, strings.Join(open, ", "))
	}
	if p.Active {
		out.Steps = append(out.Steps, volume.DeactivateLV{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Reason: why})
	}
	return out, nil
}

func activate(g plan.Group, p plan.Pool, why plan.Reason) plan.Step {
	return volume.ActivatePool{Group: g.Ref(), Name: p.Name, Tag: plan.TagPool, Holds: p.Volumes > 0, Reason: why}
}
