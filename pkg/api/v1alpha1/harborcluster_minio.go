package v1alpha1

import corev1 "k8s.io/api/core/v1"

// HarborMinIO is a MinIO Tenant in the cluster.
//
// +kubebuilder:validation:XValidation:rule="self.replicas * self.volumesPerServer >= 4",message="minIO needs at least four volumes: replicas * volumesPerServer must be 4 or more"
type HarborMinIO struct {
	HarborImage `json:",inline"`
	// OperatorVersion is kept for manifests that carry it; nothing reads it. The Tenant is written for operators from 4.0.6 on that know
	// credsSecret.
	// +optional
	// +kubebuilder:default="4.0.6"
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// Replicas are the servers of the pool.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// VolumesPerServer is the number of volumes of each server.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	VolumesPerServer int32 `json:"volumesPerServer"`
	// SecretRef names the Secret with the credentials under the keys "accesskey" and "secretkey"; they are made when not given.
	// +optional
	SecretRef SecretName `json:"secretRef,omitempty"`
	// VolumeClaimTemplate of every volume: ReadWriteOnce, 10Gi and spec.storageClassName where it says nothing.
	// +optional
	VolumeClaimTemplate *HarborVolumeClaim `json:"volumeClaimTemplate,omitempty"`
	// Resources of each server.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// MC is the client that makes the bucket.
	// +optional
	MC *HarborImage `json:"mc,omitempty"`
	// Redirect is the old place of storage.spec.redirect, which outranks it.
	// +optional
	Redirect *HarborRedirect `json:"redirect,omitempty"`
}

// HarborVolumeClaim is what is asked of the volumes of MinIO.
type HarborVolumeClaim struct {
	// Metadata of the claims.
	// +optional
	Metadata HarborClaimMetadata `json:"metadata,omitempty"`
	// Spec of the claims.
	// +optional
	Spec corev1.PersistentVolumeClaimSpec `json:"spec,omitempty"`
}

// HarborClaimMetadata is the metadata that a claim can be given.
type HarborClaimMetadata struct {
	// Name is kept for manifests that carry it; MinIO's operator names the claims.
	// +optional
	Name string `json:"name,omitempty"`
	// Labels of the claims.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations of the claims.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// HarborRedirect lets clients fetch layers from the storage itself.
type HarborRedirect struct {
	// Enable the redirection.
	// +optional
	// +kubebuilder:default=true
	Enable *bool `json:"enable,omitempty"`
	// Expose says how clients reach MinIO.
	// +optional
	Expose *HarborRedirectExpose `json:"expose,omitempty"`
}

// HarborRedirectExpose says how clients reach MinIO.
type HarborRedirectExpose struct {
	// Ingress that leads to MinIO.
	// +optional
	Ingress *HarborIngress `json:"ingress,omitempty"`
	// TLS of the ingress.
	// +optional
	TLS *HarborTLS `json:"tls,omitempty"`
}

// HarborIngress is an ingress.
type HarborIngress struct {
	// Host name of the ingress.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// Controller is the type of ingress controller; kept for manifests that carry it.
	// +optional
	Controller string `json:"controller,omitempty"`
	// Annotations of the Ingress.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// IngressClassName of the Ingress.
	// +optional
	IngressClassName *string `json:"ingressClassName,omitempty"`
}

// HarborTLS is the certificate of an ingress.
type HarborTLS struct {
	// CertificateRef names the Secret with the certificate.
	// +optional
	CertificateRef SecretName `json:"certificateRef,omitempty"`
}
