package harbor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Longest names of children: their operators put suffixes to them, and the results must fit into labels.
const (
	longestDatabase = 58
	longestTenant   = 40
	longestCache    = 48
)

// Fault is something in the spec that cannot work. Nothing is made, changed or removed while there is one.
type Fault struct {
	Part Part
	// Reason and Message for a condition; the message names the field.
	Reason, Message string
}

// Check returns what is wrong with a spec by itself. The schema refuses most of it, but not for objects that are older than the schema,
// and it does not know the namespace.
func Check(c *v1alpha1.HarborCluster) []Fault {
	var faults []Fault
	fault := func(p Part, field, format string, args ...any) {
		faults = append(faults, Fault{p, v1alpha1.ReasonHarborInvalidSpec, field + ": " + fmt.Sprintf(format, args...)})
	}
	s := c.Spec
	if strings.Contains(c.Name, ".") {
		fault(Service, "metadata.name", "%q must not have a dot, because Services are named after it.", c.Name)
	}
	if !chosen(s.Storage.Kind, storageBlocks(c)) {
		fault(Storage, "spec.storage.spec", "the block for kind %s is missing, or there is another one.", s.Storage.Kind)
	} else if m := s.Storage.Spec.MinIO; m != nil {
		if n := m.Replicas * m.VolumesPerServer; n < 4 {
			fault(Storage, "spec.storage.spec.minIO", "replicas * volumesPerServer is %d; MinIO needs at least four volumes.", n)
		}
		if r := redirect(c); r != nil && (r.Expose == nil || r.Expose.Ingress == nil) {
			fault(Storage, "spec.storage.spec.redirect.expose.ingress", "is required when redirect is enabled.")
		}
		if name := tenantName(c); len(name) > longestTenant {
			fault(Storage, "metadata.name", "%q must be at most %d characters long, or MinIO cannot name its pods.", name, longestTenant)
		}
	}
	d := s.Database.Spec
	if !chosen(s.Database.Kind, map[string]bool{
		v1alpha1.DatabaseKindZlando: d.ZlandoPostgreSQL != nil, v1alpha1.DatabaseKindPostgreSQL: d.PostgreSQL != nil,
	}) {
		fault(Database, "spec.database.spec", "the block for kind %s is missing, or there is another one.", s.Database.Kind)
	} else if d.ZlandoPostgreSQL != nil {
		checkDatabase(c, fault)
	}
	if !chosen(s.Cache.Kind, map[string]bool{
		v1alpha1.CacheKindRedisFailover: s.Cache.Spec.RedisFailover != nil, v1alpha1.CacheKindRedis: s.Cache.Spec.Redis != nil,
	}) {
		fault(Cache, "spec.cache.spec", "the block for kind %s is missing, or there is another one.", s.Cache.Kind)
	} else if name := cacheName(c); s.Cache.Spec.RedisFailover != nil && len(name) > longestCache {
		fault(Cache, "metadata.name", "%q must be at most %d characters long, or the operator of Redis refuses it.", name, longestCache)
	}
	return faults
}

// checkDatabase finds what is wrong with an in-cluster database.
func checkDatabase(c *v1alpha1.HarborCluster, fault func(p Part, field, format string, args ...any)) {
	if name := databaseName(c); len(name) > longestDatabase {
		fault(Database, "metadata.name", "%q must be at most %d characters long, or PostgreSQL cannot name its services.", name, longestDatabase)
	}
	if mode := c.Spec.Database.Spec.ZlandoPostgreSQL.SslConfig; strings.HasPrefix(mode, "verify-") {
		fault(Database, "spec.database.spec.zlandoPostgreSql.sslConfig",
			"%s is not possible, because nobody has signed the certificate of an in-cluster database: use require.", mode)
	}
}

// chosen says whether the block of the kind is given, and no other.
func chosen(kind string, given map[string]bool) bool {
	for k, there := range given {
		if there != (k == kind) {
			return false
		}
	}
	return true
}

func storageBlocks(c *v1alpha1.HarborCluster) map[string]bool {
	s := c.Spec.Storage.Spec
	return map[string]bool{
		v1alpha1.StorageKindMinIO: s.MinIO != nil, v1alpha1.StorageKindS3: s.S3 != nil, v1alpha1.StorageKindSwift: s.Swift != nil,
		v1alpha1.StorageKindFileSystem: s.FileSystem != nil, v1alpha1.StorageKindAzure: s.Azure != nil,
		v1alpha1.StorageKindGcs: s.Gcs != nil, v1alpha1.StorageKindOss: s.Oss != nil,
	}
}

// externalStorage returns the blocks of external services by the name that Harbor knows them by.
func externalStorage(c *v1alpha1.HarborCluster) map[string]*runtime.RawExtension {
	s := c.Spec.Storage.Spec
	blocks := map[string]*runtime.RawExtension{
		"s3": s.S3, "swift": s.Swift, "filesystem": s.FileSystem, "azure": s.Azure, "gcs": s.Gcs, "oss": s.Oss,
	}
	for name, block := range blocks {
		if block == nil {
			delete(blocks, name)
		}
	}
	return blocks
}

// Reference is an object that the spec names and that must exist.
type Reference struct {
	Part Part
	// Field that names it.
	Field string
	Name  string
	// Keys that a Secret must have.
	Keys []string
}

// Missing is the fault of a Secret that does not exist, or that lacks a key.
func (r Reference) Missing(key string) Fault {
	if key != "" {
		return Fault{r.Part, v1alpha1.ReasonHarborSecretMissing, fmt.Sprintf("%s: the Secret %s has no key %q.", r.Field, r.Name, key)}
	}
	return Fault{r.Part, v1alpha1.ReasonHarborSecretMissing, fmt.Sprintf("%s: the Secret %s does not exist.", r.Field, r.Name)}
}

// MissingClass is the fault of a StorageClass that does not exist.
func (r Reference) MissingClass() Fault {
	return Fault{
		r.Part, v1alpha1.ReasonHarborStorageClassMissing,
		fmt.Sprintf("%s: the StorageClass %s does not exist.", r.Field, r.Name),
	}
}

// Secrets returns the Secrets that the user has to make.
func Secrets(c *v1alpha1.HarborCluster) ([]Reference, error) {
	refs := []Reference{{Service, "spec.harborAdminPasswordRef", string(c.Spec.HarborAdminPasswordRef), []string{"secret"}}}
	add := func(p Part, field, name string, keys ...string) {
		if name != "" {
			refs = append(refs, Reference{p, field, name, keys})
		}
	}
	if m := c.Spec.Storage.Spec.MinIO; m != nil {
		add(Storage, "spec.storage.spec.minIO.secretRef", string(m.SecretRef), KeyAccess, KeySecret)
	}
	for name, block := range externalStorage(c) {
		values, err := asMap(block)
		if err != nil {
			return nil, err
		}
		for field, value := range values {
			if secret, ok := value.(string); ok && strings.HasSuffix(field, "Ref") {
				add(Storage, "spec.storage.spec."+name+"."+field, secret)
			}
		}
	}
	if p := c.Spec.Database.Spec.PostgreSQL; p != nil {
		add(Database, "spec.database.spec.postgresql.passwordRef", string(p.PasswordRef), KeyDatabasePassword)
	}
	if r := c.Spec.Cache.Spec.Redis; r != nil {
		add(Cache, "spec.cache.spec.redis.passwordRef", string(r.PasswordRef), KeyRedisPassword)
		add(Cache, "spec.cache.spec.redis.certificateRef", string(r.CertificateRef))
	}
	sortReferences(refs)
	return refs, nil
}

// Classes returns the StorageClasses that the in-cluster parts use by name.
func Classes(c *v1alpha1.HarborCluster) []Reference {
	var refs []Reference
	add := func(p Part, field, own string) {
		name := own
		if own == "" {
			field, name = "spec.storageClassName", c.Spec.StorageClassName
		}
		if name != "" {
			refs = append(refs, Reference{Part: p, Field: field, Name: name})
		}
	}
	if m := c.Spec.Storage.Spec.MinIO; m != nil {
		own := ""
		if t := m.VolumeClaimTemplate; t != nil && t.Spec.StorageClassName != nil {
			own = *t.Spec.StorageClassName
		}
		add(Storage, "spec.storage.spec.minIO.volumeClaimTemplate.spec.storageClassName", own)
	}
	if p := c.Spec.Database.Spec.ZlandoPostgreSQL; p != nil {
		add(Database, "spec.database.spec.zlandoPostgreSql.storageClassName", p.StorageClassName)
	}
	if r := c.Spec.Cache.Spec.RedisFailover; r != nil {
		own := ""
		if r.Server != nil {
			own = r.Server.StorageClassName
		}
		add(Cache, "spec.cache.spec.redisFailover.server.storageClassName", own)
	}
	return refs
}

// sortReferences puts references in an order that does not depend on maps.
func sortReferences(refs []Reference) {
	slices.SortFunc(refs, func(a, b Reference) int {
		if a.Part != b.Part {
			return int(a.Part) - int(b.Part)
		}
		return strings.Compare(a.Field, b.Field)
	})
}
