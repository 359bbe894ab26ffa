package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GlusterCluster is a trusted pool of glusterd2 servers. Its nodes are GlusterNodes: those of a template are made and removed by the
// controller, others by a person. Its fields are those of Anthill, the operator that this kind follows.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=qgc
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Online",type=integer,JSONPath=`.status.nodeStates.online`
// +kubebuilder:printcolumn:name="Free",type=string,JSONPath=`.status.capacity.free`
// +kubebuilder:printcolumn:name="Volumes",type=integer,JSONPath=`.status.volumes`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 24 && !self.metadata.name.contains('.')",message="the name must be at most 24 characters long and without dots: with 28 more it is the name of a node"
type GlusterCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec GlusterClusterSpec `json:"spec"`
	// What was observed.
	// +optional
	Status GlusterClusterStatus `json:"status,omitempty"`
}

// GlusterClusterSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="self.drivers.all(d, has(self.images.drivers) && d in self.images.drivers)",message="images.drivers must have the image of every driver in drivers"
// +kubebuilder:validation:XValidation:rule="has(self.glusterCA) == has(oldSelf.glusterCA)",message="glusterCA can be given only when the cluster is made, and not be taken off: servers with TLS and without do not talk to each other"
type GlusterClusterSpec struct {
	// ClusterOptions are set for all volumes, as `gluster volume set all` does. glusterd2 takes some values that stop every later start of a volume, and
	// forgets none, so only these options and values are allowed: cluster.brick-multiplex and cluster.localtime-logging (on or off),
	// cluster.max-bricks-per-process (1 to 99999), auto-create-block-hosting-volumes and auto-delete-block-hosting-volumes (true or false),
	// block-hosting-volume-size (such as 5GiB) and block-hosting-volume-replica-count (2 or 3). One that is taken off the list gets its default again.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cluster.brick-multiplex', 'cluster.localtime-logging', 'cluster.max-bricks-per-process', 'auto-create-block-hosting-volumes', 'auto-delete-block-hosting-volumes', 'block-hosting-volume-size', 'block-hosting-volume-replica-count'])",message="clusterOptions has an option that is not allowed; the description of the field lists those that are"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['cluster.brick-multiplex', 'cluster.localtime-logging']) || self[k] in ['on', 'off'])",message="cluster.brick-multiplex and cluster.localtime-logging must be on or off: any other value stops every later start of a volume"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'cluster.max-bricks-per-process' || self[k].matches('^[1-9][0-9]{0,4}$'))",message="cluster.max-bricks-per-process must be a number from 1 to 99999"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !(k in ['auto-create-block-hosting-volumes', 'auto-delete-block-hosting-volumes']) || self[k] in ['true', 'false'])",message="auto-create-block-hosting-volumes and auto-delete-block-hosting-volumes must be true or false"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'block-hosting-volume-size' || self[k].matches('^[1-9][0-9]{0,5}(MiB|GiB|TiB)$'))",message="block-hosting-volume-size must be a size such as 5GiB"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k != 'block-hosting-volume-replica-count' || self[k] in ['2', '3'])",message="block-hosting-volume-replica-count must be 2 or 3: with one copy no node can be emptied"
	ClusterOptions map[string]GlusterOptionValue `json:"clusterOptions,omitempty"`

	// Drivers are the CSI drivers to deploy in the namespace.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	Drivers []GlusterDriver `json:"drivers"`

	// GlusterCA names the Secret with the certificate authority (tls.crt, tls.key) from which servers and clients get certificates.
	// +optional
	GlusterCA *GlusterCredentials `json:"glusterCA,omitempty"`

	// Replication of volumes to other clusters. It is checked, and nothing acts on it yet: the condition ReplicationConfigured says so.
	// +optional
	Replication *GlusterReplication `json:"replication,omitempty"`

	// NodeTemplates are kinds of nodes, of which the controller keeps as many as their thresholds say.
	// +optional
	// +kubebuilder:validation:MaxItems=7
	// +listType=map
	// +listMapKey=name
	NodeTemplates []GlusterNodeTemplate `json:"nodeTemplates,omitempty"`

	// State is where the servers and etcd keep what they know of the pool.
	// +optional
	State *GlusterState `json:"state,omitempty"`

	// Images of the servers. There is no default that could be trusted: the projects publish none any more.
	Images GlusterImages `json:"images"`

	// FailOfflineAfter is for how long a node may be offline before it is given up, as if it had been deleted. Without it none ever is. It does not hold for a
	// node under maintenance. The bricks of a node that is down cannot be moved, so only a node without any goes by this.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m')",message="failOfflineAfter must be at least 10m"
	FailOfflineAfter *metav1.Duration `json:"failOfflineAfter,omitempty"`
}

// GlusterOptionValue is the value of an option.
// +kubebuilder:validation:MaxLength=32
type GlusterOptionValue string

// GlusterDriver is a CSI driver for Gluster.
// +kubebuilder:validation:Enum=gluster-fuse;gluster-block
type GlusterDriver string

// Drivers.
const (
	GlusterFuse  GlusterDriver = "gluster-fuse"
	GlusterBlock GlusterDriver = "gluster-block"
)

// GlusterNodeTemplate is a kind of nodes.
type GlusterNodeTemplate struct {
	// Name of the template. It is a part of the names of its nodes.
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Zone is the failure domain of the nodes; the name of the template when not given. No two copies of a volume are in one zone, and to empty a node
	// a volume needs one zone more than it has copies.
	// +optional
	Zone GlusterZone `json:"zone,omitempty"`
	// Threshold says how many nodes there are.
	Threshold GlusterThreshold `json:"threshold"`
	// NodeAffinity says on which nodes of Kubernetes the nodes may run.
	// +optional
	NodeAffinity *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	// Storage of each node.
	Storage GlusterTemplateStorage `json:"storage"`
}

// GlusterZone is a failure domain.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
type GlusterZone string

// GlusterThreshold says how many nodes of a template there are: a fixed number, or bounds of the number and of the space that is free on all of them together.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) || has(self.minNodes) || has(self.maxNodes) || has(self.freeStorageMin) || has(self.freeStorageMax)",message="threshold must not be empty: give nodes, or bounds"
// +kubebuilder:validation:XValidation:rule="!has(self.nodes) || !(has(self.minNodes) || has(self.maxNodes) || has(self.freeStorageMin) || has(self.freeStorageMax))",message="nodes is a fixed number, and excludes minNodes, maxNodes, freeStorageMin and freeStorageMax"
// +kubebuilder:validation:XValidation:rule="!has(self.minNodes) || !has(self.maxNodes) || self.minNodes < self.maxNodes",message="minNodes must be less than maxNodes"
// +kubebuilder:validation:XValidation:rule="!has(self.freeStorageMin) || !has(self.freeStorageMax) || quantity(string(self.freeStorageMin)).isLessThan(quantity(string(self.freeStorageMax)))",message="freeStorageMin must be less than freeStorageMax"
type GlusterThreshold struct {
	// Nodes is how many there are. When it is lowered, the surplus is emptied and removed, one node at a time. With 0 all are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Nodes *int32 `json:"nodes,omitempty"`
	// MinNodes is how many there are at least.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinNodes *int32 `json:"minNodes,omitempty"`
	// MaxNodes is how many there are at most. Without minNodes and freeStorageMin, as many are made.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxNodes *int32 `json:"maxNodes,omitempty"`
	// FreeStorageMin is how much space is free on all nodes together at least. Nodes are added below it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="freeStorageMin must be more than 0"
	FreeStorageMin *resource.Quantity `json:"freeStorageMin,omitempty"`
	// FreeStorageMax is how much space is free on all nodes together at most. Above it a node is emptied and removed, if what is left free is not below
	// freeStorageMin. Without minNodes and freeStorageMin, nodes are made up to it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="freeStorageMax must be more than 0"
	FreeStorageMax *resource.Quantity `json:"freeStorageMax,omitempty"`
}

// GlusterTemplateStorage is the storage of each node of a template.
type GlusterTemplateStorage struct {
	// StorageClassName is the StorageClass of the claims, with volumes in block mode.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName"`
	// Capacity of each claim.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Gi')) >= 0",message="capacity must be at least 1Gi"
	Capacity resource.Quantity `json:"capacity"`
}

// GlusterClusterState sums up the conditions for a person; nothing reads it back.
// +kubebuilder:validation:Enum=creating;running;warning;failed;deleting
type GlusterClusterState string

// States of a GlusterCluster.
const (
	GlusterCreating GlusterClusterState = "creating"
	GlusterRunning  GlusterClusterState = "running"
	GlusterWarning  GlusterClusterState = "warning"
	GlusterFailed   GlusterClusterState = "failed"
	GlusterDeleting GlusterClusterState = "deleting"
)

// GlusterClusterStatus is what was observed.
type GlusterClusterStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// State sums up the conditions.
	// +optional
	State GlusterClusterState `json:"state,omitempty"`
	// Nodes is the number of GlusterNodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// NodeStates counts them by state.
	// +optional
	NodeStates *MemberStates `json:"nodeStates,omitempty"`
	// Capacity of all nodes that report.
	// +optional
	Capacity Space `json:"capacity,omitempty"`
	// Volumes is the number of volumes that glusterd2 lists.
	// +optional
	Volumes int32 `json:"volumes,omitempty"`
	// Templates tell how many nodes each template has, and why.
	// +optional
	// +listType=map
	// +listMapKey=name
	Templates []GlusterTemplateStatus `json:"templates,omitempty"`
	// Conditions: Ready, SpecValid, EtcdReady, NodesReady, TemplatesSized, CSIReady, PodsCurrent, and ReplicationConfigured when replication is given.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GlusterTemplateStatus tells of the nodes of a template.
type GlusterTemplateStatus struct {
	// Name of the template.
	Name string `json:"name"`
	// Nodes that are not condemned: a deletion condemns a node.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// Condemned is how many are being emptied or removed.
	// +optional
	Condemned int32 `json:"condemned,omitempty"`
	// Free on all of them together; empty while a node does not report.
	// +optional
	Free *resource.Quantity `json:"free,omitempty"`
	// Message says what is done about their number, or why nothing is.
	// +optional
	Message string `json:"message,omitempty"`
}

// GlusterClusterList is a list of GlusterClusters.
// +kubebuilder:object:root=true
type GlusterClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []GlusterCluster `json:"items"`
}
