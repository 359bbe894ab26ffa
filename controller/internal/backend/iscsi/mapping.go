package iscsi

import (
	"context"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// mapVolumes has a node make the devices of volumes that are its own.
func (b *Backend) mapVolumes(ctx context.Context, s iscsi.Step) error {
	m, err := b.readMember(ctx, s.Member, s)
	if err != nil {
		return err
	}
	r := m.Spec.Reservation
	if r == nil || r.BootID != b.Agents.Node(s.Node).BootID || r.Fenced {
		return passing("member %s has no key for the boot of node %s", s.Member, s.Node)
	}
	if err := b.unrivalled(ctx, s, r); err != nil {
		return err
	}
	cred := sharedlun.Credential{Unfenced: r.Unfenced}
	if !r.Unfenced {
		if cred.Key, err = sharedlun.ParseKey(r.Key); err != nil {
			return err
		}
	}
	for _, v := range s.Volumes {
		if _, err := b.Agents.Map(ctx, s.Node, s.Ref, cred, v, s.Sequence); err != nil {
			return err
		}
	}
	return nil
}

// unmapVolumes ends the devices that a node has of volumes that are not its own, or were removed. The LUN is asked once more before each order: the volumes may be the node's by
// now, or others, and an order may take long. An agent refuses the order if it was told to map the volume since that reading, and was not started anew in between. The step ends with
// the first device that stays, even if that does no harm: the next look tells what is left.
func (b *Backend) unmapVolumes(ctx context.Context, s iscsi.Step) error {
	uuids := slices.Clone(s.Gone)
	for _, v := range s.Volumes {
		uuids = append(uuids, v.UUID)
	}
	for _, uuid := range uuids {
		sequence, err := b.stray(ctx, s, uuid)
		if err != nil {
			return err
		}
		switch err := b.Agents.Unmap(ctx, s.Node, s.Ref, uuid, sequence, true); {
		case err != nil && b.harmless(ctx, s, uuid):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// stray returns the sequence number of the group by which a volume is not the node's, by what the LUN says now.
func (b *Backend) stray(ctx context.Context, s iscsi.Step, uuid string) (sequence uint64, err error) {
	c, err := b.Agents.Contents(ctx, s.Runs, s.Ref)
	if err != nil {
		return 0, err
	}
	g, gone := c.Group, slices.Contains(s.Gone, uuid)
	if g == nil || g.UUID != s.Ref.UUID || g.Sequence < s.Sequence {
		return 0, passing("the volume group of the Iscsi is not on the LUN, or is an older one than before")
	}
	switch i := slices.IndexFunc(g.Volumes, func(v sharedlun.Volume) bool { return v.UUID == uuid }); {
	case (i < 0) != gone:
		return 0, passing("volume %s was removed meanwhile, or came back", uuid)
	case i >= 0 && g.Volumes[i].HeldBy == s.Node:
		return 0, passing("volume %s is that of node %s by now", g.Volumes[i].Name, s.Node)
	}
	return g.Sequence, nil
}

// harmless reports whether a device that could not be removed returns errors: somebody has it open still, and that ends by itself.
func (b *Backend) harmless(ctx context.Context, s iscsi.Step, volumeUUID string) bool {
	all, _, err := b.Agents.Mappings(ctx, s.Node, s.Ref)
	return err == nil && !slices.ContainsFunc(all, func(m sharedlun.Mapping) bool { return m.VolumeUUID == volumeUUID && m.Reaches() })
}

// unrivalled refuses a node while a key of an earlier boot of it is on the LUN: another machine that had its name may still write.
func (b *Backend) unrivalled(ctx context.Context, s iscsi.Step, r *v1alpha1.MemberReservation) error {
	if len(r.Previous) == 0 {
		return nil
	}
	seen, err := b.Agents.Reservation(ctx, s.Node, s.Ref.Lun, true)
	if err != nil {
		return err
	}
	if left := registered(&v1alpha1.MemberReservation{Previous: r.Previous}, seen); len(left) > 0 {
		return passing("keys of earlier boots of node %s are on the LUN: %s", s.Node, strings.Join(left, ", "))
	}
	return nil
}
