package build

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestSidecars_haveTheVersionOfTheirModule(t *testing.T) {
	sidecars, err := Sidecars()
	if err != nil {
		t.Fatal(err)
	}
	var names, keys []string
	for _, s := range sidecars {
		names, keys = append(names, s.Name), append(keys, s.Key())
		if !strings.HasPrefix(s.Version, "v") || !strings.Contains(s.Key(), s.Version) {
			t.Errorf("%s has version %q and key %q", s.Name, s.Version, s.Key())
		}
		if strings.Contains(s.Key(), "/") {
			t.Errorf("key %q is not one name in the cache", s.Key())
		}
	}
	if want := []string{"csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter"}; !slices.Equal(names, want) {
		t.Errorf("sidecars are %v, want %v", names, want)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(keys)))) != len(keys) {
		t.Errorf("keys are not distinct: %v", keys)
	}
}

// The controller asks for images by version, and the lab has no others.
func TestSidecars_areThoseTheControllerDeploys(t *testing.T) {
	checkout, err := Checkout()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(checkout, "controller", "internal", "reconcile", "driver", "images.go"))
	if err != nil {
		t.Fatal(err)
	}
	sidecars, err := Sidecars()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sidecars {
		name := regexp.MustCompile(`(?m)^\s*(\w+)\s*=\s*"` + s.Name + `"$`).FindSubmatch(source)
		if name == nil {
			t.Errorf("the controller knows no %s", s.Name)
			continue
		}
		version := regexp.MustCompile(`(?m)^\s*` + string(name[1]) + `:\s*"(v[^"]+)"`).FindSubmatch(source)
		if version == nil || string(version[1]) != s.Version {
			t.Errorf("the controller deploys %s %q, the lab builds %s", s.Name, version, s.Version)
		}
	}
}

func TestDefinitions_areTheSnapshotsInOneStream(t *testing.T) {
	dir := fstest.MapFS{
		"kustomization.yaml":                              {Data: []byte("kind: Kustomization\n")},
		"snapshot.storage.k8s.io_volumesnapshots.yaml":    {Data: []byte("---\nkind: B\n")},
		"snapshot.storage.k8s.io_classes.yaml":            {Data: []byte("kind: A\n\n")},
		"groupsnapshot.storage.k8s.io_groupsnapshot.yaml": {Data: []byte("kind: C\n")},
	}
	got, err := definitions(dir)
	if err != nil {
		t.Fatal(err)
	}
	// The file's own separator makes an empty document, which kubectl skips.
	if want := "---\nkind: A\n---\n---\nkind: B\n"; string(got) != want {
		t.Errorf("definitions = %q, want %q", got, want)
	}
	if _, err := definitions(fstest.MapFS{}); err == nil {
		t.Error("a module without definitions is no error")
	}
}
