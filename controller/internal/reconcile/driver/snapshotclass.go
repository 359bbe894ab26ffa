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

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Kinds of the snapshot API. It is an add-on of Kubernetes and may be missing.
var (
	classKind   = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotClass"}
	contentKind = schema.GroupVersionKind{Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshotContent"}
)

// crd is the name of the definition of VolumeSnapshotClasses.
const crd = "volumesnapshotclasses.snapshot.storage.k8s.io"

// missing reports whether the error of a list means that the snapshot API is not installed. A client that knew the API before it was
// removed still asks for it, and the server finds nothing.
func missing(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }

// snapshotClasses brings the classes of a driver to the storages that want one: one class each, of the storage's name. Other classes of
// ours are deleted.
func (r *Reconciler) snapshotClasses(ctx context.Context, e Entry, storages []v1alpha1.Storage) error {
	d := e.Profile.Driver
	if !d.Snapshots {
		return nil
	}
	have := &unstructured.UnstructuredList{}
	have.SetGroupVersionKind(classKind)
	err := r.Client.List(ctx, have)
	if missing(err) {
		return r.unserved(ctx)
	}
	r.withoutSnapshots.Store(false)
	if err != nil {
		return fmt.Errorf("list volumesnapshotclasses: %w", err)
	}
	ours, foreign := map[string]*unstructured.Unstructured{}, map[string]bool{}
	for i := range have.Items {
		o := &have.Items[i]
		if o.GetLabels()[v1alpha1.LabelDriver] == d.Name {
			ours[o.GetName()] = o
		} else {
			foreign[o.GetName()] = true
		}
	}
	for _, s := range storages {
		switch name := s.GetName(); {
		case e.Snapshots == nil || !e.Snapshots(s):
		case foreign[name]:
			logf.FromContext(ctx).Info("Leaving a VolumeSnapshotClass alone that was not made here", "name", name)
		default:
			if err := kube.ApplyChild(ctx, r.Client, snapshotClass(d.Name, s.StorageKind(), name), ours[name]); err != nil {
				return err
			}
			delete(ours, name)
		}
	}
	for _, o := range ours {
		if err := kube.Delete(ctx, r.Client, o); err != nil {
			return err
		}
	}
	return nil
}

// unserved handles a cluster without the snapshot API; it is picked up when it appears. One that was installed just now is tried again.
func (r *Reconciler) unserved(ctx context.Context) error {
	err := r.Client.Get(ctx, types.NamespacedName{Name: crd}, kube.Definition())
	if err == nil {
		return fmt.Errorf("custom resource definition %s is not served yet", crd)
	}
	if client.IgnoreNotFound(err) == nil && !r.withoutSnapshots.Swap(true) {
		logf.FromContext(ctx).Info("Doing without snapshots until their API is installed", "crd", crd)
	}
	return client.IgnoreNotFound(err)
}

func snapshotClass(driver, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	o.SetGroupVersionKind(classKind)
	o.SetName(name)
	o.SetLabels(map[string]string{v1alpha1.LabelDriver: driver, v1alpha1.LabelOf(kind): name})
	return o
}

// snapshots reports whether a snapshot exists that the driver has to delete one day.
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
