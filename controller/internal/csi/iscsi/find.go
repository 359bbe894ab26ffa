package iscsi

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// storage is one Iscsi: which LUN and which group are its own by what is recorded.
type storage struct {
	// owner is nil when the object is gone and its Members are not.
	owner *v1alpha1.Iscsi
	// ref has no UUID as long as there is no group.
	ref sharedlun.Ref
	// groups are those that Members have on record; several are a problem.
	groups []string
	// problem is why the record cannot be used; nil when it can.
	problem error
}

// cleanup is how what a volume had before is kept from its next user. The safe way counts where nobody says another one.
func (s storage) cleanup() v1alpha1.CleanupPolicy {
	if s.owner == nil || s.owner.Spec.Cleanup == "" {
		return v1alpha1.CleanupZero
	}
	return s.owner.Spec.Cleanup
}

// copyRate is how many bytes per second one node copies at most for snapshots and clones.
func (s storage) copyRate() int64 {
	if s.owner == nil || s.owner.Spec.CopyRate == nil || s.owner.Spec.CopyRate.Value() <= 0 {
		return defaultCopyRate
	}
	return s.owner.Spec.CopyRate.Value()
}

// defaultCopyRate leaves most of a network of 10 Gbit/s to pods, even if each byte is read and written.
const defaultCopyRate = 100 << 20

func (s storage) name() string {
	if s.owner == nil {
		return s.ref.OwnerUID
	}
	return s.owner.Name
}

// storages returns all Iscsis by UID.
func (b *Backend) storages(ctx context.Context) (map[string]storage, error) {
	var list v1alpha1.IscsiList
	if err := b.Reader.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list iscsis: %w", err)
	}
	var members v1alpha1.MemberList
	if err := b.Reader.List(ctx, &members, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	out, of := map[string]storage{}, map[string][]*v1alpha1.Member{}
	for i := range list.Items {
		uid := string(list.Items[i].UID)
		out[uid] = storage{owner: &list.Items[i], ref: sharedlun.Ref{OwnerUID: uid}}
	}
	for i := range members.Items {
		m := &members.Items[i]
		uid := string(m.Spec.Of.UID)
		if _, known := out[uid]; known || m.Spec.Lun != nil {
			// Without either it is a member of another kind.
			of[uid] = append(of[uid], m)
		}
	}
	for uid, members := range of {
		out[uid] = out[uid].with(uid, recorded.Of(members))
	}
	return out, nil
}

// with takes in what the Members have on record. Those that contradict each other are a problem: one of them is wrong.
func (s storage) with(uid string, r recorded.Record) storage {
	s.ref = sharedlun.Ref{OwnerUID: uid, UUID: r.Group()}
	if s.groups = r.Groups; r.Lun != nil {
		s.ref.Lun = *r.Lun
	}
	if r.Conflict != "" {
		s.problem = volume.Refuse(volume.Precondition, "Iscsi %s: %s. Find out which is right, and restore the others", s.name(), r.Conflict)
	}
	return s
}

// wanted returns the Iscsi that a StorageClass names. New volumes are made on it.
func (b *Backend) wanted(ctx context.Context, parameters map[string]string) (storage, error) {
	uid := parameters[v1alpha1.ParameterIscsi]
	if uid == "" {
		return storage{}, volume.Refuse(volume.Invalid, "parameter %q is missing: it names the Iscsi by its UID", v1alpha1.ParameterIscsi)
	}
	all, err := b.storages(ctx)
	if err != nil {
		return storage{}, err
	}
	s := all[uid]
	switch {
	case s.owner == nil:
		return s, volume.Refuse(volume.Invalid, "parameter %q: no Iscsi has the UID %s. Use the StorageClass that an Iscsi has now", v1alpha1.ParameterIscsi, volume.Quote(uid))
	case s.problem != nil:
		return s, s.problem
	case s.ref.UUID == "" || s.ref.Lun.WWID == "":
		return s, volume.Refuse(volume.Unavailable, "Iscsi %s has no volume group yet: its condition LunReady says what it waits for", s.owner.Name)
	}
	return s, nil
}

// find returns the Iscsi of a volume. A group that no Member has on record may exist all the same, with the volume in it.
func (b *Backend) find(ctx context.Context, handle string) (storage, string, error) {
	id, err := parse(handle, false)
	if err != nil {
		return storage{}, "", err
	}
	s, err := b.of(ctx, id)
	return s, id.Name, err
}

// of returns the Iscsi of a volume or a snapshot.
func (b *Backend) of(ctx context.Context, id sharedlun.ID) (storage, error) {
	all, err := b.storages(ctx)
	if err != nil {
		return storage{}, err
	}
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		if s := all[uid]; slices.Contains(s.groups, id.Group) {
			return s, s.problem
		}
	}
	return storage{}, volume.Refuse(volume.Precondition,
		"no Member has volume group %s on record: it is not known which LUN volume %s is on, and so not whether it exists. Restore the Members of its Iscsi", id.Group, id)
}
