package lvm

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// contents is the list of VolumeSnapshotContents. The snapshot API is an add-on of Kubernetes and may be missing.
var contents = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContentList"}

// snapshots returns the snapshots that the API server has of hosts whose member is declared lost, by host.
func (b *Backend) snapshots(ctx context.Context, c *v1alpha1.Cluster, w backend.World) (map[string][]string, error) {
	lost := map[string]bool{}
	for _, m := range w.Members {
		if backend.Lost(m) {
			lost[string(m.Spec.Node)] = true
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(contents)
	err := b.Client.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		// Without the API there are no snapshots. Any other error says nothing about them.
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list volumesnapshotcontents: %w", err)
	}
	foreign := groupsOfOthers(c, w.Others)
	out := map[string][]string{}
	for i := range list.Items {
		o := &list.Items[i]
		for _, node := range nodesOf(o, foreign) {
			if lost[node] {
				out[node] = append(out[node], "VolumeSnapshotContent "+o.GetName())
			}
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out, nil
}

// groupsOfOthers returns the names of the groups that are another Cluster's and not this one's. A snapshot in any other group counts: its
// group may have been renamed, or its Cluster be gone.
func groupsOfOthers(c *v1alpha1.Cluster, others []v1alpha1.Storage) map[string]bool {
	names := map[string]bool{}
	for _, o := range others {
		if other, ok := o.(*v1alpha1.Cluster); ok && other.Spec.StorageType == v1alpha1.StorageTypeLVM && other.UID != c.UID {
			names[lvm.Of(other).Group] = true
		}
	}
	delete(names, lvm.Of(c).Group)
	return names
}

// nodesOf returns the nodes that the handles of a snapshot name: its own, that of a snapshot made beforehand, and that of the volume that
// it is taken of. Handles in the groups of others are left out.
func nodesOf(o *unstructured.Unstructured, foreign map[string]bool) []string {
	if driver, _, _ := unstructured.NestedString(o.Object, "spec", "driver"); driver != v1alpha1.DriverLVM {
		return nil
	}
	var nodes []string
	for _, field := range [][]string{{"status", "snapshotHandle"}, {"spec", "source", "snapshotHandle"}, {"spec", "source", "volumeHandle"}} {
		handle, _, _ := unstructured.NestedString(o.Object, field...)
		if id, err := volumeid.Parse(handle); err == nil && !foreign[id.Group] && !slices.Contains(nodes, id.Node) {
			nodes = append(nodes, id.Node)
		}
	}
	return nodes
}
