package sharedgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Get reads what is on a LUN. A LUN on which nothing of the owner is, is an answer.
func (s *Service) Get(ctx context.Context, ref sharedlun.Ref) (sharedlun.Contents, error) {
	if err := ref.CheckOwner(); err != nil {
		return sharedlun.Contents{}, err
	}
	unlock, err := s.lockLun(ctx, ref)
	if err != nil {
		return sharedlun.Contents{}, err
	}
	defer unlock()
	f, err := s.look(ctx, ref)
	if err != nil {
		return sharedlun.Contents{}, err
	}
	if decide.Damaged(ref, f) {
		_, err := decide.Same(ref, f)
		return sharedlun.Contents{}, err
	}
	promised, err := s.cfg.Epochs.Promised(ref.OwnerUID)
	if err != nil {
		return sharedlun.Contents{}, unread(err)
	}
	return sharedlun.Contents{Group: f.Group, Content: f.Content.Says, Digest: f.Content.Digest, Promised: promised}, nil
}

// look finds the LUN, and reads what is on it.
func (s *Service) look(ctx context.Context, ref sharedlun.Ref) (decide.Found, error) {
	device, err := s.cfg.Luns.Device(ctx, ref.Lun)
	if err != nil {
		return decide.Found{}, unread(err)
	}
	f, err := s.cfg.Groups.Look(ctx, device, ref)
	if err == nil && f.Group != nil {
		s.prune(*f.Group)
	}
	return f, unread(err)
}

// change is one call that may change a group.
type change struct {
	ref     sharedlun.Ref
	mandate sharedlun.Mandate
	// device of the LUN, promised epoch of this node, and what was found.
	device   string
	promised uint64
	found    decide.Found
}

// writing looks at everything that a change depends on, in this order: the LUN, this node's key at the target, the group. Then it does work, and all of it
// ends with the time of the mandate. Only then another call comes to this LUN.
func (s *Service) writing(ctx context.Context, ref sharedlun.Ref, w sharedlun.Mandate, work func(ctx context.Context, c change) error) error {
	if w.Timeout <= 0 || w.Timeout > time.Hour {
		return fmt.Errorf("%w: a time limit of %s", sharedlun.ErrInvalid, w.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	unlock, err := s.lockLun(ctx, ref)
	if err != nil {
		return err
	}
	defer unlock()
	c := change{ref: ref, mandate: w}
	if c.promised, err = s.cfg.Epochs.Promised(ref.OwnerUID); err != nil {
		return unread(err)
	}
	// Before anything is asked of the target: an order of an earlier writer is none of its business.
	if err := decide.Promised(c.promised, w.Epoch); err != nil {
		return err
	}
	if err := s.settled(ctx, ref.OwnerUID); err != nil {
		return err
	}
	if c.device, err = s.cfg.Luns.Device(ctx, ref.Lun); err != nil {
		return unread(err)
	}
	if err := s.mayWrite(ctx, ref.Lun, w.Credential); err != nil {
		return err
	}
	if c.found, err = s.cfg.Groups.Look(ctx, c.device, ref); err != nil {
		return unread(err)
	}
	defer s.cfg.Changing()()
	return unknown(work(ctx, c))
}

// mayWrite refuses unless the target lets this node write, and nobody without a key.
func (s *Service) mayWrite(ctx context.Context, lun sharedlun.Identity, c sharedlun.Credential) error {
	if c.Unfenced {
		return nil
	}
	r, err := s.cfg.Luns.Confirm(ctx, lun, c.Key)
	if err != nil {
		return unread(err)
	}
	return r.Writable(c.Key)
}

// after looks at the group once more, even if the time of the change is over.
func (s *Service) after(ctx context.Context, c change) (decide.Found, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedlun.LookTimeout)
	defer cancel()
	f, err := s.cfg.Groups.Look(ctx, c.device, c.ref)
	if err != nil {
		// The change was made, or was not: what could not be read is what came of it.
		return f, fmt.Errorf("%w: %w", sharedlun.ErrUnknown, err)
	}
	return f, nil
}

// Change makes one change, or none when what it asks for holds already, and returns the group as it is then. sequence is the sequence number that the
// caller decided on.
func (s *Service) Change(
	ctx context.Context, ref sharedlun.Ref, w sharedlun.Mandate, sequence uint64, asked sharedlun.Change,
) (sharedlun.Group, error) {
	var out sharedlun.Group
	o := decide.Order{Mandate: w, Sequence: sequence, Change: asked}
	if err := ref.Check(); err != nil {
		return out, err
	}
	err := s.writing(ctx, ref, w, func(ctx context.Context, c change) error {
		g, err := decide.Same(ref, c.found)
		if err != nil {
			return err
		}
		step, err := decide.Change(g, c.promised, o)
		if err != nil {
			return err
		}
		if step == nil {
			out = g
			return nil
		}
		if err := s.cfg.Groups.Perform(ctx, c.device, g, step); err != nil {
			return err
		}
		f, err := s.after(ctx, c)
		if err != nil {
			return err
		}
		if out, err = decide.Same(ref, f); err != nil {
			return fmt.Errorf("%w: the group was changed, and is not there: %w", sharedlun.ErrUnknown, err)
		}
		if left, err := decide.Change(out, c.promised, o); left != nil || err != nil || out.Sequence <= g.Sequence {
			return errors.Join(fmt.Errorf("%w: LVM was told to make a change, and the group does not show it (%T is left)", sharedlun.ErrUnknown, left), err)
		}
		return nil
	})
	return out, err
}

// Promise has this node yield: it waits until no change runs here, and refuses every later one of an older epoch. It needs no LUN: a node that has lost it keeps its
// promise, too. It returns the promised epoch: a higher one than asked for is no promise to the caller, whose record is old.
func (s *Service) Promise(ctx context.Context, ref sharedlun.Ref, epoch uint64) (promised uint64, err error) {
	if err := ref.Check(); err != nil {
		return 0, err
	}
	if epoch == 0 {
		return 0, fmt.Errorf("%w: no epoch", sharedlun.ErrInvalid)
	}
	unlock, err := s.lockLun(ctx, ref)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := s.settled(ctx, ref.OwnerUID); err != nil {
		return 0, err
	}
	promised, err = s.cfg.Epochs.Promised(ref.OwnerUID)
	if err != nil {
		return 0, unread(err)
	}
	if promised > epoch {
		return promised, nil
	}
	return epoch, unknown(s.cfg.Epochs.Promise(ref.OwnerUID, epoch))
}
