package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kinds of the parts of a HarborCluster.
const (
	CacheKindRedisFailover = "RedisFailover"
	CacheKindRedis         = "Redis"
	// DatabaseKindZlando is spelt as in the system that this kind follows.
	DatabaseKindZlando     = "Zlando/PostgreSQL"
	DatabaseKindPostgreSQL = "PostgreSQL"
	StorageKindMinIO       = "MinIO"
	StorageKindS3          = "S3"
	StorageKindSwift       = "Swift"
	StorageKindFileSystem  = "FileSystem"
	StorageKindAzure       = "Azure"
	StorageKindGcs         = "Gcs"
	StorageKindOss         = "Oss"
)

// HarborCache says which Redis Harbor uses.
//
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="cache.kind cannot be changed: nothing moves what the old cache holds"
// +kubebuilder:validation:XValidation:rule="has(self.spec.redisFailover) == (self.kind == 'RedisFailover')",message="cache.spec.redisFailover goes with cache.kind RedisFailover, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.redis) == (self.kind == 'Redis')",message="cache.spec.redis goes with cache.kind Redis, and only with it"
type HarborCache struct {
	// Kind: RedisFailover is run in the cluster, Redis is an external one.
	// +kubebuilder:validation:Enum=RedisFailover;Redis
	Kind string `json:"kind"`
	// Spec has the block that goes with the kind.
	Spec HarborCacheSpec `json:"spec"`
}

// HarborCacheSpec has one block.
type HarborCacheSpec struct {
	// RedisFailover in the cluster.
	// +optional
	RedisFailover *HarborRedisFailover `json:"redisFailover,omitempty"`
	// Redis outside.
	// +optional
	Redis *HarborRedis `json:"redis,omitempty"`
}

// HarborImage says which image a part runs.
type HarborImage struct {
	// Image; that of the part's operator when not given.
	// +optional
	Image string `json:"image,omitempty"`
	// ImagePullPolicy of the image.
	// +optional
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// ImagePullSecrets for the image.
	// +optional
	// +listType=atomic
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// HarborRedisFailover is a Redis with sentinels in the cluster.
type HarborRedisFailover struct {
	HarborImage `json:",inline"`
	// OperatorVersion is kept for manifests that carry it; nothing reads it.
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// Server is Redis itself.
	// +optional
	Server *HarborRedisServer `json:"server,omitempty"`
	// Sentinel watches the servers.
	// +optional
	Sentinel *HarborRedisSentinel `json:"sentinel,omitempty"`
}

// HarborRedisServer says how many servers run, on what.
type HarborRedisServer struct {
	// Replicas; 0 stands for three.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`
	// Resources of each server.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// StorageClassName of the volumes; spec.storageClassName when not given.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// Storage is the size of each volume; 1Gi when not given.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
	// ServiceAccountName of the servers' pods.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// HarborRedisSentinel says how many sentinels run.
type HarborRedisSentinel struct {
	// Replicas; 0 stands for three.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`
}

// HarborRedis is a Redis outside.
type HarborRedis struct {
	// Host of Redis, or of its sentinels.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// Port of Redis, or of its sentinels.
	// +optional
	// +kubebuilder:default=6379
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// SentinelMasterSet is the name that the sentinels know the master by; without it there are no sentinels.
	// +optional
	SentinelMasterSet string `json:"sentinelMasterSet,omitempty"`
	// PasswordRef names the Secret with the password under the key "redis-password".
	// +optional
	PasswordRef SecretName `json:"passwordRef,omitempty"`
	// CertificateRef names the Secret with the certificate of Redis.
	// +optional
	CertificateRef SecretName `json:"certificateRef,omitempty"`
}

// HarborDatabase says which PostgreSQL Harbor uses.
//
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="database.kind cannot be changed: nothing moves what the old database holds"
// +kubebuilder:validation:XValidation:rule="has(self.spec.zlandoPostgreSql) == (self.kind == 'Zlando/PostgreSQL')",message="database.spec.zlandoPostgreSql goes with database.kind Zlando/PostgreSQL, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.postgresql) == (self.kind == 'PostgreSQL')",message="database.spec.postgresql goes with database.kind PostgreSQL, and only with it"
type HarborDatabase struct {
	// Kind: Zlando/PostgreSQL is run in the cluster, PostgreSQL is an external one.
	// +kubebuilder:validation:Enum=Zlando/PostgreSQL;PostgreSQL
	Kind string `json:"kind"`
	// Spec has the block that goes with the kind.
	Spec HarborDatabaseSpec `json:"spec"`
}

// HarborDatabaseSpec has one block.
type HarborDatabaseSpec struct {
	// ZlandoPostgreSQL in the cluster.
	// +optional
	ZlandoPostgreSQL *HarborZlandoPostgreSQL `json:"zlandoPostgreSql,omitempty"`
	// PostgreSQL outside.
	// +optional
	PostgreSQL *HarborPostgreSQL `json:"postgresql,omitempty"`
}

// HarborZlandoPostgreSQL is a PostgreSQL cluster of Zalando's operator.
type HarborZlandoPostgreSQL struct {
	HarborImage `json:",inline"`
	// OperatorVersion is kept for manifests that carry it; nothing reads it.
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// Version of PostgreSQL that the database is made with; the installed operator must offer it. When not given, a new database gets the
	// newest one that the operator offers and Harbor is known to run on, and keeps it. Another version than the database has orders the
	// operator to upgrade the data.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,3}$`
	Version string `json:"version,omitempty"`
	// Storage is the size of each volume; 1Gi when not given.
	// +optional
	Storage *resource.Quantity `json:"storage,omitempty"`
	// Replicas; 0 stands for three.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas,omitempty"`
	// StorageClassName of the volumes; spec.storageClassName when not given.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
	// Resources of each replica.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// SslConfig says how Harbor connects: disable, the default, or require, with which the database takes only connections with TLS from other pods.
	// The certificate is the database's own and is not verified.
	// +optional
	SslConfig string `json:"sslConfig,omitempty"`
	// ConnectTimeout is kept for manifests that carry it; nothing reads it.
	// +optional
	ConnectTimeout int32 `json:"connectTimeout,omitempty"`
}

// HarborPostgreSQL is a PostgreSQL outside.
type HarborPostgreSQL struct {
	// Hosts of the database.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Hosts []HarborHost `json:"hosts"`
	// Username at the database.
	// +optional
	Username string `json:"username,omitempty"`
	// PasswordRef names the Secret with the password under the key "postgres-password".
	// +optional
	PasswordRef SecretName `json:"passwordRef,omitempty"`
	// SSLMode of connections.
	// +optional
	// +kubebuilder:validation:Enum=disable;allow;prefer;require;verify-ca;verify-full
	SSLMode string `json:"sslMode,omitempty"`
	// Prefix of the names of Harbor's databases.
	// +optional
	Prefix string `json:"prefix,omitempty"`
}

// HarborHost is where a service listens.
type HarborHost struct {
	// Host name or address.
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// Port that it listens on.
	// +optional
	// +kubebuilder:default=5432
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// HarborStorage says where images and charts are kept.
//
// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind",message="storage.kind cannot be changed: nothing moves what the old storage holds"
// +kubebuilder:validation:XValidation:rule="has(self.spec.minIO) == (self.kind == 'MinIO')",message="storage.spec.minIO goes with storage.kind MinIO, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.s3) == (self.kind == 'S3')",message="storage.spec.s3 goes with storage.kind S3, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.swift) == (self.kind == 'Swift')",message="storage.spec.swift goes with storage.kind Swift, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.fileSystem) == (self.kind == 'FileSystem')",message="storage.spec.fileSystem goes with storage.kind FileSystem, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.azure) == (self.kind == 'Azure')",message="storage.spec.azure goes with storage.kind Azure, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.gcs) == (self.kind == 'Gcs')",message="storage.spec.gcs goes with storage.kind Gcs, and only with it"
// +kubebuilder:validation:XValidation:rule="has(self.spec.oss) == (self.kind == 'Oss')",message="storage.spec.oss goes with storage.kind Oss, and only with it"
// +kubebuilder:validation:XValidation:rule="self.kind != 'MinIO' || !has(self.spec.redirect) || !self.spec.redirect.enable || (has(self.spec.redirect.expose) && has(self.spec.redirect.expose.ingress))",message="storage.spec.redirect.expose.ingress is required when redirect is enabled with storage.kind MinIO"
type HarborStorage struct {
	// Kind: MinIO is run in the cluster, the others are external.
	// +kubebuilder:validation:Enum=MinIO;S3;Swift;FileSystem;Azure;Gcs;Oss
	Kind string `json:"kind"`
	// Spec has the block that goes with the kind.
	Spec HarborStorageSpec `json:"spec"`
}

// HarborStorageSpec has one block, and how clients are redirected. The blocks of external services are handed on to Harbor as they are;
// a field whose name ends in Ref names a Secret that must exist.
type HarborStorageSpec struct {
	// MinIO Tenant in the cluster.
	// +optional
	MinIO *HarborMinIO `json:"minIO,omitempty"`
	// S3 outside, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	S3 *runtime.RawExtension `json:"s3,omitempty"`
	// Swift outside, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Swift *runtime.RawExtension `json:"swift,omitempty"`
	// FileSystem on claims that exist, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	FileSystem *runtime.RawExtension `json:"fileSystem,omitempty"`
	// Azure outside, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Azure *runtime.RawExtension `json:"azure,omitempty"`
	// Gcs outside, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Gcs *runtime.RawExtension `json:"gcs,omitempty"`
	// Oss outside, as Harbor takes it.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Oss *runtime.RawExtension `json:"oss,omitempty"`
	// Redirect lets clients fetch layers from the storage itself instead of through Harbor.
	// +optional
	Redirect *HarborRedirect `json:"redirect,omitempty"`
}
