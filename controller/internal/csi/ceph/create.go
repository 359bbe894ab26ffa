package ceph

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
	"quarry.storage/quarry/pkg/filesystem"
)

// CreateVolume makes a subvolume with the size as its quota, or a copy, which exists for the caller once it is whole. What exists is looked at first: Ceph would
// set the quota of a volume that exists anew.
func (b *Backend) CreateVolume(ctx context.Context, w frame.Wish) (frame.Volume, error) {
	v, err := b.create(ctx, w)
	return v, told(err)
}

func (b *Backend) create(ctx context.Context, w frame.Wish) (frame.Volume, error) {
	size, err := w.Size.Size(1)
	if err == nil {
		err = checkFlags(w)
	}
	if err != nil {
		return frame.Volume{}, err
	}
	s, err := b.wanted(ctx, w)
	if err != nil {
		return frame.Volume{}, err
	}
	from, err := s.origin(w)
	if err != nil {
		return frame.Volume{}, err
	}
	v, found, err := s.Find(ctx, w.Name)
	if err == nil && (!found || v.State == subvolume.Failed) {
		v, err = s.begin(ctx, w, from, v, size)
	}
	if err == nil && v.State == subvolume.Copying && same(v, from) == nil {
		v, err = b.await(ctx, s, v)
	}
	if err != nil {
		return frame.Volume{}, err
	}
	if v, err = s.finish(ctx, w, from, v, size); err != nil {
		return frame.Volume{}, err
	}
	return s.volume(v), nil
}

// checkFlags refuses mount options of the StorageClass that no mount may have.
func checkFlags(w frame.Wish) error {
	for _, a := range w.Access {
		for _, o := range a.Flags {
			if err := filesystem.CheckMountOption(FSType, o); err != nil {
				return volume.Refuse(volume.Invalid, "%v", err)
			}
		}
	}
	return nil
}

// wanted opens the Ceph cluster of the Cluster that a StorageClass names.
func (b *Backend) wanted(ctx context.Context, w frame.Wish) (site, error) {
	owner, err := b.named(ctx, w.Parameters)
	if err != nil {
		return site{}, err
	}
	if _, err := cephvolume.New(owner.FSID(), w.Name); err != nil {
		return site{}, volume.Refuse(volume.Invalid, "%v", err)
	}
	return b.open(ctx, owner)
}

func (b *Backend) named(ctx context.Context, parameters map[string]string) (*v1alpha1.Cluster, error) {
	uid := parameters[v1alpha1.ParameterCluster]
	if uid == "" {
		return nil, volume.Refuse(volume.Invalid, "parameter %q is missing: it names the Cluster by its UID", v1alpha1.ParameterCluster)
	}
	all, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if string(c.UID) != uid {
			continue
		}
		if !noted.Has(c) {
			return nil, volume.Refuse(volume.Precondition, "Cluster %s has not taken up the Ceph cluster %s yet", c.Name, c.FSID())
		}
		return c, nil
	}
	return nil, volume.Refuse(volume.Invalid, "parameter %q: no Cluster of type cephfs has the UID %s", v1alpha1.ParameterCluster, volume.Quote(uid))
}

// stays refuses a Cluster that is being removed, or that is gone. The API server is asked, and not the cache, which may be late: the controller lists the volumes for the
// last time once a Cluster is being removed.
func (s site) stays(ctx context.Context) error {
	now := &v1alpha1.Cluster{}
	err := s.live.Get(ctx, client.ObjectKeyFromObject(s.owner), now)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return volume.Refuse(volume.Unavailable, "whether Cluster %s stays cannot be read: %v", s.owner.Name, err)
	case err != nil || now.UID != s.owner.UID:
		return volume.Refuse(volume.Precondition, "Cluster %s is gone", s.owner.Name)
	case !now.DeletionTimestamp.IsZero():
		return volume.Refuse(volume.Precondition, "Cluster %s is being removed", s.owner.Name)
	}
	return nil
}

// begin makes a volume of a name that is free, or begins a copy. A copy that Ceph gave up is begun anew.
func (s site) begin(ctx context.Context, w frame.Wish, from *subvolume.Source, failed subvolume.Volume, size int64) (subvolume.Volume, error) {
	err := s.stays(ctx)
	if err == nil && failed.State == subvolume.Failed {
		if err = same(failed, from); err == nil {
			s.tight.note(w.Name, failed.Full)
			if failed.Full && from != nil {
				// It may not be begun again, and what was deleted in its source since keeps its room.
				err = s.dropCopySource(ctx, *from)
			}
			if err == nil {
				err = s.Discard(ctx, w.Name)
			}
		}
	}
	switch {
	case err != nil:
	case from == nil:
		err = s.Create(ctx, w.Name, size)
	default:
		err = s.beginCopy(ctx, w, *from)
	}
	if err != nil {
		return failed, err
	}
	return s.Volume(ctx, w.Name)
}

// finish brings a volume that exists to its end, or says why it is not the one that is wanted.
func (s site) finish(ctx context.Context, w frame.Wish, from *subvolume.Source, v subvolume.Volume, size int64) (subvolume.Volume, error) {
	switch v.State {
	case subvolume.Whole:
	case subvolume.Copying:
		if v.Source != nil {
			if err := same(v, from); err != nil {
				return v, err
			}
		}
		return v, volume.Refuse(volume.Unfinished, "volume %s is being copied by Ceph", w.Name)
	case subvolume.Failed:
		return v, volume.Refuse(volume.Unavailable, "Ceph gave up the copy %s (%s): it is begun anew", w.Name, v.Problem)
	default:
		return v, volume.Refuse(volume.Precondition, "a volume %s was deleted, and its snapshots are left: delete them first", w.Name)
	}
	if err := same(v, from); err != nil {
		return v, err
	}
	if from != nil {
		return s.finishCopy(ctx, w, *from, v, size)
	}
	if v.Bytes < w.Size.Required || w.Size.Holds(v.Bytes) != nil {
		return v, volume.Refuse(volume.Conflict, "volume %s exists with %d bytes", w.Name, v.Bytes)
	}
	return v, nil
}

// same refuses a volume that was made with the content of another one than is asked for.
func same(v subvolume.Volume, from *subvolume.Source) error {
	var have, want subvolume.Source
	if v.Source != nil {
		have = *v.Source
	}
	if from != nil {
		want = *from
	}
	if have != want {
		return volume.Refuse(volume.Conflict, "volume %s exists with the content of %q, not of %q", v.Name, have, want)
	}
	return nil
}

// volume is a volume as the frame knows it.
func (s site) volume(v subvolume.Volume) frame.Volume {
	out := frame.Volume{Handle: cephvolume.ID{FSID: s.fsid(), Name: v.Name}.String(), Bytes: v.Bytes, Condition: condition(s.owner)}
	switch v.State {
	case subvolume.Whole:
		a := cephvolume.Attributes{Path: v.Path}
		if st := s.owner.Status.Ceph; st != nil {
			a.Monitors = st.Monitors
		}
		out.Context = a.Map()
	case subvolume.Copying:
		out.Condition = volume.Abnormal("it is being copied: it exists once that is whole")
	default:
		out.Condition = volume.Abnormal("Ceph gave up copying it: it is begun anew when it is asked for again")
	}
	return out
}
