package build

import (
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
	if want := []string{"csi-provisioner", "csi-resizer", "csi-snapshotter"}; !slices.Equal(names, want) {
		t.Errorf("sidecars are %v, want %v", names, want)
	}
	if len(slices.Compact(slices.Sorted(slices.Values(keys)))) != len(keys) {
		t.Errorf("keys are not distinct: %v", keys)
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
