package sharedgroup

import (
	"context"
	"sync/atomic"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// task is the zeroing of one part of a volume, its copying, or the making of its first filesystem. One that ended is kept, until somebody asked how, or the volume is
// unmapped.
type task struct {
	// copies is true for a copying. from and to are of a zeroing or a copying.
	copies   bool
	from, to int64
	cancel   context.CancelFunc
	at       atomic.Int64
	ended    chan struct{}
	// err is how it ended; it counts only once ended is closed.
	err error
}

func (t *task) running() bool {
	select {
	case <-t.ended:
		return false
	default:
		return true
	}
}

// Zero tells how far the zeroing of what is not ready of a volume is, and begins it if it does not run. It is zeroed through a device of its own, before any
// other one shows it: the volume's device may be in use meanwhile. An order to unmap the volume ends the zeroing.
func (s *Service) Zero(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool,
) (sharedlun.Progress, error) {
	if err := checkVolume(ref, v, 1); err != nil {
		return sharedlun.Progress{}, err
	}
	s.watch(ref)
	k := key(ref.UUID, v.UUID)
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return sharedlun.Progress{}, err
	}
	defer unlock()
	s.mu.Lock()
	t := s.tasks[k]
	s.mu.Unlock()
	if t != nil && (t.copies || t.from != v.ReadyBytes || t.to != v.SizeBytes) {
		// It is about a volume that is another one by now.
		if err := s.end(ctx, k); err != nil {
			return sharedlun.Progress{}, unknown(err)
		}
		t = nil
	}
	switch {
	case t == nil:
		if t, err = s.beginZeroing(ctx, ref, cred, v, discard); err != nil {
			return sharedlun.Progress{}, unknown(err)
		}
	case !t.running() && t.err != nil:
		// The next call begins anew.
		s.forget(k)
		return sharedlun.Progress{}, unknown(t.err)
	}
	return sharedlun.Progress{Done: !t.running() && t.err == nil, DoneBytes: t.at.Load() - t.from, Total: t.to - t.from}, nil
}

// beginZeroing looks at the LUN itself first: what the caller takes for new may hold something since.
func (s *Service) beginZeroing(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, discard bool,
) (*task, error) {
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
	m, err := s.mapped(ctx, ref.UUID, v.UUID)
	if err != nil {
		return nil, err
	}
	if err := decide.Zero(g, v, s.cfg.Node, m); err != nil {
		return nil, err
	}
	if err := s.mayWrite(ctx, ref.Lun, cred); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(s.background)
	t := &task{from: v.ReadyBytes, to: v.SizeBytes, cancel: cancel, ended: make(chan struct{})}
	t.at.Store(t.from)
	k := key(ref.UUID, v.UUID)
	s.mu.Lock()
	s.tasks[k] = t
	s.mu.Unlock()
	s.work.Go(func() {
		defer close(t.ended)
		defer cancel()
		t.err = s.cfg.Devices.Zero(ctx, ref.UUID, v.UUID, number, decide.Behind(v.Ranges, t.from), discard, s.sure(ref, cred, number),
			func(at int64) { t.at.Store(t.from + at) })
		if t.err != nil {
			s.cfg.Log.Error(t.err, "Could not zero a volume whole", "volume", v.Name, "from", t.from, "to", t.to, "at", t.at.Load())
			return
		}
		s.cfg.Log.Info("Zeroed a volume", "volume", v.Name, "from", t.from, "to", t.to)
	})
	return t, nil
}

// zeroes reports whether any of the first bytes of a volume is being zeroed or copied to.
func (s *Service) zeroes(k string, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[k]
	return t != nil && t.running() && (t.copies || t.from < bytes)
}

// cancel has a task end, and does not wait for it.
func (s *Service) cancel(k string) *task {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[k]
	if t != nil {
		t.cancel()
	}
	return t
}

// end ends a task, waits for its end, and forgets it.
func (s *Service) end(ctx context.Context, k string) error {
	t := s.cancel(k)
	if t == nil {
		return nil
	}
	select {
	case <-t.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.forget(k)
	return nil
}

func (s *Service) forget(k string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tasks, k)
}
