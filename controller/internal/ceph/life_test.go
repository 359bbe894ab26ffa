package ceph_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	decided "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/osd"
)

// life plays decisions over the model: the monitors do their steps, and the test does those of workloads and agents.
type life struct {
	t        *testing.T
	model    *cephtest.Cluster
	client   *ceph.Client
	hosts    []decided.Host
	monitors []decided.MonitorRecord
	deployed []string
	disks    []decided.Disk
	log      []string
}

func newLife(t *testing.T, hosts ...string) *life {
	l := &life{t: t, model: cephtest.New(t, fsid, hosts...)}
	l.client = newClient(t, l.model)
	for i, h := range hosts {
		l.hosts = append(l.hosts, decided.Host{Name: h, Serving: true})
		l.disks = append(l.disks, decided.Disk{Host: h, Path: "/dev/sd" + h, UUID: cephtest.UUID(i), Kind: osd.Ready, Deployed: decided.Yes})
	}
	for i, name := range []string{"a", "b", "c"} {
		l.monitors, l.deployed = append(l.monitors, decided.MonitorRecord{Name: name, Host: hosts[i]}), append(l.deployed, name)
	}
	return l
}

// pass observes, decides, and acts once. It reports whether there was anything to do.
func (l *life) pass() bool {
	l.t.Helper()
	var stopping []int
	for _, o := range l.model.OSDs {
		stopping = append(stopping, o.ID)
	}
	f, err := l.client.Facts(l.t.Context(), stopping...)
	if err != nil && !errors.Is(err, ceph.ErrUnreachable) {
		l.t.Fatal(err)
	}
	var tools []string
	for _, h := range l.hosts {
		tools = append(tools, h.Name)
	}
	p := decided.Together(
		decided.PlanMonitors(decided.Monitors{Records: l.monitors, Next: "d", Formed: true, Deployed: &l.deployed, Hosts: l.hosts}, f),
		decided.PlanOSDs(decided.OSDs{Disks: l.disks, Hosts: l.hosts, Tools: tools}, f),
	)
	for _, s := range p.Steps {
		l.log = append(l.log, string(s.Do))
		l.act(s)
	}
	return len(p.Steps) > 0
}

func (l *life) act(s decided.Step) {
	l.t.Helper()
	i := slices.IndexFunc(l.disks, func(d decided.Disk) bool { return d.UUID == s.UUID })
	j := slices.IndexFunc(l.model.OSDs, func(o cephtest.OSD) bool { return o.UUID == s.UUID })
	switch s.Do {
	case decided.PurgeOSD:
		l.disks[i].Purged = true
	case decided.RegisterOSD:
		l.disks[i].Purged = false
	case decided.StartMonitor:
		l.monitors, l.deployed = append(l.monitors, decided.MonitorRecord{Name: s.Name, Host: s.Host}), append(l.deployed, s.Name)
		l.model.Monitors[s.Name] = true
		return
	case decided.PrepareOSD:
		l.disks[i].Kind = osd.Ready
		return
	case decided.StartOSD:
		l.disks[i].Deployed = decided.Yes
		l.model.OSDs[j].Start(s.Host, 2<<30)
		l.model.Hosts = append(l.model.Hosts, s.Host)
		return
	case decided.StopOSD:
		l.disks[i].Deployed, l.model.OSDs[j].Up = decided.No, false
		return
	case decided.ZapOSD:
		l.disks[i].Kind, l.disks[i].Purged = osd.Empty, false
		return
	}
	if err := l.client.Do(l.t.Context(), s); err != nil {
		l.t.Fatal(err)
	}
	if s.Do == decided.RemoveMonitor {
		l.monitors = slices.DeleteFunc(l.monitors, func(r decided.MonitorRecord) bool { return r.Name == s.Name })
		l.deployed = slices.DeleteFunc(l.deployed, func(name string) bool { return name == s.Name })
	}
}

// until plays passes until there is nothing to do, and compares the steps.
func (l *life) until(what, want string) {
	l.t.Helper()
	l.log = nil
	for n := 0; l.pass(); n++ {
		if n > 30 {
			l.t.Fatalf("%s does not end: %q", what, l.log)
		}
	}
	if got := strings.Join(l.log, " "); got != want {
		l.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// TestHostLeaves: a host with a monitor and an OSD leaves, a new one came before it, and each step waits for what Ceph says.
func TestHostLeaves(t *testing.T) {
	l := newLife(t, "n0", "n1", "n2")
	l.model.Pools = []cephtest.Pool{{Name: "data", Size: 3, MinSize: 2}}
	l.until("nothing to do", "")
	l.hosts[2].Leaving = true
	l.until("the third of three has to stay, but for its monitor", "RemoveMonitor")
	l.hosts = append(l.hosts, decided.Host{Name: "n3", Serving: true})
	l.disks = append(l.disks, decided.Disk{Host: "n3", Path: "/dev/sdn3", UUID: cephtest.UUID(3), Kind: osd.Empty, Deployed: decided.No})
	l.until("a new host comes, and data leave the old one", "StartMonitor RegisterOSD PrepareOSD StartOSD OutOSD")
	l.model.OSDs[2].Holds = false
	l.model.Managers = nil
	l.until("nobody says whether the OSD is empty", "")
	l.model.Managers = []string{"x"}
	l.until("it is empty", "StopOSD PurgeOSD ZapOSD RemoveHost")
	if got := l.model.Changes(); !slices.Equal(l.model.Hosts, []string{"n0", "n1", "n3"}) || len(l.model.OSDs) != 3 || len(l.model.Monitors) != 3 {
		t.Errorf("hosts %v, OSDs %v, after %q", l.model.Hosts, l.model.OSDs, got)
	}
}

// TestModule: a module is switched on and off, and one that no manager has is refused.
func TestModule(t *testing.T) {
	model := cephtest.New(t, fsid, "n0")
	c, err := ceph.New(ceph.Config{Runner: model, FSID: fsid})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.EnableModule(t.Context(), "prometheus"); err != nil || !model.Modules["prometheus"] {
			t.Errorf("%v, %v", model.Modules, err)
		}
	}
	for range 2 {
		if err := c.DisableModule(t.Context(), "prometheus"); err != nil || model.Modules["prometheus"] {
			t.Errorf("%v, %v", model.Modules, err)
		}
	}
	if err := c.EnableModule(t.Context(), "nonsense"); !errors.Is(err, ceph.ErrRefused) {
		t.Errorf("a module that does not exist: %v", err)
	}
}
