package iscsi

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

const (
	// partTimeout is how long iscsid may take to end a session whose devices are gone.
	partTimeout = 5 * time.Second
	// unbindTimeout is how long the kernel may take to take the devices of a session away: commands that wait for its connection end before.
	unbindTimeout = 30 * time.Second
	partPause     = 100 * time.Millisecond
)

// refused reports whether an exit code is that of an iscsid which does not end a session because it does not have it in hand: it was started while the target was
// gone, and takes the session over only once that is back, or takes over one before it.
func refused(code int) bool {
	return slices.Contains([]int{codeNotConnected, codeInternal, codeNoSession}, code)
}

// left reads a session again; nil when it is gone.
func (h *Host) left(s Session) (*Session, error) {
	sessions, err := h.Sessions(s.IQN)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(sessions, func(o Session) bool { return o.ID == s.ID })
	if i < 0 {
		return nil, nil
	}
	return &sessions[i], nil
}

// part ends a session without iscsid: by the kernel, as iscsid does. Our own iscsid is ended before, since it would go on with what it remembers of
// the session; the host's is told by the kernel.
func (h *Host) part(ctx context.Context, s Session) error {
	ours, err := h.partAlone(ctx, s)
	if err != nil {
		return err
	}
	h.cfg.Log.Info("Ended a session that iscsid did not end: its target is gone", "target", s.IQN, "portal", s.Portal, "restarted", ours)
	if ours && h.needed() {
		return h.serve(ctx)
	}
	return nil
}

// partAlone does so while nobody starts our iscsid, and reports whether there was one.
func (h *Host) partAlone(ctx context.Context, s Session) (ours bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ours, err = h.alone(); err != nil {
		return ours, err
	}
	if !ours {
		return false, h.end(ctx, s, h.parting)
	}
	if err := h.endOwn(ctx); err != nil {
		return true, err
	}
	return true, h.end(ctx, s, 0)
}

// end takes the devices of a session away, and then the session, unless iscsid does that before the patience ends.
func (h *Host) end(ctx context.Context, s Session, patience time.Duration) error {
	if err := h.tell(ctx, unbindSession, s.ID); err != nil {
		return h.unlessEnded(s, err)
	}
	gone, err := until(ctx, unbindTimeout, func() (bool, error) {
		targets, err := filepath.Glob(filepath.Join(s.dir, "target*"))
		return len(targets) == 0, err
	})
	if err == nil && !gone {
		err = fmt.Errorf("the kernel has its devices after %s: commands on them wait for the session's connection", unbindTimeout)
	}
	if err != nil {
		return err
	}
	gone, err = until(ctx, patience, func() (bool, error) {
		left, err := h.left(s)
		return left == nil, err
	})
	if err != nil || gone {
		return err
	}
	if err := h.tell(ctx, destroyConnection, s.ID); err != nil {
		return h.unlessEnded(s, err)
	}
	return h.unlessEnded(s, h.tell(ctx, destroySession, s.ID))
}

// unlessEnded forgets an error about a session that is gone: iscsid may be quicker.
func (h *Host) unlessEnded(s Session, err error) error {
	if err == nil {
		return nil
	}
	if left, errLeft := h.left(s); errLeft == nil && left == nil {
		return nil
	}
	return err
}

// until waits for something to become so.
func until(ctx context.Context, limit time.Duration, so func() (bool, error)) (bool, error) {
	deadline := time.Now().Add(limit)
	for {
		if yes, err := so(); yes || err != nil || time.Now().After(deadline) {
			return yes, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(partPause):
		}
	}
}
