package nfs_test

import (
	"context"
	"crypto/tls"
	"slices"
	"sync"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/nfs"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// spy is the pool of real agents. It writes down which were asked, and can fail in their place.
type spy struct {
	*agents.Pool
	// controller has the rights of the controller.
	controller *agents.Pool

	mu sync.Mutex
	// calls are the methods and nodes that were asked.
	calls []string
	// faults are what nodes answer in place of working.
	faults map[string]*decide.Fault
	// older is true for agents of an earlier version, which know no size.
	older bool
	// before is called before every effect, after when it is done; an error is what the caller gets.
	before, after func(ctx context.Context, method string) error
}

// newAgents starts an agent per node; all of them see the servers.
func newAgents(t *testing.T, servers *nfs.Servers, nodes []string) *spy {
	t.Helper()
	ca := agenttest.NewCA(t)
	connect := func(config func(testing.TB, string) *tls.Config, groupsOnly bool) *agents.Pool {
		pool := agents.New(context.Background(), agents.Config{
			TLS: func(node string) (*tls.Config, error) { return config(t, node), nil }, GroupsOnly: groupsOnly,
			Grace: time.Second, Patience: 50 * time.Millisecond, Absence: 50 * time.Millisecond,
		})
		t.Cleanup(pool.Close)
		return pool
	}
	pool, controller := connect(ca.CSITLS, true), connect(ca.ControllerTLS, false)
	for _, n := range nodes {
		a := agenttest.New(t, agenttest.Options{NodeName: n, CA: ca, Shares: servers.From(n)})
		pool.SetAddress(n, a.Addr(), "pod-of-"+n)
		controller.SetAddress(n, a.Addr(), "pod-of-"+n)
	}
	for deadline := time.Now().Add(10 * time.Second); len(pool.Online()) < len(nodes); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the agents do not come up")
		}
	}
	return &spy{Pool: pool, controller: controller, faults: map[string]*decide.Fault{}}
}

// work does what an agent is asked for, unless the test wants it to fail.
func (s *spy) work(ctx context.Context, method, node string, do func() error) error {
	s.mu.Lock()
	s.calls = append(s.calls, method+" "+node)
	fault, before, after := s.faults[node], s.before, s.after
	s.mu.Unlock()
	if fault != nil {
		f := *fault
		f.Node, f.Call = node, method
		return &f
	}
	if before != nil {
		if err := before(ctx, method); err != nil {
			return err
		}
	}
	err := do()
	if err == nil && after != nil {
		err = after(ctx, method)
	}
	return err
}

func (s *spy) EnsureDirectory(
	ctx context.Context, node string, share sharedvolume.Share, w sharedvolume.Wish,
) (d sharedvolume.Directory, err error) {
	if s.older {
		w.Bytes = 0
	}
	err = s.work(ctx, "EnsureDirectory", node, func() (err error) {
		d, err = s.Pool.EnsureDirectory(ctx, node, share, w)
		return err
	})
	return d, err
}

func (s *spy) RemoveDirectory(
	ctx context.Context, node string, share sharedvolume.Share, name, directory string, p sharedvolume.Policy,
) (r sharedvolume.Removal, err error) {
	err = s.work(ctx, "RemoveDirectory", node, func() (err error) {
		r, err = s.Pool.RemoveDirectory(ctx, node, share, name, directory, p)
		return err
	})
	return r, err
}

func (s *spy) ListDirectories(
	ctx context.Context, node string, share sharedvolume.Share, token string, check bool,
) (list []sharedvolume.Directory, next string, err error) {
	err = s.work(ctx, "ListDirectories", node, func() (err error) {
		list, next, err = s.Pool.ListDirectories(ctx, node, share, token, check)
		return err
	})
	return list, next, err
}

// asked returns the calls since the last time.
func (s *spy) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := slices.Clone(s.calls)
	s.calls = nil
	return out
}

// fail lets an agent answer with a fault; nil lets it work again.
func (s *spy) fail(node string, f *decide.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[node] = f
}

// hook sets what happens before and after every effect.
func (s *spy) hook(before, after func(ctx context.Context, method string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}
