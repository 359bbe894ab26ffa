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

// unmapVolumes ends the devices that a node has of volumes that are not its own. The LUN is asked once more: the volumes may be the node's by now, or others. An agent refuses
// the order if it was told to map one of them since that reading.
func (b *Backend) unmapVolumes(ctx context.Context, s iscsi.Step) error {
	c, err := b.Agents.Contents(ctx, s.Runs, s.Ref)
	if err != nil {
		return err
	}
	for _, v := range s.Volumes {
		i := slices.IndexFunc(volumesOf(c.Group, s.Ref.UUID), func(now sharedlun.Volume) bool { return now.UUID == v.UUID })
		if i < 0 || c.Group.Volumes[i].HeldBy == s.Node {
			return passing("volume %s is that of node %s by now, or is not on the LUN any more", v.Name, s.Node)
		}
		if err := b.Agents.Unmap(ctx, s.Node, s.Ref, v.UUID, c.Group.Sequence, true); err != nil && !b.harmless(ctx, s, v.UUID) {
			return err
		}
	}
	return nil
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
