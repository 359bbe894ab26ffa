package frametest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// Volumes answers like the informer cache of a driver that knows PersistentVolumes only, and like an API server that has
// VolumeSnapshotContents. A backend's own cache passes lists of them on.
type Volumes struct {
	client.Reader
	// Items are the PersistentVolumes.
	Items []corev1.PersistentVolume
	// Err is returned by every list; nil when the cache answers.
	Err error
	// Contents are the VolumeSnapshotContents, and ContentsErr is returned by every list of them; nil when the API server answers.
	Contents    []unstructured.Unstructured
	ContentsErr error
}

// Content returns a VolumeSnapshotContent with the handle in its status, or in its spec if the snapshot was made beforehand.
func Content(name, driver, handle string, beforehand bool) unstructured.Unstructured {
	u := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"driver": driver, "source": map[string]any{}}}}
	u.SetAPIVersion("snapshot.storage.k8s.io/v1")
	u.SetKind("VolumeSnapshotContent")
	u.SetName(name)
	field := []string{"status", "snapshotHandle"}
	if beforehand {
		field = []string{"spec", "source", "snapshotHandle"}
	}
	if err := unstructured.SetNestedField(u.Object, handle, field...); err != nil {
		panic(err)
	}
	return u
}

// List lists all PersistentVolumes, those of a handle, or those of handles with a first element.
func (c *Volumes) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	if u, ok := list.(*unstructured.UnstructuredList); ok {
		return c.listContents(u, options)
	}
	l, ok := list.(*corev1.PersistentVolumeList)
	if !ok {
		return fmt.Errorf("unexpected list %T", list)
	}
	if c.Err != nil {
		return c.Err
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	for _, v := range c.Items {
		if o.FieldSelector == nil {
			l.Items = append(l.Items, v)
			continue
		}
		want, exact := o.FieldSelector.RequiresExactMatch(frame.IndexHandle)
		if !exact {
			return fmt.Errorf("no index for %s", o.FieldSelector)
		}
		if v.Spec.CSI == nil {
			continue
		}
		first, _, more := strings.Cut(v.Spec.CSI.VolumeHandle, "/")
		if key := v.Spec.CSI.Driver + " "; want == key+v.Spec.CSI.VolumeHandle || more && want == key+first+"/" {
			l.Items = append(l.Items, v)
		}
	}
	return nil
}

func (c *Volumes) listContents(l *unstructured.UnstructuredList, options []client.ListOption) error {
	if k := l.GroupVersionKind().String(); k != "snapshot.storage.k8s.io/v1, Kind=VolumeSnapshotContentList" || len(options) > 0 {
		return fmt.Errorf("unexpected list of %s with %d options", k, len(options))
	}
	l.Items = c.Contents
	return c.ContentsErr
}
