package v1alpha1

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// HarborCluster runs Harbor with its database, cache and object storage. Each of the three is run in the cluster by its own operator,
// or is an external service; Harbor itself is run by the Harbor operator once all three are ready.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=qhc
// +kubebuilder:printcolumn:name="Public URL",type=string,JSONPath=`.spec.externalURL`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Database",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="DatabaseReady")].reason`
// +kubebuilder:printcolumn:name="Cache",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="CacheReady")].reason`
// +kubebuilder:printcolumn:name="Storage",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="StorageReady")].reason`
// +kubebuilder:printcolumn:name="Service",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="ServiceReady")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="the name must be at most 63 characters long: it is used as a label value"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !self.metadata.name.contains('.')",optionalOldSelf=true,message="the name must not have a dot: Services are named after it"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.cache.spec.redisFailover) || size(self.metadata.name) <= 42",optionalOldSelf=true,message="the name must be at most 42 characters long with a cache in the cluster: the operator of Redis takes names of 48, and ours is NAME-redis"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.storage.spec.minIO) || size(self.metadata.name) <= 34",optionalOldSelf=true,message="the name must be at most 34 characters long with a storage in the cluster: the pods of minio-NAME must have names"
type HarborCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec HarborClusterSpec `json:"spec"`
	// What was observed.
	// +optional
	Status HarborClusterStatus `json:"status,omitempty"`
}

// HarborClusterSpec is what is wanted.
type HarborClusterSpec struct {
	HarborApplication `json:",inline"`

	// Cache of Harbor: a RedisFailover in the cluster, or an external Redis.
	Cache HarborCache `json:"cache"`
	// Database of Harbor: a PostgreSQL cluster of Zalando's operator, or an external PostgreSQL.
	Database HarborDatabase `json:"database"`
	// Storage of images and charts: a MinIO Tenant in the cluster, or an external service.
	Storage HarborStorage `json:"storage"`

	// StorageClassName is the StorageClass of the in-cluster parts that name none themselves, best the name of a Cluster of
	// quarry.storage. The default class of Kubernetes is used when neither is given.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	StorageClassName string `json:"storageClassName,omitempty"`

	// StrictReadiness reads a database or Harbor that is still being set up as failed instead of unknown: the status is then
	// unhealthy, not creating, until both run.
	// +optional
	StrictReadiness bool `json:"strictReadiness,omitempty"`

	// DeletionPolicy says what becomes of the data when the HarborCluster is deleted. Retain keeps the database and the bucket in the
	// cluster, running as they are, with the Secrets that open them; a HarborCluster of the same name takes them back. Delete removes all
	// of it, the volumes too. What the spec says when the deletion is carried out holds.
	// +optional
	// +kubebuilder:default=Retain
	DeletionPolicy HarborDeletionPolicy `json:"deletionPolicy,omitempty"`
}

// HarborDeletionPolicy says what becomes of the data of a deleted HarborCluster.
// +kubebuilder:validation:Enum=Retain;Delete
type HarborDeletionPolicy string

// Deletion policies. Retain is the default.
const (
	HarborRetain HarborDeletionPolicy = "Retain"
	HarborDelete HarborDeletionPolicy = "Delete"
)

// HarborApplication is what Harbor itself takes. All of it is handed on to the Harbor object as it is; fields that are not looked at
// here have no schema of their own, the Harbor operator checks them.
type HarborApplication struct {
	// Expose says how Harbor is reached from outside.
	Expose HarborExpose `json:"expose"`
	// ExternalURL is where users reach Harbor.
	// +kubebuilder:validation:Pattern=`^https?://.+`
	// +kubebuilder:validation:MaxLength=2048
	ExternalURL string `json:"externalURL"`
	// HarborAdminPasswordRef names the Secret with the password of Harbor's administrator under the key "secret".
	HarborAdminPasswordRef SecretName `json:"harborAdminPasswordRef"`
	// Version of Harbor, for example 2.5.0.
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+([-+][0-9A-Za-z.-]+)?$`
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version"`
	// Core component.
	// +kubebuilder:pruning:PreserveUnknownFields
	Core runtime.RawExtension `json:"core"`
	// JobService component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	JobService *runtime.RawExtension `json:"jobservice,omitempty"`
	// Registry component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Registry *runtime.RawExtension `json:"registry,omitempty"`
	// RegistryController component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	RegistryController *runtime.RawExtension `json:"registryctl,omitempty"`
	// Portal component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Portal *runtime.RawExtension `json:"portal,omitempty"`
	// ChartMuseum component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ChartMuseum *runtime.RawExtension `json:"chartmuseum,omitempty"`
	// Exporter component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Exporter *runtime.RawExtension `json:"exporter,omitempty"`
	// Trivy component.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Trivy *runtime.RawExtension `json:"trivy,omitempty"`
	// Notary component; its databases are made in an in-cluster database.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Notary *runtime.RawExtension `json:"notary,omitempty"`
	// ImageSource says where Harbor's images come from.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	ImageSource *runtime.RawExtension `json:"imageSource,omitempty"`
	// InternalTLS between Harbor's components.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	InternalTLS *runtime.RawExtension `json:"internalTLS,omitempty"`
	// LogLevel of Harbor.
	// +optional
	// +kubebuilder:default=info
	// +kubebuilder:validation:Enum=debug;info;warning;error;fatal
	LogLevel string `json:"logLevel,omitempty"`
	// UpdateStrategyType of Harbor's Deployments.
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	UpdateStrategyType appsv1.DeploymentStrategyType `json:"updateStrategyType,omitempty"`
	// Proxy that Harbor's components use.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Proxy *runtime.RawExtension `json:"proxy,omitempty"`
	// Network settings, such as IP families.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Network *runtime.RawExtension `json:"network,omitempty"`
	// Trace settings.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Trace *runtime.RawExtension `json:"trace,omitempty"`
}

// HarborExpose says how Harbor is reached from outside.
type HarborExpose struct {
	// Core of Harbor: ingress and tls.
	// +kubebuilder:pruning:PreserveUnknownFields
	Core runtime.RawExtension `json:"core"`
	// Notary: ingress and tls.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Notary *runtime.RawExtension `json:"notary,omitempty"`
}

// SecretName is the name of a Secret.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
type SecretName string

// HarborStatus sums up the conditions of a HarborCluster.
// +kubebuilder:validation:Enum=healthy;unhealthy;creating
type HarborStatus string

// Overall statuses.
const (
	// HarborHealthy: storage, database, cache and service are ready.
	HarborHealthy HarborStatus = "healthy"
	// HarborUnhealthy: one of them is known not to work.
	HarborUnhealthy HarborStatus = "unhealthy"
	// HarborCreating: nothing is known to be wrong, and not everything is ready yet.
	HarborCreating HarborStatus = "creating"
)

// HarborClusterStatus is what was observed.
type HarborClusterStatus struct {
	// Generation of the spec that this status belongs to.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Status sums up the conditions: healthy, unhealthy or creating.
	// +optional
	Status HarborStatus `json:"status,omitempty"`
	// Conditions: Ready, StorageReady, DatabaseReady, CacheReady and ServiceReady; and CertificatesReady and ConfigurationReady, which do not count for the
	// status.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Witness is the UID of the HarborWitness that tells a deletion with --cascade=orphan from others, or of the Secret that did so for an earlier version.
	// +optional
	Witness types.UID `json:"witness,omitempty"`
	// Removal is there from before the first data is removed.
	// +optional
	Removal *HarborRemoval `json:"removal,omitempty"`
}

// HarborRemoval is the record that the data of a HarborCluster is being removed.
type HarborRemoval struct {
	// Kinds of the children with volumes that were the HarborCluster's own. No volume of another kind is removed.
	// +optional
	// +listType=set
	Kinds []string `json:"kinds,omitempty"`
}

// HarborClusterList is a list of HarborClusters.
// +kubebuilder:object:root=true
type HarborClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []HarborCluster `json:"items"`
}
