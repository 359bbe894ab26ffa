package node

import (
	"slices"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// withDisks adds the stage of the disks of a node of Kubernetes. Nothing is made before the server has them. Once it runs, one that is added, or that went, keeps it from nothing else.
func (f Facts) withDisks(stages []stage) []stage {
	if f.Disks == nil {
		return stages
	}
	given := stage{v1alpha1.ConditionDevicesGiven, func(*Plan) outcome { return outcome{f.Disks.Status, f.Disks.Reason, f.Disks.Message} }}
	if f.Begun {
		return append(stages, given)
	}
	return slices.Insert(stages, 1, given)
}

// allowed are the devices that glusterd2 may be told of.
func (f Facts) allowed() []string {
	return slices.DeleteFunc(slices.Clone(f.Devices), func(path string) bool { return f.Barred[path] != "" })
}
