package place

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

// Away is the condition of volumes on a node that does not answer.
func Away(n decide.Node) volume.Condition {
	why := n.Problem
	if why == "" {
		why = "its agent does not answer"
	}
	return volume.Abnormal(fmt.Sprintf("node %s cannot be reached: %s", n.Name, why))
}

// ConditionOf returns the condition of a volume that was just seen.
func ConditionOf(n decide.Node, v decide.Volume) volume.Condition {
	for _, g := range n.Groups {
		if g.Name == v.Group && g.Partial {
			return volume.Abnormal(fmt.Sprintf("a disk of volume group %s on node %s is missing", g.Name, n.Name))
		}
	}
	if v.Health != "" {
		return volume.Abnormal(v.Health)
	}
	return volume.Healthy()
}
