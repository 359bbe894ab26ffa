package lvm

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/lvm/place"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// A stray is a volume that nobody was told of: the answer of the call that made it was lost, and its claim was served elsewhere since. It
// carries no data. Nothing is taken for a stray that somebody may have used, or that a PersistentVolume names, also under the name of a node that its
// disks were moved from.

// ofClaim reports whether a name was made from the UID of a claim: no other claim ever has a volume of that name.
func ofClaim(name string) bool { return strings.HasPrefix(name, "pvc-") }

// overlook marks the hosts on which the volume that is wanted is a stray: the claim may not be served there any more.
func (b *Backend) overlook(ctx context.Context, w wish, class place.Class, hosts []place.Host) error {
	for i, h := range hosts {
		if !h.Has(w.Name) || !ofClaim(w.Name) || !h.Node.Up() || w.Topology.Allows(h.Node.Name) {
			continue
		}
		id, err := volumeid.New(h.Node.Name, class.Group, w.Name)
		if err != nil {
			return err
		}
		named, err := b.recordedAs(ctx, w.Name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(named, func(h home) bool { return h.id == id }) {
			continue
		}
		if hosts[i].Stray, err = b.unused(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// Sweep removes the strays whose claims have a volume elsewhere, and returns their handles. It returns what it removed with an error, too.
func (b *Backend) Sweep(ctx context.Context) (removed []string, err error) {
	all, err := b.persistent().All(ctx)
	if err != nil {
		return nil, err
	}
	recorded, err := b.recorded(ctx)
	if err != nil || len(b.suspects(recorded, byVolume(all))) == 0 {
		return nil, err
	}
	// The cache may be behind, so the API server itself is asked which PersistentVolumes there are.
	if all, err = (frame.PersistentVolumes{Reader: b.Live, Driver: v1alpha1.DriverLVM}).All(ctx); err != nil {
		return nil, err
	}
	var errs []error
	for _, s := range b.suspects(recorded, byVolume(all)) {
		gone, err := b.sweep(ctx, s)
		if gone {
			removed = append(removed, s.id.String())
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// recorded returns the living Members of Clusters that have a group on record.
func (b *Backend) recorded(ctx context.Context) ([]*v1alpha1.Member, error) {
	all, err := b.clusters(ctx)
	if err != nil {
		return nil, err
	}
	members, err := b.members(ctx)
	var out []*v1alpha1.Member
	for _, c := range all {
		for _, m := range members[string(c.UID)] {
			if r := m.Spec.Group; m.DeletionTimestamp.IsZero() && !backend.Lost(m) && r != nil && r.UUID != "" {
				out = append(out, m)
			}
		}
	}
	return out, err
}

// home is what a PersistentVolume stands for, and the UUID of the group that it has on record; empty where it records none.
type home struct {
	id   volumeid.ID
	uuid string
}

// byVolume returns what PersistentVolumes stand for, by the name of the volume.
func byVolume(all []*corev1.PersistentVolume) map[string][]home {
	out := map[string][]home{}
	for _, v := range all {
		if id, err := volumeid.Parse(v.Spec.CSI.VolumeHandle); err == nil {
			out[id.Name] = append(out[id.Name], home{id, v.Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID]})
		}
	}
	return out
}

// suspect is a volume of a name that PersistentVolumes have for other volumes only.
type suspect struct {
	id volumeid.ID
	// owner and uuid of the group that it is in.
	owner, uuid string
	homes       []home
}

// suspects returns the volumes of the recorded groups that may be strays, as far as reports and PersistentVolumes tell.
func (b *Backend) suspects(members []*v1alpha1.Member, named map[string][]home) []suspect {
	var out []suspect
	for _, m := range members {
		n := b.Agents.Node(string(m.Spec.Node))
		for _, g := range n.Groups {
			if !n.Up() || g.Unknown || g.UUID != m.Spec.Group.UUID || g.OwnerUID != string(m.Spec.Of.UID) {
				continue
			}
			for _, name := range g.Volumes {
				id, err := volumeid.New(n.Name, g.Name, name)
				homes := named[name]
				if err != nil || !ofClaim(name) || len(homes) == 0 || slices.ContainsFunc(homes, func(h home) bool { return !b.apart(h, id, g.UUID) }) {
					continue
				}
				out = append(out, suspect{id: id, owner: g.OwnerUID, uuid: g.UUID, homes: homes})
			}
		}
	}
	return out
}

// apart reports whether what a PersistentVolume stands for is another volume than one in a group of that UUID, and is there now. A group that was
// moved keeps its UUID: a PersistentVolume that names the node of before stands for what is in it. One without a UUID may.
func (b *Backend) apart(h home, id volumeid.ID, uuid string) bool {
	n := b.Agents.Node(h.id.Node)
	return h.id != id && h.uuid != "" && h.uuid != uuid && n.Up() && slices.ContainsFunc(n.Groups, func(g decide.Group) bool {
		return !g.Unknown && g.Name == h.id.Group && g.UUID == h.uuid && slices.Contains(g.Volumes, h.id.Name)
	})
}

// sweep removes one volume if it is a stray.
func (b *Backend) sweep(ctx context.Context, s suspect) (bool, error) {
	for _, h := range s.homes {
		if there, err := b.listed(ctx, h.id); err != nil || there == nil {
			return false, err
		}
	}
	unused, err := b.unused(ctx, s.id)
	if err != nil || !unused {
		return false, err
	}
	err = b.Agents.DeleteVolume(ctx, s.id.Node, decide.VolumeSpec{
		Group: s.id.Group, Owner: s.owner, GroupUUID: s.uuid, Name: s.id.Name, ID: s.id.String(), OnlyUnused: true,
	})
	return err == nil, err
}

// recordedAs returns what the PersistentVolumes of a volume's name stand for, as the API server has them at this moment.
func (b *Backend) recordedAs(ctx context.Context, name string) ([]home, error) {
	all, err := frame.PersistentVolumes{Reader: b.Live, Driver: v1alpha1.DriverLVM}.All(ctx)
	return byVolume(all)[name], err
}

// listed asks the agent for one volume; nil when it does not have it under that handle.
func (b *Backend) listed(ctx context.Context, id volumeid.ID) (*decide.Volume, error) {
	all, _, err := b.Agents.ListVolumes(ctx, id.Node, id.Group)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(v decide.Volume) bool { return v.Name == id.Name && v.ID == id.String() })
	if i < 0 {
		return nil, nil //nolint:nilnil // absent is no error
	}
	return &all[i], nil
}

// unused reports whether the agent says that nobody used a volume yet, nor does now. Agents of before they said it say that of none.
func (b *Backend) unused(ctx context.Context, id volumeid.ID) (bool, error) {
	v, err := b.listed(ctx, id)
	switch {
	case err != nil:
		return false, err
	case v == nil:
		return false, volume.Refuse(volume.Unavailable, "volume %s was reported a moment ago, and is not listed", id)
	}
	return v.Unused && !v.Open, nil
}
