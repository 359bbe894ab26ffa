package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// StatefulCluster runs replicas with volumes of their own and never uses an identity twice: a replica that is lost is replaced by a new
// one, with a new name and new claims, on a node that has room. Its spec has the fields of an apps/v1 StatefulSet.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:scope=Namespaced,shortName=qsc
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Orphaned",type=integer,priority=1,JSONPath=`.status.orphanedClaimCount`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 46 && !self.metadata.name.contains('.')",message="the name must be at most 46 characters long and without dots: with 17 more characters it is the host name of a replica"
type StatefulCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec StatefulClusterSpec `json:"spec"`
	// What was observed.
	// +optional
	Status StatefulClusterStatus `json:"status,omitempty"`
}

// StatefulClusterSpec has the fields of an apps/v1 StatefulSetSpec.
//
// +kubebuilder:validation:XValidation:rule="self.selector == oldSelf.selector",message="selector cannot be changed: the replicas that run would not be found any more"
// +kubebuilder:validation:XValidation:rule="(has(self.serviceName) ? self.serviceName : \"\") == (has(oldSelf.serviceName) ? oldSelf.serviceName : \"\")",message="serviceName cannot be changed: the replicas that run have their names below it"
// +kubebuilder:validation:XValidation:rule="has(self.volumeClaimTemplates) == has(oldSelf.volumeClaimTemplates) && (!has(self.volumeClaimTemplates) || oldSelf.volumeClaimTemplates.all(o, self.volumeClaimTemplates.exists(n, n.metadata.name == o.metadata.name)))",message="no claim template can be removed or renamed, nor the first one added: the replicas that run would come back without their data; create another StatefulCluster"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || has(self.template.metadata) && has(self.template.metadata.labels) && self.selector.matchLabels.all(k, k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="selector does not match template.metadata.labels"
type StatefulClusterSpec struct {
	// Replicas that are wanted.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// Selector must match the labels of the template. Cannot be changed. Which pods belong to the StatefulCluster is decided by their
	// owner reference alone; a pod that only has the labels is never touched.
	Selector Selector `json:"selector"`

	// Template of the replicas' pods. A change is rolled out according to updateStrategy.
	Template PodTemplate `json:"template"`

	// Templates of the claims that every replica gets for itself. A claim stands in the place of a volume of the same name in the
	// template. A change holds for replicas that are made later; those that are there keep their claims, and get one of a template that was added
	// when their pod is made again. None can be removed or renamed.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.metadata.name == b.metadata.name))",message="the names of claim templates must differ"
	// +listType=atomic
	VolumeClaimTemplates []ClaimTemplate `json:"volumeClaimTemplates,omitempty"`

	// ServiceName is the headless Service that gives each replica a name in DNS: REPLICA.SERVICE.NAMESPACE.svc. Cannot be changed.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName,omitempty"`

	// PodManagementPolicy has no meaning here: replicas have no order, and are always made one after another.
	// +optional
	// +kubebuilder:validation:Enum=OrderedReady;Parallel
	PodManagementPolicy string `json:"podManagementPolicy,omitempty"`

	// UpdateStrategy says how a change of the template reaches the replicas.
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`

	// RevisionHistoryLimit is how many templates of before are kept, as ControllerRevisions, besides those that replicas have. 10 when not given.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// MinReadySeconds is how long a replica must have been ready before it counts as available. A rolling change waits for that.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// PersistentVolumeClaimRetentionPolicy says what becomes of claims.
	// +optional
	PersistentVolumeClaimRetentionPolicy *ClaimRetention `json:"persistentVolumeClaimRetentionPolicy,omitempty"`

	// SyncedWhen says when a replica has the data. Without it one that is available is taken to have it.
	// +optional
	SyncedWhen *SyncedWhen `json:"syncedWhen,omitempty"`

	// OrphanHistoryLimit is how many replicas that were given up keep their claims, the last ones; the claims of others are deleted. Without it
	// all do. Nothing is deleted by it while fewer replicas than wanted are available and have the data, nor what was given up while no other replica
	// served with the data: it may be the only copy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	OrphanHistoryLimit *int32 `json:"orphanHistoryLimit,omitempty"`

	// OrphanMaxAgeSeconds is for how long, in seconds, a replica that was given up keeps its claims. Without it there is no end. It holds for the same
	// replicas as orphanHistoryLimit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OrphanMaxAgeSeconds *int64 `json:"orphanMaxAgeSeconds,omitempty"`

	// Adopt names claims that were kept, of replicas that were given up or of a deleted StatefulCluster of the same name. When a replica is missing, one is
	// brought back on them before any begins empty. All claims of a replica have to be named. Each is adopted once.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Adopt []string `json:"adopt,omitempty"`

	// Ordinals have no meaning here: replicas are not numbered.
	// +optional
	Ordinals *Ordinals `json:"ordinals,omitempty"`
}

// LabelValue is bounded so that the API server can compare labels at admission.
// +kubebuilder:validation:MaxLength=63
type LabelValue string

// Selector is a label selector, bounded so that the API server can compare it with the template at admission.
//
// +kubebuilder:validation:XValidation:rule="has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",message="the selector must not be empty"
type Selector struct {
	// MatchLabels are labels that must be there.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are conditions that must hold.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// PodTemplate has the shape of a core/v1 PodTemplateSpec.
type PodTemplate struct {
	// Metadata that pods get: labels, annotations and finalizers.
	// +optional
	Metadata PodMetadata `json:"metadata,omitempty"`
	// Spec is a core/v1 PodSpec. The API server does not look into it here; the condition SpecValid says what is wrong with it.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`
}

// PodMetadata is the part of metadata that reaches a pod.
// +kubebuilder:pruning:PreserveUnknownFields
type PodMetadata struct {
	// Labels of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the pods.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// Finalizers of the pods.
	// +optional
	// +listType=atomic
	Finalizers []string `json:"finalizers,omitempty"`
}

// ClaimTemplate has the shape of a core/v1 PersistentVolumeClaim.
// +kubebuilder:pruning:PreserveUnknownFields
type ClaimTemplate struct {
	// Metadata of the claims. The name is the name of the volume in the template.
	Metadata ClaimMetadata `json:"metadata"`
	// Spec is a core/v1 PersistentVolumeClaimSpec. The API server does not look into it here; the condition SpecValid says what is wrong
	// with it.
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec"`
}

// ClaimMetadata is the part of metadata that reaches a claim.
// +kubebuilder:pruning:PreserveUnknownFields
type ClaimMetadata struct {
	// Name of the volume.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// Labels of the claims.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the claims.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Types of an UpdateStrategy.
const (
	RollingUpdate = "RollingUpdate"
	OnDelete      = "OnDelete"
)

// UpdateStrategy says how a change of the template reaches the replicas.
type UpdateStrategy struct {
	// RollingUpdate makes a replica of the new template first, and when that has the data one of the old ones goes.
	// OnDelete leaves the old replicas until somebody deletes their pods, which are then made anew on their claims.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;OnDelete
	Type string `json:"type,omitempty"`
	// RollingUpdate says how many replicas are changed at a time.
	// +optional
	RollingUpdate *RollingUpdateOptions `json:"rollingUpdate,omitempty"`
}

// RollingUpdateOptions say how many replicas are changed at a time, and how.
type RollingUpdateOptions struct {
	// Partition is how many replicas keep the template that they have. Without ordinals it says how many, not which.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Partition *int32 `json:"partition,omitempty"`
	// MaxSurge is how many replicas more than wanted there may be, a number or a percentage. New replicas get claims of their own, and an old one
	// goes when a new one has the data. With 0 the pods are made anew on the claims that they have, and no data is copied. 1 when neither this
	// nor maxUnavailable is given, else 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 0 && int(self) <= 2147483647",message="maxSurge must be a number of replicas or a percentage"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// MaxUnavailable is how many replicas may be unavailable while pods are made anew on their claims, a number or a percentage. With maxSurge
	// above 0 none is.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string || int(self) >= 0 && int(self) <= 2147483647",message="maxUnavailable must be a number of replicas or a percentage"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Retention says whether claims outlive something.
// +kubebuilder:validation:Enum=Retain;Delete
type Retention string

// Retentions.
const (
	RetainClaims Retention = "Retain"
	DeleteClaims Retention = "Delete"
)

// ClaimRetention says what becomes of claims.
type ClaimRetention struct {
	// WhenDeleted is about all claims when the StatefulCluster is deleted. Delete when not given: no other StatefulCluster would ever
	// use them.
	// +optional
	WhenDeleted Retention `json:"whenDeleted,omitempty"`
	// WhenScaled is about the claims of a replica that left because fewer were wanted. Retain when not given; status.orphanedClaims lists
	// what is kept.
	// +optional
	WhenScaled Retention `json:"whenScaled,omitempty"`
	// WhenReplaced is about the claims of a replica that was given up, or that one of a changed template stands in for. Retain when not
	// given. Delete removes them once as many replicas as are wanted are available and have the data.
	// +optional
	WhenReplaced Retention `json:"whenReplaced,omitempty"`
}

// SyncedWhen says when a replica has the data.
type SyncedWhen struct {
	// ConditionType is the type of a condition of the pod, also of a readiness gate, that is True while the replica has the data.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	ConditionType string `json:"conditionType"`
}

// Ordinals are accepted, and without effect.
type Ordinals struct {
	// Start has no meaning here.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	Start int32 `json:"start,omitempty"`
}

// StatefulClusterList is a list of StatefulClusters.
// +kubebuilder:object:root=true
type StatefulClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []StatefulCluster `json:"items"`
}
