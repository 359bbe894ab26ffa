// Package operatortest gives tests the CustomResourceDefinitions of the operators that HarborCluster works with: the published ones from the
// operators' own Go modules, and strict stand-ins for those whose modules are not to be had. It is for tests only.
package operatortest

import (
	"context"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Release is the annotation that says which release a definition in the API server is of.
const Release = "quarry.test/release"

// releases are those of the definitions that this process has put into its API server. Nobody else changes them there, and to read one takes long.
var releases sync.Map

// limit is how long the API server may take to begin or to end serving a kind.
const limit = time.Minute

// Definition is the CustomResourceDefinition of one kind as one release of its operator brings it.
type Definition struct {
	// Release names the operator and its version, as in docs/harborcluster.md.
	Release string
	// Kind that is defined.
	Kind schema.GroupVersionKind
	// CRD is the definition. No webhook converts between versions: in tests no operator runs.
	CRD *unstructured.Unstructured
}

func define(release string, kind schema.GroupVersionKind, crd *unstructured.Unstructured) Definition {
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	crd.SetAnnotations(map[string]string{Release: release})
	crd.SetLabels(nil)
	return Definition{Release: release, Kind: kind, CRD: crd}
}

// Postgresqls are those of Zalando's operator, the oldest first.
func Postgresqls(t testing.TB) []Definition {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "acid.zalan.do", Version: "v1", Kind: "postgresql"}
	var all []Definition
	for _, m := range postgresOperators {
		all = append(all, define("postgres-operator "+m.version, kind, m.crd(t, "manifests/postgresql.crd.yaml", "postgresqls.acid.zalan.do")))
	}
	return all
}

// RedisFailovers are the one that Harbor's operator brings along, that of Spotahome's operator, and that of its fork. The module of the fork has
// the name of what it was forked from and cannot be fetched: the stand-in is Spotahome's with the one field that we use.
func RedisFailovers(t testing.TB) []Definition {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "databases.spotahome.com", Version: "v1", Kind: "RedisFailover"}
	const name, file = "redisfailovers.databases.spotahome.com", "manifests/databases.spotahome.com_redisfailovers.yaml"
	fork := redisOperator.crd(t, file, name)
	versions, _, _ := unstructured.NestedSlice(fork.Object, "spec", "versions")
	boolean := map[string]any{"type": "boolean"}
	field := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "sentinel", "properties", "enabled"}
	if err := unstructured.SetNestedField(versions[0].(map[string]any), boolean, field...); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(fork.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return []Definition{
		define("redis-operator v1.1.1", kind, harborOperator.crd(t, bundle, name)),
		define("redis-operator "+redisOperator.version, kind, redisOperator.crd(t, file, name)),
		define("redis-operator v4 (fork, stand-in)", kind, fork),
	}
}

// bundle is the file of Harbor's operator with everything that it needs, other operators included.
const bundle = "manifests/cluster/deployment.yaml"

// Harbor is that of Harbor's operator.
func Harbor(t testing.TB) Definition {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "Harbor"}
	return define("harbor-operator "+harborOperator.version, kind, harborOperator.crd(t, bundle, "harbors.goharbor.io"))
}

// Configuration is that of the settings that Harbor's operator applies.
func Configuration(t testing.TB) Definition {
	t.Helper()
	kind := schema.GroupVersionKind{Group: "goharbor.io", Version: "v1beta1", Kind: "HarborConfiguration"}
	return define("harbor-operator "+harborOperator.version, kind, harborOperator.crd(t, bundle, "harborconfigurations.goharbor.io"))
}

// CertManager are those of cert-manager that Harbor's operator, and whoever looks after its issuer, asks for.
func CertManager(t testing.TB) []Definition {
	t.Helper()
	var all []Definition
	for kind, plural := range map[string]string{"Certificate": "certificates", "ClusterIssuer": "clusterissuers", "Issuer": "issuers"} {
		k := schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: kind}
		all = append(all, define("cert-manager "+certManager.version, k, certManager.crd(t, "deploy/crds/cert-manager.io_"+plural+".yaml", plural+".cert-manager.io")))
	}
	return all
}

// Tenants are the one that Harbor's operator brings along, and stand-ins for others, because the module of MinIO's operator cannot be fetched.
func Tenants(t testing.TB) []Definition {
	t.Helper()
	all := []Definition{define("minio-operator v4.4 (of harbor-operator)", tenantKind, harborOperator.crd(t, bundle, "tenants.minio.min.io"))}
	for _, v := range tenantVersions {
		all = append(all, define("minio-operator "+v+" (stand-in)", tenantKind, tenant(v)))
	}
	return all
}

// Latest are the newest of each kind.
func Latest(t testing.TB) []Definition {
	t.Helper()
	databases, caches, stores := Postgresqls(t), RedisFailovers(t), Tenants(t)
	return []Definition{databases[len(databases)-1], caches[1], stores[len(stores)-1], Harbor(t), Configuration(t)}
}

// Install sees to it that the API server serves the kinds as these releases define them. Objects of a kind go when another release takes the
// place of the one that is there, so that nothing is left of the old schema.
func Install(t testing.TB, c client.Client, all ...Definition) {
	t.Helper()
	for _, d := range all {
		have, there := releases.Load(d.CRD.GetName())
		if there && have == d.Release {
			continue
		}
		if there {
			Remove(t, c, d)
		}
		if err := c.Create(t.Context(), d.CRD.DeepCopy()); err != nil {
			t.Fatalf("define %s as of %s: %v", d.CRD.GetName(), d.Release, err)
		}
		releases.Store(d.CRD.GetName(), d.Release)
		until(t, 50*time.Millisecond, d.Kind.Kind+" is served", func() bool { return served(t, c, d) })
	}
}

// served reports whether the API server takes objects of the definition. What it says of a list is not enough: it lists what is left of the
// definition before, and refuses to make objects of it.
func served(t testing.TB, c client.Client, d Definition) bool {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(d.Kind)
	o.SetNamespace(metav1.NamespaceDefault)
	o.SetName("served")
	err := c.Create(t.Context(), o, client.DryRunAll)
	return err == nil || apierrors.IsInvalid(err)
}

// Remove removes a definition and its objects, and waits until they are gone.
func Remove(t testing.TB, c client.Client, d Definition) {
	t.Helper()
	releases.Delete(d.CRD.GetName())
	if err := client.IgnoreNotFound(c.Delete(t.Context(), d.CRD.DeepCopy())); err != nil {
		t.Fatal(err)
	}
	// To read a definition takes the API server long, and it removes every object of the kind first.
	left := &metav1.PartialObjectMetadata{}
	left.SetGroupVersionKind(d.CRD.GroupVersionKind())
	until(t, 250*time.Millisecond, d.CRD.GetName()+" is gone", func() bool {
		return apierrors.IsNotFound(c.Get(context.WithoutCancel(t.Context()), client.ObjectKeyFromObject(d.CRD), left))
	})
}

func until(t testing.TB, pause time.Duration, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !reached(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("still not so after %s: %s", limit, what)
		}
	}
}

// Upgrade lets the API server serve the kind as another release defines it. Its objects stay.
func Upgrade(t testing.TB, c client.Client, to Definition) {
	t.Helper()
	have := to.CRD.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(to.CRD), have); err != nil {
		t.Fatal(err)
	}
	want := to.CRD.DeepCopy()
	want.SetResourceVersion(have.GetResourceVersion())
	if err := c.Update(t.Context(), want); err != nil {
		t.Fatalf("define %s as of %s: %v", to.CRD.GetName(), to.Release, err)
	}
	releases.Store(to.CRD.GetName(), to.Release)
}

// Offering returns the definition of a postgresql with these versions of PostgreSQL only.
func Offering(t testing.TB, d Definition, versions ...string) Definition {
	t.Helper()
	crd := d.CRD.DeepCopy()
	all, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	values := make([]any, 0, len(versions))
	for _, v := range versions {
		values = append(values, v)
	}
	field := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "postgresql", "properties", "version", "enum"}
	if err := unstructured.SetNestedSlice(all[0].(map[string]any), values, field...); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedSlice(crd.Object, all, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	return define(d.Release+" with another choice", d.Kind, crd)
}
