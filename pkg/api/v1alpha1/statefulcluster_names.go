package v1alpha1

import "time"

// Labels of what belongs to a StatefulCluster.
const (
	// LabelStatefulCluster is on every pod and claim of a StatefulCluster; its value is the StatefulCluster's name.
	LabelStatefulCluster = Group + "/statefulcluster"
	// LabelStatefulClusterUID is on the claims; its value is the StatefulCluster's UID, so that one of the same name is told apart.
	LabelStatefulClusterUID = Group + "/statefulcluster-uid"
	// LabelIdentity is on every pod and claim; its value is the part of the name that one replica alone has.
	LabelIdentity = Group + "/identity"
	// LabelReserved is on a claim until its replica's pod was made, so that an attempt that failed in between is taken up again.
	LabelReserved = Group + "/reserved"
)

// Annotations of a StatefulCluster that say how long it waits.
const (
	// AnnotationStartUpGrace is how long a replica may be not ready before it is replaced, as a Go duration.
	AnnotationStartUpGrace = Group + "/start-up-grace"
	// AnnotationNodeGrace is how long the node of a replica may be unreachable before the replica is replaced, as a Go duration.
	AnnotationNodeGrace = Group + "/node-grace"
)

// Defaults of these annotations.
const (
	DefaultStartUpGrace = 5 * time.Minute
	DefaultNodeGrace    = 5 * time.Minute
)

// Condition types of a StatefulCluster. Ready is computed from the others.
const (
	// ConditionSpecValid: replicas can be made from the spec.
	ConditionSpecValid = "SpecValid"
	// ConditionReplicasReady: as many replicas as wanted are ready, and all have the template of the spec unless updates wait for deletion.
	ConditionReplicasReady = "ReplicasReady"
	// ConditionRemovalAllowed: no disruption budget keeps a replica from being removed that should be.
	ConditionRemovalAllowed = "RemovalAllowed"
	// ConditionAllFieldsUsed: every field of the spec has a meaning here. Ready does not depend on it.
	ConditionAllFieldsUsed = "AllFieldsUsed"
)

// Reasons of a StatefulCluster's conditions and events.
const (
	ReasonSpecValid        = "SpecValid"
	ReasonInvalidSpec      = "InvalidSpec"
	ReasonReplicasReady    = "ReplicasReady"
	ReasonScalingDown      = "ScalingDown"
	ReasonReplicaPending   = "ReplicaPending"
	ReasonReplicaStarting  = "ReplicaStarting"
	ReasonReplicaUnhealthy = "ReplicaUnhealthy"
	ReasonReplicaLost      = "ReplicaLost"
	ReasonReplicaFinished  = "ReplicaFinished"
	ReasonReplicaMissing   = "ReplicaMissing"
	ReasonReplicaLeaving   = "ReplicaLeaving"
	ReasonRolling          = "Rolling"
	ReasonRolloutStalled   = "RolloutStalled"
	ReasonReplicaCreated   = "ReplicaCreated"
	ReasonReplicaRemoved   = "ReplicaRemoved"
	ReasonReplicaReplaced  = "ReplicaReplaced"
	ReasonCreateFailed     = "CreateFailed"
	ReasonRemoveFailed     = "RemoveFailed"
	ReasonRemovalAllowed   = "RemovalAllowed"
	ReasonDisruptionBudget = "DisruptionBudget"
	ReasonAllFieldsUsed    = "AllFieldsUsed"
	ReasonFieldsWithoutUse = "FieldsWithoutUse"
)
