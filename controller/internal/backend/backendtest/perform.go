package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// fault is what goes wrong at a step.
type fault struct {
	at int
	// err is what the step fails with; nil for a crash, before or after the step.
	err   error
	after bool
}

// FailAt lets the n-th step of a host from now on fail, without any effect.
func (b *Backend) FailAt(name string, n int, err error) {
	b.t.Helper()
	b.change(name, func(h *host) { h.faults = append(h.faults, fault{at: h.steps + n, err: err}) })
}

// CrashBefore lets a host fall silent before its n-th step from now on, CrashAfter after it. Answer brings it back.
func (b *Backend) CrashBefore(name string, n int) {
	b.t.Helper()
	b.change(name, func(h *host) { h.faults = append(h.faults, fault{at: h.steps + n}) })
}

// CrashAfter lets a host fall silent after its n-th step from now on: nobody learns that it was performed.
func (b *Backend) CrashAfter(name string, n int) {
	b.t.Helper()
	b.change(name, func(h *host) { h.faults = append(h.faults, fault{at: h.steps + n, after: true}) })
}

// Block lets the steps of a host wait until the returned function is called.
func (b *Backend) Block(name string) (release func()) {
	b.t.Helper()
	gate := make(chan struct{})
	b.change(name, func(h *host) { h.blocked = gate })
	return func() {
		b.change(name, func(h *host) { h.blocked = nil })
		close(gate)
	}
}

// Perform performs steps in order and stops at the first that fails.
func (b *Backend) Perform(ctx context.Context, name string, steps backend.Steps) (done int, err error) {
	b.mu.Lock()
	h := b.hosts[name]
	if name == "" {
		// What guards the whole runs on no host.
		h = &host{answer: Up}
	}
	if h == nil {
		b.mu.Unlock()
		return 0, b.misused("steps are to be performed on the unknown host %q", name)
	}
	h.attempts++
	gate := h.blocked
	b.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	asked := false
	for s, err := range steps {
		asked = true
		if err != nil {
			return done, err
		}
		if err := b.perform(h, s); err != nil {
			return done, err
		}
		done++
	}
	if !asked {
		return 0, b.misused("no steps are to be performed on host %s", name)
	}
	return done, nil
}

// misused fails the test, and is the error of what must not have been asked for.
func (b *Backend) misused(format string, args ...any) error {
	err := fmt.Errorf("backendtest: "+format, args...)
	b.t.Error(err)
	return err
}

// away is the error of a host that does not answer.
func away(h *host) error {
	return &backend.StepError{
		Reason: v1alpha1.ReasonAgentUnreachable, Passing: true, Err: fmt.Errorf("host %s does not answer", h.name),
	}
}

// perform performs one step. The check of the test may read the API server, so it runs without the lock.
func (b *Backend) perform(h *host, in backend.Step) error {
	s, ok := in.(Step)
	switch {
	case !ok:
		return b.misused("a step of type %T is to be performed on host %s", in, h.name)
	case s.NotYet:
		return b.misused("%s is to be performed and cannot run yet", s)
	case s.On != h.name && (s.On != "" || s.Through != h.name):
		return b.misused("%s is to be performed on host %s", s, h.name)
	case h.name == "" && s.For == "":
		return b.misused("%s guards nothing, and is to be performed on no host", s)
	}
	b.mu.Lock()
	check := b.before
	b.mu.Unlock()
	if check != nil {
		if err := check(h.name, s); err != nil {
			return b.misused("%s: %w", s, err)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if h.answer != Up {
		return away(h)
	}
	h.steps++
	i := slices.IndexFunc(h.faults, func(f fault) bool { return f.at == h.steps })
	if i < 0 {
		return b.apply(h, s)
	}
	f := h.faults[i]
	if f.err != nil {
		return f.err
	}
	if f.after {
		if err := b.apply(h, s); err != nil {
			return err
		}
	}
	h.answer = Silent
	return away(h)
}

// apply changes the model.
func (b *Backend) apply(h *host, s Step) error {
	g := h.groups[s.Owner]
	switch s.Does {
	case v1alpha1.ActionWipeDevice:
		if i := slices.Index(h.dirty, s.What); i >= 0 {
			h.dirty = slices.Delete(h.dirty, i, i+1)
		}
	case v1alpha1.ActionEnsureVolumeGroup:
		if g == nil {
			b.made++
			h.groups[s.Owner] = &Group{
				UUID: fmt.Sprintf("uuid-%s-%d", h.name, b.made), Name: s.What, PVs: futurePVs(s.Owner, h.name), Size: 100 << 30, Free: 100 << 30,
			}
		}
	case v1alpha1.ActionEnsureThinPool:
		if g == nil {
			return b.misused("%s comes before its group", s)
		}
		h.extras[s.Owner] = true
	case ActionMove:
		g.Free, g.Volumes = g.Size, nil
	case v1alpha1.ActionRemoveVolumeGroup:
		if g != nil && len(g.Volumes) > 0 {
			return b.misused("%s: the group holds %v", s, g.Volumes)
		}
		delete(h.groups, s.Owner)
		delete(h.extras, s.Owner)
	case ActionShare:
		if !b.shares[s.Owner].take(s) {
			return b.misused("%s is not the next step of the whole", s)
		}
	default:
		return b.misused("unknown step %s", s)
	}
	b.log = append(b.log, s.String())
	return nil
}

// take reports whether a step is the next one of the whole, and takes it off. What guards waits for no other step.
func (sh *share) take(s Step) bool {
	if sh == nil {
		return false
	}
	i := slices.IndexFunc(sh.steps, func(next Step) bool { return next.For == s.For })
	if i < 0 || sh.steps[i].Digest() != s.Digest() {
		return false
	}
	sh.steps = slices.Concat(sh.steps[:i], sh.steps[i+1:])
	return true
}

// ErrBroken is an error for tests that need one.
var ErrBroken = errors.New("the disk is broken")
