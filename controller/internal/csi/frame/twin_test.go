package frame_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
)

// TestDeleteVolume_thatSeveralNeed: a person can make a second PersistentVolume of one handle. What is known of them is never guessed.
func TestDeleteVolume_thatSeveralNeed(t *testing.T) {
	const driver = frametest.ModelDriver
	many := func(n int, id string) (out []corev1.PersistentVolume) {
		for i := range n {
			out = append(out, *persistent(fmt.Sprintf("pv-%02d", i), driver, id))
		}
		return out
	}
	for name, c := range map[string]struct {
		volumes func(id string) []corev1.PersistentVolume
		err     error
		want    codes.Code
		says    string
	}{
		"none, as after a create that was given up": {volumes: func(string) []corev1.PersistentVolume { return nil }},
		"its own": {volumes: func(id string) []corev1.PersistentVolume { return many(1, id) }},
		"one of another driver with the same handle": {volumes: func(id string) []corev1.PersistentVolume {
			return append(many(1, id), *persistent("other", "other.driver", id))
		}},
		"one of another handle": {volumes: func(id string) []corev1.PersistentVolume {
			return append(many(1, id), *persistent("other", driver, id+"x"))
		}},
		"a second one": {
			volumes: func(id string) []corev1.PersistentVolume { return many(2, id) },
			want:    codes.FailedPrecondition, says: "PersistentVolumes pv-00, pv-01 all stand for volume model/vol-a: it is removed once a single one is left",
		},
		"very many": {
			volumes: func(id string) []corev1.PersistentVolume { return many(25, id) },
			want:    codes.FailedPrecondition, says: "pv-09 and 15 more all stand for",
		},
		"a cache that does not answer": {
			volumes: func(id string) []corev1.PersistentVolume { return many(1, id) }, err: errors.New("not synced"), want: codes.Internal, says: "not synced",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, known := frametest.NewBare(), &frametest.Volumes{}
			s := frametest.Serve(t, frametest.Driver(), m, known)
			v, err := s.CreateVolume(t.Context(), request("a"))
			wantCode(t, err, codes.OK)
			id := v.GetVolume().GetVolumeId()
			known.Items, known.Err = c.volumes(id), c.err
			_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
			wantCode(t, err, c.want)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("message is %v, want %q", err, c.says)
			}
			if gone := len(m.Existing()) == 0; gone != (c.want == codes.OK) {
				t.Errorf("existing: %v", m.Existing())
			}
		})
	}
}

// asked counts what is asked of an API server.
type asked struct {
	*frametest.Volumes
	lists int
}

func (a *asked) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	a.lists++
	return a.Volumes.List(ctx, list, options...)
}

// TestDeleteVolume_cacheIsBehind: the cache does not have a PersistentVolume that was made a moment ago. The API server is asked once for each deletion, and for
// nothing else.
func TestDeleteVolume_cacheIsBehind(t *testing.T) {
	const driver, id = frametest.ModelDriver, "model/vol-a"
	one, two := *persistent("pv-1", driver, id), *persistent("pv-2", driver, id)
	type volumes = []corev1.PersistentVolume
	for name, c := range map[string]struct {
		cache, live volumes
		err         error
		want        codes.Code
		says        string
		lists       int
	}{
		"both say the same":              {cache: volumes{one}, live: volumes{one}, lists: 1},
		"one of another handle":          {cache: volumes{one}, live: volumes{one, *persistent("pv-2", driver, id+"x")}, lists: 1},
		"one of another driver":          {cache: volumes{one}, live: volumes{one, *persistent("pv-2", "other.driver", id)}, lists: 1},
		"a second one, made just now":    {cache: volumes{one}, live: volumes{two, one}, want: codes.FailedPrecondition, says: "PersistentVolumes pv-1, pv-2 all stand for volume " + id, lists: 1},
		"two that the cache has not":     {live: volumes{one, two}, want: codes.FailedPrecondition, says: "pv-1, pv-2", lists: 1},
		"the cache has both":             {cache: volumes{one, two}, live: volumes{one, two}, want: codes.FailedPrecondition, says: "pv-1, pv-2"},
		"the API server does not answer": {cache: volumes{one}, err: errors.New("cut off"), want: codes.Internal, says: "stays until it is known which PersistentVolumes stand for it: list PersistentVolumes: cut off", lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m, live := frametest.NewBare(), &asked{Volumes: &frametest.Volumes{Items: c.live, Err: c.err}}
			s := frametest.ServeBehind(t, frametest.Driver(), m, &frametest.Volumes{Items: c.cache}, live)
			_, err := s.CreateVolume(t.Context(), request("a"))
			wantCode(t, err, codes.OK)
			_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
			wantCode(t, err, c.want)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("message is %v, want %q", err, c.says)
			}
			if gone := len(m.Existing()) == 0; gone != (c.want == codes.OK) {
				t.Errorf("existing: %v", m.Existing())
			}
			if live.lists != c.lists {
				t.Errorf("the API server was asked %d times, want %d", live.lists, c.lists)
			}
		})
	}
}

// TestDeleteSnapshot_thatSeveralNeed: a backup tool makes a second VolumeSnapshotContent of one handle.
func TestDeleteSnapshot_thatSeveralNeed(t *testing.T) {
	const driver, id = frametest.ModelDriver, "model/snap-a"
	type contents = []unstructured.Unstructured
	one := frametest.Content("content-1", driver, id, false)
	kind := schema.GroupKind{Group: "snapshot.storage.k8s.io", Kind: "VolumeSnapshotContent"}
	gone := apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: "volumesnapshotcontents"}, "")
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: kind.Group, Resource: "volumesnapshotcontents"}, "", errors.New("no right"))
	for name, c := range map[string]struct {
		contents contents
		err      error
		want     codes.Code
		says     string
	}{
		"none":    {},
		"its own": {contents: contents{one}},
		"one of another driver with the same handle": {contents: contents{one, frametest.Content("content-2", "other.driver", id, false)}},
		"one of another handle":                      {contents: contents{one, frametest.Content("content-2", driver, id+"x", true)}},
		"a second one": {
			contents: contents{frametest.Content("content-2", driver, id, false), one}, want: codes.FailedPrecondition,
			says: "VolumeSnapshotContents content-1, content-2 all stand for snapshot model/snap-a: it is removed once a single one is left",
		},
		"a second one for a snapshot that was made beforehand": {
			contents: contents{one, frametest.Content("content-2", driver, id, true)}, want: codes.FailedPrecondition, says: "content-1, content-2 all stand",
		},
		"the API is not installed":              {err: &meta.NoKindMatchError{GroupKind: kind}},
		"the API was removed just now":          {err: gone},
		"the list is forbidden":                 {err: forbidden, want: codes.Internal, says: "no right"},
		"an API server that does not answer":    {err: errors.New("cut off"), want: codes.Internal, says: "cut off"},
		"one without a handle, as of a new one": {contents: contents{one, frametest.Content("content-2", driver, "", false)}},
	} {
		t.Run(name, func(t *testing.T) {
			m, known := frametest.NewBare(), &frametest.Volumes{}
			s := frametest.Serve(t, frametest.Driver(), frametest.Model{Bare: m}, known)
			v, err := s.CreateVolume(t.Context(), request("a"))
			wantCode(t, err, codes.OK)
			made, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "a", SourceVolumeId: v.GetVolume().GetVolumeId()})
			wantCode(t, err, codes.OK)
			if got := made.GetSnapshot().GetSnapshotId(); got != id {
				t.Fatalf("snapshot %s", got)
			}
			known.Contents, known.ContentsErr = c.contents, c.err
			_, err = s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
			wantCode(t, err, c.want)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("message is %v, want %q", err, c.says)
			}
			_, err = s.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: id})
			if removed := err != nil; removed != (c.want == codes.OK) {
				t.Errorf("snapshot: %v", err)
			}
		})
	}
}
