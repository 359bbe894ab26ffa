package frametest

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame"
)

// Volumes answers like the informer cache of a driver that knows PersistentVolumes only. A backend's own cache passes lists of them on.
type Volumes struct {
	client.Reader
	// Items are the PersistentVolumes.
	Items []corev1.PersistentVolume
	// Err is returned by every list; nil when the cache answers.
	Err error
}

// List lists all PersistentVolumes, those of a handle, or those of handles with a first element.
func (c *Volumes) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
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
