package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// GlusterCredentials name a Secret.
type GlusterCredentials struct {
	// SecretName is the name of the Secret.
	SecretName SecretName `json:"secretName"`
	// SecretNamespace is where the Secret is; the namespace of the object when not given.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	SecretNamespace string `json:"secretNamespace,omitempty"`
}

// GlusterReplication is geo-replication.
type GlusterReplication struct {
	// Credentials with which other clusters come in, when this one is a target.
	// +optional
	Credentials *GlusterCredentials `json:"credentials,omitempty"`
	// Targets that this cluster replicates to.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Targets []GlusterReplicationTarget `json:"targets,omitempty"`
}

// GlusterReplicationTarget is another cluster.
type GlusterReplicationTarget struct {
	// Name of the target, by which StorageClasses name it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// Address of the target's nodes.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Address []string `json:"address"`
	// Credentials for the target.
	// +optional
	Credentials *GlusterCredentials `json:"credentials,omitempty"`
}

// GlusterState are the claims of servers and etcd, with a filesystem each. They are made once: a change holds for nodes that are made later.
type GlusterState struct {
	// StorageClassName is their StorageClass; that of the node's template, or of the first one, when not given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`
	// Capacity of each; 1Gi when not given.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('256Mi')) >= 0",message="capacity must be at least 256Mi"
	Capacity *resource.Quantity `json:"capacity,omitempty"`
}

// GlusterImages are the images of the servers.
type GlusterImages struct {
	// Glusterd2 is the image of glusterd2 with glusterfsd.
	Glusterd2 GlusterImage `json:"glusterd2"`
	// Etcd is the image of etcd. glusterd2's own does not survive that all servers stop, or most of them are lost.
	Etcd GlusterImage `json:"etcd"`
	// Drivers are the images of the CSI drivers, by the driver's name.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(d, d in ['gluster-fuse', 'gluster-block'])",message="the drivers are gluster-fuse and gluster-block"
	Drivers map[string]GlusterImage `json:"drivers,omitempty"`
}

// GlusterImage is a reference of an image.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^[^\s]+$`
type GlusterImage string
