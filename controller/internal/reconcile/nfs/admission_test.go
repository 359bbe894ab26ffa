package nfs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

func valid(name string) *v1alpha1.Nfs {
	n := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Spec.Server, n.Spec.Path = "10.0.0.1", "/export"
	return n
}

// badSpec is an edit that the API server refuses, and what its message says.
type badSpec struct {
	name string
	edit func(*v1alpha1.NfsSpec)
	want string
}

// badTexts are the servers, paths, templates and options that lead elsewhere, or would weaken the nodes.
func badTexts() []badSpec {
	var all []badSpec
	add := func(field string, texts []string, set func(*v1alpha1.NfsSpec, string), want string) {
		for _, text := range texts {
			all = append(all, badSpec{fmt.Sprintf("%s %.40q", field, text), func(s *v1alpha1.NfsSpec) { set(s, text) }, want})
		}
	}
	add("server", []string{"[::1]", "10.0.0.1:2049", "10.0.0.1;reboot", "-o", "a b", "a/b", "a:b", "x,nolock", "999.1.1.1", "NAS"},
		func(s *v1alpha1.NfsSpec, text string) { s.Server = text }, "server must be a DNS name or an IP address")
	add("path", []string{"export", "/export/../etc", "/export//x", "/export/", "/export/./x", "/a\nb", "../x"},
		func(s *v1alpha1.NfsSpec, text string) { s.Path = text }, "path must be absolute")
	add("subDir", []string{
		"../x", "a/../../x", "..", "/export/x", "./x", "a//b", "a/", ".", ".quarry", ".quarry/volumes/x", ".hidden", "a/.b", "a\nb", "a\x00b",
		"${pv.name}/../../x", strings.Repeat("a", 300), "${pvc.uid}", "${pv.name", "$(id)", "$pv.name", "${${pv.name}}", "{pv.name}",
	}, func(s *v1alpha1.NfsSpec, text string) { s.SubDir = text }, "subDir must be a relative path")
	options := func(s *v1alpha1.NfsSpec, text string) {
		s.MountOptions = []v1alpha1.MountOption{v1alpha1.MountOption(text)}
	}
	add("option", []string{"suid", "dev"}, options, "they are refused")
	add("option", []string{"a,b", "vers=4.2,addr=10.0.0.2", "x=\n", "-o"}, options, "a mount option is a word")
	return all
}

func TestAdmission_badSpecs(t *testing.T) {
	c := apitest.Client(t)
	type spec = v1alpha1.NfsSpec
	for _, tc := range append(badTexts(),
		badSpec{"no server", func(s *spec) { s.Server = "" }, "spec.server"},
		badSpec{"no path", func(s *spec) { s.Path = "" }, "spec.path"},
		badSpec{"an option twice", func(s *spec) { s.MountOptions = []v1alpha1.MountOption{"hard", "hard"} }, "Duplicate value"},
		badSpec{"another policy", func(s *spec) { s.OnDelete = "shred" }, "spec.onDelete"},
		badSpec{"another reclaim policy", func(s *spec) { s.StorageClass = &v1alpha1.NfsStorageClassSpec{ReclaimPolicy: "Recycle"} }, "reclaimPolicy"},
	) {
		t.Run(tc.name, func(t *testing.T) {
			n := valid("bad")
			tc.edit(&n.Spec)
			apitest.Refused(t, c, n, tc.want)
		})
	}
	apitest.Refused(t, c, valid(strings.Repeat("a", 64)), "at most 63")
}

func TestAdmission_goodSpecs(t *testing.T) {
	c := apitest.Client(t)
	for name, edit := range map[string]func(*v1alpha1.NfsSpec){
		"least":    func(*v1alpha1.NfsSpec) {},
		"ipv6":     func(s *v1alpha1.NfsSpec) { s.Server = "fd00::1" },
		"dns":      func(s *v1alpha1.NfsSpec) { s.Server = "nas-1.example.org" },
		"root":     func(s *v1alpha1.NfsSpec) { s.Path = "/" },
		"template": func(s *v1alpha1.NfsSpec) { s.SubDir = "apps/${pvc.namespace}/${pvc.name}-${pv.name}" },
		"options":  func(s *v1alpha1.NfsSpec) { s.MountOptions = []v1alpha1.MountOption{"vers=4.1", "nconnect=4", "hard"} },
	} {
		n := valid(name)
		n.Spec.StorageClass = &v1alpha1.NfsStorageClassSpec{}
		edit(&n.Spec)
		if err := c.Create(t.Context(), n); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		class := n.Spec.StorageClass
		if n.Spec.OnDelete != v1alpha1.DirectoryDelete || class.ReclaimPolicy != corev1.PersistentVolumeReclaimDelete || class.BindingMode != storagev1.VolumeBindingImmediate {
			t.Errorf("%s: defaults %+v, %+v", name, n.Spec, class)
		}
		if err := c.Delete(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
}

// TestAdmission_theShareStays: volumes are on the share that they were made on. What concerns new volumes may change.
func TestAdmission_theShareStays(t *testing.T) {
	c := apitest.Client(t)
	n := valid("used")
	if err := c.Create(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Delete(context.WithoutCancel(t.Context()), n) }()
	for name, edit := range map[string]func(*v1alpha1.NfsSpec){
		"server": func(s *v1alpha1.NfsSpec) { s.Server = "10.0.0.2" },
		"path":   func(s *v1alpha1.NfsSpec) { s.Path = "/other" },
	} {
		other := n.DeepCopy()
		edit(&other.Spec)
		if err := c.Update(t.Context(), other); err == nil || !strings.Contains(err.Error(), "create another Nfs") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	n.Spec.SubDir, n.Spec.OnDelete, n.Spec.MountOptions = "new/${pv.name}", v1alpha1.DirectoryArchive, []v1alpha1.MountOption{"soft"}
	if err := c.Update(t.Context(), n); err != nil {
		t.Error(err)
	}
}
