// Package quarry holds the names by which the parts of Quarry know each other and what is theirs: on disks, in certificates, in CSI.
// Only constants of both sides are here, so that the agent needs nothing of Kubernetes for them; pkg/api has the rest.
package quarry

// Group is the API group, and the prefix of every label, annotation, finalizer and tag.
const Group = "quarry.storage"

// TopologyHost is the topology key of local volumes; its value is the node's name.
const TopologyHost = "topology." + Group + "/host"

// TagCluster is the prefix of the LVM tag that marks a volume group as ours; the UID of the Cluster follows it.
const TagCluster = Group + "/cluster="

// TagOwnerBefore is the prefix of an LVM tag of a volume group of ours that belonged to another Cluster once, which does not exist any more; the UID of
// that Cluster follows.
const TagOwnerBefore = Group + "/owner-before="

// DriverLVM is the CSI driver of local volumes, the provisioner of their StorageClasses.
const DriverLVM = "lvm." + Group

// DriverNFS is the CSI driver of directories on NFS shares.
const DriverNFS = "nfs." + Group

// DriverISCSI is the CSI driver of volumes on a shared LUN.
const DriverISCSI = "iscsi." + Group

// DriverCephFS is the CSI driver of subvolumes of a Ceph filesystem.
const DriverCephFS = "cephfs." + Group

// Attributes of a volume that record where it is.
const (
	// AttributeGroupUUID has the UUID of the volume group that holds the volume.
	AttributeGroupUUID = Group + "/group-uuid"
	// AttributeCluster has the UID of the Cluster that owns the group.
	AttributeCluster = Group + "/cluster-uid"
)

// AttributeMkfsOptions is the parameter of a StorageClass, and the attribute of its volumes, that has the options with which filesystems are made,
// joined as pkg/filesystem joins them.
const AttributeMkfsOptions = Group + "/mkfs-options"

// TaintOutOfService is Kubernetes' own taint of a Node by which a person says that the machine is off.
const TaintOutOfService = "node.kubernetes.io/out-of-service"

// SignerAgent is the signer of the agents' serving certificates in the certificates API.
const SignerAgent = Group + "/agent"

// Names in the certificates between controller and agents.
const (
	// AgentCommonNamePrefix and the node's name make the common name of an agent's serving certificate. Its only subject
	// alternative name is the node's name as a DNS name.
	AgentCommonNamePrefix = "quarry:agent:"
	// ControllerCommonName is the common name of the controller's client certificate. Agents serve every method to it.
	ControllerCommonName = "quarry:controller"
	// CSICommonName is the common name of the client certificate of the CSI drivers' controllers. Agents serve it what making and removing
	// volumes takes, and nothing that changes a group or a device.
	CSICommonName = "quarry:csi"
)
