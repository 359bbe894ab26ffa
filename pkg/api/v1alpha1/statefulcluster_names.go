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
	// LabelReserved was on a claim until its replica's pod was made. Claims of today have AnnotationReplicaState in its place.
	LabelReserved = Group + "/reserved"
)

// Annotations of the claims of a StatefulCluster, and of pods that have no claims.
const (
	// AnnotationReplicaState is the record of an identity: one of the replica states. A claim without it belongs to no replica any more.
	AnnotationReplicaState = Group + "/replica-state"
	// AnnotationGivenUp is on the claims of a replica that was given up while another one served with the data, or that never had any; its value is when
	// that was recorded, as in RFC 3339. Without it limits of orphans do not count.
	AnnotationGivenUp = Group + "/given-up"
	// AnnotationClaims is on each claim of an identity; its value lists the names of the claim templates that it has claims of.
	AnnotationClaims = Group + "/claims"
	// AnnotationAdopted is on the claims of a replica that spec.adopt brought back; its value is the UID of the StatefulCluster that did. What was on
	// record before counts no more. A claim is adopted once by each StatefulCluster.
	AnnotationAdopted = Group + "/adopted"
	// AnnotationOrphaned is on the claims of a pod that nobody controlled, as after a deletion that orphans; its value is when a StatefulCluster of the same name
	// saw it first, as in RFC 3339. They may hold the data, and the StatefulCluster makes nothing empty beside them before a person decides on them.
	AnnotationOrphaned = Group + "/orphaned"
)

// Annotations of the pods of a StatefulCluster.
const (
	// AnnotationTemplateBase is a digest of the pod's template without what can be changed in place.
	AnnotationTemplateBase = Group + "/template-base"
	// AnnotationUpdated is on a pod whose images were changed in place; its value is when, as in RFC 3339, and the containers of before that are still
	// to end: NAME=ID, with spaces in between.
	AnnotationUpdated = Group + "/updated"
)

// Replica states. A later one never goes back to an earlier one, and of the last three none becomes another, unless a person has the replica adopted.
const (
	// ReplicaNew: it never had the data.
	ReplicaNew = "New"
	// ReplicaServed: it was available once, and never told that it had the data, although spec.syncedWhen says how. It may have it.
	ReplicaServed = "Served"
	// ReplicaFilled: it was available, and had the data where that is told.
	ReplicaFilled = "Filled"
	// ReplicaScaled: it was given up because fewer were wanted.
	ReplicaScaled = "Scaled"
	// ReplicaReplaced: it was given up because it would not serve again.
	ReplicaReplaced = "Replaced"
	// ReplicaRolled: it was given up for one of a changed template.
	ReplicaRolled = "Rolled"
)

// Annotations of a StatefulCluster that say how long it waits.
const (
	// AnnotationStartUpGrace is how long a replica may be not ready before it is replaced, as a Go duration.
	AnnotationStartUpGrace = Group + "/start-up-grace"
	// AnnotationNodeGrace is how long a replica may be out of reach, because of its node or its disks, before it is replaced, as a Go duration.
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
	ReasonReplicaNotSynced = "ReplicaNotSynced"
	ReasonQuorumGuard      = "QuorumGuard"
	ReasonApprovalNeeded   = "ApprovalNeeded"
	ReasonLastCopy         = "LastCopy"
	ReasonReplicasUnknown  = "ReplicasUnknown"
	ReasonReplicaAdopted   = "ReplicaAdopted"
	ReasonAdoptionRefused  = "AdoptionRefused"
)
