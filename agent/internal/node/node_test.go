package node

import (
	"context"
	"errors"
	"sync"
	"testing"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// nodeStub is a node that looks as the test says, and on which nothing is really done.
type nodeStub struct {
	// said are the lines of the log.
	said     []string
	mu       sync.Mutex
	snapshot plan.Snapshot
	// perform is called for every plan; it may change the snapshot.
	perform func(*plan.Snapshot, plan.Plan) error
	applied []string
}

func (n *nodeStub) Observe(context.Context) (plan.Snapshot, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.snapshot, nil
}

func (n *nodeStub) Watch(context.Context) (<-chan struct{}, error) { return nil, nil }

func (n *nodeStub) Apply(_ context.Context, p plan.Plan) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range p.Steps {
		n.applied = append(n.applied, s.String())
	}
	return n.perform(&n.snapshot, p)
}

func (n *nodeStub) engine() *Engine {
	return New(Config{Observer: n, Applier: n, Resolve: func(path string) (string, error) { return path, nil }})
}

// scribbled is a disk with data of no known format.
func scribbled() plan.Device {
	return plan.Device{
		Path: "/dev/sda", KernelName: "sda", Type: "disk", Serial: "S", SizeBytes: 1 << 30, ContentDigest: "data", Use: plan.Unused,
	}
}

func TestEngine_changeShowsWhatIsSeenAfterwards(t *testing.T) {
	n := &nodeStub{snapshot: plan.Snapshot{Devices: []plan.Device{scribbled()}}}
	n.perform = func(s *plan.Snapshot, _ plan.Plan) error {
		d := scribbled()
		d.ContentDigest, d.HeadTailZero = "zeroes", true
		s.Devices = []plan.Device{d}
		return nil
	}
	e := n.engine()
	var told []plan.Snapshot
	e.OnView(func(s plan.Snapshot) { told = append(told, s) })
	id := plan.IdentityOf(scribbled())
	d, err := e.WipeDevice(t.Context(), id)
	if err != nil || !d.HeadTailZero || len(n.applied) != 1 || n.applied[0] != "wipe /dev/sda" {
		t.Errorf("wiped %+v by %q: %v", d, n.applied, err)
	}
	if len(told) != 2 || told[0].Devices[0].HeadTailZero || !told[1].Devices[0].HeadTailZero {
		t.Errorf("views: %+v", told)
	}
	// A device that is clean needs no step, and makes no view.
	if d, err := e.WipeDevice(t.Context(), plan.IdentityOf(d)); err != nil || !d.HeadTailZero || len(n.applied) != 1 || len(told) != 2 {
		t.Errorf("wiped again %+v by %q, %d views: %v", d, n.applied, len(told), err)
	}
	if len(e.locks.held) != 0 {
		t.Errorf("still locked: %v", e.locks.held)
	}
}

func TestEngine_deviceThatGoesAwayMeanwhileIsNotFound(t *testing.T) {
	n := &nodeStub{snapshot: plan.Snapshot{Devices: []plan.Device{scribbled()}}}
	n.perform = func(s *plan.Snapshot, _ plan.Plan) error { s.Devices = nil; return nil }
	if _, err := n.engine().WipeDevice(t.Context(), plan.IdentityOf(scribbled())); !errors.Is(err, plan.ErrNotFound) {
		t.Errorf("error %v", err)
	}
}

func TestEngine_failedChangeIsObserved(t *testing.T) {
	broken := errors.New("input/output error")
	n := &nodeStub{snapshot: plan.Snapshot{Devices: []plan.Device{scribbled()}}}
	n.perform = func(*plan.Snapshot, plan.Plan) error { return broken }
	e := n.engine()
	if _, err := e.WipeDevice(t.Context(), plan.IdentityOf(scribbled())); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	select {
	case <-e.hub.poked:
	default:
		t.Error("nobody asked for an observation")
	}
	// What is refused before the first step was observed already.
	if _, err := e.EnsurePool(t.Context(), volume.PoolSpec{Group: "vg", OwnerUID: "uid", Name: "p", Percent: 10}); !errors.Is(err, plan.ErrNotFound) {
		t.Errorf("a pool in no group: %v", err)
	}
	select {
	case <-e.hub.poked:
		t.Error("a refusal asked for an observation")
	default:
	}
}

func TestEngine_groupThatIsNotSeenAfterwards(t *testing.T) {
	disk := scribbled()
	disk.ContentDigest, disk.HeadTailZero = "zeroes", true
	n := &nodeStub{snapshot: plan.Snapshot{Devices: []plan.Device{disk}}}
	n.perform = func(*plan.Snapshot, plan.Plan) error { return nil }
	want := plan.GroupSpec{Name: "vg", OwnerUID: "uid", Devices: []plan.Identity{plan.IdentityOf(disk)}}
	if g, err := n.engine().EnsureGroup(t.Context(), want); err == nil {
		t.Errorf("group %+v", g)
	}
	n.perform = func(s *plan.Snapshot, _ plan.Plan) error {
		s.Groups = []plan.Group{{Name: "vg", UUID: "u", OwnerUID: "uid", PVs: []plan.PV{{Path: disk.Path}}}}
		return nil
	}
	if g, err := n.engine().EnsureGroup(t.Context(), want); err != nil || g.UUID != "u" {
		t.Errorf("group %+v, %v", g, err)
	}
}
