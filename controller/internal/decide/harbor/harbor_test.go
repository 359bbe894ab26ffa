package harbor

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

func raw(s string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(s)} }

// inCluster is a HarborCluster with everything in the cluster and nothing chosen that has a default.
func inCluster() *v1alpha1.HarborCluster {
	c := &v1alpha1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "registry", Name: "sample", UID: "u1", Generation: 3}}
	c.Spec.HarborApplication = v1alpha1.HarborApplication{
		Expose:      v1alpha1.HarborExpose{Core: *raw(`{"ingress":{"host":"harbor.example.com"}}`)},
		ExternalURL: "https://harbor.example.com", HarborAdminPasswordRef: "admin", Version: "2.5.0",
		Core: *raw(`{"tokenIssuer":{"kind":"Issuer","name":"i"},"replicas":2}`),
	}
	c.Spec.Database.Kind = v1alpha1.DatabaseKindZlando
	c.Spec.Database.Spec.ZlandoPostgreSQL = &v1alpha1.HarborZlandoPostgreSQL{}
	c.Spec.Cache.Kind = v1alpha1.CacheKindRedisFailover
	c.Spec.Cache.Spec.RedisFailover = &v1alpha1.HarborRedisFailover{}
	c.Spec.Storage.Kind = v1alpha1.StorageKindMinIO
	c.Spec.Storage.Spec.MinIO = &v1alpha1.HarborMinIO{Replicas: 2, VolumesPerServer: 2}
	return c
}

// chosenEverything is a HarborCluster in which every field that a child takes is given.
func chosenEverything() *v1alpha1.HarborCluster {
	c, size := inCluster(), resource.MustParse("7Gi")
	amount := corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}, Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")},
	}
	image := v1alpha1.HarborImage{
		Image: "example.com/image:1", ImagePullPolicy: corev1.PullAlways, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	}
	c.Spec.StorageClassName = "fast"
	c.Spec.Notary, c.Spec.Trivy, c.Spec.JobService = raw(`{}`), raw(`{"certificateRefs":["own"],"storage":{}}`), raw(`{"replicas":3}`)
	c.Spec.Database.Spec.ZlandoPostgreSQL = &v1alpha1.HarborZlandoPostgreSQL{
		HarborImage: image, Version: "15", Storage: &size, Replicas: 2, StorageClassName: "slow", Resources: amount,
	}
	c.Spec.Cache.Spec.RedisFailover = &v1alpha1.HarborRedisFailover{
		HarborImage: image,
		Server:      &v1alpha1.HarborRedisServer{Replicas: 1, Resources: amount, Storage: &size, ServiceAccountName: "redis"},
		Sentinel:    &v1alpha1.HarborRedisSentinel{Replicas: 5},
	}
	class := "archive"
	c.Spec.Storage.Spec.MinIO = &v1alpha1.HarborMinIO{
		HarborImage: image, Replicas: 4, VolumesPerServer: 1, SecretRef: "creds", Resources: amount, MC: &image,
		VolumeClaimTemplate: &v1alpha1.HarborVolumeClaim{
			Metadata: v1alpha1.HarborClaimMetadata{Labels: map[string]string{"a": "b"}},
			Spec:     corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
		},
	}
	c.Spec.Storage.Spec.Redirect = &v1alpha1.HarborRedirect{Expose: &v1alpha1.HarborRedirectExpose{
		Ingress: &v1alpha1.HarborIngress{Host: "minio.example.com", Annotations: map[string]string{"x": "y"}, IngressClassName: &class},
		TLS:     &v1alpha1.HarborTLS{CertificateRef: "certificate"},
	}}
	return c
}

// definition is that of a kind which declares some fields, each with the values that it may have; none leaves them open.
func definition(kind schema.GroupVersionKind, declared map[string][]string) *unstructured.Unstructured {
	root := map[string]any{}
	for path, values := range declared {
		at := root
		for _, name := range strings.Split(path, ".") {
			properties, ok := at["properties"].(map[string]any)
			if !ok {
				properties = map[string]any{}
				at["properties"] = properties
			}
			next, ok := properties[name].(map[string]any)
			if !ok {
				next = map[string]any{}
				properties[name] = next
			}
			at = next
		}
		for _, v := range values {
			enum, _ := at["enum"].([]any)
			at["enum"] = append(enum, v)
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": []any{
		map[string]any{"name": "v0"},
		map[string]any{"name": kind.Version, "schema": map[string]any{"openAPIV3Schema": root}},
	}}}}
}

// newer and older are operators as they are installed today, and as they were.
func newer() Installed {
	return Installed{
		PostgresqlKind:    schemaFor(PostgresqlKind, map[string][]string{"spec.postgresql.version": {"13", "14", "15", "16", "17"}}),
		RedisFailoverKind: schemaFor(RedisFailoverKind, map[string][]string{"spec.sentinel.replicas": nil}),
		TenantKind:        schemaFor(TenantKind, map[string][]string{"spec.configuration": nil}),
	}
}

func older() Installed {
	return Installed{
		PostgresqlKind:    schemaFor(PostgresqlKind, map[string][]string{"spec.postgresql.version": {"9.6", "10", "11", "12", "13"}}),
		RedisFailoverKind: schemaFor(RedisFailoverKind, map[string][]string{"spec.sentinel.enabled": nil}),
		TenantKind:        schemaFor(TenantKind, map[string][]string{"spec.credsSecret": nil}),
	}
}

func schemaFor(kind schema.GroupVersionKind, declared map[string][]string) *Schema {
	return SchemaOf(definition(kind, declared), kind.Version)
}

func TestChildren_golden(t *testing.T) {
	for name, tt := range map[string]struct {
		cluster   *v1alpha1.HarborCluster
		installed Installed
	}{
		"defaults": {inCluster(), newer()}, "chosen": {chosenEverything(), newer()}, "older": {inCluster(), older()},
	} {
		t.Run(name, func(t *testing.T) {
			children, err := Children(tt.cluster, tt.installed)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetIndent("", "  ")
			for _, child := range children {
				if err := e.Encode(child.Object.Object); err != nil {
					t.Fatal(err)
				}
				// A child that cannot be copied cannot be applied.
				child.Object.DeepCopy()
			}
			path := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestOurs(t *testing.T) {
	c, other := inCluster(), inCluster()
	other.UID = "u2"
	labelled := Postgresql(c, nil)
	labelled.SetOwnerReferences(nil)
	bare := labelled.DeepCopy()
	bare.SetLabels(nil)
	for name, tt := range map[string]struct {
		o    *unstructured.Unstructured
		want bool
	}{
		"owned":                           {RedisFailover(c, nil), true},
		"owned by one of the same name":   {RedisFailover(other, nil), false},
		"labelled, having lost its owner": {labelled, true},
		"of nobody":                       {bare, false},
	} {
		if got := Ours(c, tt.o); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDatabase_tls(t *testing.T) {
	for given, want := range map[string][2]string{
		"":        {"disable", "host all all all md5"},
		"disable": {"disable", "host all all all md5"},
		"off":     {"disable", "host all all all md5"},
		"require": {"require", "hostssl all all all md5"},
	} {
		c := inCluster()
		c.Spec.Database.Spec.ZlandoPostgreSQL.SslConfig = given
		rules, _, err := unstructured.NestedStringSlice(Postgresql(c, nil).Object, "spec", "patroni", "pg_hba")
		if err != nil || rules[len(rules)-1] != want[1] {
			t.Errorf("%q: PostgreSQL takes %v, %v", given, rules, err)
		}
		if mode := DatabaseConnection(c)["sslMode"]; mode != want[0] {
			t.Errorf("%q: Harbor connects with sslMode %v", given, mode)
		}
	}
}

func TestMayRefuse(t *testing.T) {
	database := func(rule string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"patroni": map[string]any{"pg_hba": []any{"local all all trust", rule}}}}}
	}
	at := func(mode, working string, observed any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{
			"spec":   map[string]any{"database": map[string]any{"sslMode": mode}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "InProgress", "status": working}, map[string]any{"type": "Failed", "status": "False"}}},
		}}
		o.SetGeneration(3)
		if observed != nil {
			_ = unstructured.SetNestedField(o.Object, observed, "status", "observedGeneration")
		}
		return o
	}
	for name, c := range map[string]struct {
		harbor, database *unstructured.Unstructured
		want             bool
	}{
		"nobody connects":                 {nil, database(ruleBoth), true},
		"it refuses already":              {at("disable", "True", nil), database(ruleTLS), true},
		"Harbor runs with TLS":            {at("require", "False", int64(3)), database(ruleBoth), true},
		"Harbor runs without":             {at("disable", "False", int64(3)), database(ruleBoth), false},
		"Harbor is at work":               {at("require", "True", int64(3)), database(ruleBoth), false},
		"its operator has not seen it":    {at("require", "False", int64(2)), database(ruleBoth), false},
		"nobody knows what it has seen":   {at("require", "False", nil), database(ruleBoth), false},
		"the database is to be made anew": {at("disable", "False", int64(3)), nil, false},
	} {
		if got := MayRefuse(c.harbor, c.database); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	o := database(ruleTLS)
	if TakeBoth(o); Refuses(o) {
		t.Errorf("%v", o.Object)
	}
}

func TestConnections_external(t *testing.T) {
	c := inCluster()
	c.Spec.Database.Spec = v1alpha1.HarborDatabaseSpec{PostgreSQL: &v1alpha1.HarborPostgreSQL{
		Hosts: []v1alpha1.HarborHost{{Host: "a"}, {Host: "b", Port: 1}}, Username: "u", PasswordRef: "p", SSLMode: "require", Prefix: "x_",
	}}
	c.Spec.Cache.Spec = v1alpha1.HarborCacheSpec{Redis: &v1alpha1.HarborRedis{Host: "r", SentinelMasterSet: "m", PasswordRef: "p", CertificateRef: "c"}}
	no := false
	c.Spec.Storage.Spec = v1alpha1.HarborStorageSpec{
		S3: raw(`{"bucket":"b","chunksize":9007199254740993,"certificateRef":"cert"}`), Redirect: &v1alpha1.HarborRedirect{Enable: &no},
	}
	storage, err := StorageConnection(c, "")
	if err != nil {
		t.Fatal(err)
	}
	want := Connections{
		Database: map[string]any{
			"hosts":    []any{map[string]any{"host": "a", "port": int64(5432)}, map[string]any{"host": "b", "port": int64(1)}},
			"username": "u", "passwordRef": "p", "sslMode": "require", "prefix": "x_",
		},
		Cache: map[string]any{"host": "r", "port": int64(6379), "sentinelMasterSet": "m", "passwordRef": "p", "certificateRef": "c"},
		Storage: map[string]any{
			"s3":       map[string]any{"bucket": "b", "chunksize": int64(9007199254740993), "certificateRef": "cert"},
			"redirect": map[string]any{"disable": true},
		},
	}
	got := Connections{Database: DatabaseConnection(c), Cache: CacheConnection(c), Storage: storage}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h, err := Harbor(c, got)
	if err != nil {
		t.Fatal(err)
	}
	refs, _, _ := unstructured.NestedStringSlice(h.Object, "spec", "core", "certificateRefs")
	if diff := cmp.Diff([]string{"cert"}, refs); diff != "" {
		t.Errorf("core does not trust the storage: %s", diff)
	}
}

func TestClusterOfRedis(t *testing.T) {
	for workload, want := range map[string]string{
		"rfr-sample-redis": "sample", "rfs-a-redis-redis": "a-redis", "rfs-other": "", "sample-redis": "", "rfr-redis": "",
	} {
		if got := ClusterOfRedis(workload); got != want {
			t.Errorf("%s: %q", workload, got)
		}
	}
}
