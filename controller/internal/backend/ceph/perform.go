package ceph

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Perform performs the steps of one host, or of the whole, in order, and stops at the first that fails, or that may not be taken any more. It returns how many were performed.
func (b *Backend) Perform(ctx context.Context, host string, steps backend.Steps) (done int, err error) {
	for s, err := range steps {
		if err != nil {
			return done, err
		}
		if err := b.perform(ctx, host, s); err != nil {
			return done, failed(fmt.Errorf("%s: %w", s.Action(), err))
		}
		done++
	}
	return done, nil
}

func (b *Backend) perform(ctx context.Context, host string, step backend.Step) error {
	s, ok := step.(view.Step)
	if !ok || s.Host() != host && s.Via() != host {
		return fmt.Errorf("step %T of host %q via %q was given to host %q", step, step.Host(), step.Via(), host)
	}
	do := b.performers()[s.Does]
	if do == nil {
		return fmt.Errorf("unknown action %q", s.Does)
	}
	return do(ctx, s)
}

// performers are what performs each action.
func (b *Backend) performers() map[string]func(context.Context, view.Step) error {
	return map[string]func(context.Context, view.Step) error{
		v1alpha1.ActionWipeDevice: b.wipe, v1alpha1.ActionTakeDisks: b.takeDisks, v1alpha1.ActionAdoptOSD: b.adoptOSD,
		v1alpha1.ActionPrepareCeph: b.prepare, v1alpha1.ActionFormCeph: b.form, v1alpha1.ActionConfigureCeph: b.configure,
		v1alpha1.ActionStartMonitor: b.startMonitor, v1alpha1.ActionRemoveMonitor: b.removeMonitor, v1alpha1.ActionAdoptMonitor: b.adoptMonitor,
		v1alpha1.ActionDeployDaemon: b.deploy, v1alpha1.ActionReplaceDaemon: b.stopping(b.deploy), v1alpha1.ActionStartOSD: b.deploy,
		v1alpha1.ActionRemoveDaemon: b.removeDaemon, v1alpha1.ActionStopOSD: b.stopping(b.removeDaemon),
		v1alpha1.ActionRegisterOSD: b.register, v1alpha1.ActionPrepareOSD: b.prepareOSD, v1alpha1.ActionZapOSD: b.zap,
		v1alpha1.ActionOutOSD: b.out, v1alpha1.ActionInOSD: b.in, v1alpha1.ActionPurgeOSD: b.purge, v1alpha1.ActionReplaceOSD: b.replace, v1alpha1.ActionKeepOSD: b.keep,
		v1alpha1.ActionRemoveHost: b.have, v1alpha1.ActionChangePool: b.have, v1alpha1.ActionRequireRelease: b.have,
		v1alpha1.ActionSetBudget: b.setBudget, v1alpha1.ActionSetNoOut: b.setNoOut, v1alpha1.ActionUnsetNoOut: b.unsetNoOut, v1alpha1.ActionFailOver: b.failOver,
		v1alpha1.ActionBlockClient: b.blockClient, v1alpha1.ActionUnblockClient: b.unblockClient,
		v1alpha1.ActionServeFilesystem: b.serve, v1alpha1.ActionServeDashboard: b.serveDashboard, v1alpha1.ActionTearDownCeph: b.tearDown,
	}
}

// have has the monitors make the change of a step. What Ceph said before is not true any more, whatever comes of it.
func (b *Backend) have(ctx context.Context, s view.Step) error {
	c, err := b.client(s.FSID)
	if err != nil {
		return err
	}
	defer b.memory.changed(types.UID(s.UID))
	return c.Do(ctx, s.Ceph)
}

// purge puts on record that the OSD is forgotten for ever, and then has it forgotten: a disk whose OSD the monitors do not know is cleared only if they forgot it
// at the Cluster's own request. If it is certain that they keep it, that is taken back: monitors that lose what they know later would have its disk cleared.
func (b *Backend) purge(ctx context.Context, s view.Step) error {
	if err := b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Purged = true }); err != nil {
		return err
	}
	err := b.have(ctx, s)
	if errors.Is(err, ceph.ErrKept) {
		err = errors.Join(err, b.osd(ctx, s, func(o *v1alpha1.MemberOSD) { o.Purged = false }))
	}
	return err
}

// stopping has Ceph asked once more before something ends the daemon of an OSD: other steps may have taken minutes since this one was decided on.
func (b *Backend) stopping(do func(context.Context, view.Step) error) func(context.Context, view.Step) error {
	return func(ctx context.Context, s view.Step) error {
		if s.Daemon.Kind != cephname.DaemonOSD {
			return do(ctx, s)
		}
		id, err := strconv.Atoi(s.Daemon.ID)
		if err != nil {
			return fmt.Errorf("the OSD has the number %q: %w", s.Daemon.ID, err)
		}
		c, err := b.client(s.FSID)
		if err != nil {
			return err
		}
		if err := c.MayStop(ctx, id, s.Daemon.UUID); err != nil {
			b.memory.changed(types.UID(s.UID))
			return err
		}
		return do(ctx, s)
	}
}

// isPassing reports whether the next look takes an error in: somebody was busy, or away, or Ceph says that it is not safe any more.
func isPassing(err error) bool {
	if errors.Is(err, ceph.ErrUnsafe) || errors.Is(err, ceph.ErrUnreachable) {
		return true
	}
	f := &decide.Fault{}
	return errors.As(err, &f) && (f.Kind == decide.FaultBusy || f.Kind == decide.FaultUnavailable)
}

func (b *Backend) wipe(ctx context.Context, s view.Step) error {
	for _, d := range s.Devices {
		if _, err := b.Agents.WipeDevice(ctx, s.On, d); err != nil {
			return err
		}
	}
	return nil
}

// takeDisks puts disks on record, each with the UUID of its OSD. One that another Member has on record is none of this host: one OSD would be made on two disks.
func (b *Backend) takeDisks(ctx context.Context, s view.Step) error {
	members, err := kube.MembersOf(ctx, b.Live, types.UID(s.UID))
	if err != nil {
		return err
	}
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		for _, d := range s.Devices {
			o, err := osdrecord.New(s.FSID, s.On, d, s.Encrypted)
			if err != nil {
				return err
			}
			if osdrecord.Has(r, o.UUID) {
				continue
			}
			if at := recordedBy(members, s.Member, o.UUID); at != "" {
				return passing("member %s has OSD %s on record, which would be that of disk %s", at, o.UUID, d.Path)
			}
			r.OSDs = append(r.OSDs, o)
		}
		return nil
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

// failOver has another metadata server serve. Whatever comes of it, it is not asked for again at once.
func (b *Backend) failOver(ctx context.Context, s view.Step) error {
	defer b.memory.note(types.UID(s.UID), func(k *known) { k.failedOver = b.Now() })
	return b.have(ctx, s)
}

// giveUp puts on record that no volume was left, once they were listed again: the list that this was decided on may be two minutes old, and a volume that was being made then is there now.
func (b *Backend) giveUp(ctx context.Context, s view.Step, c *v1alpha1.Cluster) error {
	if err := b.unused(ctx, c); err != nil {
		return err
	}
	return b.note(ctx, s, v1alpha1.AnnotationCephRemoved, s.UID)
}

// unused returns an error if a Cluster has volumes, or nobody can say of one that served. A person may say that they are not needed.
func (b *Backend) unused(ctx context.Context, c *v1alpha1.Cluster) error {
	// The volumes of a Ceph cluster that a spec names alone are those of the Cluster that has it.
	if c.Annotations[v1alpha1.AnnotationRemove] == string(c.UID) || !noted.Has(c) {
		return nil
	}
	monitors, err := b.client(c.FSID())
	if err != nil {
		return err
	}
	if !noted.Served(c) {
		// The record may be lost. What was decided on stands unless Ceph has the filesystem by now. Monitors that nobody ever saw as a quorum have none.
		now, err := monitors.Overview(ctx)
		if err != nil && noted.Is(c, v1alpha1.AnnotationCephFormed) {
			return err
		}
		if now.Filesystem != decideceph.Yes {
			return nil
		}
	}
	volumes, err := subvolume.Open(ctx, monitors)
	if err != nil {
		return err
	}
	if there, err := monitors.HasGroup(ctx); err != nil || !there {
		return err
	}
	names, err := volumes.Names(ctx)
	if err == nil && len(names) > 0 {
		b.memory.changed(c.UID)
		err = passing("%d volumes are in the filesystem by now", len(names))
	}
	return err
}
