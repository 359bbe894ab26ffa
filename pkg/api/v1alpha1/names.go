package v1alpha1

// Group is the API group, and the prefix of every label, annotation, finalizer and tag.
const Group = "quarry.storage"

// Finalizers.
const (
	// FinalizerTeardown is on an object from its first write until what it made is cleaned up.
	FinalizerTeardown = Group + "/teardown"
	// FinalizerInUse is on an object exactly while a volume of its class exists.
	FinalizerInUse = Group + "/in-use"
)

// Labels.
const (
	// LabelStorageType is on a Node that is a host of a Cluster; its value is the Cluster's storageType.
	LabelStorageType = Group + "/storage-type"
	// LabelDriver is on every object made for a CSI driver; its value is the driver's name.
	LabelDriver = Group + "/driver"
	// LabelCluster is on every object made for a Cluster; its value is the Cluster's name.
	LabelCluster = Group + "/cluster"
	// TopologyHost is the topology key of local volumes; its value is the node's name.
	TopologyHost = "topology." + Group + "/host"
)

// Annotations.
const (
	// AnnotationApprove approves the plan in status.plan when its value is the plan's digest.
	AnnotationApprove = Group + "/approve"
)

// Actions of a plan's steps.
const (
	ActionWipeDevice        = "WipeDevice"
	ActionEnsureVolumeGroup = "EnsureVolumeGroup"
	ActionEnsureThinPool    = "EnsureThinPool"
	ActionReduceVolumeGroup = "ReduceVolumeGroup"
	ActionRemoveVolumeGroup = "RemoveVolumeGroup"
)

// Parameters of a StorageClass or VolumeSnapshotClass of ours. The CSI controller takes these, those of Kubernetes below
// csi.storage.k8s.io/, and no others.
const (
	// ParameterCluster names the Cluster, by UID, whose groups the volumes are made in.
	ParameterCluster = Group + "/cluster-uid"
	// ParameterThinPool is the name of the thin pool that the volumes are made in; volumes are linear without it.
	ParameterThinPool = Group + "/thin-pool"
	// ParameterOverprovision bounds the sum of the sizes in the pool in percent of the pool's size.
	ParameterOverprovision = Group + "/overprovision-percent"
)

// TagCluster is the prefix of the LVM tag that marks a volume group as ours; the UID of the Cluster follows it.
const TagCluster = Group + "/cluster="

// CSI drivers, the provisioners of the StorageClasses.
const (
	DriverLVM    = "lvm." + Group
	DriverCephFS = "cephfs." + Group
)

// SignerAgent is the signer of the agents' serving certificates in the certificates API.
const SignerAgent = Group + "/agent"

// Names in the certificates between controller and agents.
const (
	// AgentCommonNamePrefix and the node's name make the common name of an agent's serving certificate. Its only subject
	// alternative name is the node's name as a DNS name.
	AgentCommonNamePrefix = "quarry:agent:"
	// ControllerCommonName is the common name of the controller's client certificate; agents serve nobody else.
	ControllerCommonName = "quarry:controller"
)

// DefaultVolumeGroupPrefix and the Cluster's name make the default name of its volume group.
const DefaultVolumeGroupPrefix = "quarry-"
