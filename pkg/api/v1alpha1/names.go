package v1alpha1

import (
	"strings"

	"quarry.storage/quarry/pkg/quarry"
)

// Names that the agent needs too, from their home in package quarry.
const (
	Group                 = quarry.Group
	TopologyHost          = quarry.TopologyHost
	TagCluster            = quarry.TagCluster
	DriverLVM             = quarry.DriverLVM
	DriverNFS             = quarry.DriverNFS
	DriverISCSI           = quarry.DriverISCSI
	DriverCephFS          = quarry.DriverCephFS
	SignerAgent           = quarry.SignerAgent
	AgentCommonNamePrefix = quarry.AgentCommonNamePrefix
	ControllerCommonName  = quarry.ControllerCommonName
	CSICommonName         = quarry.CSICommonName
)

// Finalizers.
const (
	// FinalizerTeardown is on an object from its first write until what it made is cleaned up.
	FinalizerTeardown = Group + "/teardown"
	// FinalizerHarbor is on a HarborCluster once none of its data would go with it by itself, until the deletion policy is carried out.
	FinalizerHarbor = Group + "/harbor-data"
	// FinalizerWitness is on a HarborWitness until its HarborCluster is gone, or waits for nothing of Quarry any more.
	FinalizerWitness = Group + "/witness"
	// FinalizerInUse is on an object exactly while a volume of its class exists.
	FinalizerInUse = Group + "/in-use"
	// FinalizerMember is on a Member until the node's part of the storage is removed.
	FinalizerMember = Group + "/member"
)

// Names of the kinds that own a StorageClass.
const (
	KindCluster = "Cluster"
	KindIscsi   = "Iscsi"
	KindNfs     = "Nfs"
)

// Labels.
const (
	// LabelStorageType is on a Node that is a host of a storage whose backend has a storage type; its value is that type.
	LabelStorageType = Group + "/storage-type"
	// LabelDriver is on every object made for a CSI driver; its value is the driver's name.
	LabelDriver = Group + "/driver"
)

// LabelInitiatorPrefix and the name of an Iscsi make the label of the nodes that are its initiators; its value is "true". Volumes have an affinity to it: it
// is their topology key. Initiators come and go while the affinity of a PersistentVolume stays.
const LabelInitiatorPrefix = "iscsi." + Group + "/"

// ChapSecretSuffix and the name of an Iscsi make the name of the Secret with its credentials. TaintOutOfService is how a person says that a node is off
// (Kubernetes: non-graceful node shutdown).
const (
	ChapSecretSuffix  = "-iscsi-secret"
	TaintOutOfService = quarry.TaintOutOfService
)

// LabelOf returns the label that every object made for a storage of a kind carries: quarry.storage/cluster for a Cluster. Its value is the
// storage's name.
func LabelOf(kind string) string { return Group + "/" + strings.ToLower(kind) }

// Annotations.
const (
	// AnnotationApprove approves the plan in status.plan when its value is the plan's digest. On a Cluster of type cephfs it approves one step alone when a slash and the digest of the step follow:
	// one whose consent is not empty.
	AnnotationApprove = Group + "/approve"
	// AnnotationApprovedWith is on a Member whose plan was approved with that of its storage; its value is the digest that was approved
	// there.
	AnnotationApprovedWith = Group + "/approved-with"
	// AnnotationRemove allows a person to delete a Member that is not leaving, an Nfs whose share has volumes on record or cannot be read, an
	// Iscsi whose volume group cannot be removed, or a Cluster of type cephfs whose monitors do not answer or whose filesystem has volumes, when its value is
	// the UID of the object.
	AnnotationRemove = Group + "/remove"
	// AnnotationLeaveDisks lets a Cluster of type cephfs that is being deleted go although an OSD is on no record, whose disk keeps what is on it, when its value is the UID of the Cluster. It says
	// nothing of volumes.
	AnnotationLeaveDisks = Group + "/leave-disks"
	// AnnotationLostGroups is on a storage whose members were declared lost; its value is status.lostGroups, joined by commas. A status may
	// be lost, as in a restore, and no lost group may be taken back because of that.
	AnnotationLostGroups = Group + "/lost-groups"
	// AnnotationNewCA on the Secret quarry-controller-client says that the controller is to begin with a new certificate authority, which
	// trusts no earlier one, when its value is the UID of that Secret. The controller takes it off when that is done.
	AnnotationNewCA = Group + "/new-ca"
	// AnnotationSourceNode is on a PersistentVolumeClaim that was brought to the node of its source; its value is the claim's UID and the
	// node, "uid/node". That is done once.
	AnnotationSourceNode = Group + "/source-node"
	// AnnotationUnreported is on a Member that was made for a node with the label of the storage type: an earlier version, or a Member that was lost, may
	// have used the node, so that no record does not say that nothing is there. The controller takes it off once the agent of the node says so.
	AnnotationUnreported = Group + "/unreported"
	// AnnotationChap is on a Member of an Iscsi whose node logged in with credentials; its value tells their version: the UID of the Secret and its
	// resourceVersion. It has nothing of the credentials.
	AnnotationChap = Group + "/chap"
	// AnnotationGroupRemoved is on an Iscsi that is being deleted, once its volume group is removed from the LUN; its value is the UUID of that group,
	// which no group ever has again.
	AnnotationGroupRemoved = Group + "/group-removed"
)

// Annotations of a Cluster of type cephfs that are its record. Each counts only while it begins with the UID of the Cluster: one that a manifest brought along says nothing.
const (
	// AnnotationCephFormed is the UID, from the time on that monitors were seen as a quorum. None is ever made again that knows no other.
	AnnotationCephFormed = Group + "/ceph-formed"
	// AnnotationCephServed is the UID, from before the filesystem is made. A pool that is missing later is never made anew.
	AnnotationCephServed = Group + "/ceph-served"
	// AnnotationCephMonitors is the UID, a slash, and how many monitors the Cluster ever gave a name to.
	AnnotationCephMonitors = Group + "/ceph-monitors"
	// AnnotationCephKeys is the UID, from before the keys are used. A Secret that is missing later is not made anew: the daemons know the old keys.
	AnnotationCephKeys = Group + "/ceph-keys"
	// AnnotationCephTakenUp is the UID, a slash, and the FSID of the Ceph cluster that is taken up, from before its keys are used.
	AnnotationCephTakenUp = Group + "/ceph-taken-up"
	// AnnotationCephBlocked is the UID, a slash, and in JSON which addresses of nodes that are out of service are on Ceph's blocklist: node, address, and the boot that
	// is to be over before the address is taken off. It is written before Ceph is asked.
	AnnotationCephBlocked = Group + "/ceph-blocked"
	// AnnotationCephRemoved is on a Cluster that is being deleted: the UID, from the time on that no volume was left. From then on its data are given up.
	AnnotationCephRemoved = Group + "/ceph-removed"
)

// AnnotationMountOptions is on a StorageClass whose mount options come from the spec of its storage; its value are these options, joined by
// commas. Those of a class without it are a person's.
const AnnotationMountOptions = Group + "/mount-options"

// Actions of a plan's steps.
const (
	ActionWipeDevice          = "WipeDevice"
	ActionEnsureVolumeGroup   = "EnsureVolumeGroup"
	ActionEnsureThinPool      = "EnsureThinPool"
	ActionReduceVolumeGroup   = "ReduceVolumeGroup"
	ActionRemoveVolumeGroup   = "RemoveVolumeGroup"
	ActionForgetMissingDevice = "ForgetMissingDevice"
	ActionMoveExtents         = "MoveExtents"
	ActionStampVolumeGroup    = "StampVolumeGroup"
	ActionImportVolumeGroup   = "ImportVolumeGroup"
	ActionAdoptVolumeGroup    = "AdoptVolumeGroup"
	ActionRepairThinPool      = "RepairThinPool"
	ActionFinishRemoval       = "FinishRemoval"
	ActionLogin               = "Login"
	ActionLogout              = "Logout"
	ActionGrantKey            = "GrantKey"
	ActionRegisterKey         = "RegisterKey"
	ActionRecordMachine       = "RecordMachine"
	ActionUnregisterKey       = "UnregisterKey"
	ActionCreateSharedGroup   = "CreateSharedGroup"
	ActionRemoveSharedGroup   = "RemoveSharedGroup"
	ActionMapVolumes          = "MapVolumes"
	ActionUnmapVolumes        = "UnmapVolumes"
	ActionFenceNode           = "FenceNode"
	ActionReleaseVolumes      = "ReleaseVolumes"
	ActionPreemptKeys         = "PreemptKeys"
	ActionForgetReaders       = "ForgetReaders"
	ActionTakeDisks           = "TakeDisks"
	ActionPrepareCeph         = "PrepareCeph"
	ActionStartMonitor        = "StartMonitor"
	ActionRemoveMonitor       = "RemoveMonitor"
	ActionAdoptMonitor        = "AdoptMonitor"
	ActionAdoptOSD            = "AdoptOSD"
	ActionFormCeph            = "FormCeph"
	ActionConfigureCeph       = "ConfigureCeph"
	ActionDeployDaemon        = "DeployDaemon"
	ActionRemoveDaemon        = "RemoveDaemon"
	ActionRegisterOSD         = "RegisterOSD"
	ActionPrepareOSD          = "PrepareOSD"
	ActionStartOSD            = "StartOSD"
	ActionStopOSD             = "StopOSD"
	ActionOutOSD              = "OutOSD"
	ActionInOSD               = "InOSD"
	ActionPurgeOSD            = "PurgeOSD"
	ActionReplaceOSD          = "ReplaceOSD"
	ActionKeepOSD             = "KeepOSD"
	ActionZapOSD              = "ZapOSD"
	ActionRemoveHost          = "RemoveHost"
	ActionChangePool          = "ChangePool"
	ActionSetBudget           = "SetBudget"
	ActionSetNoOut            = "SetNoOut"
	ActionUnsetNoOut          = "UnsetNoOut"
	ActionFailOver            = "FailOver"
	ActionBlockClient         = "BlockClient"
	ActionUnblockClient       = "UnblockClient"
	ActionReplaceDaemon       = "ReplaceDaemon"
	ActionRequireRelease      = "RequireRelease"
	ActionServeFilesystem     = "ServeFilesystem"
	ActionServeDashboard      = "ServeDashboard"
	ActionTearDownCeph        = "TearDownCeph"
)

// Parameters of a StorageClass or VolumeSnapshotClass of ours. The CSI controller takes these, those of Kubernetes below
// csi.storage.k8s.io/, and no others.
const (
	// ParameterCluster names the Cluster, by UID, whose groups the volumes are made in.
	ParameterCluster = quarry.AttributeCluster
	// ParameterNfs names the Nfs, by UID, whose share the volumes are made on.
	ParameterNfs = Group + "/nfs-uid"
	// ParameterIscsi names the Iscsi, by UID, on whose LUN the volumes are made.
	ParameterIscsi = Group + "/iscsi-uid"
	// ParameterThinPool is the name of the thin pool that the volumes are made in; volumes are linear without it.
	ParameterThinPool = Group + "/thin-pool"
	// ParameterMkfsOptions are the options with which filesystems are made, joined by "; ".
	ParameterMkfsOptions = quarry.AttributeMkfsOptions
	// ParameterOverprovision bounds the sum of the sizes in the pool in percent of the pool's size.
	ParameterOverprovision = Group + "/overprovision-percent"
)

// DefaultVolumeGroupPrefix and the Cluster's name make the default name of its volume group.
const DefaultVolumeGroupPrefix = "quarry-"

// AttributeGroupUUID is the volume attribute that records the UUID of the volume group that holds a volume.
const AttributeGroupUUID = quarry.AttributeGroupUUID
