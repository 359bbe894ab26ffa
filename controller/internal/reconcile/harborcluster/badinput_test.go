package harborcluster

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestAdmission_badSpecs(t *testing.T) {
	c := apitest.Client(t)
	type cluster = v1alpha1.HarborCluster
	yes := true
	for name, tc := range map[string]struct {
		edit func(*cluster)
		want string
	}{
		"an unknown kind of database":      {func(c *cluster) { c.Spec.Database.Kind = "MySQL" }, "spec.database.kind"},
		"an unknown kind of cache":         {func(c *cluster) { c.Spec.Cache.Kind = "Memcached" }, "spec.cache.kind"},
		"an unknown kind of storage":       {func(c *cluster) { c.Spec.Storage.Kind = "Tape" }, "spec.storage.kind"},
		"no block for the database":        {func(c *cluster) { c.Spec.Database.Spec.ZlandoPostgreSQL = nil }, "zlandoPostgreSql goes with database.kind Zlando/PostgreSQL"},
		"the other block for the database": {func(c *cluster) { c.Spec.Database.Kind = "PostgreSQL" }, "postgresql goes with database.kind PostgreSQL"},
		"two blocks for the cache":         {func(c *cluster) { c.Spec.Cache.Spec.Redis = &v1alpha1.HarborRedis{Host: "x"} }, "redis goes with cache.kind Redis"},
		"no block for the cache":           {func(c *cluster) { c.Spec.Cache.Spec.RedisFailover = nil }, "redisFailover goes with cache.kind RedisFailover"},
		"two blocks for the storage":       {func(c *cluster) { c.Spec.Storage.Spec.S3 = raw(`{}`) }, "s3 goes with storage.kind S3"},
		"the wrong block for the storage":  {func(c *cluster) { c.Spec.Storage.Kind = "Azure" }, "azure goes with storage.kind Azure"},
		"MinIO with three volumes": {func(c *cluster) {
			c.Spec.Storage.Spec.MinIO.Replicas, c.Spec.Storage.Spec.MinIO.VolumesPerServer = 1, 3
		}, "at least four volumes"},
		"MinIO without servers":              {func(c *cluster) { c.Spec.Storage.Spec.MinIO.Replicas = 0 }, "minIO.replicas"},
		"redirection without an ingress":     {func(c *cluster) { c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Enable: &yes} }, "redirect.expose.ingress is required"},
		"a URL without a scheme":             {func(c *cluster) { c.Spec.ExternalURL = "harbor.example.com" }, "spec.externalURL"},
		"a version that is none":             {func(c *cluster) { c.Spec.Version = "latest" }, "spec.version"},
		"no administrator's password":        {func(c *cluster) { c.Spec.HarborAdminPasswordRef = "" }, "spec.harborAdminPasswordRef"},
		"a name of a Secret that is none":    {func(c *cluster) { c.Spec.Storage.Spec.MinIO.SecretRef = "Not A Name" }, "minIO.secretRef"},
		"negative replicas":                  {func(c *cluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.Replicas = -1 }, "zlandoPostgreSql.replicas"},
		"an external database without hosts": {func(c *cluster) { externalDatabase(c); c.Spec.Database.Spec.PostgreSQL.Hosts = []v1alpha1.HarborHost{} }, "postgresql.hosts"},
		"a port that is none":                {func(c *cluster) { externalCache(c); c.Spec.Cache.Spec.Redis.Port = 70000 }, "redis.port"},
		"a log level that is none":           {func(c *cluster) { c.Spec.LogLevel = "loud" }, "spec.logLevel"},
		"a name that is too long":            {func(c *cluster) { c.Name = strings.Repeat("a", 64) }, "at most 63 characters"},
		"a name with a dot":                  {func(c *cluster) { c.Name = "my.harbor" }, "must not have a dot"},
		"a name too long for Redis": {func(c *cluster) {
			externalStorage(c)
			c.Name = strings.Repeat("a", 43)
		}, "at most 42 characters long with a cache in the cluster"},
		"a name too long for MinIO": {func(c *cluster) { c.Name = strings.Repeat("a", 35) }, "at most 34 characters long with a storage in the cluster"},
		"no core component":         {func(c *cluster) { c.Spec.Core = runtime.RawExtension{} }, "spec.core"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			o.Namespace = "default"
			tc.edit(o)
			err := c.Create(t.Context(), o)
			if err == nil {
				_ = c.Delete(t.Context(), o)
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the message lacks %q: %v", tc.want, err)
			}
		})
	}
}

func TestAdmission_changedKinds(t *testing.T) {
	s := newSuite(t)
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.HarborCluster)
		want string
	}{
		"database": {externalDatabase, "database.kind cannot be changed"},
		"cache":    {externalCache, "cache.kind cannot be changed"},
		"storage":  {externalStorage, "storage.kind cannot be changed"},
		"replicas": {func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.Replicas = 1 }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			o.Namespace, o.Name = s.namespace, name
			must(t, s.client.Create(t.Context(), o))
			tc.edit(o)
			err := s.client.Update(t.Context(), o)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestReconcile_badInputMakesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		edit      func(*v1alpha1.HarborCluster)
		condition string
		reason    string
		says      string
	}{
		"no Secret of the administrator": {
			func(c *v1alpha1.HarborCluster) { c.Spec.HarborAdminPasswordRef = "nowhere" },
			"ServiceReady", "SecretMissing", "spec.harborAdminPasswordRef: the Secret nowhere does not exist",
		},
		"a Secret without the key": {
			func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Spec.MinIO.SecretRef = "admin" },
			"StorageReady", "SecretMissing", `spec.storage.spec.minIO.secretRef: the Secret admin has no key "accesskey"`,
		},
		"no Secret of an external database": {
			externalDatabase, "DatabaseReady", "SecretMissing", "spec.database.spec.postgresql.passwordRef: the Secret db does not exist",
		},
		"no Secret of an external cache": {
			externalCache, "CacheReady", "SecretMissing", "spec.cache.spec.redis.passwordRef: the Secret redis does not exist",
		},
		"no Secret of an external storage": {
			externalStorage, "StorageReady", "SecretMissing", "spec.storage.spec.s3.secretkeyRef: the Secret s3 does not exist",
		},
		"no such StorageClass": {
			func(c *v1alpha1.HarborCluster) { c.Spec.StorageClassName = "nowhere" },
			"DatabaseReady", "StorageClassMissing", "spec.storageClassName: the StorageClass nowhere does not exist",
		},
		"no such StorageClass of one part": {
			func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL.StorageClassName = "nowhere" },
			"DatabaseReady", "StorageClassMissing", "spec.database.spec.zlandoPostgreSql.storageClassName: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			s.add(tt.edit)
			s.reconcile()
			s.expect(v1alpha1.HarborUnhealthy, tt.condition, "False", tt.reason, tt.says)
			same(t, nothing, s.children())
		})
	}
}

func TestReconcile_badInputLaterChangesNothing(t *testing.T) {
	s := newSuite(t)
	s.healthy()
	s.edit(func(c *v1alpha1.HarborCluster) {
		c.Spec.StorageClassName = "later"
		c.Spec.Database.Spec.ZlandoPostgreSQL.Replicas = 7
	})
	before := s.written()
	s.reconcile()
	after := s.written()
	delete(before, "HarborCluster")
	delete(after, "HarborCluster")
	same(t, before, after)
	s.expect(v1alpha1.HarborUnhealthy, "DatabaseReady", "False", "StorageClassMissing", "spec.storageClassName")
	s.expect(v1alpha1.HarborUnhealthy, "ServiceReady", "True", "Running", "")
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "later"}, Provisioner: v1alpha1.DriverLVM}
	must(t, s.client.Create(t.Context(), class))
	s.reconcile()
	s.expect(v1alpha1.HarborHealthy, "DatabaseReady", "True", "Running", "")
	must(t, s.client.Delete(t.Context(), class))
}

func TestReconcile_secretThatIsMadeLater(t *testing.T) {
	s := newSuite(t)
	s.add(externalDatabase)
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter != retry {
		t.Errorf("looked again after %s: Secrets cannot be watched", result.RequeueAfter)
	}
	s.secret("db", "postgres-password")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "DatabaseReady", "True", "External", "not looked at")
}

func TestReconcile_generatedSecretWithoutItsKeys(t *testing.T) {
	s := newSuite(t)
	s.secret("sample-redis", "redis-password")
	s.add()
	s.reconcile()
	s.expect(v1alpha1.HarborUnhealthy, "CacheReady", "False", "SecretMissing", `sample-redis has no key "password"`)
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "sample-redis"}}
	must(t, s.client.Delete(t.Context(), o))
	s.secret("sample-redis", "redis-password", "password")
	s.reconcile()
	s.expect(v1alpha1.HarborCreating, "CacheReady", "Unknown", "Starting", "just made")
}
