package harborcluster

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

// carried is the HarborCluster of testdata/manifest.yaml, which uses every field.
func carried(t *testing.T) *v1alpha1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "manifest.yaml"))
	must(t, err)
	c := &v1alpha1.HarborCluster{}
	must(t, yaml.UnmarshalStrict(text, c))
	return c
}

// space makes a namespace.
func space(t *testing.T, c client.Client) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "schema-"}}
	must(t, c.Create(t.Context(), ns))
	return ns.Name
}

// takes applies an object, and expects back every field that was given.
func takes(t *testing.T, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	want := o.DeepCopy()
	if err := kube.Apply(t.Context(), c, o.GetKind()+" "+o.GetName(), client.ApplyConfigurationFromUnstructured(o)); err != nil {
		t.Error(err)
		return
	}
	if spec, ok := want.Object["spec"]; ok {
		contains(t, o.GetKind(), spec, o.Object["spec"])
	}
}

// contains checks that nothing of what was wanted was dropped or changed; the API server adds defaults.
func contains(t *testing.T, at string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for field, value := range w {
			contains(t, at+"."+field, value, g[field])
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s has %d elements, want %d", at, len(g), len(w))
			return
		}
		for i := range w {
			contains(t, at, w[i], g[i])
		}
	default:
		same(t, want, got)
	}
}

// Every release of every operator takes the children that are made for it: by default, with every field in use, and as the golden files of package
// decide/harbor have them. The API server refuses fields that a definition does not declare, wrong types, values out of an enum and missing fields. To
// define a kind takes the API server long, so each release is defined once, the newest last, because the other tests need that.
func TestChildren_everyReleaseTakesThem(t *testing.T) {
	c := newClient(t)
	databases, caches, stores := operatortest.Postgresqls(t), operatortest.RedisFailovers(t), operatortest.Tenants(t)
	older := []operatortest.Definition{databases[0], caches[len(caches)-1], stores[1], operatortest.Harbor(t)}
	goldens := map[string][]operatortest.Definition{"defaults": operatortest.Latest(t), "chosen": operatortest.Latest(t), "older": older}
	all := slices.Concat(databases, []operatortest.Definition{caches[0], caches[2], caches[1]}, stores, []operatortest.Definition{operatortest.Harbor(t)})
	taken := map[string]int{}
	for _, d := range all {
		t.Run(d.Release, func(t *testing.T) {
			c := newClient(t)
			c.install(d)
			installed := harbor.Installed{d.Kind: harbor.SchemaOf(d.CRD, d.Kind.Version)}
			for name, cluster := range map[string]*v1alpha1.HarborCluster{"defaults": valid(), "every field": carried(t)} {
				t.Run(name, func(t *testing.T) {
					cluster.Namespace, cluster.UID = space(t, c), "u1"
					children, err := harbor.Children(cluster, installed)
					must(t, err)
					found := 0
					for _, child := range children {
						if child.Object.GroupVersionKind() == d.Kind {
							takes(t, c, child.Object)
							found++
						}
					}
					if found != 1 {
						t.Errorf("%d children of the kind %s", found, d.Kind.Kind)
					}
				})
			}
			for file, releases := range goldens {
				if !slices.ContainsFunc(releases, func(r operatortest.Definition) bool { return r.Kind == d.Kind && r.Release == d.Release }) {
					continue
				}
				t.Run("golden file "+file, func(t *testing.T) { taken[file] += takesGolden(t, c, file, d.Kind) })
			}
			if d.Kind == harbor.TenantKind {
				isStrict(t, c, d)
			}
		})
	}
	for file := range goldens {
		t.Run("golden file "+file+", the kinds of Kubernetes", func(t *testing.T) {
			taken[file] += takesGolden(t, c, file, harbor.SecretKind, harbor.JobKind, harbor.IngressKind)
			if count := len(golden(t, file)); taken[file] != count {
				t.Errorf("%d of %d objects were taken", taken[file], count)
			}
		})
	}
}

// takesGolden applies the objects of some kinds of a golden file, and counts them.
func takesGolden(t *testing.T, c client.Client, file string, kinds ...schema.GroupVersionKind) (count int) {
	t.Helper()
	namespace := space(t, c)
	for _, o := range golden(t, file) {
		if slices.Contains(kinds, o.GroupVersionKind()) {
			o.SetNamespace(namespace)
			takes(t, c, o)
			count++
		}
	}
	return count
}

// golden reads the objects of a golden file.
func golden(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(apitest.Root(t), "controller/internal/decide/harbor/testdata", file+".golden.json"))
	must(t, err)
	var all []*unstructured.Unstructured
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var object json.RawMessage
		if err := d.Decode(&object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		must(t, o.UnmarshalJSON(object))
		all = append(all, o)
	}
}

// isStrict holds that a definition refuses what the published one refuses: without that, a stand-in would say nothing of the children that it takes.
func isStrict(t *testing.T, c client.Client, d operatortest.Definition) {
	t.Helper()
	for name, tt := range map[string]struct {
		path  []string
		value any
		says  string
	}{
		"an unknown field":        {[]string{"spec", "nothing"}, "x", "field not declared in schema"},
		"an unknown field deeper": {[]string{"spec", "configuration", "nothing"}, "x", "field not declared in schema"},
		"a wrong type":            {[]string{"spec", "requestAutoCert"}, "yes", "spec.requestAutoCert"},
		"a required field":        {[]string{"spec", "pools"}, []any{map[string]any{"name": "a", "servers": int64(4)}}, "volumesPerServer"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			cluster := valid()
			cluster.Namespace, cluster.UID = "default", "u1"
			o, err := harbor.Tenant(cluster, harbor.SchemaOf(d.CRD, d.Kind.Version))
			must(t, err)
			must(t, unstructured.SetNestedField(o.Object, tt.value, tt.path...))
			err = kube.Apply(t.Context(), c, "tenant", client.ApplyConfigurationFromUnstructured(o))
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
