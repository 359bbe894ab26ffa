package frame

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

// IndexHandle is the index of PersistentVolumes by driver and handle, and by driver and the first element of the handle.
const IndexHandle = "csi.driver/volumeHandle"

// PersistentVolumes finds the PersistentVolumes of a driver. What it returns must not be changed.
type PersistentVolumes struct {
	// Reader reads from a cache with the index of IndexPersistentVolumes. All works with a client of the API server, too.
	Reader client.Reader
	// Driver whose PersistentVolumes are meant.
	Driver string
}

// IndexPersistentVolumes adds the index to a cache.
func IndexPersistentVolumes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.PersistentVolume{}, IndexHandle, func(o client.Object) []string {
		v, ok := o.(*corev1.PersistentVolume)
		if !ok || v.Spec.CSI == nil {
			return nil
		}
		keys := []string{handleKey(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)}
		if first, _, more := strings.Cut(v.Spec.CSI.VolumeHandle, "/"); more {
			keys = append(keys, handleKey(v.Spec.CSI.Driver, first+"/"))
		}
		return keys
	})
	if err != nil {
		return fmt.Errorf("index PersistentVolumes by handle: %w", err)
	}
	return nil
}

// handleKey is the value of the index: handles of different drivers may be the same.
func handleKey(driver, handle string) string { return driver + " " + handle }

// With returns the PersistentVolumes of a handle, ordered by name. A person can make more than one.
func (p PersistentVolumes) With(ctx context.Context, handle string) ([]*corev1.PersistentVolume, error) {
	return p.list(ctx, client.MatchingFields{IndexHandle: handleKey(p.Driver, handle)})
}

// Below returns the PersistentVolumes whose handles have that first element, ordered by handle.
func (p PersistentVolumes) Below(ctx context.Context, first string) ([]*corev1.PersistentVolume, error) {
	return p.list(ctx, client.MatchingFields{IndexHandle: handleKey(p.Driver, first+"/")})
}

// All returns all PersistentVolumes of the driver, ordered by handle.
func (p PersistentVolumes) All(ctx context.Context) ([]*corev1.PersistentVolume, error) {
	return p.list(ctx)
}

// removable refuses the removal of a volume that several PersistentVolumes stand for: the others would lose what they stand for. A cache may not have one
// that was made a moment ago, so the API server has the last word: live asks it.
func (p PersistentVolumes) removable(ctx context.Context, handle string, live *latest) error {
	volumes, err := p.With(ctx, handle)
	if err == nil && len(volumes) < 2 {
		if volumes, err = live.all(ctx); err != nil {
			return fmt.Errorf("volume %s stays until it is known which PersistentVolumes stand for it: %w", handle, err)
		}
	}
	if err != nil {
		return err
	}
	var names []string
	for _, v := range volumes {
		// The API server has no index by handle.
		if v.Spec.CSI.VolumeHandle == handle {
			names = append(names, v.Name)
		}
	}
	if len(names) < 2 {
		return nil
	}
	return volume.Refuse(volume.Precondition, "PersistentVolumes %s all stand for volume %s: it is removed once a single one is left. "+
		"To delete the others alone, set their persistentVolumeReclaimPolicy to Retain", backend.Shorten(names, 10), handle)
}

// latest reads all PersistentVolumes of a driver from the API server. Those who ask at the same time share a list, as there may be many, and many of them may be deleted at a time.
type latest struct {
	of PersistentVolumes
	// lists under way, of which the one that has the token in reading asks the API server.
	lists   singleflight.Group
	reading chan struct{}
}

func newLatest(of PersistentVolumes) *latest {
	return &latest{of: of, reading: make(chan struct{}, 1)}
}

// all returns them from a list that began after the call. What it returns is others' as well, and must not be changed.
func (l *latest) all(ctx context.Context) ([]*corev1.PersistentVolume, error) {
	list := l.lists.DoChan("", func() (any, error) {
		l.reading <- struct{}{}
		defer func() { <-l.reading }()
		// Whoever asks from now on gets the next list: this one may lack what was made by then.
		l.lists.Forget("")
		// It is not only the first one's who asked, who may give up.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
		defer cancel()
		return l.of.All(ctx)
	})
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("list PersistentVolumes: %w", ctx.Err())
	case r := <-list:
		volumes, _ := r.Val.([]*corev1.PersistentVolume)
		return volumes, r.Err
	}
}

func (p PersistentVolumes) list(ctx context.Context, options ...client.ListOption) ([]*corev1.PersistentVolume, error) {
	var list corev1.PersistentVolumeList
	options = append(options, &client.ListOptions{UnsafeDisableDeepCopy: new(true)})
	if err := p.Reader.List(ctx, &list, options...); err != nil {
		return nil, fmt.Errorf("list PersistentVolumes: %w", err)
	}
	var out []*corev1.PersistentVolume
	for i := range list.Items {
		if v := &list.Items[i]; v.Spec.CSI != nil && v.Spec.CSI.Driver == p.Driver {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.PersistentVolume) int {
		return cmp.Or(cmp.Compare(a.Spec.CSI.VolumeHandle, b.Spec.CSI.VolumeHandle), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}
