package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
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
	return OSD{ClusterUID: s.FSID, UUID: s.Ceph.UUID, FSID: s.FSID, ID: s.Ceph.ID}
}

// prepareOSD has the agent make the disk the OSD.
func (b *Backend) prepareOSD(ctx context.Context, s view.Step) error {
	if len(s.Devices) != 1 || s.Tools == "" || s.Ceph.ID < 0 {
		return fmt.Errorf("%s names %d devices and container %q", s.Ceph, len(s.Devices), s.Tools)
	}
	o := wanted(s)
	if o.Encrypted = s.Daemon.Encrypted; o.Encrypted {
		key, err := b.useKey(ctx, s)
		if err != nil {
			return err
		}
		o.Key = key
	}
	defer b.memory.touched(types.UID(s.UID), s.Ceph.UUID)
	return b.Disks.Prepare(ctx, s.Through, s.Devices[0], o, s.Tools, s.Ceph.Fresh)
}

// useKey returns the key of the disk of a step, once it is on record as used: from then on it is the only one. Before that nothing was encrypted with one, so another one is made.
func (b *Backend) useKey(ctx context.Context, s view.Step) (osd.Key, error) {
	var o v1alpha1.MemberOSD
	if err := b.osd(ctx, s, func(r *v1alpha1.MemberOSD) { o = *r }); err != nil {
		return osd.Key{}, err
	}
	switch {
	case !o.Encrypted:
		return osd.Key{}, passing("OSD %s is on record as one in the clear", s.Ceph.UUID)
	case !o.Keyed:
		return b.newKey(ctx, s, o.Secret)
	}
	p, secret := cephpod.Plan{Cluster: s.Cluster, FSID: s.FSID}, &corev1.Secret{}
	name := p.DiskSecret(o.UUID, o.Secret)
	there, err := b.get(ctx, name, secret)
	if err != nil {
		return osd.Key{}, err
	}
	if !there {
		secret = nil
	}
	key, err := p.OpenDisk(name, o.UUID, secret)
	if err != nil {
		return osd.Key{}, err
	}
	return key, p.SameKey(name, o.UUID, key, o.KeyDigest)
}

// newKey makes a key that nothing was encrypted with yet. Its Secret has a name of its own, which is on record before it is made. The Secret that was on record before is removed: who records a key
// as used records its name with it, so that one is not in use, and will not be.
func (b *Backend) newKey(ctx context.Context, s view.Step, before string) (osd.Key, error) {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return osd.Key{}, err
	}
	p := cephpod.Of(c)
	secret, err := p.DiskKey(b.Random, s.Ceph.UUID)
	if err != nil {
		return osd.Key{}, err
	}
	key, err := p.OpenDisk(secret.Name, s.Ceph.UUID, secret)
	if err != nil {
		return osd.Key{}, err
	}
	if err := b.unusedKey(ctx, s, before, func(o *v1alpha1.MemberOSD) { o.Secret = secret.Name }); err != nil {
		return osd.Key{}, err
	}
	if err := b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error { return kept(o.Secret != "", "secret") }); err != nil {
		return osd.Key{}, err
	}
	if err := b.removeKey(ctx, s, p.DiskSecret(s.Ceph.UUID, before)); err != nil {
		return osd.Key{}, err
	}
	if err := b.Client.Create(ctx, secret); err != nil {
		return osd.Key{}, fmt.Errorf("create secret %s: %w", secret.Name, err)
	}
	return key, b.unusedKey(ctx, s, secret.Name, func(o *v1alpha1.MemberOSD) { o.Keyed, o.KeyDigest = true, key.Digest(o.UUID) })
}

// unusedKey changes the record of an OSD whose key is not used yet, if that is the one in the Secret of a name.
func (b *Backend) unusedKey(ctx context.Context, s view.Step, secret string, change func(*v1alpha1.MemberOSD)) error {
	return b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error {
		if o.Keyed || o.Secret != secret {
			return passing("another key of OSD %s is on record by now", o.UUID)
		}
		change(o)
		return nil
	})
}

// dropKey removes the key of a disk that is clean, or off the record. That it is not in use any more is put on record before: an OSD that is made on the disk from then on has a Secret of another
// name, so that a process which is late here does no harm. Keys that were cut off before anybody used them go too: they are listed first, so that none is among them whose name comes on record later.
func (b *Backend) dropKey(ctx context.Context, s view.Step) error {
	all, err := b.diskSecrets(ctx, s)
	if err != nil {
		return err
	}
	if err := b.given(ctx, s, func(o *v1alpha1.MemberOSD) { o.Keyed, o.KeyDigest = false, "" }); err != nil {
		return err
	}
	for i := range all {
		if all[i].Annotations[cephname.AnnotationOSD] != s.Ceph.UUID {
			continue
		}
		if err := b.removeKey(ctx, s, all[i].Name); err != nil {
			return err
		}
	}
	return b.removeKey(ctx, s, cephpod.Plan{Cluster: s.Cluster}.DiskSecret(s.Ceph.UUID, s.Daemon.Secret))
}

// elsewhere reports whether another Member than that of a step has the OSD on record, with the key in this Secret: a disk that went to another host takes its UUID along.
func (b *Backend) elsewhere(ctx context.Context, s view.Step, secret string) (bool, error) {
	members, err := kube.MembersOf(ctx, b.Live, types.UID(s.UID))
	p := cephpod.Plan{Cluster: s.Cluster}
	return slices.ContainsFunc(members, func(m v1alpha1.Member) bool {
		return m.Name != s.Member && m.Spec.Ceph != nil && slices.ContainsFunc(m.Spec.Ceph.OSDs, func(o v1alpha1.MemberOSD) bool {
			return o.Encrypted && p.DiskSecret(o.UUID, o.Secret) == secret
		})
	}), err
}

// diskSecrets are the Secrets with keys of disks of the Ceph cluster, by their labels.
func (b *Backend) diskSecrets(ctx context.Context, s view.Step) ([]corev1.Secret, error) {
	var all corev1.SecretList
	ours := client.MatchingLabels{cephname.LabelFSID: s.FSID, cephname.LabelDaemon: cephname.ObjectDiskKey}
	if err := b.Live.List(ctx, &all, client.InNamespace(cephname.Namespace), ours); err != nil {
		return nil, fmt.Errorf("list the Secrets of Cluster %s: %w", s.Cluster, err)
	}
	return all.Items, nil
}

// given changes the record of an OSD that is given back, unless an OSD was made on the disk anew since the step was decided on.
func (b *Backend) given(ctx context.Context, s view.Step, change func(*v1alpha1.MemberOSD)) error {
	return b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error {
		if o.Secret != s.Daemon.Secret || s.Purged && !o.Purged {
			return passing("OSD %s is another one by now: it was made anew, with another key if it is encrypted", o.UUID)
		}
		change(o)
		return nil
	})
}

// removeKey removes the Secret with a key that is in use no more, unless the disk is on record elsewhere with that key.
func (b *Backend) removeKey(ctx context.Context, s view.Step, name string) error {
	if used, err := b.elsewhere(ctx, s, name); err != nil || used {
		return err
	}
	secret := &corev1.Secret{}
	there, err := b.get(ctx, name, secret)
	if err != nil || !there {
		return err
	}
	// A person may have made it again without labels. No other Ceph cluster has an OSD of this UUID, so it is the disk's all the same.
	if of := secret.Labels[cephname.LabelFSID]; of != "" && of != s.FSID {
		return passing("the Secret %s in namespace %s has the label %s=%s of another Ceph cluster. If nobody needs it, run: kubectl -n %s delete secret %s",
			name, cephname.Namespace, cephname.LabelFSID, of, cephname.Namespace, name)
	}
	return kube.Delete(ctx, b.Client, secret)
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

// dropKeys removes all keys of disks of the Ceph cluster. The teardown calls it last, when no OSD is on record: a call that was cut off may have left one.
func (b *Backend) dropKeys(ctx context.Context, s view.Step) error {
	members, err := kube.MembersOf(ctx, b.Live, types.UID(s.UID))
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.Spec.Ceph != nil && len(m.Spec.Ceph.OSDs) > 0 {
			return passing("member %s has OSDs on record", m.Name)
		}
	}
	all, err := b.diskSecrets(ctx, s)
	errs := []error{err}
	for i := range all {
		errs = append(errs, kube.Delete(ctx, b.Client, &all[i]))
	}
	return errors.Join(errs...)
}

// zap gives the disk back clean, and then takes it off the record. With the key of an encrypted disk goes what else of it somebody may find. That an OSD may go off the record is said of a disk that is not there
// last of all: were it there again before the end of it, the word would have it cleared without a person.
func (b *Backend) zap(ctx context.Context, s view.Step) error {
	there, encrypted, replaced := len(s.Devices) > 0, false, false
	if err := b.given(ctx, s, func(o *v1alpha1.MemberOSD) {
		o.Purged, encrypted, replaced = o.Purged || there, o.Encrypted, o.Replaced
	}); err != nil {
		return err
	}
	if there {
		defer b.memory.touched(types.UID(s.UID), s.Ceph.UUID)
		o := wanted(s)
		o.Encrypted, o.Making = encrypted, s.Making
		err := b.Disks.Zap(ctx, s.Through, s.Devices[0], o)
		if f, is := errors.AsType[*decide.Fault](err); is && f.Kind == decide.FaultInternal {
			return fmt.Errorf("%w. %s", err, decideceph.Unclearable(s.Through, replaced))
		}
		if err != nil {
			return err
		}
	}
	if encrypted {
		if err := b.dropKey(ctx, s); err != nil {
			return err
		}
	}
	if !there {
		if err := b.given(ctx, s, func(o *v1alpha1.MemberOSD) { o.Purged = true }); err != nil {
			return err
		}
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		r.OSDs = slices.DeleteFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool {
			return o.UUID == s.Ceph.UUID && o.Secret == s.Daemon.Secret && o.Purged
		})
		return nil
	})
}

// replace puts on record that the OSD is given up, and whether a person was asked. What follows is decided anew.
func (b *Backend) replace(ctx context.Context, s view.Step) error {
	auto := s.Loses == ""
	if auto {
		// Without this word a disk that comes back would be cleared without a person, so it has to be kept before anything is given up.
		if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.AutoReplaced = true }); err != nil {
			return err
		}
		if err := b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error { return kept(o.AutoReplaced, "autoReplaced") }); err != nil {
			return err
		}
	}
	return b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Replaced, o.AutoReplaced = true, auto })
}

// keep takes back what nobody approved. The monitors know the OSD still, so they did not forget it, whatever is on record of that.
func (b *Backend) keep(ctx context.Context, s view.Step) error {
	return b.osd(ctx, s, func(o *v1alpha1.MemberOSD) {
		if o.AutoReplaced {
			o.Replaced, o.AutoReplaced, o.Purged = false, false, false
		}
	})
}
