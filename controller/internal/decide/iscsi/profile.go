// Package iscsi decides about volumes on a shared LUN: who logs in, who may write, when the volume group is made and removed, which node is
// fenced. It is pure; decisions 0038 to 0040 say why it is so.
package iscsi

import (
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	// Every is how often nodes and the LUN are looked at, unless a step changed something.
	Every = 15 * time.Second
	// soon is when to look again while something is under way.
	soon = time.Second
	// grace is how long after a start of the controller conditions of before stand while nobody could look.
	grace = 30 * time.Second
	// loginEvery is how often it is tried to get paths back while another one is up.
	loginEvery = 30 * time.Second
	// leavingFor is how long a volume is left to whoever began to take it from its node.
	leavingFor = 30 * time.Second
	// maxNamed is how many nodes, paths or volumes a message names.
	maxNamed = 10
)

// Profile returns what the engine has to know of shared LUNs.
func Profile() backend.Profile {
	return backend.Profile{
		Driver: backend.Driver{
			Name: v1alpha1.DriverISCSI, Deployment: "quarry-csi-iscsi", Topology: true, Capacity: true, Attach: true,
		},
		Members: &backend.Readiness{
			Condition: v1alpha1.ConditionInitiatorsReady, Reason: v1alpha1.ReasonInitiatorsReady,
			Message: "Every initiator sees the LUN and may write to it.", None: "No initiator has a part of the volume group yet.",
			Preparing: "is being connected to the LUN", Unapproved: "its steps wait for approval",
		},
		Label: func(storage string) string { return v1alpha1.LabelInitiatorPrefix + storage },
	}
}
