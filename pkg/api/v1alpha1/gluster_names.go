package v1alpha1

const (
	// FinalizerGlusterNode is on a GlusterNode until its server left the pool and what was made for it is removed.
	FinalizerGlusterNode = Group + "/gluster-node"
	// AnnotationTemplate is on a GlusterNode that was made from a template; its value is the template's name. All of its spec but desiredState, lost,
	// move and the storage is the template's.
	AnnotationTemplate = Group + "/template"
	// AnnotationPeerLeft is on a GlusterNode that is being deleted, once its server is no member of the pool any more, or is the last one and holds
	// nothing; its value is the UID of the GlusterNode. From then on no data can come to it, even if nobody can say what the pool holds.
	AnnotationPeerLeft = Group + "/peer-left"
	// AnnotationPeer is on the claims of a GlusterNode: the ID of its server in the pool, whose bricks are on them.
	AnnotationPeer = Group + "/peer"
	// AnnotationDevices is on the workload of a GlusterNode with disks of a node of Kubernetes: the records of those that its server has, as JSON. A person reads it, who
	// writes records again that were lost, and so does the controller, which leaves a workload alone that has disks of which there are no records. So what is written once has to be readable by later versions.
	AnnotationDevices = Group + "/devices"
	// FinalizerGlusterCluster is on a GlusterCluster until what was made for it is removed.
	FinalizerGlusterCluster = Group + "/gluster-cluster"
	// LabelGlusterCluster is on everything that is made for a GlusterCluster; its value is the name of the cluster.
	LabelGlusterCluster = Group + "/gluster-cluster"
	// LabelGlusterNode is on what is made for a GlusterNode; its value is the name of the node.
	LabelGlusterNode = Group + "/gluster-node"
	// LabelGlusterPart says what a pod or another object is for: glusterd2, etcd, or a driver.
	LabelGlusterPart = Group + "/gluster-part"
)

// Condition types of a GlusterCluster, beside Ready, SpecValid and CSIReady.
const (
	// ConditionEtcdReady: the members of etcd that keep what glusterd2 knows have a quorum.
	ConditionEtcdReady = "EtcdReady"
	// ConditionNodesReady: every node is online, or under maintenance.
	ConditionNodesReady = "NodesReady"
	// ConditionTemplatesSized: every template has as many nodes as its threshold says. Volumes are served all the same, so Ready does not depend on it.
	ConditionTemplatesSized = "TemplatesSized"
	// ConditionPodsCurrent: every pod of a server and of etcd is as its workload would make it now. Volumes are served by the others, too, so Ready does not depend on it.
	ConditionPodsCurrent = "PodsCurrent"
	// ConditionReplicationConfigured is never True: nothing acts on spec.replication yet. Ready does not depend on it.
	ConditionReplicationConfigured = "ReplicationConfigured"
)

// Condition types of a GlusterNode, beside Ready and SpecValid. Each step that depends on another is Unknown while that one is not True.
const (
	// ConditionClaimsReady: the claims of the node exist and are bound.
	ConditionClaimsReady = "ClaimsReady"
	// ConditionWorkloadReady: glusterd2 of the node runs, and answers.
	ConditionWorkloadReady = "WorkloadReady"
	// ConditionPeerJoined: the node is a member of the pool, under its own ID and in its zone.
	ConditionPeerJoined = "PeerJoined"
	// ConditionPeerOnline: glusterd2 says that the node is online.
	ConditionPeerOnline = "PeerOnline"
	// ConditionDevicesReady: every device is registered, and enabled exactly while the node takes bricks.
	ConditionDevicesReady = "DevicesReady"
	// ConditionDevicesAllocated: every disk of a node of Kubernetes that the node stores on is on record, and allocated to its server. Only nodes with storage[].device have it.
	ConditionDevicesAllocated = "DevicesAllocated"
	// ConditionPodCurrent: the pod of the node is as its workload would make it now. Ready does not depend on it.
	ConditionPodCurrent = "PodCurrent"
	// ConditionDrained: the node holds no brick any more, and what was moved is whole elsewhere. Only nodes that are deleted have it.
	ConditionDrained = "Drained"
	// ConditionRemoved: the node left the pool, and what was made for it is gone. Only nodes that are deleted have it.
	ConditionRemoved = "Removed"
)

// Reasons of how many nodes a template has.
const (
	ReasonTemplateSized = "TemplateSized"
	// ReasonNodesMissing: nodes are made.
	ReasonNodesMissing = "NodesMissing"
	// ReasonNodesSurplus: a node is being removed, because there are more than wanted.
	ReasonNodesSurplus = "NodesSurplus"
	// ReasonSpaceShort: less than freeStorageMin is free, and nodes are made.
	ReasonSpaceShort = "SpaceShort"
	// ReasonSpaceAmple: more than freeStorageMax is free, and a node is being removed.
	ReasonSpaceAmple = "SpaceAmple"
	// ReasonCannotGrow: less than freeStorageMin is free, and there are maxNodes.
	ReasonCannotGrow = "CannotGrow"
	// ReasonCannotShrink: there is more than wanted, and without one node too little would be left.
	ReasonCannotShrink = "CannotShrink"
	// ReasonSizingFrozen: a node is under maintenance, offline, or does not report, so what is free is not known.
	ReasonSizingFrozen = "SizingFrozen"
	// ReasonSizingWaits: a node is being made or removed.
	ReasonSizingWaits = "SizingWaits"
)

// Reasons of steps of a GlusterNode.
const (
	ReasonClaimsReady   = "ClaimsReady"
	ReasonWorkloadReady = "WorkloadReady"
	ReasonPeerJoined    = "PeerJoined"
	ReasonPeerOnline    = "PeerOnline"
	ReasonDevicesReady  = "DevicesReady"
	ReasonDrained       = "Drained"
	// ReasonStepWaits: the step before is not done.
	ReasonStepWaits = "StepWaits"
	// ReasonDevicesAllocated: the server has its disks.
	ReasonDevicesAllocated = "DevicesAllocated"
	// ReasonStepTaken: something was changed for the step in this pass. The next one looks again.
	ReasonStepTaken = "StepTaken"
	// ReasonPoolUnknown: glusterd2 does not answer, or what it says is cut or contradicts itself.
	ReasonPoolUnknown = "PoolUnknown"
	// ReasonPeerDown: the server is down. It cannot leave the pool, and its bricks cannot be moved.
	ReasonPeerDown = "PeerDown"
	// ReasonPeerMissing: the node was a member of the pool, and is none any more without having been removed.
	ReasonPeerMissing = "PeerMissing"
	// ReasonPeerConflict: another member of the pool has the node's address.
	ReasonPeerConflict = "PeerConflict"
	// ReasonDeviceDisabled: the devices of the node are disabled, as it takes no bricks.
	ReasonDeviceDisabled = "DeviceDisabled"
)

// Reasons of whether pods are as the spec has them.
const (
	ReasonPodsCurrent = "PodsCurrent"
	// ReasonPodReplaced: a pod of an earlier template is replaced.
	ReasonPodReplaced = "PodReplaced"
	// ReasonRolloutWaits: pods are of an earlier template, and none is replaced now; the message says why.
	ReasonRolloutWaits = "RolloutWaits"
)

// Reasons of how a node is emptied and removed.
const (
	// ReasonBrickMoving: a brick is moved.
	ReasonBrickMoving = "BrickMoving"
	// ReasonAnswerLost: glusterd2 was asked to move a brick or to register a device, and gave no answer. It may still do so.
	ReasonAnswerLost = "AnswerLost"
	// ReasonRequestFailed: glusterd2 was asked to move a brick or to register a device, and answered with an error, which the message has.
	ReasonRequestFailed = "RequestFailed"
	// ReasonBrickReturned: a brick that was replaced is in its volume again. Its data are old, and a person has to look at them.
	ReasonBrickReturned = "BrickReturned"
	// ReasonHealing: the data are copied to the brick that was moved, or to others of its volume.
	ReasonHealing = "Healing"
	// ReasonSplitBrain: copies of a volume contradict each other, and a person has to choose.
	ReasonSplitBrain = "SplitBrain"
	// ReasonBrickDown: a brick of the volume does not run.
	ReasonBrickDown = "BrickDown"
	// ReasonVolumeStopped: the volume is not started, so nothing would be copied.
	ReasonVolumeStopped = "VolumeStopped"
	// ReasonDistributeOnly: the volume has one copy, which is never moved.
	ReasonDistributeOnly = "DistributeOnly"
	// ReasonSnapshotHolds: a snapshot has bricks on the node. They cannot be moved.
	ReasonSnapshotHolds = "SnapshotHolds"
	// ReasonReplacementZoneMissing: every zone with an enabled device has a brick of the volume already.
	ReasonReplacementZoneMissing = "ReplacementZoneMissing"
	// ReasonReplacementTooSmall: no device in another zone has room for the brick.
	ReasonReplacementTooSmall = "ReplacementTooSmall"
	// ReasonDrainWaits: another node is being emptied, or is under maintenance.
	ReasonDrainWaits = "DrainWaits"
	// ReasonLeavingPool: the node leaves the pool.
	ReasonLeavingPool = "LeavingPool"
	// ReasonRemoving: what was made for the node is being removed.
	ReasonRemoving = "Removing"
	// ReasonLostRefused: the node was declared lost, and glusterd2 or the node itself says that it is there.
	ReasonLostRefused = "LostRefused"
)
