package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatefulClusterStatus has the fields of an apps/v1 StatefulSetStatus, and those that need identities to be told apart.
type StatefulClusterStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Replicas is the number of pods that are not being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// AvailableReplicas is how many have been ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// CurrentReplicas is how many have the template currentRevision.
	// +optional
	CurrentReplicas int32 `json:"currentReplicas,omitempty"`
	// UpdatedReplicas is how many have the template updateRevision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas,omitempty"`
	// CurrentRevision is the ControllerRevision of the template that is being left; the same as updateRevision when no change is going on.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`
	// UpdateRevision is the ControllerRevision of the template of the spec. It is the bare hash while that could not be written.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// CollisionCount is how many names of the ControllerRevision of the template were taken by something else.
	// +optional
	CollisionCount *int32 `json:"collisionCount,omitempty"`
	// Selector of the replicas, for the scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`
	// OrphanedClaims are claims whose replica is gone for good, the newest first; at most 100 are listed. Nothing uses them again;
	// delete them when their data is not needed.
	// +optional
	// +listType=atomic
	OrphanedClaims []string `json:"orphanedClaims,omitempty"`
	// OrphanedClaimCount is how many there are.
	// +optional
	OrphanedClaimCount int32 `json:"orphanedClaimCount,omitempty"`
	// Away are replicas whose node or disks are out of reach, with how long that was seen, the longest first; at most 100 are listed.
	// Time in reach is taken off again.
	// +optional
	// +listType=map
	// +listMapKey=identity
	Away []ReplicaAway `json:"away,omitempty"`
	// ReadyFor tells for how long each replica that is ready was seen so, up to minReadySeconds. It is empty without these.
	// +optional
	// +listType=map
	// +listMapKey=identity
	ReadyFor []ReplicaReady `json:"readyFor,omitempty"`
	// UnreadyFor tells for how long each replica with a pod that is not ready was seen so, up to the time that it is given.
	// +optional
	// +listType=map
	// +listMapKey=identity
	UnreadyFor []ReplicaUnready `json:"unreadyFor,omitempty"`
	// Plan lists replicas that are given up only if a person approves it: set the annotation quarry.storage/approve to its digest.
	// +optional
	Plan *ReplicaPlan `json:"plan,omitempty"`
	// FutileReplacements is how many replicas that were not ready have been replaced since all were ready. Each one doubles the time
	// that the next one is given, up to sixteen times.
	// +optional
	FutileReplacements int32 `json:"futileReplacements,omitempty"`
	// Conditions: Ready, SpecValid, ReplicasReady, RemovalAllowed, AllFieldsUsed.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaAway is a replica that is, or was a while ago, out of reach.
type ReplicaAway struct {
	// Identity of the replica.
	Identity string `json:"identity"`
	// Seconds that it was seen out of reach, less those in reach since.
	Seconds int32 `json:"seconds"`
	// Looked is when it was looked at last.
	Looked metav1.Time `json:"looked"`
	// Message says what keeps it out of reach; empty while it is in reach.
	// +optional
	Message string `json:"message,omitempty"`
}

// ReplicaReady is for how long a replica was seen ready.
type ReplicaReady struct {
	// Identity of the replica.
	Identity string `json:"identity"`
	// Since when it is ready, as its pod says. When that changes, the seconds begin anew.
	Since metav1.Time `json:"since"`
	// Seconds that it was seen ready.
	Seconds int32 `json:"seconds"`
	// Looked is when it was looked at last; not there once it was ready for long enough.
	// +optional
	Looked *metav1.Time `json:"looked,omitempty"`
}

// ReplicaUnready is for how long a replica was seen not ready.
type ReplicaUnready struct {
	// Identity of the replica.
	Identity string `json:"identity"`
	// Since when it is not ready, as its pod says. When a later time is said, the seconds begin anew.
	Since metav1.Time `json:"since"`
	// Seconds that it was seen not ready.
	Seconds int32 `json:"seconds"`
	// Looked is when it was looked at last; not there once it was not ready for too long.
	// +optional
	Looked *metav1.Time `json:"looked,omitempty"`
}

// ReplicaPlan lists replicas that only a person can give up.
type ReplicaPlan struct {
	// Digest of the plan. It is another one whenever the plan is shown anew, even for the same replicas.
	Digest string `json:"digest"`
	// Offer is when it was shown first, in a form that the digest covers.
	Offer string `json:"offer"`
	// Identities of the replicas that are given up.
	// +listType=atomic
	Identities []string `json:"identities"`
	// Approved: a person agreed. They are given up one after another.
	// +optional
	Approved bool `json:"approved,omitempty"`
}
