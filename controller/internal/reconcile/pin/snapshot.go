package pin

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/controller/internal/kube"
)

// Kinds of the snapshot API. It is an add-on of Kubernetes and may be missing.
var (
	snapshotKind = schema.GroupVersionKind{Group: pin.SnapshotGroup, Version: "v1", Kind: string(pin.KindSnapshot)}
	contentKind  = schema.GroupVersionKind{Group: pin.SnapshotGroup, Version: "v1", Kind: "VolumeSnapshotContent"}
)

// crd is the name of the definition of VolumeSnapshots.
const crd = "volumesnapshots." + pin.SnapshotGroup

// contentPause is how soon a content is looked at again that does not fit its snapshot yet. Contents are not watched: a snapshot that can be
// used has one that fits, but for a moment or after a restore.
const contentPause = 10 * time.Second

// ofSnapshot finds out where a snapshot is. Both its objects are read from the API server: few claims ask, and each once or twice.
func (r *Reconciler) ofSnapshot(ctx context.Context, name types.NamespacedName) (pin.Origin, time.Duration, error) {
	if r.watch != nil {
		if err := r.watch(snapshotKind); err != nil {
			return r.unserved(ctx, err)
		}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(snapshotKind)
	switch err := r.Live.Get(ctx, name, o); {
	case apierrors.IsNotFound(err):
		return pin.Origin{}, 0, nil
	case err != nil:
		return r.unserved(ctx, fmt.Errorf("get volumesnapshot %s: %w", name, err))
	}
	s := snapshotOf(o)
	if !s.Ready || s.Deleting || s.Content == "" {
		return pin.Origin{}, 0, nil
	}
	c := &unstructured.Unstructured{}
	c.SetGroupVersionKind(contentKind)
	err := r.Live.Get(ctx, types.NamespacedName{Name: s.Content}, c)
	if client.IgnoreNotFound(err) != nil {
		return r.unserved(ctx, fmt.Errorf("get volumesnapshotcontent %s: %w", s.Content, err))
	}
	origin := pin.OfSnapshot(s, contentOf(c))
	if origin.Handle == "" {
		return pin.Origin{}, contentPause, nil
	}
	return origin, 0, nil
}

// unserved handles a cluster without the snapshot API, which is no error: an event tells of its definition. One that was installed just
// now is tried again.
func (r *Reconciler) unserved(ctx context.Context, err error) (pin.Origin, time.Duration, error) {
	if !meta.IsNoMatchError(err) {
		return pin.Origin{}, 0, err
	}
	switch err := r.Client.Get(ctx, types.NamespacedName{Name: crd}, kube.Definition()); {
	case apierrors.IsNotFound(err):
		return pin.Origin{}, 0, nil
	case err != nil:
		return pin.Origin{}, 0, fmt.Errorf("get custom resource definition %s: %w", crd, err)
	}
	return pin.Origin{}, kube.Again, nil
}

// snapshotOf reads a VolumeSnapshot. What it does not say is empty.
func snapshotOf(o *unstructured.Unstructured) pin.Snapshot {
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "readyToUse")
	return pin.Snapshot{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
		Ready: ready, Deleting: o.GetDeletionTimestamp() != nil, Content: text(o, "status", "boundVolumeSnapshotContentName"),
	}
}

// contentOf reads a VolumeSnapshotContent. What it does not say is empty.
func contentOf(o *unstructured.Unstructured) pin.Content {
	c := pin.Content{Name: o.GetName(), Driver: text(o, "spec", "driver"), Handle: text(o, "status", "snapshotHandle")}
	c.Of.Namespace, c.Of.Name = text(o, "spec", "volumeSnapshotRef", "namespace"), text(o, "spec", "volumeSnapshotRef", "name")
	c.Of.UID = types.UID(text(o, "spec", "volumeSnapshotRef", "uid"))
	return c
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}
