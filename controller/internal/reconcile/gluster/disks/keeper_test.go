package disks

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const path = "/dev/disk/by-id/a"

// machine is the agent of the one node, with what it reported last, and what it says if it is asked.
type machine struct {
	reported, now decide.Node
	err           error
	// inspect changes what the agent sees when it looks at a disk; unseen is why it cannot look. looks counts.
	inspect func(*decide.Device)
	unseen  error
	looks   int
	// hangs is a disk at which no look comes to an end.
	hangs string
	mu    sync.Mutex
}

func (m *machine) Node(string) decide.Node { return m.reported }

func (m *machine) Inspect(ctx context.Context, _ string, d decide.Device) (decide.Device, error) {
	if d.Path == m.hangs {
		<-ctx.Done()
		return d, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	if m.inspect != nil {
		m.inspect(&d)
	}
	return d, m.unseen
}

func (m *machine) Ask(context.Context, string) (decide.Node, error) { return m.now, m.err }

// world has a node whose disk is clean, what a cache says, and what the API server says.
type world struct {
	t           *testing.T
	cache, live client.Client
	keeper      Keeper
	agent       *machine
	// seen is since when the process knows of the record.
	now, seen time.Time
}

func newWorld(t *testing.T, live ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "own"}}
	n.Spec.Storage = []v1alpha1.GlusterStorage{{Device: path}}
	n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "m", Operator: corev1.NodeSelectorOpIn, Values: []string{"1"}}},
	}}}}
	build := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithIndex(&v1alpha1.Member{}, kube.MemberNode, func(o client.Object) []string {
			return []string{string(o.(*v1alpha1.Member).Spec.Node)}
		}).Build()
	}
	w := &world{t: t, now: time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	w.seen = w.now.Add(-time.Hour)
	w.live = build(append(live, n)...)
	w.cache = build()
	n1 := decide.Node{Name: "n1", Agent: decide.AgentUp, Devices: []decide.Device{{
		Path: path, Type: "disk", WWN: "w", Serial: "S", SizeBytes: 1, Digest: "d", Since: w.now.Add(-time.Hour),
	}}}
	w.agent = &machine{reported: n1, now: n1}
	// Rivals are read from the cache, and everything is written to the API server.
	w.keeper = Keeper{Client: late{w.live, w.cache}, Live: w.live, Agents: w.agent, Now: func() time.Time { return w.now }}
	return w
}

// late is a client whose lists are those of a cache.
type late struct {
	client.Client
	cache client.Reader
}

func (l late) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return l.cache.List(ctx, list, opts...)
}

// subject is the GlusterNode as the API server has it.
func (w *world) subject() Subject {
	n := &v1alpha1.GlusterNode{}
	if err := w.live.Get(w.t.Context(), client.ObjectKey{Namespace: "gluster", Name: "own"}, n); err != nil {
		w.t.Fatal(err)
	}
	return Subject{Node: n, Absent: map[v1alpha1.DevicePath]bool{path: true}, Seen: map[v1alpha1.DevicePath]time.Time{path: w.seen}, Nodes: map[string]map[string]string{"n1": {"m": "1"}}, Pod: device.Pod{Workload: true, Has: []string{path}, Started: w.now.Add(-time.Minute), Made: w.now.Add(-time.Minute)}}
}

// records are those that the API server has.
func (w *world) records() []v1alpha1.GlusterDevice { return w.subject().Node.Spec.Devices }

// member is one of another node that has the same disk on record.
func member() *v1alpha1.Member {
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	m.Spec.Node, m.Spec.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Path: "/dev/disk/by-id/x", WWN: "w", Serial: "S", Size: 1}}}
	return m
}

// TestKeeper: a disk is put on record, then allocated, and may then be registered.
func TestKeeper(t *testing.T) {
	w := newWorld(t)
	for _, allocated := range []bool{false, false, true} {
		kept, err := w.keeper.Keep(t.Context(), w.subject())
		if got := w.records(); err != nil || kept.Dropped || len(got) != 1 || got[0].Allocated != allocated {
			t.Fatalf("%v, %+v: %+v", err, kept, got)
		}
		if may, _, why, err := w.keeper.MayRegister(t.Context(), w.subject(), v1alpha1.GlusterDevice{Device: path, Path: path}); err != nil || may != allocated || may == (why != "") {
			t.Errorf("allocated %t, may be registered %t, %s, %v", allocated, may, why, err)
		}
		w.now = w.now.Add(2 * time.Minute)
	}
}

// TestKeeper_restored: a record that was restored has to be known for three minutes, however old it says that it is.
func TestKeeper_restored(t *testing.T) {
	w := newWorld(t)
	n := w.subject().Node
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour))}}
	if err := w.live.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	w.seen = w.now
	for _, allocated := range []bool{false, false, true} {
		if _, err := w.keeper.Keep(t.Context(), w.subject()); err != nil || w.records()[0].Allocated != allocated {
			t.Errorf("%v, %+v", err, w.records())
		}
		w.now = w.now.Add(2 * time.Minute)
	}
}

// TestKeeper_lateCache: what only the API server itself knows keeps a disk from going on record, from being allocated, and from being registered.
func TestKeeper_lateCache(t *testing.T) {
	w := newWorld(t, member())
	if kept, err := w.keeper.Keep(t.Context(), w.subject()); err != nil || kept.Written || w.records() != nil {
		t.Errorf("on record: %v, %+v", err, kept)
	}
	for _, allocated := range []bool{false, true} {
		w = newWorld(t, member())
		n := w.subject().Node
		n.Spec.Devices = []v1alpha1.GlusterDevice{{
			Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour)), Allocated: allocated,
		}}
		if err := w.live.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if kept, err := w.keeper.Keep(t.Context(), w.subject()); err != nil || kept.Written || w.records()[0].Allocated != allocated {
			t.Errorf("allocated: %v, %+v", err, kept)
		}
		if may, _, why, err := w.keeper.MayRegister(t.Context(), w.subject(), n.Spec.Devices[0]); may || why == "" || err != nil {
			t.Errorf("registered: %t, %s, %v", may, why, err)
		}
	}
}

// TestKeeper_conflict: a GlusterNode that somebody changed meanwhile gets no record by what was decided before.
func TestKeeper_conflict(t *testing.T) {
	w := newWorld(t)
	before := w.subject()
	n := w.subject().Node
	n.Spec.Zone = "another"
	if err := w.live.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if _, err := w.keeper.Keep(t.Context(), before); !apierrors.IsConflict(err) || w.records() != nil {
		t.Errorf("%v, %+v", err, w.records())
	}
}

// TestKeeper_registered: a disk that glusterd2 has already is compared with the records of others, too. The record may be of an earlier time.
func TestKeeper_registered(t *testing.T) {
	w := newWorld(t)
	n := w.subject().Node
	n.Spec.Devices = []v1alpha1.GlusterDevice{{
		Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour)), Allocated: true,
	}}
	other := n.DeepCopy()
	other.Name, other.ResourceVersion = "other", ""
	if err := w.live.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for name, by := range map[string]client.Object{"nobody": nil, "GlusterNode": other, "Member on another machine": member()} {
		held := by != nil
		if held {
			if err := w.cache.Create(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		}
		s := w.subject()
		s.Registered = true
		kept, err := w.keeper.Keep(t.Context(), s)
		if fit, _, _ := kept.Decision.Fit(path); err != nil || (fit == gluster.No) != held || kept.Decision.Contested(path) != held {
			t.Errorf("held by %s: fit %v, %v", name, fit, err)
		}
		s.Pod.Has = nil
		if kept, err := w.keeper.Keep(t.Context(), s); err != nil || (len(kept.Without) == 1) != held {
			t.Errorf("held by %s: a server that does not have it gets it: %v, %v", name, kept.Without, err)
		}
		if held {
			if err := w.cache.Delete(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// opened is what a look at a disk sees once somebody has it open.
func opened(d *decide.Device) {
	d.Refusals = append(slices.Clone(d.Refusals), v1alpha1.Refusal{Reason: v1alpha1.RefusalBusy, Message: "The device is in use by process qemu (pid 7)."})
}

// TestKeeper_admits: a server whose template does not have a disk gets it only after the agent looked, whatever a record says that came with a restore. One that has it keeps it, and the agent is left
// alone then.
func TestKeeper_admits(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*machine)
		has    bool
		out    bool
		looks  int
	}{
		"all is well":                        {func(*machine) {}, false, false, 1},
		"somebody opened it":                 {func(m *machine) { m.inspect = opened }, false, true, 1},
		"the agent cannot look":              {func(m *machine) { m.unseen = context.DeadlineExceeded }, false, true, 1},
		"the agent is not heard":             {func(m *machine) { m.reported.Agent = decide.AgentUnreachable }, false, true, 0},
		"the agent does not answer now":      {func(m *machine) { m.err = context.DeadlineExceeded }, false, true, 0},
		"it has it, and somebody opened it":  {func(m *machine) { m.inspect = opened }, true, false, 0},
		"it has it, and nobody is heard":     {func(m *machine) { m.reported.Agent = decide.AgentUnreachable }, true, false, 0},
		"another disk is under its path now": {func(m *machine) { m.now.Devices = []decide.Device{{Path: path, Type: "disk", WWN: "x", Digest: "d"}} }, false, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.subject().Node
			n.Spec.Devices = []v1alpha1.GlusterDevice{{
				Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour)), Allocated: true,
			}}
			if err := w.live.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			row.change(w.agent)
			s := w.subject()
			if !row.has {
				s.Pod = device.Pod{}
			}
			kept, err := w.keeper.Keep(t.Context(), s)
			if err != nil || (len(kept.Without) == 1) != row.out || w.agent.looks != row.looks {
				t.Errorf("%v: without %v after %d looks", err, kept.Without, w.agent.looks)
			}
		})
	}
}

// TestKeeper_looksAtOne: a disk that the agent refuses at that moment keeps no other one of the node from its record, and each is looked at once.
func TestKeeper_looksAtOne(t *testing.T) {
	w := newWorld(t)
	const second = "/dev/disk/by-id/b"
	w.agent.now.Devices = append(w.agent.now.Devices, decide.Device{Path: second, Type: "disk", WWN: "w2", Serial: "S2", SizeBytes: 1, Digest: "d"})
	w.agent.reported = w.agent.now
	w.agent.inspect = func(d *decide.Device) {
		if d.Path == path {
			opened(d)
		}
	}
	n := w.subject().Node
	n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{Device: second})
	if err := w.live.Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	kept, err := w.keeper.Keep(t.Context(), w.subject())
	if got := w.records(); err != nil || !kept.Written || len(got) != 1 || got[0].Device != second || w.agent.looks != 2 {
		t.Errorf("%v, %+v after %d looks", err, got, w.agent.looks)
	}
}

// TestKeeper_asks: the agent is asked before a disk goes on record, is allocated or registered. What it reported before does not count then, and nothing is done while it does not answer.
func TestKeeper_asks(t *testing.T) {
	clean := newWorld(t).agent.now
	for name, change := range map[string]func(*machine){
		"the disk is in use by now": func(m *machine) {
			m.now.Devices = []decide.Device{clean.Devices[0]}
			m.now.Devices[0].Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "It has a filesystem."}}
		},
		"the disk is gone by now":  func(m *machine) { m.now.Devices = nil },
		"it does not answer":       func(m *machine) { m.err = context.DeadlineExceeded },
		"somebody opened it since": func(m *machine) { m.inspect = opened },
		"it cannot look":           func(m *machine) { m.unseen = errors.New("unknown method InspectDevice") },
	} {
		w := newWorld(t)
		change(w.agent)
		if kept, err := w.keeper.Keep(t.Context(), w.subject()); err != nil || kept.Written || w.records() != nil {
			t.Errorf("%s: on record: %v, %+v", name, err, kept)
		}
		for _, allocated := range []bool{false, true} {
			w = newWorld(t)
			n := w.subject().Node
			n.Spec.Devices = []v1alpha1.GlusterDevice{{
				Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour)), Allocated: allocated,
			}}
			if err := w.live.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			change(w.agent)
			if kept, err := w.keeper.Keep(t.Context(), w.subject()); err != nil || kept.Written || w.records()[0].Allocated != allocated {
				t.Errorf("%s: allocated: %v, %+v", name, err, kept)
			}
			if may, _, why, err := w.keeper.MayRegister(t.Context(), w.subject(), n.Spec.Devices[0]); may || why == "" || err != nil {
				t.Errorf("%s: registered: %t, %s, %v", name, may, why, err)
			}
		}
	}
}

// TestKeeper_yields: a record yields to that of a Member once the API server itself has both, and to nothing that a cache says alone. A disk that was allocated stays on record.
func TestKeeper_yields(t *testing.T) {
	for name, row := range map[string]struct {
		live, cached, allocated bool
		records                 int
	}{
		"both say so":         {true, true, false, 0},
		"a cache says so":     {false, true, false, 1},
		"it is allocated":     {true, true, true, 1},
		"only the API server": {true, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.subject().Node
			n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: path, Path: path, Node: "n1", WWN: "w", Serial: "S", Size: 1, Recorded: metav1.NewTime(w.now.Add(-time.Hour)), Allocated: row.allocated}}
			if err := w.live.Update(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			for at, has := range map[client.Client]bool{w.live: row.live, w.cache: row.cached} {
				if !has {
					continue
				}
				m := member()
				m.Spec.Node = "n1"
				if err := at.Create(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			s := w.subject()
			s.Pod.Has = nil
			kept, err := w.keeper.Keep(t.Context(), s)
			if got := w.records(); err != nil || kept.Dropped || len(got) != row.records || (kept.Decision.Withdrawn() == "") != (row.records > 0) || len(got) == 0 && !kept.Written {
				t.Errorf("%v, %+v: %+v", err, kept, got)
			}
		})
	}
}

// TestKeeper_hangs: a disk at which no look comes to an end keeps no other one from its record, and the pass waits for it a few seconds at most.
func TestKeeper_hangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const second = "/dev/disk/by-id/b"
		w.agent.now.Devices = append(w.agent.now.Devices, decide.Device{Path: second, Type: "disk", WWN: "w2", Serial: "S2", SizeBytes: 1, Digest: "d"})
		w.agent.reported, w.agent.hangs = w.agent.now, path
		n := w.subject().Node
		n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{Device: second})
		if err := w.live.Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		kept, err := w.keeper.Keep(t.Context(), w.subject())
		if got := w.records(); err != nil || !kept.Written || len(got) != 1 || got[0].Device != second {
			t.Errorf("%v, %+v", err, got)
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it took %v", took)
		}
	})
}
