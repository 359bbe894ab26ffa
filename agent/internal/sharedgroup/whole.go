package sharedgroup

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Create makes the group, or goes on with what an earlier call left.
func (s *Service) Create(ctx context.Context, ref sharedlun.Ref, name string, w sharedlun.Mandate, wipeDigest string) (sharedlun.Group, error) {
	var out sharedlun.Group
	if err := ref.CheckOwner(); err != nil {
		return out, err
	}
	err := s.writing(ctx, ref, w, func(ctx context.Context, c change) error {
		work, err := decide.Create(ref, name, w, c.promised, wipeDigest, c.found)
		if err != nil {
			return err
		}
		if err := s.make(ctx, c, name, work); err != nil {
			return err
		}
		f, err := s.after(ctx, c)
		if err != nil {
			return err
		}
		if f.Group == nil {
			return fmt.Errorf("%w: the group was made, and is not there: %s", sharedlun.ErrUnknown, f.Content.Says)
		}
		out = *f.Group
		return nil
	})
	return out, err
}

// make does what is left of making a group.
func (s *Service) make(ctx context.Context, c change, name string, work decide.Work) error {
	if work == decide.Nothing {
		return nil
	}
	var err error
	switch work {
	case decide.Wipe:
		err = s.cfg.Groups.Wipe(ctx, c.device, c.found.Content.Digest, c.ref.Lun)
	case decide.Remake:
		err = s.cfg.Groups.RemovePV(ctx, c.device, c.found.Content.PVUUID)
	}
	if err != nil {
		return err
	}
	if err := s.cfg.Groups.MakePV(ctx, c.device, c.ref.OwnerUID, decide.Stem(c.ref), c.ref.Lun.SizeBytes); err != nil {
		return err
	}
	return s.cfg.Groups.MakeGroup(ctx, c.device, name, c.ref.OwnerUID, c.mandate.Epoch)
}

// Remove removes a group without volumes, and all that is ours from the LUN.
func (s *Service) Remove(ctx context.Context, ref sharedlun.Ref, w sharedlun.Mandate) error {
	if err := ref.Check(); err != nil {
		return err
	}
	// Whatever comes of it: once it began nobody may say any more that the group is there.
	s.unrecord(ref)
	return s.writing(ctx, ref, w, func(ctx context.Context, c change) error {
		work, err := decide.Remove(ref, w, c.promised, c.found)
		if err != nil || work == decide.Nothing {
			return err
		}
		if work == decide.RemoveGroup {
			mapped, err := s.cfg.Devices.List(ctx, ref.UUID)
			if err != nil {
				return err
			}
			if len(mapped) > 0 {
				return fmt.Errorf("%w: volume %s of the group is still mapped on this node, or is being zeroed or copied", sharedlun.ErrInUse, mapped[0].VolumeUUID)
			}
			if err := s.cfg.Groups.RemoveGroup(ctx, c.device, *c.found.Group); err != nil {
				return err
			}
			// What is left names the physical volume.
			if c.found, err = s.cfg.Groups.Look(ctx, c.device, ref); err != nil {
				return err
			}
			if !decide.Orphan(ref, c.found) {
				return fmt.Errorf("%w: the group was removed, and the LUN is no physical volume of its owner: %s", sharedlun.ErrUnknown, c.found.Content.Says)
			}
		}
		return s.cfg.Groups.RemovePV(ctx, c.device, c.found.Content.PVUUID)
	})
}
