package workload

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

func pool(edits ...func(*v1alpha1.GlusterCluster)) *v1alpha1.GlusterCluster {
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: "example.com/glusterd2:1", Etcd: "example.com/etcd:1"}
	c.Spec.NodeTemplates = []v1alpha1.GlusterNodeTemplate{{
		Name: "east", Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "fast", Capacity: resource.MustParse("1Ti")},
	}}
	for _, e := range edits {
		e(c)
	}
	return c
}

func node(edits ...func(*v1alpha1.GlusterNode)) *v1alpha1.GlusterNode {
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "storage", Name: "pool-east-1", Annotations: map[string]string{v1alpha1.AnnotationTemplate: "east"}}}
	n.Spec = v1alpha1.GlusterNodeSpec{
		Cluster: "pool", Zone: "east", Peer: "0a0a0a0a-1b1b-4c4c-8d8d-2e2e2e2e2e2e", Storage: []v1alpha1.GlusterStorage{{PVCName: "pool-east-1"}},
	}
	for _, e := range edits {
		e(n)
	}
	return n
}

func secure(c *v1alpha1.GlusterCluster) {
	c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"}
}

// TestManifests compares all manifests with golden files.
func TestManifests(t *testing.T) {
	two := func(n *v1alpha1.GlusterNode) {
		n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{PVCName: "more"})
		n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"east"}}},
		}}}}
	}
	kept := func(c *v1alpha1.GlusterCluster) {
		c.Spec.State = &v1alpha1.GlusterState{StorageClassName: "slow", Capacity: new(resource.MustParse("2Gi"))}
	}
	for name, all := range map[string][]Object{
		"server": {Server(pool(), node()), State(pool(), node())},
		"secure": {Server(pool(secure), node(two)), State(pool(kept), node(two))},
		"etcd":   {EtcdMember(pool(), 1), MemberClaim(pool(), 1), MemberClaim(pool(kept), 2)},
		"shared": Shared(pool()),
	} {
		var texts []string
		for _, o := range all {
			text, err := yaml.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(text))
		}
		golden(t, name, strings.Join(texts, "---\n"))
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

// TestServer_keepsNoRundir: what is in the directory of running processes must not outlive them (q003), and the state has to.
func TestServer_keepsNoRundir(t *testing.T) {
	s := Server(pool(), node()).Spec.Template.Spec
	kept := map[string]bool{}
	for _, v := range s.Volumes {
		kept[v.Name] = v.PersistentVolumeClaim != nil
	}
	for _, m := range s.Containers[0].VolumeMounts {
		if want := m.MountPath == stateDir; kept[m.Name] != want {
			t.Errorf("%s is on a claim: %v", m.MountPath, kept[m.Name])
		}
	}
	if slices.ContainsFunc(s.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "GD2_CLUSTER_ID" }) {
		t.Error("with the ID of the cluster a server that was removed comes back (x012)")
	}
}

// TestDevice: the name of the volume group follows from the path, has to be short, and another one on a machine that two namespaces share.
func TestDevice(t *testing.T) {
	a, b := Device("one", "disk"), Device("two", "disk")
	if a == b || a != Device("one", "disk") || len(a) > 60 || !strings.HasPrefix(a, "/dev/") {
		t.Errorf("%s, %s", a, b)
	}
}

func TestStateClass(t *testing.T) {
	handMade := node(func(n *v1alpha1.GlusterNode) { n.Annotations = nil })
	second := func(c *v1alpha1.GlusterCluster) {
		c.Spec.NodeTemplates = append(c.Spec.NodeTemplates, v1alpha1.GlusterNodeTemplate{Name: "west", Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: "other"}})
	}
	west := node(func(n *v1alpha1.GlusterNode) { n.Annotations[v1alpha1.AnnotationTemplate] = "west" })
	for name, row := range map[string]struct{ got, want string }{
		"of the template":           {StateClass(pool(second), west), "other"},
		"of the first template":     {StateClass(pool(second), handMade), "fast"},
		"etcd's":                    {StateClass(pool(second), nil), "fast"},
		"there is none":             {StateClass(pool(func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates = nil }), nil), ""},
		"that of the spec":          {StateClass(pool(second, func(c *v1alpha1.GlusterCluster) { c.Spec.State = &v1alpha1.GlusterState{StorageClassName: "mine"} }), west), "mine"},
		"the spec gives a size":     {StateClass(pool(func(c *v1alpha1.GlusterCluster) { c.Spec.State = &v1alpha1.GlusterState{} }), nil), "fast"},
		"the template is not there": {StateClass(pool(), west), "fast"},
	} {
		if row.got != row.want {
			t.Errorf("%s: %q, want %q", name, row.got, row.want)
		}
	}
}

// TestServer_disks: a disk of a node of Kubernetes is in the pod once it is allocated, and the pod runs on that node alone.
func TestServer_disks(t *testing.T) {
	n := onDisk()
	bare := Server(pool(), n)
	plain := bare.Spec.Template.Spec
	if len(Devices(n)) != 1 || len(Hosted(bare)) != 0 || plain.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields != nil {
		t.Errorf("a disk that is on record alone is in the pod: %+v", plain)
	}
	n.Spec.Devices[0].Allocated = true
	pod := Server(pool(), n).Spec.Template.Spec
	if got := Devices(n); len(got) != 2 || !slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == got[1] && m.Name == "device-1" }) {
		t.Errorf("devices %v, mounts %+v", got, pod.Containers[0].VolumeMounts)
	}
	if v := pod.Volumes[len(pod.Volumes)-1]; v.Name != "device-1" || v.HostPath == nil || v.HostPath.Path != "/dev/disk/by-id/stable" || *v.HostPath.Type != corev1.HostPathBlockDev {
		t.Errorf("%+v", v)
	}
	if Disk(n.Spec.Devices[0]) == Device(n.Namespace, string(n.Spec.Devices[0].Device)) {
		t.Error("a claim and a disk have one path")
	}
}

// TestServer_without: a disk that is left out is not in the pod. Its record stays, and so does the node of the pod.
func TestServer_without(t *testing.T) {
	n := onDisk()
	n.Spec.Devices[0].Allocated = true
	without := Server(pool(), n, n.Spec.Devices[0].Device)
	if len(Hosted(without)) != 0 || len(Devices(n)) != 2 || slices.ContainsFunc(without.Spec.Template.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == "device-1" }) {
		t.Errorf("a disk that is left out is in the pod: %+v", without.Spec.Template.Spec)
	}
	if without.Annotations["quarry.storage/devices"] == "" || without.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields == nil {
		t.Error("with the disk its record goes, or the node of the pod")
	}
}

// TestServer_recorded: a workload has a copy of the records of the disks that are allocated.
func TestServer_recorded(t *testing.T) {
	n := onDisk()
	if a := Server(pool(), n).Annotations; a != nil {
		t.Errorf("a disk that is on record alone is told: %v", a)
	}
	n.Spec.Devices[0].Allocated = true
	var told []v1alpha1.GlusterDevice
	if err := json.Unmarshal([]byte(Server(pool(), n).Annotations["quarry.storage/devices"]), &told); err != nil || !equality.Semantic.DeepEqual(told, n.Spec.Devices) {
		t.Errorf("%v: %+v", err, told)
	}
}

// TestLoses: a workload whose node lost records is known by its template, and by the copy of the records while a disk is left out of the template.
func TestLoses(t *testing.T) {
	n := onDisk()
	n.Spec.Devices[0].Allocated = true
	bare, full, without := node(func(*v1alpha1.GlusterNode) {}), Server(pool(), n), Server(pool(), n, n.Spec.Devices[0].Device)
	strange := Server(pool(), bare)
	strange.Annotations = map[string]string{"quarry.storage/devices": "what?"}
	for name, row := range map[string]struct {
		have *appsv1.StatefulSet
		node *v1alpha1.GlusterNode
		want []string
	}{
		"no workload":                 {nil, bare, nil},
		"the records are there":       {full, n, nil},
		"they are, and it has none":   {Server(pool(), bare), n, nil},
		"they are, and it is without": {without, n, nil},
		"they are gone":               {full, bare, []string{"/dev/disk/by-id/stable"}},
		"gone while it is without":    {without, bare, []string{"/dev/disk/by-id/stable"}},
		"the copy cannot be read":     {strange, n, []string{"disks that nobody can read from its annotation"}},
	} {
		if got := Loses(row.have, row.node); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestServer_pinned: the pod of a server with a disk runs on the node on record alone.
func TestServer_pinned(t *testing.T) {
	n := onDisk()
	n.Spec.Devices[0].Allocated = true
	for _, term := range Server(pool(), n).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if len(term.MatchFields) != 1 || term.MatchFields[0].Key != "metadata.name" || !slices.Equal(term.MatchFields[0].Values, []string{"n1"}) || len(term.MatchExpressions) != 1 {
			t.Errorf("the pod may run elsewhere: %+v", term)
		}
	}
	if n.Spec.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields != nil {
		t.Error("the spec itself was changed")
	}
}

// onDisk is a node with a claim and a disk on record, which two terms of an affinity lead to.
func onDisk() *v1alpha1.GlusterNode {
	const path = "/dev/disk/by-id/wwn-1"
	return node(func(n *v1alpha1.GlusterNode) {
		n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{Device: path})
		n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"east"}}}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: corev1.NodeSelectorOpExists}}},
		}}}
		n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: "/dev/disk/by-id/stable", Node: "n1", Serial: "S"}}
	})
}
