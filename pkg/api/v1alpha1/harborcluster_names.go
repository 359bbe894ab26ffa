package v1alpha1

// Condition types of a HarborCluster. Ready is computed from the others.
const (
	// ConditionStorageReady: images and charts can be kept.
	ConditionStorageReady = "StorageReady"
	// ConditionDatabaseReady: the database runs.
	ConditionDatabaseReady = "DatabaseReady"
	// ConditionCacheReady: the cache runs.
	ConditionCacheReady = "CacheReady"
	// ConditionServiceReady: Harbor runs.
	ConditionServiceReady = "ServiceReady"
	// ConditionConfigurationReady: Harbor's operator has applied the settings that HarborConfigurations have. It exists while there is one, and does not
	// count for the status.
	ConditionConfigurationReady = "ConfigurationReady"
	// ConditionCertificatesReady: cert-manager is installed, and the issuer of Harbor's certificates is ready. It does not count for the status.
	ConditionCertificatesReady = "CertificatesReady"
)

// Reasons of the conditions and events of a HarborCluster.
const (
	// ReasonHarborHealthy, ReasonHarborUnhealthy and ReasonHarborCreating are the reasons of Ready.
	ReasonHarborHealthy   = "Healthy"
	ReasonHarborUnhealthy = "Unhealthy"
	ReasonHarborCreating  = "Creating"
	// ReasonHarborRunning: the child of a part says that it works.
	ReasonHarborRunning = "Running"
	// ReasonHarborExternal: an external service does the work; it is not looked at.
	ReasonHarborExternal = "External"
	// ReasonHarborStarting: the child of a part is being set up, and has not said that anything is wrong.
	ReasonHarborStarting = "Starting"
	// ReasonHarborWaiting: another part must be ready first.
	ReasonHarborWaiting = "Waiting"
	// ReasonHarborChildFailed: the child of a part says that it failed.
	ReasonHarborChildFailed = "ChildFailed"
	// ReasonHarborChildDeleting: the child of a part is being deleted, and made again afterwards.
	ReasonHarborChildDeleting = "ChildDeleting"
	// ReasonHarborOperatorMissing: the CustomResourceDefinition of the child is not installed.
	ReasonHarborOperatorMissing = "OperatorMissing"
	// ReasonHarborSecretMissing: a Secret that the spec names does not exist, or lacks a key.
	ReasonHarborSecretMissing = "SecretMissing"
	// ReasonHarborStorageClassMissing: a StorageClass that the spec names does not exist.
	ReasonHarborStorageClassMissing = "StorageClassMissing"
	// ReasonHarborInvalidSpec: a field of the spec cannot work.
	ReasonHarborInvalidSpec = "InvalidSpec"
	// ReasonHarborChildRefused: the API server, or a webhook that it asks, would not take a child. Nothing is made or changed.
	ReasonHarborChildRefused = "ChildRefused"
	// ReasonHarborApplyFailed: the API server did not take a child, or could not be asked.
	ReasonHarborApplyFailed = "ApplyFailed"
	// ReasonHarborApplied: Harbor's operator has applied the settings.
	ReasonHarborApplied = "Applied"
	// ReasonHarborNotSeen: the HarborCluster, or what it names, could not be read. The conditions of its parts say what was seen last.
	ReasonHarborNotSeen = "NotSeen"
	// ReasonHarborCertManagerMissing: a CustomResourceDefinition of cert-manager is not installed.
	ReasonHarborCertManagerMissing = "CertManagerMissing"
	// ReasonHarborIssuerMissing: the issuer of Harbor's certificates does not exist.
	ReasonHarborIssuerMissing = "IssuerMissing"
	// ReasonHarborIssuerNotReady: cert-manager says that the issuer of Harbor's certificates is not ready.
	ReasonHarborIssuerNotReady = "IssuerNotReady"
	// ReasonHarborKept: the HarborCluster is deleted; its database and bucket stay, with the Secrets that open them.
	ReasonHarborKept = "DataKept"
	// ReasonHarborRemoved: the HarborCluster is deleted, and its database, bucket, volumes and Secrets with it.
	ReasonHarborRemoved = "DataRemoved"
)

const (
	// LabelHarborCluster is on every object made for a HarborCluster; its value is the HarborCluster's name.
	LabelHarborCluster = Group + "/harborcluster"
	// AnnotationGeneration is on every child: the generation of the HarborCluster that it was last applied from.
	AnnotationGeneration = Group + "/generation"
)
