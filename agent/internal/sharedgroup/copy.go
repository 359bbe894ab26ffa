package sharedgroup

import (
	"context"
	"fmt"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Copy tells how far the copying of a volume is, and begins it if it does not run: from where the LUN says that it was. The origin is what the LUN says, too. Both have
// devices of their own, which nobody else sees. An order to unmap the volume ends the copying. All copies of the group together copy at most so many bytes per
// second; what a later call says counts for all of them.
func (s *Service) Copy(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool, bytesPerSecond int64,
) (sharedlun.Progress, error) {
	if err := checkVolume(ref, v, 1); err != nil {
		return sharedlun.Progress{}, err
	}
	if err := v.Origin.Check(); err != nil {
		return sharedlun.Progress{}, err
	}
	if bytesPerSecond <= 0 {
		return sharedlun.Progress{}, fmt.Errorf("%w: %d bytes per second", sharedlun.ErrInvalid, bytesPerSecond)
	}
	s.watch(ref)
	k := key(ref.UUID, v.UUID)
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return sharedlun.Progress{}, err
	}
	defer unlock()
	s.pacer(ref.UUID).limit(bytesPerSecond)
	s.mu.Lock()
	t := s.tasks[k]
	s.mu.Unlock()
	switch {
	case t == nil:
		if t, err = s.beginCopying(ctx, ref, cred, v, discard); err != nil {
			return sharedlun.Progress{}, unknown(err)
		}
	case !t.copies:
		return sharedlun.Progress{}, fmt.Errorf("%w: volume %s is being zeroed here", sharedlun.ErrBusy, v.Name)
	case !t.running() && t.err != nil:
		// The next call begins anew.
		s.forget(k)
		return sharedlun.Progress{}, unknown(t.err)
	}
	return sharedlun.Progress{Done: !t.running() && t.err == nil, DoneBytes: t.at.Load(), Total: t.to}, nil
}

// copiedBefore is the task of a copy of which nothing is left to be done. Nobody has to remember it.
func copiedBefore(v sharedlun.Volume) *task {
	t := &task{copies: true, from: v.SizeBytes, to: v.SizeBytes, ended: make(chan struct{})}
	t.at.Store(v.SizeBytes)
	close(t.ended)
	return t
}

// beginCopying looks at the LUN itself first: an order that comes late finds there that the copy is whole, or another node's.
func (s *Service) beginCopying(ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool) (*task, error) {
	f, err := s.look(ctx, ref)
	if err != nil {
		return nil, err
	}
	g, err := decide.Same(ref, f)
	if err != nil {
		return nil, err
	}
	number, _, err := s.lun(ctx, ref)
	if err != nil {
		return nil, err
	}
	devices, err := s.cfg.Devices.List(ctx, ref.UUID)
	if err != nil {
		return nil, err
	}
	to, from, err := decide.Copy(g, v, s.cfg.Node, devices)
	if err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, ref.Lun, cred); err != nil {
		return nil, err
	}
	if to.CopiedBytes == to.SizeBytes {
		// An earlier agent, or another node, copied all of it.
		return copiedBefore(to), nil
	}
	ctx, cancel := context.WithCancel(s.background)
	t := &task{copies: true, from: to.CopiedBytes, to: to.SizeBytes, cancel: cancel, ended: make(chan struct{})}
	t.at.Store(t.from)
	s.mu.Lock()
	s.tasks[key(ref.UUID, v.UUID)] = t
	s.mu.Unlock()
	d := decide.Duplicate{
		Group: ref.UUID, Volume: v.UUID, Lun: number, Discard: discard, Pace: s.pacer(ref.UUID).wait,
		From: decide.Behind(sharedlun.Front(from.Ranges, to.Origin.Bytes), t.from), To: decide.Behind(to.Ranges, t.from),
	}
	s.work.Go(func() {
		defer close(t.ended)
		defer cancel()
		t.err = s.cfg.Devices.Copy(ctx, d, s.sure(ref, cred, number), func(at int64) { t.at.Store(t.from + at) })
		if t.err != nil {
			s.cfg.Log.Error(t.err, "Could not copy a volume whole", "volume", from.Name, "to", to.Name, "from", t.from, "at", t.at.Load())
			return
		}
		s.cfg.Log.Info("Copied a volume", "volume", from.Name, "to", to.Name, "from", t.from, "bytes", t.to)
	})
	return t, nil
}
