package frame_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

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
