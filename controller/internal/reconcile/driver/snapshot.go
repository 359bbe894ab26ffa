package driver

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Kinds of the snapshot API. It is an add-on of Kubernetes and may be missing.
var (
	classKind   = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"}
	contentKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"}
)

// crd is the name of the definition of VolumeSnapshotClasses.
const crd = "volumesnapshotclasses.snapshot.storage.k8s.io"

// missing says whether the error of a list means that the snapshot API is not installed. A client that knew the API before it was
// removed still asks for it, and the server finds nothing.
func missing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// snapshotClasses brings the classes to the Clusters with thin pools: one each, of the Cluster's name. Others of ours are deleted.
func (r *Reconciler) snapshotClasses(ctx context.Context, driver string, clusters []v1alpha1.Cluster) error {
	have := &unstructured.UnstructuredList{}
	have.SetGroupVersionKind(classKind)
	err := r.Client.List(ctx, have, client.MatchingLabels{v1alpha1.LabelDriver: driver})
	if missing(err) {
		return r.unserved(ctx)
	}
	if err != nil {
		return fmt.Errorf("list volumesnapshotclasses: %w", err)
	}
	wanted := map[string]bool{}
	for i := range clusters {
		c := &clusters[i]
		if c.Spec.LVM == nil || c.Spec.LVM.ThinPool == nil {
			continue
		}
		wanted[c.Name] = true
		if err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(snapshotClass(driver, c.Name)), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply volumesnapshotclass %s: %w", c.Name, err)
		}
	}
	for i := range have.Items {
		o := &have.Items[i]
		if wanted[o.GetName()] {
			continue
		}
		if err := r.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete volumesnapshotclass %s: %w", o.GetName(), err)
		}
	}
	return nil
}

// unserved tells that the snapshot API is not installed; it is picked up when it appears. One that is installed just now is tried again.
func (r *Reconciler) unserved(ctx context.Context) error {
	d := definition()
	err := r.Client.Get(ctx, types.NamespacedName{Name: crd}, d)
	if err == nil {
		return fmt.Errorf("custom resource definition %s is not served yet", crd)
	}
	logf.FromContext(ctx).Info("Doing without snapshots: their API is not installed", "crd", crd)
	return client.IgnoreNotFound(err)
}

func snapshotClass(driver, cluster string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	o.SetGroupVersionKind(classKind)
	o.SetName(cluster)
	o.SetLabels(map[string]string{v1alpha1.LabelDriver: driver, v1alpha1.LabelCluster: cluster})
	return o
}

// snapshots says whether a snapshot exists that the driver has to delete one day.
func (r *Reconciler) snapshots(ctx context.Context, driver string) (bool, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(contentKind)
	err := r.Client.List(ctx, list)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list volumesnapshotcontents: %w", err)
	}
	for _, o := range list.Items {
		name, _, _ := unstructured.NestedString(o.Object, "spec", "driver")
		policy, _, _ := unstructured.NestedString(o.Object, "spec", "deletionPolicy")
		if name == driver && policy == "Delete" {
			return true, nil
		}
	}
	return false, nil
}
