package driver

import (
	"context"
	"fmt"
	"slices"

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
	favourite := defaultClass(d.Name, have.Items, e.wanting(storages, foreign))
	for _, s := range storages {
		switch name := s.GetName(); {
		case e.Snapshots == nil || !e.Snapshots(s):
		case foreign[name]:
			logf.FromContext(ctx).Info("Leaving a VolumeSnapshotClass alone that was not made here", "name", name)
		default:
			if err := kube.ApplyChild(ctx, r.Client, snapshotClass(d.Name, s.StorageKind(), name, name == favourite), ours[name]); err != nil {
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

// wanting returns the names of the storages that get a class, in their order.
func (e Entry) wanting(storages []v1alpha1.Storage, foreign map[string]bool) []string {
	var out []string
	for _, s := range storages {
		if e.Snapshots != nil && e.Snapshots(s) && !foreign[s.GetName()] {
			out = append(out, s.GetName())
		}
	}
	return out
}

// annotationDefault marks the class of snapshots that name none. The snapshot controller refuses such a snapshot where a driver has two.
const annotationDefault = "snapshot.storage.kubernetes.io/is-default-class"

// defaultClass chooses, of the classes that a driver gets from us, the one for snapshots that name none: the one that is it already, else the
// first by name. It chooses none where somebody else marked a class of the driver.
func defaultClass(driver string, have []unstructured.Unstructured, wanted []string) string {
	var out string
	for i := range have {
		o := &have[i]
		of, _, _ := unstructured.NestedString(o.Object, "driver")
		if of != driver || o.GetAnnotations()[annotationDefault] != "true" {
			continue
		}
		if o.GetLabels()[v1alpha1.LabelDriver] != driver {
			return ""
		}
		if slices.Contains(wanted, o.GetName()) && (out == "" || o.GetName() < out) {
			out = o.GetName()
		}
	}
	if out == "" && len(wanted) > 0 {
		return slices.Min(wanted)
	}
	return out
}

func snapshotClass(driver, kind, name string, isDefault bool) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"driver": driver, "deletionPolicy": "Delete"}}
	o.SetGroupVersionKind(classKind)
	o.SetName(name)
	o.SetLabels(map[string]string{v1alpha1.LabelDriver: driver, v1alpha1.LabelOf(kind): name})
	if isDefault {
		o.SetAnnotations(map[string]string{annotationDefault: "true"})
	}
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
