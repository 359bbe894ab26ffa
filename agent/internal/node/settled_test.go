package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// settlingNode has a clean disk that settles after some looks.
type settlingNode struct {
	nodeStub
	events chan struct{}
	looks  int
	after  int
}

func (n *settlingNode) Watch(context.Context) (<-chan struct{}, error) { return n.events, nil }

func (n *settlingNode) Observe(ctx context.Context) (plan.Snapshot, error) {
	s, err := n.nodeStub.Observe(ctx)
	d := s.Devices[0]
	if n.looks++; n.looks <= n.after {
		d.Use = plan.Untested
	}
	// Something happens to it all the time.
	d.Version += time.Now().String()
	s.Devices = []plan.Device{d}
	return s, err
}

// ensure makes a group of the disk while an event comes each second.
func (n *settlingNode) ensure(t *testing.T) error {
	t.Helper()
	d := scribbled()
	d.HeadTailZero = true
	n.snapshot = plan.Snapshot{Devices: []plan.Device{d}}
	n.perform = func(s *plan.Snapshot, p plan.Plan) error {
		s.Groups = []plan.Group{{Name: "vg", OwnerUID: "uid"}}
		return nil
	}
	e := New(Config{Observer: n, Applier: n, Resolve: func(path string) (string, error) { return path, nil }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	go func() {
		defer close(n.events)
		for ctx.Err() == nil {
			n.events <- struct{}{}
			time.Sleep(time.Second)
		}
	}()
	_, err := e.EnsureGroup(ctx, plan.GroupSpec{Name: "vg", OwnerUID: "uid", Devices: []plan.Identity{plan.IdentityOf(d)}})
	cancel()
	for range n.events {
		continue
	}
	if err := <-done; err != nil && !errors.Is(err, errWatchEnded) {
		t.Error(err)
	}
	return err
}

func TestEngine_waitsForADeviceThatSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &settlingNode{events: make(chan struct{}), after: 6}
		began := time.Now()
		if err := n.ensure(t); err != nil || len(n.applied) != 2 {
			t.Errorf("after %v: %q, %v", time.Since(began), n.applied, err)
		}
	})
}

func TestEngine_doesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &settlingNode{events: make(chan struct{}), after: 1000}
		began := time.Now()
		err := n.ensure(t)
		if took := time.Since(began); !plan.Settling(err) || len(n.applied) > 0 || took < settlePatience || took > settlePatience+2*time.Second {
			t.Errorf("after %v: %q, %v", took, n.applied, err)
		}
	})
}
