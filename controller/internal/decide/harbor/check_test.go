package harbor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestCheck(t *testing.T) {
	yes := true
	for name, tt := range map[string]struct {
		edit func(*v1alpha1.HarborCluster)
		part Part
		want string
	}{
		"all is well":               {func(*v1alpha1.HarborCluster) {}, Storage, ""},
		"no block for the database": {func(c *v1alpha1.HarborCluster) { c.Spec.Database.Spec.ZlandoPostgreSQL = nil }, Database, "spec.database.spec: the block for kind Zlando/PostgreSQL"},
		"two blocks for the cache":  {func(c *v1alpha1.HarborCluster) { c.Spec.Cache.Spec.Redis = &v1alpha1.HarborRedis{} }, Cache, "spec.cache.spec: "},
		"no block for the storage":  {func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Spec.MinIO = nil }, Storage, "spec.storage.spec: "},
		"another kind of storage":   {func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Kind = "S3" }, Storage, "spec.storage.spec: the block for kind S3"},
		"three volumes": {func(c *v1alpha1.HarborCluster) {
			c.Spec.Storage.Spec.MinIO.Replicas, c.Spec.Storage.Spec.MinIO.VolumesPerServer = 3, 1
		}, Storage, "is 3; MinIO needs at least four volumes"},
		"redirection to nowhere":         {func(c *v1alpha1.HarborCluster) { c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Enable: &yes} }, Storage, "expose.ingress: is required"},
		"a name too long for PostgreSQL": {func(c *v1alpha1.HarborCluster) { c.Namespace = strings.Repeat("n", 50) }, Database, "metadata.name"},
		"a certificate that nobody signed": {func(c *v1alpha1.HarborCluster) {
			c.Spec.Database.Spec.ZlandoPostgreSQL.SslConfig = "verify-full"
		}, Database, "sslConfig: verify-full is not possible"},
		"what a manifest says of TLS has no meaning": {func(c *v1alpha1.HarborCluster) {
			c.Spec.Database.Spec.ZlandoPostgreSQL.SslConfig = "off"
		}, Database, ""},
		"a name with a dot": {func(c *v1alpha1.HarborCluster) { c.Name = "my.harbor" }, Service, `"my.harbor" must not have a dot`},
		"a name too long for Redis": {func(c *v1alpha1.HarborCluster) {
			c.Name, c.Namespace = strings.Repeat("n", 43), "r"
			c.Spec.Storage.Kind, c.Spec.Storage.Spec = "S3", v1alpha1.HarborStorageSpec{S3: raw(`{}`)}
		}, Cache, "at most 48 characters"},
		"a name too long for MinIO": {func(c *v1alpha1.HarborCluster) {
			c.Name = strings.Repeat("n", 35)
		}, Storage, "metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			tt.edit(c)
			faults := Check(c)
			if tt.want == "" {
				if len(faults) > 0 {
					t.Errorf("%+v", faults)
				}
				return
			}
			if len(faults) != 1 || faults[0].Part != tt.part || !strings.Contains(faults[0].Message, tt.want) {
				t.Errorf("got %+v, want %q", faults, tt.want)
			}
		})
	}
}

func names(refs []Reference) []string {
	var out []string
	for _, r := range refs {
		out = append(out, r.Part.String()+" "+r.Field+" "+r.Name+" "+strings.Join(r.Keys, ","))
	}
	return out
}

func TestSecrets(t *testing.T) {
	c := inCluster()
	c.Spec.Storage.Spec = v1alpha1.HarborStorageSpec{S3: raw(`{"secretkeyRef":"s3","certificateRef":"ca","bucket":"b","region":"r"}`)}
	c.Spec.Database.Spec = v1alpha1.HarborDatabaseSpec{PostgreSQL: &v1alpha1.HarborPostgreSQL{PasswordRef: "db"}}
	c.Spec.Cache.Spec = v1alpha1.HarborCacheSpec{Redis: &v1alpha1.HarborRedis{PasswordRef: "redis", CertificateRef: "cert"}}
	got, err := Secrets(c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"storage spec.storage.spec.s3.certificateRef ca ",
		"storage spec.storage.spec.s3.secretkeyRef s3 ",
		"database spec.database.spec.postgresql.passwordRef db postgres-password",
		"cache spec.cache.spec.redis.certificateRef cert ",
		"cache spec.cache.spec.redis.passwordRef redis redis-password",
		"service spec.harborAdminPasswordRef admin secret",
	}, names(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = Secrets(chosenEverything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		"storage spec.storage.spec.minIO.secretRef creds accesskey,secretkey",
		"service spec.harborAdminPasswordRef admin secret",
	}, names(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestClasses(t *testing.T) {
	if got := Classes(inCluster()); got != nil {
		t.Errorf("no class is named: %v", got)
	}
	if diff := cmp.Diff([]string{
		"storage spec.storage.spec.minIO.volumeClaimTemplate.spec.storageClassName archive ",
		"database spec.database.spec.zlandoPostgreSql.storageClassName slow ",
		"cache spec.storageClassName fast ",
	}, names(Classes(chosenEverything()))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
