package san

import (
	"context"
	"errors"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Maker is what agents do with whole groups. Errors are decide.Faults.
type Maker interface {
	// Create makes the group, or goes on with what an earlier call left. wipe is the digest of what a person agreed to lose.
	Create(ctx context.Context, node string, ref sharedlun.Ref, w sharedlun.Mandate, name, wipe string) (sharedlun.Group, error)
	// Remove removes a group without volumes. One that is gone needs no work.
	Remove(ctx context.Context, node string, ref sharedlun.Ref, w sharedlun.Mandate) error
}

// noGroup stands for the UUID of a group that does not exist yet, where an agent is asked for a promise: it is about the owner, and no
// group has this UUID.
const noGroup = "000000-0000-0000-0000-0000-0000-000000"

// MakeGroup makes the group of an owner, and returns it. The UUID in ref is empty. Killed anywhere, it goes on where it was. Two processes, or two
// nodes, never make it side by side: a node whose call was not answered has to yield, or to be fenced, before another one is asked.
func (s *San) MakeGroup(ctx context.Context, ref sharedlun.Ref, name, wipe string) (made sharedlun.Group, err error) {
	ref.UUID = ""
	err = s.whole(ctx, ref, func(ctx context.Context, t *Turn, w sharedlun.Mandate) (err error) {
		made, err = s.cfg.Maker.Create(ctx, t.record.Writer, t.ref, w, name, wipe)
		if err == nil {
			// What is on record of a group before it says nothing of this one.
			t.ref.UUID = made.UUID
			t.note(made)
		}
		return err
	})
	return made, err
}

// RemoveGroup removes the group, which has no volumes. One that is gone needs no work.
func (s *San) RemoveGroup(ctx context.Context, ref sharedlun.Ref) error {
	return s.whole(ctx, ref, func(ctx context.Context, t *Turn, w sharedlun.Mandate) error {
		return s.cfg.Maker.Remove(ctx, t.record.Writer, t.ref, w)
	})
}

// whole takes the turn for one call about a whole group.
func (s *San) whole(ctx context.Context, ref sharedlun.Ref, do func(ctx context.Context, t *Turn, w sharedlun.Mandate) error) error {
	if s.cfg.Maker == nil {
		return errors.New("this process makes and removes no volume groups")
	}
	return s.turn(ctx, &Turn{san: s, ref: ref, blank: true}, func(ctx context.Context, t *Turn) error {
		err := do(ctx, t, t.mandate())
		if !answered(err) {
			t.memory.unanswered = t.record.Writer
			t.blame(ctx)
		}
		return err
	})
}

// mandate is what a call to the writer carries.
func (t *Turn) mandate() sharedlun.Mandate {
	return sharedlun.Mandate{Epoch: t.record.Epoch, Timeout: t.san.cfg.Timeout, Credential: t.writer().Credential}
}

// promised is the group that a node is asked to make a promise about.
func (t *Turn) promised() sharedlun.Ref {
	ref := t.ref
	if ref.UUID == "" {
		ref.UUID = noGroup
	}
	return ref
}

// readBlank takes in what the writer told of a LUN whose group is made or removed. Where there is none, no epoch has to be written into it.
func (t *Turn) readBlank(seen sharedlun.Contents) {
	t.facts.Read, t.facts.GroupEpoch, t.facts.WriterPromised = true, t.record.Epoch, seen.Promised
	if seen.Group != nil {
		t.Group, t.facts.GroupEpoch = *seen.Group, max(seen.Group.Epoch, t.record.Epoch)
	}
}
