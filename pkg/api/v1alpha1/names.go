package v1alpha1

import "quarry.storage/quarry/pkg/quarry"

// Names that the agent needs too, from their home in package quarry.
const (
	Group                 = quarry.Group
	TopologyHost          = quarry.TopologyHost
	TagCluster            = quarry.TagCluster
	DriverLVM             = quarry.DriverLVM
	SignerAgent           = quarry.SignerAgent
	AgentCommonNamePrefix = quarry.AgentCommonNamePrefix
	ControllerCommonName  = quarry.ControllerCommonName
)

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

// DriverCephFS is the CSI driver of CephFS, the provisioner of its StorageClasses.
const DriverCephFS = "cephfs." + Group

// DefaultVolumeGroupPrefix and the Cluster's name make the default name of its volume group.
const DefaultVolumeGroupPrefix = "quarry-"
