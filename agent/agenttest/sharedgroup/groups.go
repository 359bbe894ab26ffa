package sharedgroup

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/sharedlun"
)

// groups are the groups on LUNs as LVM of the node changes them: it reads all metadata, changes its copy, and writes all of it.
type groups struct{ n *Node }

var _ sharedgroup.Groups = groups{}

// at is the LUN at a path.
func (g groups) at(device string) (*LUN, error) {
	return g.n.san.find(strings.TrimPrefix(device, path("")))
}

// Look tells what is on a LUN.
func (g groups) Look(ctx context.Context, device string, ref sharedlun.Ref) (decide.Found, error) {
	g.n.san.mu.Lock()
	defer g.n.san.mu.Unlock()
	l, err := g.at(device)
	if err != nil || ctx.Err() != nil {
		return decide.Found{}, cmp.Or(err, ctx.Err())
	}
	l.commands++
	if l.group != nil && l.group.OwnerUID == ref.OwnerUID {
		return decide.Found{Group: clone(l.group)}, nil
	}
	c := decide.Content{PVUUID: l.pv, InGroup: l.group != nil}
	switch {
	case l.group != nil:
		c.Says = fmt.Sprintf("The LUN carries group %s of %s.", l.group.Name, l.group.OwnerUID)
	case l.foreign != "":
		c.Says = l.foreign
	case l.pv != "":
		c.Says = fmt.Sprintf("The LUN is the physical volume %s in no group.", l.pv)
	default:
		return decide.Found{Content: decide.Content{Blank: true}}, nil
	}
	c.Digest = fmt.Sprintf("v1:%x", sha256.Sum256([]byte(c.Says)))
	return decide.Found{Content: c}, nil
}

// Quiet waits for a write of an agent of before that is still on its way.
func (g groups) Quiet(ctx context.Context, _ string) error {
	for {
		g.n.mu.Lock()
		left := g.n.left
		g.n.mu.Unlock()
		if left == nil {
			return nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return fmt.Errorf("%w: a command of an agent of before: %w", sharedlun.ErrBusy, ctx.Err())
		}
	}
}

// write changes a LUN the way a command of LVM does: change gets what the command has read, and its result is what the LUN is then, unless the target
// refuses the write.
func (g groups) write(ctx context.Context, device string, read func(l *LUN) (change func(l *LUN), err error)) error {
	g.n.san.mu.Lock()
	defer g.n.san.mu.Unlock()
	l, err := g.at(device)
	if err != nil || ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	l.commands++
	change, err := read(l)
	if err != nil {
		return err
	}
	if err := g.n.strikes(beforeWrite); err != nil {
		return err
	}
	key, gate := g.n.key, g.n.gated(&g.n.gate)
	defer g.n.command()()
	g.n.san.mu.Unlock()
	<-gate
	g.n.san.mu.Lock()
	if !l.mayWrite(key) {
		return fmt.Errorf("%w: write to %s: reservation conflict", sharedlun.ErrUnknown, device)
	}
	change(l)
	return g.n.strikes(afterWrite)
}

// Wipe removes what is on the LUN.
func (g groups) Wipe(ctx context.Context, device, digest string, lun sharedlun.Identity) error {
	seen, err := g.Look(ctx, device, sharedlun.Ref{Lun: lun})
	if err != nil {
		return err
	}
	if seen.Content.Digest != digest {
		return fmt.Errorf("%w: %s", sharedlun.ErrNotClean, seen.Content.Says)
	}
	return g.write(ctx, device, func(*LUN) (func(*LUN), error) {
		return func(l *LUN) { l.group, l.pv, l.foreign = nil, "", "" }, nil
	})
}

// MakePV makes the LUN a physical volume.
func (g groups) MakePV(ctx context.Context, device, _, stem string, lunBytes int64) error {
	return g.write(ctx, device, func(l *LUN) (func(*LUN), error) {
		if l.group != nil || l.pv != "" || l.foreign != "" || lunBytes > l.identity.SizeBytes {
			return nil, fmt.Errorf("%w: pvcreate", sharedlun.ErrNotClean)
		}
		return func(l *LUN) { l.pv = pvuuid.Complete(stem) }, nil
	})
}

// MakeGroup makes the group.
func (g groups) MakeGroup(ctx context.Context, device, name, ownerUID string, epoch uint64) error {
	return g.write(ctx, device, func(l *LUN) (func(*LUN), error) {
		if l.group != nil || l.pv == "" {
			return nil, fmt.Errorf("%w: vgcreate", sharedlun.ErrInUse)
		}
		size := (l.identity.SizeBytes - first - 1) / extent * extent
		made := &sharedlun.Group{
			UUID: g.n.san.uuid(), Name: name, OwnerUID: ownerUID, Epoch: epoch, Sequence: 1, SizeBytes: size, FreeBytes: size, ExtentBytes: extent,
		}
		return func(l *LUN) { l.group = made }, nil
	})
}

// Perform makes one change.
func (g groups) Perform(ctx context.Context, device string, reported sharedlun.Group, step decide.Step) error {
	return g.write(ctx, device, func(l *LUN) (func(*LUN), error) {
		copied := clone(l.group)
		if copied == nil || copied.UUID != reported.UUID {
			return nil, fmt.Errorf("%w: volume group %s", sharedlun.ErrNotFound, reported.Name)
		}
		if err := g.change(l, copied, reported, step); err != nil {
			return nil, err
		}
		copied.Sequence++
		copied.FreeBytes = int64(len(l.free(copied))) * extent
		return func(l *LUN) { l.group = copied }, nil
	})
}

// change makes a step in a copy of the group.
func (g groups) change(l *LUN, copied *sharedlun.Group, reported sharedlun.Group, step decide.Step) error {
	switch step.(type) {
	case decide.MakeVolume, decide.ExtendVolume:
		return g.allot(l, copied, step)
	}
	// These are told the sequence number.
	if copied.Sequence != reported.Sequence {
		return passedOver()
	}
	switch s := step.(type) {
	case decide.SetEpoch:
		copied.Epoch = s.Epoch
		return nil
	case decide.RemoveVolume:
		before := len(copied.Volumes)
		copied.Volumes = slices.DeleteFunc(copied.Volumes, func(v sharedlun.Volume) bool { return v.UUID == s.Volume.UUID && v.Name == s.Volume.Name })
		if len(copied.Volumes) == before {
			return passedOver()
		}
		return nil
	case decide.Retag:
		v := copied.Volume(s.Volume.Name)
		if v == nil || v.UUID != s.Volume.UUID {
			return passedOver()
		}
		return retag(v, s)
	}
	return fmt.Errorf("%w: step %T", sharedlun.ErrInvalid, step)
}

func passedOver() error { return fmt.Errorf("%w: LVM passes over it", sharedlun.ErrMoved) }

// allot gives a volume, which may be new, extents.
func (g groups) allot(l *LUN, copied *sharedlun.Group, step decide.Step) error {
	switch s := step.(type) {
	case decide.MakeVolume:
		if copied.Volume(s.Name) != nil {
			return fmt.Errorf("volume %s: %w", s.Name, sharedlun.ErrExists)
		}
		v := sharedlun.Volume{Name: s.Name, UUID: g.n.san.uuid(), CreatedUnix: 1}
		for _, tag := range s.Tags {
			if !v.Mark(tag) {
				v.Tags = append(v.Tags, tag)
			}
		}
		if err := l.extend(copied, &v, s.SizeBytes); err != nil {
			return err
		}
		copied.Volumes = append(copied.Volumes, v)
		slices.SortFunc(copied.Volumes, func(a, b sharedlun.Volume) int { return strings.Compare(a.Name, b.Name) })
		return nil
	case decide.ExtendVolume:
		v := copied.Volume(s.Volume.Name)
		if v == nil || s.SizeBytes <= v.SizeBytes {
			return fmt.Errorf("lvextend: %w: %s", sharedlun.ErrInvalid, s.Volume.Name)
		}
		return l.extend(copied, v, s.SizeBytes)
	}
	return fmt.Errorf("%w: step %T", sharedlun.ErrInvalid, step)
}

// retag takes marks off a volume and gives it some.
func retag(v *sharedlun.Volume, s decide.Retag) error {
	for _, tag := range s.Remove {
		switch tag {
		case sharedlun.TagHeldBy + v.HeldBy:
			v.HeldBy = ""
		case sharedlun.TagLeaving:
			v.Leaving = false
		case fmt.Sprint(sharedlun.TagReady, v.ReadyBytes):
			v.ReadyBytes = 0
		case sharedlun.TagMaking + v.MakingOn:
			v.MakingOn = ""
		case fmt.Sprint(sharedlun.TagCopied, v.CopiedBytes):
			v.CopiedBytes = 0
		default:
			i := slices.IndexFunc(v.Readers, func(b sharedlun.Boot) bool { return b.Tag() == tag })
			if i < 0 {
				return fmt.Errorf("lvchange: %w: no tag %s", sharedlun.ErrInvalid, tag)
			}
			v.Readers = slices.Delete(slices.Clone(v.Readers), i, i+1)
		}
	}
	held, making := v.HeldBy, v.MakingOn
	for _, tag := range s.Add {
		if !v.Mark(tag) || held != "" && v.HeldBy != held || making != "" && v.MakingOn != making {
			return fmt.Errorf("lvchange: %w: tag %s", sharedlun.ErrInvalid, tag)
		}
	}
	return nil
}

// extend gives a volume the first free extents.
func (l *LUN) extend(g *sharedlun.Group, v *sharedlun.Volume, bytes int64) error {
	free, need := l.free(g), (bytes-v.SizeBytes)/extent
	if bytes%extent != 0 || bytes <= v.SizeBytes {
		return fmt.Errorf("%w: %d bytes", sharedlun.ErrInvalid, bytes)
	}
	if int64(len(free)) < need {
		return fmt.Errorf("%w: %d extents", sharedlun.ErrNoSpace, need)
	}
	for _, at := range free[:need] {
		v.Ranges = append(v.Ranges, sharedlun.Range{Start: at, Size: extent})
	}
	v.Ranges, v.SizeBytes = sharedlun.Merge(v.Ranges), bytes
	return nil
}

// RemoveGroup removes an empty group.
func (g groups) RemoveGroup(ctx context.Context, device string, reported sharedlun.Group) error {
	return g.write(ctx, device, func(l *LUN) (func(*LUN), error) {
		if l.group == nil || l.group.UUID != reported.UUID || l.group.Sequence != reported.Sequence || len(l.group.Volumes) > 0 {
			return nil, fmt.Errorf("%w: vgremove", sharedlun.ErrMoved)
		}
		return func(l *LUN) { l.group = nil }, nil
	})
}

// RemovePV removes a physical volume without a group.
func (g groups) RemovePV(ctx context.Context, device, pvUUID string) error {
	return g.write(ctx, device, func(l *LUN) (func(*LUN), error) {
		if l.group != nil || l.pv != pvUUID {
			return nil, fmt.Errorf("%w: release of %s", sharedlun.ErrNotClean, pvUUID)
		}
		return func(l *LUN) { l.pv = "" }, nil
	})
}
