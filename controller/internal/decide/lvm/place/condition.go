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
	switch v.Health {
	case "":
		return volume.Healthy()
	case "partial":
		return volume.Abnormal(fmt.Sprintf("a disk of volume group %s on node %s is missing, and a part of the volume is on it", v.Group, n.Name))
	}
	return volume.Abnormal(v.Health)
}
