package randomtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// snapshot is one that somebody wants, as the sidecars see it.
type snapshot struct {
	name, source string
	// handle is empty until it is made; host and as are where it is then, and what it is.
	handle, host string
	as           agenttest.Record
	// deleting is true once nobody wants it any more, released once its removal was asked for.
	deleting, released bool
	// uncertain is true once an attempt ended in a way that does not say whether it is there.
	uncertain bool
	refused   error
}

// unclear reports whether a call of the sidecars ended in a way that says nothing about what was done.
func unclear(err error) bool {
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.Aborted:
		return true
	}
	return false
}

// thin reports whether a Cluster of a name has a thin pool: only its volumes are copied.
func (w *world) thin(cluster string) bool {
	return slices.ContainsFunc(w.clusters(), func(c v1alpha1.Cluster) bool {
		return c.Name == cluster && c.Spec.LVM != nil && c.Spec.LVM.ThinPool != nil
	})
}

// copied picks a volume that can be copied.
func (w *world) copyable(r *rand.Rand) (*claim, bool) {
	return pick(r, w.claimsThat(func(c *claim) bool { return c.handle != "" && !c.deleting && !c.gone && w.thin(c.cluster) }))
}

// snap wants a snapshot of a volume.
func (w *world) snap(r *rand.Rand) {
	c, ok := w.copyable(r)
	if !ok || len(w.snapshots) >= 12 {
		return
	}
	w.named++
	w.snapshots = append(w.snapshots, &snapshot{name: fmt.Sprintf("snapshot-00000000-0000-4000-a000-%012d", w.named), source: c.handle})
}

// unsnap wants a snapshot no longer.
func (w *world) unsnap(r *rand.Rand) {
	if s, ok := pick(r, w.snapshots); ok {
		s.deleting = true
	}
}

// copy wants a volume that begins as a copy of another one, or of a snapshot. A class binds it to the node of its source.
func (w *world) copy(r *rand.Rand) {
	of, ok := w.copyable(r)
	if !ok || len(w.claims) >= 24 {
		return
	}
	c := w.newClaim(of.cluster, w.ledger[of.handle].host, of.bytes+int64(r.IntN(2))*gib)
	c.from = of.handle
	if r.IntN(2) == 0 {
		made := slices.DeleteFunc(slices.Clone(w.snapshots), func(s *snapshot) bool { return s.source != of.handle || s.handle == "" || s.deleting })
		if s, ok := pick(r, made); ok {
			c.from = s.handle
		}
	}
}

// contents says what a claim begins as; nil for an empty volume.
func (c *claim) contents() *csi.VolumeContentSource {
	switch {
	case c.from == "":
		return nil
	case strings.Contains(c.from, "/"+volumeid.SnapshotPrefix):
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: c.from},
		}}
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: c.from},
	}}
}

// snapshotter does what the sidecar does: it makes and deletes snapshots.
func (w *world) snapshotter() {
	for _, s := range slices.Clone(w.snapshots) {
		switch {
		case s.deleting && s.handle != "":
			w.unmakeSnapshot(s)
		case s.deleting:
			w.dropSnapshot(s)
		case s.handle == "":
			w.makeSnapshot(s)
		}
	}
}

func (w *world) dropSnapshot(s *snapshot) {
	if s.uncertain {
		// It may be there, and no object names it.
		w.orphans = append(w.orphans, volumeid.Snapshot(s.name))
	}
	w.snapshots = slices.DeleteFunc(w.snapshots, func(o *snapshot) bool { return o == s })
}

func (w *world) makeSnapshot(s *snapshot) {
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	resp, err := w.ctl.csi.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: s.name, SourceVolumeId: s.source})
	if s.refused = err; err != nil {
		if s.uncertain = s.uncertain || unclear(err); !unclear(err) {
			w.dropSnapshot(s)
		}
		return
	}
	s.handle, s.uncertain = resp.GetSnapshot().GetSnapshotId(), false
	s.host, _, _ = strings.Cut(s.handle, "/")
	have, ok := w.record(s.host, s.handle)
	if !ok {
		w.fail("volumes are kept", "snapshot %s was made of %s, and is not on the disks of %s", s.handle, s.source, s.host)
	}
	s.as = have
	w.snapped++
}

func (w *world) unmakeSnapshot(s *snapshot) {
	s.released = true
	ctx, cancel := context.WithTimeout(w.t.Context(), callTimeout)
	defer cancel()
	_, err := w.ctl.csi.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: s.handle})
	if s.refused = err; err != nil {
		return
	}
	if have, ok := w.record(s.host, s.handle); ok {
		w.fail("deleted volumes are gone", "DeleteSnapshot of %s was answered with OK, and it is still there: %+v", s.handle, have)
	}
	w.dropSnapshot(s)
}

// snapshotsKept: a snapshot that somebody was told of is there, as it was made, until its removal was asked for.
func (w *world) snapshotsKept() {
	for _, s := range w.snapshots {
		if s.handle == "" {
			continue
		}
		have, ok := w.record(s.host, s.handle)
		switch {
		case !ok && s.released:
		case !ok:
			w.fail("volumes are kept", "snapshot %s is gone", s.handle)
		case have.GroupUUID != s.as.GroupUUID || have.Created != s.as.Created || !have.Whole:
			w.fail("volumes are kept", "snapshot %s is another one: %+v, was %+v", s.handle, have, s.as)
		}
	}
}

// snapshotsServed: a snapshot was made or refused, and one that nobody wants is gone.
func (w *world) snapshotsServed() {
	for _, s := range w.snapshots {
		if away := s.handle != "" && w.isAway(s.as.GroupUUID, s.host); !away && (s.deleting || s.handle == "" && !w.retires(s.source)) {
			w.fail("claims are served", "snapshot %s %q of %s (deleting %t): %v", s.name, s.handle, s.source, s.deleting, s.refused)
		}
	}
}
