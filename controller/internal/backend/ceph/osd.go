package ceph

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// register has the monitors know an OSD. Until then nothing of an earlier one on the disk counts.
func (b *Backend) register(ctx context.Context, s view.Step) error {
	if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Outed, o.Purged = false, false }); err != nil {
		return err
	}
	return b.have(ctx, s)
}

// wanted is the OSD of a step.
func wanted(s view.Step) OSD {
	return OSD{ClusterUID: s.UID, UUID: s.Ceph.UUID, FSID: s.UID, ID: s.Ceph.ID}
}

// prepareOSD has the agent make the disk the OSD.
func (b *Backend) prepareOSD(ctx context.Context, s view.Step) error {
	if len(s.Devices) != 1 || s.Tools == "" || s.Ceph.ID < 0 {
		return fmt.Errorf("%s names %d devices and container %q", s.Ceph, len(s.Devices), s.Tools)
	}
	defer b.memory.touched(types.UID(s.UID), s.Ceph.UUID)
	return b.Disks.Prepare(ctx, s.Through, s.Devices[0], wanted(s), s.Tools, s.Ceph.Fresh)
}

// out puts on record that the OSD is marked out, and then has it marked. It is the Cluster's own doing, and taken back if the host stays.
func (b *Backend) out(ctx context.Context, s view.Step) error {
	if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Outed = true }); err != nil {
		return err
	}
	return b.have(ctx, s)
}

// in takes that back. The record goes last: while it is there this is repeated.
func (b *Backend) in(ctx context.Context, s view.Step) error {
	if err := b.have(ctx, s); err != nil {
		return err
	}
	return b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Outed = false })
}

// purge puts on record that the OSD is forgotten for ever, and then has it forgotten: a disk whose OSD the monitors do not know is cleared only if they forgot it
// at the Cluster's own request.
func (b *Backend) purge(ctx context.Context, s view.Step) error {
	if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Purged = true }); err != nil {
		return err
	}
	return b.have(ctx, s)
}

// zap gives the disk back clean, and then takes it off the record.
func (b *Backend) zap(ctx context.Context, s view.Step) error {
	if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Purged = true }); err != nil {
		return err
	}
	if len(s.Devices) > 0 {
		defer b.memory.touched(types.UID(s.UID), s.Ceph.UUID)
		o := wanted(s)
		if err := b.Disks.Zap(ctx, s.Through, s.Devices[0], o); err != nil {
			return err
		}
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		r.OSDs = slices.DeleteFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == s.Ceph.UUID })
		return nil
	})
}

// replace puts on record that the OSD is given up, and whether a person was asked. What follows is decided anew.
func (b *Backend) replace(ctx context.Context, s view.Step) error {
	return b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Replaced, o.AutoReplaced = true, s.Loses == "" })
}

// keep takes back what nobody approved. The monitors know the OSD still, so they did not forget it, whatever is on record of that.
func (b *Backend) keep(ctx context.Context, s view.Step) error {
	return b.osd(ctx, s, func(o *v1alpha1.MemberOSD) {
		if o.AutoReplaced {
			o.Replaced, o.AutoReplaced, o.Purged = false, false, false
		}
	})
}

// setNoOut puts on record that the flag is the Cluster's, and then sets it.
func (b *Backend) setNoOut(ctx context.Context, s view.Step) error {
	if err := b.member(ctx, s, func(r *v1alpha1.MemberCeph) error { r.NoOut = true; return nil }); err != nil {
		return err
	}
	return b.have(ctx, s)
}

func (b *Backend) unsetNoOut(ctx context.Context, s view.Step) error {
	if err := b.have(ctx, s); err != nil {
		return err
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error { r.NoOut = false; return nil })
}
