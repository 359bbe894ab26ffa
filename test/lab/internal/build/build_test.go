package build

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	goMod := []byte("module m\n\nrequire (\n\tk8s.io/api v0.36.3\n\tk8s.io/kubernetes v1.36.3 // indirect\n)\n\nrequire example.com/one v1.0.0\n\nreplace k8s.io/x => k8s.io/x v0.1.0\n")
	for module, want := range map[string]string{"k8s.io/kubernetes": "v1.36.3", "k8s.io/api": "v0.36.3", "example.com/one": "v1.0.0"} {
		got, err := requiredVersion(goMod, module)
		if err != nil || got != want {
			t.Errorf("requiredVersion(%s) = %q, %v; want %q", module, got, err, want)
		}
	}
	if _, err := requiredVersion(goMod, "k8s.io/kube"); err == nil {
		t.Error("a module that is not required has a version")
	}
}

func TestTools_areTheModulesOwn(t *testing.T) {
	goMod := []byte("module m\n\ntool example.com/one/cmd/a\n\ntool (\n\texample.com/two/cmd/b\n\texample.com/two/cmd/c\n\texample.com/twofold/cmd/d\n)\n\nrequire example.com/two v1.0.0\n")
	for module, want := range map[string][]string{
		"example.com/one": {"example.com/one/cmd/a"}, "example.com/two": {"example.com/two/cmd/b", "example.com/two/cmd/c"}, "example.com/none": nil,
	} {
		if got := tools(goMod, module); !slices.Equal(got, want) {
			t.Errorf("tools(%s) = %q, want %q", module, got, want)
		}
	}
}

func TestComponents_theirModulesRequireThem(t *testing.T) {
	for _, c := range []component{kubernetes, containerd, provisioner, attacher, resizer, snapshotter} {
		goMod, err := os.ReadFile(filepath.Join("..", "..", c.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := requiredVersion(goMod, c.module); err != nil {
			t.Error(err)
		}
		if len(tools(goMod, c.module)) == 0 {
			t.Errorf("%s/go.mod lists no program of %s", c.dir, c.module)
		}
	}
}

func TestKubernetesStamp(t *testing.T) {
	got := kubernetesStamp("v1.36.3")
	for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "} {
		if !strings.Contains(got, want) {
			t.Errorf("stamp %q lacks %q", got, want)
		}
	}
}
