package volume

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide"
)

// Condition says whether something is wrong with a volume.
type Condition struct {
	Abnormal bool
	// Message is one sentence.
	Message string
}

// Away is the condition of volumes on a node that does not answer.
func Away(n decide.Node) Condition {
	why := n.Problem
	if why == "" {
		why = "its agent does not answer"
	}
	return Condition{Abnormal: true, Message: fmt.Sprintf("node %s cannot be reached: %s", n.Name, why)}
}

// ConditionOf returns the condition of a volume that was just seen.
func ConditionOf(n decide.Node, v decide.Volume) Condition {
	for _, g := range n.Groups {
		if g.Name == v.Group && g.Partial {
			return Condition{Abnormal: true, Message: fmt.Sprintf("a disk of volume group %s on node %s is missing", g.Name, n.Name)}
		}
	}
	if v.Health != "" {
		return Condition{Abnormal: true, Message: v.Health}
	}
	return Condition{Message: "nothing is wrong with the volume"}
}
