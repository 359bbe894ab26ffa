package harbor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The newest PostgreSQL that both sides know is taken; what the spec names and what there is already outrank it.
func TestPostgresql_version(t *testing.T) {
	offers := func(versions ...string) *Schema {
		return schemaFor(PostgresqlKind, map[string][]string{"spec.postgresql.version": versions})
	}
	for name, tt := range map[string]struct {
		schema            *Schema
		given, have, want string
	}{
		"the newest that both know":             {offers("13", "14", "15", "16", "17"), "", "", "15"},
		"an operator that knows older ones":     {offers("9.6", "10", "11", "12", "13"), "", "", "13"},
		"a schema that leaves it open":          {schemaFor(PostgresqlKind, map[string][]string{"spec.postgresql.version": nil}), "", "", "15"},
		"an unknown schema":                     {nil, "", "", "15"},
		"nothing in common":                     {offers("16", "17"), "", "", ""},
		"what the spec names":                   {offers("13", "14", "15", "16", "17"), "17", "", "17"},
		"an upgrade that the spec orders":       {offers("13", "14", "15", "16", "17"), "16", "13", "16"},
		"a database stays what it is":           {offers("13", "14", "15", "16", "17"), "", "13", "13"},
		"even if its version is not offered":    {offers("13", "14", "15", "16", "17"), "", "12", "12"},
		"even if there is nothing in common":    {offers("16", "17"), "", "12", "12"},
		"a database that was made without spec": {offers("13"), "", "none", "13"},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			c.Spec.Database.Spec.ZlandoPostgreSQL.Version = tt.given
			var have *unstructured.Unstructured
			if tt.have != "" {
				have = Postgresql(c, nil)
				unstructured.RemoveNestedField(have.Object, "spec", "postgresql", "version")
			}
			if tt.have != "" && tt.have != "none" {
				if err := unstructured.SetNestedField(have.Object, tt.have, "spec", "postgresql", "version"); err != nil {
					t.Fatal(err)
				}
			}
			want := Postgresql(c, tt.schema)
			Keep(c, want, have)
			if got, _, _ := unstructured.NestedString(want.Object, "spec", "postgresql", "version"); got != tt.want {
				t.Errorf("got version %q, want %q", got, tt.want)
			}
			if n, _, _ := unstructured.NestedString(want.Object, "spec", "postgresql", "parameters", "max_connections"); n != "1024" {
				t.Errorf("the parameters are lost: %q", n)
			}
		})
	}
}

// Each operator of MinIO gets the credentials where it reads them.
func TestTenant_credentials(t *testing.T) {
	const configuration, old = "spec.configuration", "spec.credsSecret"
	for name, tt := range map[string]struct {
		schema *Schema
		want   string
	}{
		"before 4.4":                   {schemaFor(TenantKind, map[string][]string{old: nil}), "credsSecret"},
		"4.4 and 4.5, which know both": {schemaFor(TenantKind, map[string][]string{old: nil, configuration: nil}), "configuration"},
		"from 5.0 on":                  {schemaFor(TenantKind, map[string][]string{configuration: nil}), "configuration"},
		"an unknown schema":            {nil, "configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			c := inCluster()
			tenant, err := Tenant(c, tt.schema)
			if err != nil {
				t.Fatal(err)
			}
			secret, wanted := Configuration(c, tt.schema, map[string]string{KeyAccess: "me", KeySecret: `my "word"`})
			for field, name := range map[string]string{"credsSecret": "minio-sample-creds", "configuration": secret.GetName()} {
				got, found, _ := unstructured.NestedString(tenant.Object, "spec", field, "name")
				if found != (field == tt.want) || found && got != name {
					t.Errorf("%s: %q, %t", field, got, found)
				}
			}
			if wanted != (tt.want == "configuration") {
				t.Errorf("the Secret is wanted: %t", wanted)
			}
			want := Secret(c, "minio-sample-configuration", map[string]string{
				"config.env": "export MINIO_ROOT_USER=\"me\"\nexport MINIO_ROOT_PASSWORD=\"my \"word\"\"\n",
			})
			same(t, want.Object, secret.Object)
		})
	}
}

func TestCheckCredentials(t *testing.T) {
	c := inCluster()
	c.Spec.Storage.Spec.MinIO.SecretRef = "mine"
	if f := CheckCredentials(c, map[string]string{KeyAccess: "me", KeySecret: "word#'\""}); f != nil {
		t.Errorf("refused: %+v", f)
	}
	f := CheckCredentials(c, map[string]string{KeyAccess: "me", KeySecret: "my\nword"})
	if f == nil || f.Part != Storage || !strings.Contains(f.Message, `"secretkey" of the Secret mine`) || strings.Contains(f.Message, "word") {
		t.Errorf("a line break: %+v", f)
	}
}

func TestRedisFailover_sentinelIsSwitchedOn(t *testing.T) {
	for name, tt := range map[string]struct {
		schema *Schema
		want   bool
	}{
		"an operator that always makes it": {schemaFor(RedisFailoverKind, map[string][]string{"spec.sentinel.replicas": nil}), false},
		"a fork with a switch":             {schemaFor(RedisFailoverKind, map[string][]string{"spec.sentinel.enabled": nil}), true},
		"an unknown schema":                {nil, false},
	} {
		got, _, _ := unstructured.NestedBool(RedisFailover(inCluster(), tt.schema).Object, "spec", "sentinel", "enabled")
		if got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestSchemaOf(t *testing.T) {
	d := definition(TenantKind, map[string][]string{"spec.pools.state": {"a", "b"}, "spec.name": nil})
	versions, _, _ := unstructured.NestedSlice(d.Object, "spec", "versions")
	properties := versions[1].(map[string]any)["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)["properties"].(map[string]any)
	spec := properties["spec"].(map[string]any)["properties"].(map[string]any)
	spec["pools"] = map[string]any{"type": "array", "items": spec["pools"]}
	if err := unstructured.SetNestedSlice(d.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	s := SchemaOf(d, "v2")
	if !s.declares("spec", "name") || s.declares("spec", "other") || s.declares("spec", "name", "below") {
		t.Error("the declared fields are not those of the definition")
	}
	same(t, []string{"a", "b"}, s.values("spec", "pools", "state"))
	if SchemaOf(d, "v1") != nil {
		t.Error("a version that is not defined has a schema")
	}
}

func same(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
