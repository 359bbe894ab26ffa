package iscsi

import (
	"context"
	"errors"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// reserve is how early a call ends, so that its answer arrives and a last change has the time to be made.
const reserve = 15 * time.Second

// wait waits until the node that holds a volume has zeroed what is not ready, as long as the call has time for it.
func (b *Backend) wait(ctx context.Context, s storage, v sharedlun.Volume) error {
	cred, err := b.credential(ctx, s, v)
	if err != nil {
		return err
	}
	var p sharedlun.Progress
	return b.until(ctx, func() error { return unfinished(v, p) }, func() (bool, error) {
		p, err = b.zeroed(ctx, s, cred, v)
		return p.Done, err
	})
}

// until asks whether something is done, as long as the call has time for it: what is small is done soon, and what is large is asked for every Pause.
func (b *Backend) until(ctx context.Context, late func() error, ask func() (done bool, err error)) error {
	for pause := b.Pause / 16; ; pause = min(2*pause, b.Pause) {
		done, err := ask()
		if err != nil || done {
			return err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < reserve+b.Pause {
			return late()
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return late()
		}
	}
}

// lost reports whether the node that zeroes a volume cannot go on: it is away, fenced, under maintenance, has lost the LUN, or is no initiator any more. The writer
// can: otherwise there were another one.
func (t turn) lost(v sharedlun.Volume) bool {
	if v.HeldBy == "" || v.Leaving || v.HeldBy == t.Writer() {
		return false
	}
	m, is := t.Member(v.HeldBy)
	return t.Failed(v.HeldBy) || !is || !m.Usable()
}

func (s storage) discards() bool { return s.cleanup() == v1alpha1.CleanupDiscard }

func unfinished(v sharedlun.Volume, p sharedlun.Progress) error {
	return volume.Refuse(volume.Unfinished, "volume %s is being zeroed on node %s: %s of %s are done", v.Name, v.HeldBy, decide.Bytes(p.DoneBytes), decide.Bytes(p.Total))
}

// readied makes all of a volume ready once it is zeroed. It returns what is still to be zeroed; nil when all is ready. Whether the zeroing is done is
// asked in the turn: what a node says counts for as long as nobody else changes the group. ready is the change that says so.
func (b *Backend) readied(
	ctx context.Context, t turn, s storage, v sharedlun.Volume, ready func(ctx context.Context, v sharedlun.Volume) error,
) (*sharedlun.Volume, error) {
	cred, err := t.credential(s, v)
	if err != nil {
		return nil, err
	}
	p, err := b.zeroed(ctx, s, cred, v)
	if err != nil {
		return nil, err
	}
	if !p.Done {
		return &v, nil
	}
	return nil, ready(ctx, v)
}

// notOver is the error of a call that makes something, once that is on the LUN, v, or may be, for the group was not read, or a change was not answered: whatever is in the way, the call goes on. Of any
// other code a sidecar takes it that nothing is left, and forgets what nobody wants any more: it would stay on the LUN, and hold what it is a copy of. That something else has the name is over.
func notOver(read bool, v sharedlun.Volume, err error) error {
	refusal, decided := errors.AsType[*volume.Refusal](err)
	fault, told := errors.AsType[*decide.Fault](err)
	switch {
	case err == nil, read && v.UUID == "" && (decided || san.Answered(err)):
		return err
	case decided && slices.Contains([]volume.Kind{volume.Unavailable, volume.Unfinished, volume.Conflict}, refusal.Kind):
		return err
	case !decided && told && (fault.Kind == decide.FaultUnavailable || fault.Kind == decide.FaultBusy):
		return err
	case v.UUID == "":
		return volume.Refuse(volume.Unavailable, "it is not known whether a part of it is on the LUN: %v", err)
	}
	return volume.Refuse(volume.Unfinished, "volume %s is on the LUN, and is not finished: %v", v.Name, err)
}
