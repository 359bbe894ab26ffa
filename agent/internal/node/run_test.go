package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"quarry.storage/quarry/agent/internal/plan"
)

const (
	finishes = "finish the move of extents off /dev/sdb in group vg"
	keeps    = "stop the autoactivation of group vg"
)

// ownGroup is a group of this node on two devices.
func ownGroup(edit func(*plan.Group)) plan.Group {
	g := plan.Group{
		Name: "vg", UUID: "u", OwnerUID: "uid", Access: plan.AccessOwn, ExtentBytes: 4 << 20,
		PVs: []plan.PV{{Path: "/dev/sda", UUID: "p1"}, {Path: "/dev/sdb", UUID: "p2"}},
	}
	edit(&g)
	return g
}

// whileRunning runs the engine of a node, and lets a test look at it whenever everything waits.
func whileRunning(t *testing.T, n *nodeStub, look func(e *Engine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := funcr.New(func(_, args string) {
			n.mu.Lock()
			n.said = append(n.said, args)
			n.mu.Unlock()
		}, funcr.Options{})
		ctx, cancel := context.WithCancel(logr.NewContext(t.Context(), log))
		e, done := n.engine(), make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		synctest.Wait()
		look(e)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// did expects what was done so far, and forgets it.
func (n *nodeStub) did(t *testing.T, when string, want ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.applied, want) {
		t.Errorf("%s: did %q, want %q", when, n.applied, want)
	}
	n.applied = nil
}

// becomes changes what is on the node, and has the engine look.
func (n *nodeStub) becomes(e *Engine, groups ...plan.Group) {
	n.mu.Lock()
	n.snapshot.Groups = groups
	n.mu.Unlock()
	e.hub.poke()
	synctest.Wait()
}

// TestRun_finishesMoves: a move that is seen cut off is finished, again and again until that works, and whenever one is seen later.
func TestRun_finishesMoves(t *testing.T) {
	cutOff := ownGroup(func(g *plan.Group) { g.Moving = &plan.Moving{FromUUID: "p2", Bytes: 4 << 20} })
	well := ownGroup(func(*plan.Group) {})
	n := &nodeStub{snapshot: plan.Snapshot{Groups: []plan.Group{cutOff}}}
	broken := errors.New("input/output error")
	n.perform = func(s *plan.Snapshot, _ plan.Plan) error {
		if broken == nil {
			s.Groups = []plan.Group{well}
		}
		return broken
	}
	whileRunning(t, n, func(e *Engine) {
		n.did(t, "at the start", finishes)
		time.Sleep(blindPeriod)
		synctest.Wait()
		n.did(t, "after a failure", finishes)
		n.mu.Lock()
		broken = nil
		n.mu.Unlock()
		time.Sleep(blindPeriod)
		synctest.Wait()
		n.did(t, "once it works", finishes)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.did(t, "while nothing is moved")
		n.becomes(e, cutOff)
		n.did(t, "when another is seen", finishes)
	})
}

// TestRun_keepsGroupsFromTheHost: it is tried once for each group that the host activates, even if it fails, and again for one that went and
// came back.
func TestRun_keepsGroupsFromTheHost(t *testing.T) {
	activated := ownGroup(func(g *plan.Group) { g.Autoactivated = true })
	n := &nodeStub{snapshot: plan.Snapshot{Groups: []plan.Group{activated}}}
	n.perform = func(*plan.Snapshot, plan.Plan) error { return errors.New("read-only locking type set") }
	whileRunning(t, n, func(e *Engine) {
		n.did(t, "at the start", keeps)
		larger := activated
		larger.FreeBytes++
		n.becomes(e, larger)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.did(t, "after a failure")
		n.becomes(e)
		n.becomes(e, activated)
		n.did(t, "after the group was away", keeps)
	})
}

// TestRun_resumes: what a killed command left suspended is got back to work, and tried again if that fails. The log says so: a person may have
// suspended it.
func TestRun_resumes(t *testing.T) {
	suspended := ownGroup(func(g *plan.Group) {
		g.LogicalVolumes = []plan.Volume{{Name: "v", ID: "id", UUID: "lv", Active: true, Suspended: true}}
	})
	n := &nodeStub{snapshot: plan.Snapshot{Groups: []plan.Group{suspended}}}
	n.perform = func(*plan.Snapshot, plan.Plan) error { return errors.New("device or resource busy") }
	whileRunning(t, n, func(*Engine) {
		n.did(t, "at the start", "resume vg/v")
		n.mu.Lock()
		if !slices.ContainsFunc(n.said, func(l string) bool {
			return strings.Contains(l, `"Resuming a device`) && strings.Contains(l, `"volume"="v"`) && strings.Contains(l, "or somebody used dmsetup")
		}) {
			t.Errorf("said %q", n.said)
		}
		n.mu.Unlock()
		time.Sleep(blindPeriod)
		synctest.Wait()
		n.did(t, "after a failure", "resume vg/v")
	})
}

// TestRun_zeroesNoMoreThanWasAskedFor: a volume that is open when a call asks for it, is not zeroed any more if it is closed after calls ceased to wait
// for it. A call that waits for what a volume grows by is no reason to zero the volume.
func TestRun_zeroesNoMoreThanWasAskedFor(t *testing.T) {
	const zeroes = "zero vg/v from byte 0 to 4194304"
	unzeroed := ownGroup(func(g *plan.Group) {
		g.LogicalVolumes = []plan.Volume{{Name: "v", ID: "id", UUID: "lv", SizeBytes: 4 << 20, New: true, Unzeroed: true, Active: true, Open: true}}
	})
	closed := ownGroup(func(g *plan.Group) {
		g.LogicalVolumes = slices.Clone(unzeroed.LogicalVolumes)
		g.LogicalVolumes[0].Open = false
	})
	zeroed := `replace tag "quarry.storage/unzeroed=0" of vg/v by ""`
	for name, tt := range map[string]struct {
		asks  plan.Volume
		after time.Duration
		did   []string
	}{
		"closed while it is waited for": {plan.Volume{ID: "id"}, zeroAsked - 2*zeroInUse, []string{zeroes, zeroed}},
		"closed later":                  {plan.Volume{ID: "id"}, zeroAsked + 2*zeroInUse, nil},
		"its tail only is waited for":   {plan.Volume{TailOf: "id"}, zeroInUse, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := &nodeStub{snapshot: plan.Snapshot{Groups: []plan.Group{unzeroed}}}
			n.perform = func(*plan.Snapshot, plan.Plan) error { return nil }
			whileRunning(t, n, func(e *Engine) {
				e.zero.ask("id", awaited(tt.asks))
				time.Sleep(tt.after)
				n.becomes(e, closed)
				time.Sleep(zeroInUse)
				synctest.Wait()
				n.did(t, name, tt.did...)
			})
		})
	}
}

// TestRun_measuresPools: a pool of which nobody knows how full it is is activated, with longer pauses while that fails, and then left alone: a person
// may deactivate it for a repair.
func TestRun_measuresPools(t *testing.T) {
	inactive := ownGroup(func(g *plan.Group) { g.Pools = []plan.Pool{{Name: "pool", Ours: true, UsageUnknown: true}} })
	active := ownGroup(func(g *plan.Group) { g.Pools = []plan.Pool{{Name: "pool", Ours: true, Active: true}} })
	n := &nodeStub{snapshot: plan.Snapshot{Groups: []plan.Group{inactive}}}
	broken := errors.New("device or resource busy")
	n.perform = func(s *plan.Snapshot, _ plan.Plan) error {
		if broken == nil {
			s.Groups = []plan.Group{active}
		}
		return broken
	}
	whileRunning(t, n, func(e *Engine) {
		n.did(t, "at the start", "activate pool vg/pool")
		time.Sleep(blindPeriod)
		synctest.Wait()
		n.did(t, "a moment after a failure")
		n.mu.Lock()
		broken = nil
		n.mu.Unlock()
		time.Sleep(measurePause * blindPeriod)
		synctest.Wait()
		n.did(t, "later", "activate pool vg/pool")
		n.becomes(e, inactive)
		time.Sleep(time.Minute)
		synctest.Wait()
		n.did(t, "after a person deactivated it")
	})
}
