package san

import (
	"context"
	"errors"
	"testing"
)

// TestSan_drop: nothing is remembered of a group whose owner is gone, but what may still be on its way, and what somebody works on.
func TestSan_drop(t *testing.T) {
	gone := func(owner string) bool { return owner == ref.OwnerUID }
	for name, c := range map[string]struct {
		change func(*memory)
		gone   func(string) bool
		want   int
	}{
		"idle":                      {func(*memory) {}, gone, 0},
		"another one is gone":       {func(*memory) {}, func(owner string) bool { return !gone(owner) }, 1},
		"a change had no answer":    {func(m *memory) { m.unanswered = "n1" }, gone, 1},
		"a write had no answer":     {func(m *memory) { m.late = "7" }, gone, 1},
		"somebody waits for a turn": {func(m *memory) { m.waiting++ }, gone, 1},
		"somebody has the turn":     {func(m *memory) { m.turn <- struct{}{} }, gone, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n1"); err != nil {
				t.Fatal(err)
			}
			c.change(s.groups[ref.OwnerUID])
			for range 2 {
				if s.Drop(c.gone); len(s.groups) != c.want {
					t.Errorf("%d groups are remembered, want %d", len(s.groups), c.want)
				}
			}
		})
	}
}

// TestSan_dropInATurn: a turn that goes on keeps others out, whatever is dropped meanwhile.
func TestSan_dropInATurn(t *testing.T) {
	s := newFleet("n1").san("csi/1")
	err := s.Turn(t.Context(), ref, func(context.Context, *Turn) error {
		s.Drop(func(string) bool { return true })
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Turn(ctx, ref, func(context.Context, *Turn) error { return nil }); err == nil {
			return errors.New("two turns at a time")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
