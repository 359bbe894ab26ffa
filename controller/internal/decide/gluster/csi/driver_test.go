package csi

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

func pool(edit func(*v1alpha1.GlusterCluster)) *v1alpha1.GlusterCluster {
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "pool"}}
	c.Spec.Images.Drivers = map[string]v1alpha1.GlusterImage{"gluster-fuse": "example.com/fuse:1", "gluster-block": "example.com/block:1"}
	if edit != nil {
		edit(c)
	}
	return c
}

// TestWorkloads compares the manifests with golden files.
func TestWorkloads(t *testing.T) {
	for name, c := range map[v1alpha1.GlusterDriver]*v1alpha1.GlusterCluster{v1alpha1.GlusterFuse: pool(nil), v1alpha1.GlusterBlock: pool(nil)} {
		var all []string
		for _, o := range append(Workloads(c, name, Sidecars{Provisioner: "sidecars/provisioner:1", Attacher: "sidecars/attacher:1", Registrar: "sidecars/registrar:1"}), Driver(c, name)) {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, string(text))
		}
		golden(t, string(name), strings.Join(all, "---\n"))
	}
}

// TestStale_pods: nobody but a person ends the mounts of a node.
func TestStale_pods(t *testing.T) {
	set := nodes(pool(nil), v1alpha1.GlusterFuse, Sidecars{})
	set.Generation = 2
	for name, row := range map[string]struct {
		observed        int64
		wanted, updated int32
		want            string
	}{
		"all are of the template of now":  {2, 3, 3, ""},
		"two are not":                     {2, 3, 1, "on 2 nodes"},
		"the change was not seen yet":     {1, 3, 0, ""},
		"a node of Kubernetes was left":   {2, 2, 3, ""},
		"no node of Kubernetes has a pod": {2, 0, 0, ""},
	} {
		set.Status.ObservedGeneration, set.Status.DesiredNumberScheduled, set.Status.UpdatedNumberScheduled = row.observed, row.wanted, row.updated
		if got := Stale(v1alpha1.GlusterFuse, set); (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRefused: the drivers cannot reach servers whose authority they do not know.
func TestRefused(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*v1alpha1.GlusterCluster)
		want bool
	}{
		"drivers":      {func(c *v1alpha1.GlusterCluster) { c.Spec.Drivers = Known }, false},
		"an authority": {func(c *v1alpha1.GlusterCluster) { c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"} }, false},
		"drivers and an authority": {func(c *v1alpha1.GlusterCluster) {
			c.Spec.Drivers, c.Spec.GlusterCA = Known, &v1alpha1.GlusterCredentials{SecretName: "ca"}
		}, true},
	} {
		if why := Refused(pool(row.edit)); (why != "") != row.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden.yaml")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s:\n%s", path, d)
	}
}

// TestEmpty: what is looked for has the names of what is made, and every driver has a name in Kubernetes.
func TestEmpty(t *testing.T) {
	for _, d := range Known {
		made := map[string]bool{}
		for _, o := range Workloads(pool(nil), d, Sidecars{}) {
			made[o.GetName()] = true
		}
		for _, o := range Empty(pool(nil), d) {
			if !made[o.GetName()] {
				t.Errorf("%s is not made", o.GetName())
			}
		}
		if namespace, cluster := Holder(Driver(pool(nil), d)); namespace != "storage" || cluster != "pool" || Name(d) == "" {
			t.Errorf("%s is of %s/%s", Name(d), namespace, cluster)
		}
	}
}
