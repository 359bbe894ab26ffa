package storagenode

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const definition = "storagenodes.quarry.storage"

// define puts another schema in the place of the one of StorageNodes.
func define(t *testing.T, c client.Client, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, have := map[string]any{}, &unstructured.Unstructured{}
	if err := yaml.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	have.SetGroupVersionKind(kube.Definition().GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKey{Name: definition}, have); err != nil {
		t.Fatal(err)
	}
	have.Object["spec"] = want["spec"]
	if err := c.Update(ctx, have); err != nil {
		t.Fatal(err)
	}
}

// stored writes a part of the status of node n1 and returns what the API server keeps of it.
func stored(t *testing.T, c client.Client, status map[string]any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StorageNode"))
	o.SetName("n1")
	if err := c.Status().Patch(t.Context(), o, client.RawPatch(types.MergePatchType, raw)); err != nil {
		t.Fatal(err)
	}
	kept, _, err := unstructured.NestedMap(o.Object, "status")
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestUpgrade_fromTheVersionBefore begins with a StorageNode as it was stored before the list of groups had UUIDs as its keys. The list has
// another name since then. Under its old name the API server would refuse every write that does not replace the list, even of a label:
// "status.volumeGroups[0].uuid: Required value".
func TestUpgrade_fromTheVersionBefore(t *testing.T) {
	s := newSuite(t)
	admin := apitest.Client(t)
	current := filepath.Join(apitest.Root(t), "deploy", "crd", "quarry.storage_storagenodes.yaml")
	define(t, admin, filepath.Join("testdata", "before.yaml"))
	t.Cleanup(func() { define(t, admin, current) })
	sn := &v1alpha1.StorageNode{}
	sn.Name = "n1"
	s.create(sn)
	group := map[string]any{"name": "quarry-fast", "ownerUID": "u1", "size": "1Gi", "free": "1Gi", "volumes": 3}
	before := map[string]any{
		"state": "online", "message": "as before", "deviceCount": 2,
		"volumeGroups": []any{group, map[string]any{"name": "quarry-slow", "ownerUID": "u2", "size": "1Gi", "free": "1Gi", "volumes": 0}},
		"devices": []any{
			map[string]any{"kernelName": "dm-0", "path": "/dev/dm-0", "type": "dm", "size": "1Gi", "available": false},
			map[string]any{"kernelName": "sda", "path": "/dev/sda", "type": "disk", "size": "1Gi", "available": true},
		},
	}
	await(t, "the groups are stored by name", func() bool {
		groups, _ := stored(t, admin, before)["volumeGroups"].([]any)
		return len(groups) == 2
	})

	define(t, admin, current)
	await(t, "the new schema is in force", func() bool { return stored(t, admin, map[string]any{"otherDevices": "1 loop"})["otherDevices"] != nil })
	if sn := s.get(); sn.Status.Message != "as before" || len(sn.Status.Devices) != 2 || len(sn.Status.Groups) != 0 {
		t.Errorf("read as %+v", sn.Status)
	}
	s.startPod()
	sn = s.until("online", func(sn *v1alpha1.StorageNode) bool {
		return len(sn.Status.Conditions) == 2 && sn.Status.State == "online" && sn.Status.Message == ""
	})
	if sn.Status.DeviceCount != 2 || len(sn.Status.Devices) != 2 || sn.Status.Devices[0].Verdict != "available" || sn.Status.OtherDevices != "" {
		t.Errorf("%+v", sn.Status)
	}
	if kept := stored(t, admin, map[string]any{"message": "again"}); kept["volumeGroups"] != nil {
		t.Errorf("the old field is still there: %v", kept)
	}
}
