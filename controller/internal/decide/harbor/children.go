package harbor

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Child is an object that a HarborCluster consists of.
type Child struct {
	Part   Part
	Object *unstructured.Unstructured
}

// Operated returns the kinds of the children that operators run.
func Operated(c *v1alpha1.HarborCluster) []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{HarborKind}
	if c.Spec.Storage.Spec.MinIO != nil {
		kinds = append(kinds, TenantKind)
	}
	if c.Spec.Database.Spec.ZlandoPostgreSQL != nil {
		kinds = append(kinds, PostgresqlKind)
	}
	if c.Spec.Cache.Spec.RedisFailover != nil {
		kinds = append(kinds, RedisFailoverKind)
	}
	return kinds
}

// Children returns every object that a HarborCluster will consist of, for operators of which these schemas are installed. Secrets have the keys
// that they will have and none of their values.
func Children(c *v1alpha1.HarborCluster, installed Installed) ([]Child, error) {
	var all []Child
	add := func(p Part, objects ...*unstructured.Unstructured) {
		for _, o := range objects {
			all = append(all, Child{p, o})
		}
	}
	if c.Spec.Storage.Spec.MinIO != nil {
		objects, err := storageChildren(c, installed[TenantKind])
		if err != nil {
			return nil, err
		}
		add(Storage, objects...)
	}
	if c.Spec.Database.Spec.ZlandoPostgreSQL != nil {
		add(Database, Postgresql(c, installed[PostgresqlKind]), keys(c, DatabasePassword(c), KeyDatabasePassword))
	}
	if c.Spec.Cache.Spec.RedisFailover != nil {
		add(Cache, keys(c, CachePassword(c), KeyRedisPassword, KeyPassword), RedisFailover(c, installed[RedisFailoverKind]))
	}
	storage, err := StorageConnection(c, DefaultAccessKey)
	if err != nil {
		return nil, err
	}
	h, err := Harbor(c, Connections{Database: DatabaseConnection(c), Cache: CacheConnection(c), Storage: storage})
	if err != nil {
		return nil, err
	}
	add(Service, h)
	return all, nil
}

func storageChildren(c *v1alpha1.HarborCluster, s *Schema) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	if name, given := StorageCredentials(c); !given {
		all = append(all, keys(c, name, KeyAccess, KeySecret))
	}
	if configured(s) {
		all = append(all, keys(c, StorageConfiguration(c), KeyConfiguration))
	}
	tenant, err := Tenant(c, s)
	if err != nil {
		return nil, err
	}
	all = append(all, tenant, keys(c, StorageSecret(c), KeyS3))
	if ingress, wanted := Ingress(c); wanted {
		all = append(all, ingress)
	}
	return append(all, BucketJob(c)), nil
}

// CheckChild returns what is wrong with a child before anybody is asked; nil when nothing is.
func CheckChild(child Child) *Fault {
	if child.Object.GroupVersionKind() != PostgresqlKind {
		return nil
	}
	if version, _, _ := unstructured.NestedString(child.Object.Object, "spec", "postgresql", "version"); version == "" {
		return &Fault{Database, v1alpha1.ReasonHarborInvalidSpec, "spec.database.spec.zlandoPostgreSql.version: the installed operator offers no " +
			"version of PostgreSQL that Harbor is known to run on (" + strings.Join(harborRunsOn, ", ") + "): name the one to use."}
	}
	return nil
}

// keys returns a Secret with the given keys.
func keys(c *v1alpha1.HarborCluster, name string, names ...string) *unstructured.Unstructured {
	content := map[string]string{}
	for _, n := range names {
		content[n] = ""
	}
	return Secret(c, name, content)
}

// Keep lets a child have what it cannot change: a database keeps the version that it was made with, whatever newer ones there are by now,
// until the spec names one. The postgres-operator takes another version as the order to upgrade the data.
func Keep(c *v1alpha1.HarborCluster, want, have *unstructured.Unstructured) {
	if have == nil || want.GroupVersionKind() != PostgresqlKind || c.Spec.Database.Spec.ZlandoPostgreSQL.Version != "" {
		return
	}
	path := []string{"spec", "postgresql", "version"}
	if version, _, _ := unstructured.NestedString(have.Object, path...); version != "" {
		p, _, _ := unstructured.NestedMap(want.Object, path[:2]...)
		p["version"] = version
		_ = unstructured.SetNestedMap(want.Object, p, path[:2]...)
	}
}
