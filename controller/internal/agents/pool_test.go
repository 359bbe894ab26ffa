package agents

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const owner = "11111111-2222-3333-4444-555555555555"

func newPool(t *testing.T, ca *agenttest.CA) *Pool {
	t.Helper()
	p := New(context.Background(), Config{
		TLS:   func(node string) (*tls.Config, error) { return ca.ControllerTLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond,
	})
	t.Cleanup(p.Close)
	return p
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// connected starts an agent with two disks and a pool that is connected to it.
func connected(t *testing.T) (*agenttest.Agent, *Pool) {
	t.Helper()
	a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
	a.AddDisks(100<<30, "sda", "sdb")
	p := newPool(t, a.CA)
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "the agent is up", func() bool { return p.Node("n1").Up() && len(p.Node("n1").Devices) == 2 })
	return a, p
}

func TestPool_watches(t *testing.T) {
	a, p := connected(t)
	n := p.Node("n1")
	if n.AgentVersion != "test" || n.LVMVersion == "" || n.BootID == "" || n.Session.IsZero() || !n.Devices[0].Clean() {
		t.Errorf("%+v", n)
	}
	if names := p.Online(); !slices.Equal(names, []string{"n1"}) {
		t.Errorf("online are %v", names)
	}
	changes := p.Changes()
	if name := <-changes; name != "n1" {
		t.Errorf("told of %q", name)
	}
	a.AddDisks(100<<30, "sdc")
	select {
	case <-changes:
	case <-time.After(5 * time.Second):
		t.Fatal("nobody tells of the new disk")
	}
	await(t, "the disk shows", func() bool { return len(p.Node("n1").Devices) == 3 })
}

// TestPool_age: how long a disk has been there is told without anybody's clock, and survives a restart of the agent. A disk that was plugged
// in again is a new one.
func TestPool_age(t *testing.T) {
	a, p := connected(t)
	age := func(name string) time.Duration {
		d, ok := p.Node("n1").Device(a.Path(name))
		if !ok || d.Since.IsZero() {
			t.Fatalf("no age of %s", name)
		}
		return time.Since(d.Since)
	}
	if old := age("sda"); old < time.Hour || old > 2*time.Hour {
		t.Errorf("a disk that was there at boot is %v old", old)
	}
	a.AddDisk(agenttest.Disk{Name: "sdc", Fresh: true})
	await(t, "the disk shows", func() bool { return len(p.Node("n1").Devices) == 3 })
	if fresh := age("sdc"); fresh < 0 || fresh > time.Minute {
		t.Errorf("a disk that appeared just now is %v old", fresh)
	}
	a.Restart(t)
	await(t, "the agent is back", func() bool { return p.Node("n1").Up() })
	if old := age("sda"); old < time.Hour {
		t.Errorf("after a restart of the agent the disk is %v old", old)
	}
	a.Unplug("sda")
	await(t, "the disk is gone", func() bool { return len(p.Node("n1").Devices) == 2 })
	a.Plug("sda")
	await(t, "the disk is back", func() bool { return len(p.Node("n1").Devices) == 3 })
	if fresh := age("sda"); fresh > time.Minute {
		t.Errorf("a disk that was plugged in again is %v old", fresh)
	}
}

// TestPool_ask: an agent that is asked says how its devices are at this moment, and whose disk another node sees too.
func TestPool_ask(t *testing.T) {
	a, p := connected(t)
	n, err := p.Ask(t.Context(), "n1")
	if err != nil || !n.Up() || len(n.Devices) != 2 || n.Devices[0].Since.IsZero() {
		t.Errorf("%+v, %v", n, err)
	}
	a.Unplug("sda")
	if n, err = p.Ask(t.Context(), "n1"); err != nil || len(n.Devices) != 1 {
		t.Errorf("%+v, %v", n.Devices, err)
	}
	if _, err := p.Ask(t.Context(), "n9"); err == nil {
		t.Error("a node without an agent answers")
	}
}

// TestPool_inspect: an agent that looks at one disk sees who opened it since it was tested, and looks at no other disk than the one that is meant.
func TestPool_inspect(t *testing.T) {
	a, p := connected(t)
	n, err := p.Ask(t.Context(), "n1")
	if err != nil {
		t.Fatal(err)
	}
	d := n.Devices[0]
	if now, err := p.Inspect(t.Context(), "n1", d); err != nil || !now.Clean() || now.Digest != d.Digest || now.Since.IsZero() {
		t.Errorf("%+v, %v", now, err)
	}
	a.Open(d.KernelName, "qemu")
	if n, err = p.Ask(t.Context(), "n1"); err != nil || !n.Devices[0].Clean() {
		t.Fatalf("a disk that was tested before is not remembered, so that this test says nothing: %+v, %v", n.Devices, err)
	}
	if now, err := p.Inspect(t.Context(), "n1", d); err != nil || !now.RefusedFor(v1alpha1.RefusalBusy) {
		t.Errorf("a disk that somebody opened: %+v, %v", now, err)
	}
	a.Open(d.KernelName, "")
	a.Seize(d.KernelName)
	if now, err := p.Inspect(t.Context(), "n1", d); err != nil || len(now.Refusals) == 0 {
		t.Errorf("a disk that somebody has exclusively: %+v, %v", now, err)
	}
	a.Free(d.KernelName)
	other := d
	other.Serial = "another"
	if _, err := p.Inspect(t.Context(), "n1", other); err == nil {
		t.Error("it looks at another disk than the one that is meant")
	}
	if _, err := p.Inspect(t.Context(), "n9", d); err == nil {
		t.Error("a node without an agent looks")
	}
}

// TestSince_unknown: an agent before this one tells no age.
func TestSince_unknown(t *testing.T) {
	at := time.Now()
	for name, d := range map[string]*agentv1.Device{"no age": {}, "no uptime": {AppearedMillis: new(int64(5))}} {
		up := int64(1000)
		if name == "no uptime" {
			up = 0
		}
		if got := since(d, at, up); !got.IsZero() {
			t.Errorf("%s: since %v", name, got)
		}
	}
	if got := since(&agentv1.Device{AppearedMillis: new(int64(5000))}, at, 1000); !got.Equal(at) {
		t.Errorf("a device of the future is there since %v", got)
	}
}

// withGroups is a connected agent with a group of uid and one of uid-2.
func withGroups(t *testing.T) (*agenttest.Agent, *Pool) {
	t.Helper()
	a, p := connected(t)
	a.AddGroup("vg", "uid", "sda")
	a.AddGroup("other", "uid-2", "sdb")
	await(t, "the groups show", func() bool { n := p.Node("n1"); return len(n.Groups) == 2 && len(n.Unknown) == 0 })
	return a, p
}

// blind reports whether one group of the node is unknown, with that UUID.
func blind(p *Pool, uuid string) bool {
	n := p.Node("n1")
	return n.Up() && len(n.Unknown) == 1 && n.Unknown[0].UUID == uuid
}

// TestPool_unknownGroup: a node of which LVM cannot report a group is not one without that group, and has its other groups.
func TestPool_unknownGroup(t *testing.T) {
	a, p := withGroups(t)
	uuid := p.Node("n1").GroupsOf("uid")[0].UUID
	a.BreakGroup("vg", errors.New("exit status 5"))
	await(t, "the failure shows", func() bool { return blind(p, uuid) })
	n := p.Node("n1")
	want := []decide.UnknownGroup{{Name: "vg", UUID: uuid, OwnerUID: "uid", Devices: []string{a.Path("sda")}, Reason: "exit status 5"}}
	if diff := cmp.Diff(want, n.Unknown); diff != "" || n.LVMError != "" {
		t.Errorf("%q (-want +got):\n%s", n.LVMError, diff)
	}
	var fault *decide.Fault
	err := p.RemoveVolumeGroup(t.Context(), "n1", decide.GroupRef{Name: "vg", Owner: "uid"}, nil)
	if !errors.As(err, &fault) || fault.Kind != decide.FaultUnavailable || fault.Reason != v1alpha1.ReasonVolumeGroupUnknown {
		t.Errorf("%#v", err)
	}
	keeps := func() {
		t.Helper()
		n := p.Node("n1")
		if own, other := n.GroupsOf("uid"), n.GroupsOf("uid-2"); len(own) != 1 || !own[0].Unknown || len(other) != 1 || other[0].Unknown {
			t.Errorf("%+v, %+v", own, other)
		}
	}
	keeps()
	a.DamageGroup("vg")
	await(t, "nobody can tell which group it is", func() bool { return blind(p, "") })
	keeps()
	a.BreakGroup("vg", nil)
	await(t, "it heals", func() bool {
		n := p.Node("n1")
		return n.Up() && len(n.Unknown) == 0 && len(n.GroupsOf("uid")) == 1 && !n.GroupsOf("uid")[0].Unknown
	})
}

// TestPool_unknownGroupThatWasNeverSeen: a new controller learns whose group it is, and a session that has not reported yet does not undo it.
func TestPool_unknownGroupThatWasNeverSeen(t *testing.T) {
	a, seen := withGroups(t)
	uuid := seen.Node("n1").GroupsOf("uid")[0].UUID
	a.BreakGroup("vg", errors.New("exit status 5"))
	await(t, "the failure shows", func() bool { return blind(seen, uuid) })
	p := newPool(t, a.CA)
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "a new controller learns of it", func() bool { return blind(p, uuid) })
	if n := p.Node("n1"); len(n.GroupsOf("uid")) != 0 || len(n.GroupsOf("uid-2")) != 1 || !slices.Equal(p.Holders("uid"), []string{"n1"}) {
		t.Errorf("%+v, held by %v", n, p.Holders("uid"))
	}
	a.Restart(t)
	for range 20 {
		if n := p.Node("n1"); n.Up() && len(n.Unknown) == 0 {
			t.Fatalf("%+v", n)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestLink_errorOfAnEarlierAgent: one that sends no unknown groups means that it knows of none.
func TestLink_errorOfAnEarlierAgent(t *testing.T) {
	l := newLink(New(t.Context(), Config{}), "n1")
	send := func(r *agentv1.WatchVolumeGroupsResponse) decide.Node {
		l.report(t.Context(), func(n *decide.Node) { l.take(n, r) })
		return l.node()
	}
	one := &agentv1.VolumeGroup{Name: "vg", Uuid: "U", OwnerUid: "uid"}
	if n := send(&agentv1.WatchVolumeGroupsResponse{Groups: []*agentv1.VolumeGroup{one}}); len(n.Groups) != 1 || n.LVMError != "" {
		t.Errorf("%+v", n)
	}
	if n := send(&agentv1.WatchVolumeGroupsResponse{Error: "exit status 5"}); len(n.Groups) != 1 || !strings.Contains(n.LVMError, "exit status 5") {
		t.Errorf("%+v", n)
	}
	unknown := []*agentv1.UnknownVolumeGroup{{Name: "vg", Uuid: "U", OwnerUid: "uid"}}
	if n := send(&agentv1.WatchVolumeGroupsResponse{Error: "exit status 5", Unknown: unknown}); len(n.Groups) != 1 || !n.Groups[0].Unknown || n.LVMError != "" {
		t.Errorf("%+v", n)
	}
	if n := send(&agentv1.WatchVolumeGroupsResponse{}); len(n.Groups) != 0 || len(n.Unknown) != 0 || n.LVMError != "" {
		t.Errorf("%+v", n)
	}
}

func TestPool_calls(t *testing.T) {
	a, p := connected(t)
	ctx, devices := context.Background(), p.Node("n1").Devices
	if err := p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, devices); err != nil {
		t.Fatal(err)
	}
	// What the call returned is known at once, whatever the watch does.
	if g := p.Node("n1").GroupsOf(owner); len(g) != 1 || len(g[0].PVs) != 2 || !slices.Equal(p.Holders(owner), []string{"n1"}) {
		t.Errorf("%+v", g)
	}
	if err := p.ReduceVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, devices[1:]); err != nil {
		t.Fatal(err)
	}
	if g := p.Node("n1").GroupsOf(owner); len(g[0].PVs) != 1 {
		t.Errorf("%+v", g)
	}
	if err := p.RemoveVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, devices); err != nil {
		t.Fatal(err)
	}
	await(t, "the group is gone and stays gone", func() bool { return len(p.Holders(owner)) == 0 && a.IsEmpty("sda") && a.IsEmpty("sdb") })
	a.Format("sda", "ext4", "", "")
	await(t, "the filesystem shows", func() bool { return p.Node("n1").Devices[0].RefusedFor(v1alpha1.RefusalFilesystem) })
	d, err := p.WipeDevice(ctx, "n1", p.Node("n1").Devices[0])
	if err != nil || !d.Clean() || !p.Node("n1").Devices[0].Clean() {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestPool_orphanIsRecognised(t *testing.T) {
	a, p := connected(t)
	a.CrashAfter(1)
	err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, p.Node("n1").Devices[:1])
	if kind(err) != decide.FaultUnavailable {
		t.Fatalf("got %v", err)
	}
	a.Restart(t)
	await(t, "the physical volume that was left behind shows", func() bool {
		n := p.Node("n1")
		return n.Up() && n.Devices[0].PVUUID != ""
	})
	if d := p.Node("n1").Devices[0]; !disk.Orphan(d, owner) || disk.Orphan(d, "somebody-else") {
		t.Errorf("%+v", d)
	}
}

// TestPool_physicalVolumesAreKnownBefore keeps the controller's record of a group that is being made true: what it announces is what the
// agent gives, whatever name of the disk the request has.
func TestPool_physicalVolumesAreKnownBefore(t *testing.T) {
	a, p := connected(t)
	a.AddDisks(100<<30, "sdc")
	await(t, "the disk shows", func() bool { return len(p.Node("n1").Devices) == 3 })
	devices := p.Node("n1").Devices
	var want []string
	for _, d := range devices {
		want = append(want, disk.Future(d, owner))
	}
	slices.Sort(want)
	asked := slices.Clone(devices)
	for i, d := range asked {
		asked[i].Path = "/dev/" + d.KernelName
	}
	// The first call is cut off in the middle: what it has made is taken as it is.
	a.CrashAfter(1)
	if err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, asked); kind(err) != decide.FaultUnavailable {
		t.Fatalf("got %v", err)
	}
	a.Restart(t)
	await(t, "the physical volume that was left behind shows", func() bool {
		n := p.Node("n1")
		return n.Up() && slices.ContainsFunc(n.Devices, func(d decide.Device) bool { return disk.Orphan(d, owner) })
	})
	var again []string
	for _, d := range p.Node("n1").Devices {
		again = append(again, disk.Future(d, owner))
	}
	if slices.Sort(again); !slices.EqualFunc(again, want, pvuuid.Fits) {
		t.Errorf("after the crash %v are announced, before it %v", again, want)
	}
	if err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, p.Node("n1").Devices); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, pv := range p.Node("n1").GroupsOf(owner)[0].PVs {
		got = append(got, pv.UUID)
	}
	if slices.Sort(got); !slices.EqualFunc(got, want, pvuuid.Fits) {
		t.Errorf("the agent gave %v, want %v", got, want)
	}
}

func kind(err error) decide.FaultKind {
	f := &decide.Fault{}
	if !errors.As(err, &f) {
		return -1
	}
	return f.Kind
}

func TestPool_faults(t *testing.T) {
	a, p := connected(t)
	ctx, d := context.Background(), p.Node("n1").Devices[0]
	gone := d
	gone.Path = "/dev/disk/by-id/gone"
	other := d
	other.Serial = "another"
	a.AddForeignGroup("taken", "sdb")
	for name, c := range map[string]struct {
		err  error
		want decide.FaultKind
	}{
		"no such device": {p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, []decide.Device{gone}), decide.FaultNotFound},
		"another disk":   {p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "g", Owner: owner}, []decide.Device{other}), decide.FaultPrecondition},
		"a taken name":   {p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "taken", Owner: owner}, []decide.Device{d}), decide.FaultConflict},
		"a bad name":     {p.EnsureVolumeGroup(ctx, "n1", decide.GroupRef{Name: "-x", Owner: owner}, []decide.Device{d}), decide.FaultInvalid},
		"not ours":       {p.RemoveVolumeGroup(ctx, "n1", decide.GroupRef{Name: "taken", Owner: owner}, nil), decide.FaultDenied},
		"no such node":   {p.RemoveVolumeGroup(ctx, "n9", decide.GroupRef{Name: "g", Owner: owner}, nil), decide.FaultUnavailable},
	} {
		if got := kind(c.err); got != c.want {
			t.Errorf("%s: %d (%v), want %d", name, got, c.err, c.want)
		}
	}
}

func TestPool_restartIsNotTold(t *testing.T) {
	a, p := connected(t)
	p.cfg.Patience = 5 * time.Second
	a.Restart(t)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if !p.Node("n1").Up() {
			t.Fatal("a quick restart of the agent counts as an outage")
		}
	}
}

func TestPool_agentAway(t *testing.T) {
	a, p := connected(t)
	if err := p.EnsureVolumeGroup(context.Background(), "n1", decide.GroupRef{Name: "g", Owner: owner}, p.Node("n1").Devices); err != nil {
		t.Fatal(err)
	}
	a.Kill()
	await(t, "the agent counts as unreachable", func() bool { return p.Node("n1").Agent == decide.AgentUnreachable })
	n := p.Node("n1")
	if !strings.Contains(n.Problem, "does not answer") || len(n.GroupsOf(owner)) != 1 {
		t.Errorf("%+v", n)
	}
	a.Restart(t)
	await(t, "the agent is back", func() bool { return p.Node("n1").Up() })
	p.Remove("n1")
	await(t, "the agent counts as missing", func() bool { return p.Node("n1").Agent == decide.AgentMissing })
	p.SetAddress("n1", a.Addr(), "next pod")
	await(t, "the agent is back", func() bool { return p.Node("n1").Up() })
	p.Forget("n1")
	await(t, "the node is forgotten", func() bool { return len(p.Node("n1").Devices) == 0 && len(p.Holders(owner)) == 0 })
}

// TestPool_networkCut lets packets vanish: nobody says that the connection is gone.
func TestPool_silentPeer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := newPool(t, agenttest.NewCA(t))
	p.SetAddress("n1", l.Addr().String(), "pod")
	if n := p.Node("n1"); n.Agent != decide.AgentConnecting {
		t.Errorf("%+v", n)
	}
	await(t, "the agent counts as unreachable", func() bool { return p.Node("n1").Agent == decide.AgentUnreachable })
}

// TestPool_absentMachine: a process that begins to lead knows soon which nodes are off. An agent that is being started answers later, and its machine refuses meanwhile.
func TestPool_absentMachine(t *testing.T) {
	silent := &net.OpError{Op: "dial", Err: unix.EHOSTUNREACH}
	for name, c := range map[string]struct {
		dial func(attempt int) error
		away bool
	}{
		"no attempt is answered in time":    {func(int) error { return context.DeadlineExceeded }, true},
		"the network knows no such machine": {func(int) error { return silent }, true},
		"the machine refuses":               {func(int) error { return &net.OpError{Op: "dial", Err: unix.ECONNREFUSED} }, false},
		"it refuses every other time": {func(attempt int) error {
			if attempt%2 == 0 {
				return unix.ECONNREFUSED
			}
			return silent
		}, false},
		"this machine has no network yet": {func(int) error { return unix.ENETUNREACH }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempt := 0
				p := New(t.Context(), Config{
					TLS: func(string) (*tls.Config, error) { return nil, errors.New("nobody answered") },
					Dial: func(ctx context.Context, _ string) (net.Conn, error) {
						select {
						case <-ctx.Done():
							return nil, ctx.Err()
						case <-time.After(3 * time.Second):
						}
						attempt++
						return nil, c.dial(attempt)
					},
				})
				defer p.Close()
				p.SetAddress("n1", "192.0.2.1:1", "pod")
				time.Sleep(4 * time.Second)
				if n := p.Node("n1"); n.Agent != decide.AgentConnecting {
					t.Errorf("after one attempt: %+v", n)
				}
				time.Sleep(6 * time.Second)
				if n := p.Node("n1"); (n.Agent == decide.AgentUnreachable) != c.away || c.away && !strings.Contains(n.Problem, "the agent does not answer: ") {
					t.Errorf("after 10 s: %+v", n)
				}
				time.Sleep(6 * time.Second)
				if n := p.Node("n1"); n.Agent != decide.AgentUnreachable {
					t.Errorf("after the grace: %+v", n)
				}
			})
		})
	}
}

// TestPool_absentMachineIsNotLeftToChance: how many attempts it takes does not depend on whether one takes a moment longer.
func TestPool_absentMachineIsNotLeftToChance(t *testing.T) {
	for name, c := range map[string]struct {
		// attempt is how long each attempt takes; the node is still connecting after there, and away after gone.
		attempt, there, gone time.Duration
	}{
		"as long as the dialer lets it":     {dialLimit, 5 * time.Second, 5300 * time.Millisecond},
		"a moment less":                     {dialLimit - 50*time.Millisecond, 5 * time.Second, 5300 * time.Millisecond},
		"a moment more":                     {dialLimit + 50*time.Millisecond, 5 * time.Second, 5400 * time.Millisecond},
		"no longer than the network needs":  {time.Millisecond, 3900 * time.Millisecond, 8 * time.Second},
		"as long as the whole attempt may":  {attemptLimit, 10 * time.Second, 10500 * time.Millisecond},
		"one takes as long as the silence":  {4 * time.Second, 8 * time.Second, 8500 * time.Millisecond},
		"one takes longer than the silence": {4500 * time.Millisecond, 9 * time.Second, 9500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(t.Context(), Config{
					TLS: func(string) (*tls.Config, error) { return nil, errors.New("nobody answered") },
					Dial: func(ctx context.Context, _ string) (net.Conn, error) {
						select {
						case <-ctx.Done():
						case <-time.After(c.attempt):
						}
						return nil, context.DeadlineExceeded
					},
				})
				defer p.Close()
				p.SetAddress("n1", "192.0.2.1:1", "pod")
				time.Sleep(c.there)
				if n := p.Node("n1"); n.Agent != decide.AgentConnecting {
					t.Errorf("after %s: %+v", c.there, n)
				}
				time.Sleep(c.gone - c.there)
				if n := p.Node("n1"); n.Agent != decide.AgentUnreachable {
					t.Errorf("after %s: %+v", c.gone, n)
				}
			})
		})
	}
}

func TestPool_anotherNodeAnswers(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{NodeName: "n2"})
	p := newPool(t, a.CA)
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "the agent is refused", func() bool {
		n := p.Node("n1")
		return n.Agent == decide.AgentUnreachable && strings.Contains(n.Problem, "certificate")
	})
}

func TestPool_agentOfAnotherAuthority(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
	p := newPool(t, agenttest.NewCA(t))
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "the agent is refused", func() bool {
		return p.Node("n1").Agent == decide.AgentUnreachable && strings.Contains(p.Node("n1").Problem, "certificate")
	})
}

// TestPool_unknownNode: a standby is older than any grace before anybody tells it of the first node.
func TestPool_unknownNode(t *testing.T) {
	p := newPool(t, agenttest.NewCA(t))
	p.cfg.Grace = 200 * time.Millisecond
	connecting := func(when string) {
		t.Helper()
		if n := p.Node("n1"); n.Agent != decide.AgentConnecting || n.Problem != "" {
			t.Errorf("%s: %+v", when, n)
		}
	}
	connecting("right after the start")
	time.Sleep(2 * p.cfg.Grace)
	connecting("long after the start")
	p.SetAddress("n2", "127.0.0.1:1", "pod")
	time.Sleep(2 * p.cfg.Grace)
	connecting("long after another node was told of")
	p.Complete()
	connecting("once all nodes were told of")
	await(t, "the grace is over", func() bool { return p.Node("n1").Agent == decide.AgentMissing && p.Node("n1").Problem != "" })
	p.Complete()
	if n := p.Node("n1"); n.Agent != decide.AgentMissing {
		t.Errorf("a second word begins the grace anew: %+v", n)
	}
}

// TestPool_nodeWithoutAgent: that no agent runs on a node is known for sure once that was so for a while, even while nothing is known of
// other nodes.
func TestPool_nodeWithoutAgent(t *testing.T) {
	p := newPool(t, agenttest.NewCA(t))
	changes := p.Changes()
	p.Remove("n1")
	if n := p.Node("n1"); n.Agent != decide.AgentConnecting {
		t.Errorf("its pod may be replaced at this moment: %+v", n)
	}
	select {
	case name := <-changes:
		if n := p.Node("n1"); name != "n1" || n.Agent != decide.AgentMissing {
			t.Errorf("told of %s: %+v", name, n)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nobody tells that the agent is missing")
	}
	p.Remove("n1")
	if n := p.Node("n1"); n.Agent != decide.AgentMissing {
		t.Errorf("told once more: %+v", n)
	}
	if n := p.Node("n2"); n.Agent != decide.AgentConnecting {
		t.Errorf("nobody told of it: %+v", n)
	}
}

func TestPool_closeLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	func() {
		a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
		p := newPool(t, a.CA)
		changes := p.Changes()
		p.SetAddress("n1", a.Addr(), "pod")
		await(t, "the agent is up", func() bool { return p.Node("n1").Up() })
		p.Close()
		p.SetAddress("n2", a.Addr(), "pod")
		for range changes {
			continue
		}
		if err := a.Stop(); err != nil {
			t.Error(err)
		}
	}()
	await(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
}

func TestExplain(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 10.1.2.3:51234->10.9.8.7:7443: connection reset by peer":                                             "read tcp 10.9.8.7:7443: connection reset by peer",
		`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`: "dial tcp 127.0.0.1:1: connect: connection refused",
		"anything else": "anything else",
	} {
		if got := explain(errors.New(text)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSubscription_tellsEachOnce(t *testing.T) {
	s := newSubscription()
	for range 100 {
		s.add("a")
		s.add("b")
	}
	ctx, cancel := context.WithCancel(context.Background())
	go s.run(ctx)
	if a, b := <-s.out, <-s.out; a != "a" || b != "b" {
		t.Errorf("%s, %s", a, b)
	}
	select {
	case x := <-s.out:
		t.Errorf("told again of %s", x)
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	if _, open := <-s.out; open {
		t.Error("not closed")
	}
}

// TestPool_groupsOnly: the CSI drivers know which groups a node has, and what may hide one, and see no device.
func TestPool_groupsOnly(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
	a.AddDisks(100<<30, "sda", "sdb")
	a.AddGroup("vg", "uid", "sda")
	p := New(context.Background(), Config{
		TLS:   func(node string) (*tls.Config, error) { return a.CA.CSITLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond, GroupsOnly: true,
	})
	t.Cleanup(p.Close)
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "the group shows", func() bool { return p.Node("n1").Up() && len(p.Node("n1").Groups) == 1 })
	if n := p.Node("n1"); len(n.Devices)+len(n.Hiding) != 0 {
		t.Errorf("%+v", n)
	}
	a.Corrupt("sdb", "content")
	await(t, "the disk may hide a group", func() bool { return slices.Equal(p.Node("n1").Hiding, []string{a.Path("sdb")}) })
}

// TestPool_connectionEndsWithTheAgentsCertificate: the controller hangs up when the certificate expires, and the agent has to have another.
func TestPool_connectionEndsWithTheAgentsCertificate(t *testing.T) {
	ca := agenttest.NewCA(t)
	a := agenttest.New(t, agenttest.Options{NodeName: "10.1.2.3", CA: ca, TLS: ca.For(2*time.Second).ServerTLS(t, "10.1.2.3")})
	p := newPool(t, ca)
	p.SetAddress("10.1.2.3", a.Addr(), "pod")
	await(t, "the agent is up", func() bool { return p.Node("10.1.2.3").Up() })
	await(t, "its certificate is over", func() bool {
		n := p.Node("10.1.2.3")
		return n.Agent == decide.AgentUnreachable && strings.Contains(n.Problem, "expired")
	})
}

// TestPool_hugeReport: a node cannot fill the controller's memory.
func TestPool_hugeReport(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
	a.AddDisks(100<<30, "sda", "sdb", "sdc")
	p := New(context.Background(), Config{
		TLS:            func(node string) (*tls.Config, error) { return a.CA.ControllerTLS(t, node), nil },
		MaxReportBytes: 500, Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond,
	})
	t.Cleanup(p.Close)
	// What was wrong before the agent could be reached is not what is told in the end.
	a.Kill()
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "the agent counts as unreachable", func() bool { return strings.Contains(p.Node("n1").Problem, "does not answer") })
	a.Restart(t)
	await(t, "the report is refused", func() bool {
		n := p.Node("n1")
		return n.Agent == decide.AgentUnreachable && strings.Contains(n.Problem, "larger than max") && len(n.Devices) == 0
	})
}

// TestPace: a node that reports without end is read in turns, and a sound one at once.
func TestPace(t *testing.T) {
	now, p := time.Now(), &pace{}
	for i := range paceReports - 1 {
		if d := p.next(now.Add(time.Duration(i) * time.Millisecond)); d != 0 {
			t.Fatalf("report %d waits %s", i, d)
		}
	}
	if d := p.next(now.Add(time.Second)); d != paceWindow-time.Second {
		t.Errorf("one too many waits %s", d)
	}
	if d := p.next(now.Add(paceWindow)); d != 0 {
		t.Errorf("in the next window: %s", d)
	}
	sound := &pace{}
	for i := range 1000 {
		if d := sound.next(now.Add(time.Duration(i) * 250 * time.Millisecond)); d != 0 {
			t.Fatalf("a sound agent waits %s", d)
		}
	}
}

// TestPool_limits: a call is given as long as the agent may take for it.
func TestPool_limits(t *testing.T) {
	ca := agenttest.NewCA(t)
	a := agenttest.New(t, agenttest.Options{NodeName: "n1", CA: ca})
	var limit time.Duration
	p := New(context.Background(), Config{
		TLS: func(node string) (*tls.Config, error) { return ca.ControllerTLS(t, node), nil },
		RequestID: func(ctx context.Context) string {
			deadline, _ := ctx.Deadline()
			limit = time.Until(deadline)
			return ""
		},
	})
	t.Cleanup(p.Close)
	p.SetAddress("n1", a.Addr(), "pod")
	await(t, "n1 is up", func() bool { return p.Node("n1").Up() })
	if err := p.RepairThinPool(t.Context(), "n1", decide.GroupRef{Name: "g", Owner: "o"}, "pool", "v1:d"); err == nil || limit <= 10*time.Minute {
		t.Errorf("a repair has %s, the agent takes ten minutes: %v", limit, err)
	}
	if err := p.MoveExtents(t.Context(), "n1", decide.GroupRef{Name: "g", Owner: "o"}, decide.Device{Path: "/dev/disk/by-id/a"}, nil); err == nil || limit <= 200*time.Second {
		t.Errorf("a move has %s, the agent takes 20 s and a slice of three minutes: %v", limit, err)
	}
}
