package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// joined is a Cluster that serves, of one host with an OSD on /dev/sdb and another disk that is clean.
func joined(spec v1alpha1.ClusterSpec) Observation {
	now := time.Unix(1e9, 0)
	spec.Hosts = []v1alpha1.HostName{"n1"}
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Name: "files", UID: "u", Annotations: map[string]string{
			v1alpha1.AnnotationCephKeys: "u", v1alpha1.AnnotationCephFormed: "u", v1alpha1.AnnotationCephServed: "u",
		}},
		Spec: spec,
	}
	m := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "files.n1"},
		Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "files", UID: "u"}, Node: "n1",
			Ceph: &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: diskUUID, Path: "/dev/sdb", WWN: "b", Serial: "b", Size: 1 << 40}}},
		},
	}
	device := func(name, serial string) decide.Device {
		return decide.Device{Path: "/dev/" + name, KernelName: name, WWN: serial, Serial: serial, SizeBytes: 1 << 40, Type: "disk", Digest: "d", Since: now.Add(-time.Hour)}
	}
	told := &Told{At: now, Facts: ceph.Facts{
		Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "a", In: true}}}, Groups: &ceph.Groups{Total: 8, Clean: 8}, Daemons: &[]ceph.Daemon{}, Blocked: &[]string{},
		Map: &ceph.Map{OSDs: []ceph.OSD{{ID: 1, UUID: diskUUID, Host: "n1", Up: true, In: true}}, HostFlags: map[string][]string{}},
	}}
	o := Observation{
		Cluster: c, World: backend.World{Members: []*v1alpha1.Member{m}, Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true}}}, Now: now,
		Nodes: map[string]decide.Node{"n1": {Agent: decide.AgentUp, Devices: []decide.Device{device("sdb", "b"), device("sdc", "c")}}}, Addresses: map[string]string{"n1": "10.0.0.1"},
		Machines: map[string]preflight.Machine{"n1": {MemoryBytes: 64 << 30, OS: "linux", Architecture: "amd64", Clock: &preflight.Clock{}}},
		Verdicts: map[string]osd.Verdict{diskUUID: {Kind: osd.Ready}}, Ceph: told, Current: true,
		Workloads: &Workloads{Keys: true, Budget: &ceph.Budget{Most: 1}, Daemons: []Workload{{Kind: cephname.DaemonOSD, ID: "1", Node: "n1", UUID: diskUUID}}},
	}
	o.Workloads.Config = bare(o).config()
	return o
}

// TestTake_joined: a disk that comes to a host with an OSD is taken only if the spec says so, and the Member tells of it.
func TestTake_joined(t *testing.T) {
	for name, tt := range map[string]struct {
		devices *v1alpha1.DeviceSelector
		change  func(*Observation)
		want    string
		says    string
	}{
		"by default it is not taken": {nil, nil, "", "The member serves volumes. Clean disks that are not taken: /dev/sdc: was not there"},
		"with hotplug":               {&v1alpha1.DeviceSelector{Hotplug: true}, nil, v1alpha1.ActionTakeDisks, ""},
		"a disk that is named":       {&v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdc"}}, nil, v1alpha1.ActionTakeDisks, ""},
		"one that a GlusterNode has": {&v1alpha1.DeviceSelector{Hotplug: true}, func(o *Observation) {
			o.World.Records = []disk.Record{{Device: v1alpha1.GlusterDevice{Node: "n1", WWN: "c", Serial: "c"}}}
		}, "", ""},
		"a host without OSDs":             {nil, func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs = nil }, v1alpha1.ActionTakeDisks, ""},
		"beside an OSD that is down":      {nil, func(o *Observation) { o.Ceph.Map.OSDs[0].Up = false }, "", "does not run. Clean disks that are not taken: /dev/sdc"},
		"beside one that can be replaced": {nil, func(o *Observation) { o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In = false, false }, "", "ReplaceOSD in the plan of the Cluster. Clean disks"},
		"beside one that is given up": {nil, func(o *Observation) {
			o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In, o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = false, false, true
		}, v1alpha1.ActionTakeDisks, ""},
		"beside one that no person gave up": {nil, func(o *Observation) {
			r := &o.World.Members[0].Spec.Ceph.OSDs[0]
			o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In, r.Replaced, r.AutoReplaced = false, false, true, true
		}, "", "/dev/sdc: was not there"},
	} {
		t.Run(name, func(t *testing.T) {
			o := joined(v1alpha1.ClusterSpec{Devices: tt.devices})
			if tt.change != nil {
				tt.change(&o)
			}
			h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
			got := ""
			for _, s := range h.Steps {
				got += s.Action()
			}
			if got != tt.want || !strings.Contains(h.Finding.Message, tt.says) || tt.says == "" && !h.Finding.IsZero() {
				t.Errorf("steps %q, finding %+v", got, h.Finding)
			}
		})
	}
}

// TestTake_inPlace: of all the clean disks that came to a host after it joined, as many are taken as OSDs were given up.
func TestTake_inPlace(t *testing.T) {
	o := joined(v1alpha1.ClusterSpec{})
	n := o.Nodes["n1"]
	i := slices.IndexFunc(n.Devices, func(d decide.Device) bool { return d.Path == "/dev/sdc" })
	more := n.Devices[i]
	more.Path, more.Serial, more.WWN = "/dev/sdd", "another", "another"
	n.Devices = append(slices.Clone(n.Devices), more)
	o.Nodes["n1"] = n
	o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In, o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = false, false, true
	h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
	if s, ok := h.Steps[0].(Step); !ok || len(h.Steps) != 1 || s.Does != v1alpha1.ActionTakeDisks || len(s.Devices) != 1 {
		t.Errorf("%+v, %+v", h.Steps, h.Finding)
	}
}

// TestTake_unfit: a disk that can be no OSD is not wiped for one, whatever the spec consents to, and needs no memory.
func TestTake_unfit(t *testing.T) {
	const path = "/dev/disk/by-id/c"
	for name, tt := range map[string]struct {
		size   int64
		memory int64
		want   string
		says   string
	}{
		"large enough": {1 << 30, 7 << 30, v1alpha1.ActionWipeDevice + v1alpha1.ActionTakeDisks, ""},
		"too small":    {1<<30 - 4096, 5 << 30, "", "an OSD needs 1 GiB"},
	} {
		o := joined(v1alpha1.ClusterSpec{Devices: &v1alpha1.DeviceSelector{Hotplug: true, Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: path}}}})
		o.Machines["n1"] = preflight.Machine{MemoryBytes: tt.memory, OS: "linux", Architecture: "amd64", Clock: &preflight.Clock{}}
		d := &o.Nodes["n1"].Devices[1]
		d.Path, d.SizeBytes, d.Wipeable = path, tt.size, true
		d.Refusals = []v1alpha1.Refusal{{Reason: "Filesystem", Message: "it carries ext4"}}
		h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		got := ""
		for _, s := range h.Steps {
			got += s.Action()
		}
		if got != tt.want || !strings.Contains(h.Finding.Message, tt.says) {
			t.Errorf("%s: steps %q, finding %+v", name, got, h.Finding)
		}
	}
}

// TestTake_unable: on a host that cannot run the daemons nothing is wiped, and nothing is put on record.
func TestTake_unable(t *testing.T) {
	const gib = 1 << 30
	machine := func(change func(*preflight.Machine)) func(*Observation) {
		return func(o *Observation) {
			m := o.Machines["n1"]
			change(&m)
			o.Machines["n1"] = m
		}
	}
	for name, tt := range map[string]struct {
		change       func(*Observation)
		reason, says string
	}{
		// Two OSDs, and one of each other kind: none runs yet.
		"just enough memory": {machine(func(m *preflight.Machine) { m.MemoryBytes = 6*gib + 768<<20 }), "", ""},
		"too little memory":  {machine(func(m *preflight.Machine) { m.MemoryBytes = 6*gib + 767<<20 }), v1alpha1.ReasonTooLittleMemory, "need 6912Mi (2 OSD with 2Gi each, 1 monitor"},
		"what runs elsewhere does not count": {func(o *Observation) {
			machine(func(m *preflight.Machine) { m.MemoryBytes = 4 * gib })(o)
			for _, n := range []string{"n2", "n3"} {
				other := o.World.Members[0].DeepCopy()
				other.Name, other.Spec.Node, other.Spec.Ceph = "files."+n, v1alpha1.HostName(n), &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: n, Address: "10.0.0.9"}}
				o.World.Members = append(o.World.Members, other)
				for _, kind := range []string{cephname.DaemonManager, cephname.DaemonMetadata} {
					o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: kind, ID: n, Node: n})
				}
			}
			o.Cluster.Spec.Ceph = &v1alpha1.CephSpec{Mons: 1}
		}, "", ""},
		"memory that nobody knows":  {machine(func(m *preflight.Machine) { m.MemoryBytes = 0 }), v1alpha1.ReasonHostUnread, "how much memory"},
		"a clock that nobody knows": {machine(func(m *preflight.Machine) { m.Clock = nil }), v1alpha1.ReasonHostUnread, "clock"},
		"an image that cannot run":  {machine(func(m *preflight.Machine) { m.Architecture = "s390x" }), v1alpha1.ReasonWrongArchitecture, "s390x"},
		"a host that is not a member": {func(o *Observation) {
			o.Machines["n9"] = preflight.Machine{Clock: &preflight.Clock{Least: time.Hour, Most: time.Hour}}
		}, "", ""},
		"another clock": {func(o *Observation) {
			other := o.World.Members[0].DeepCopy()
			other.Name, other.Spec.Node, other.Spec.Ceph = "files.n2", "n2", nil
			o.World.Members = append(o.World.Members, other)
			o.Machines["n2"] = preflight.Machine{Clock: &preflight.Clock{Least: time.Hour, Most: time.Hour}}
		}, v1alpha1.ReasonClocksDiffer, "from that of n2 by 1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			o := joined(v1alpha1.ClusterSpec{Devices: &v1alpha1.DeviceSelector{Hotplug: true}})
			tt.change(&o)
			h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
			if h.Finding.Reason != tt.reason || !strings.Contains(h.Finding.Message, tt.says) || (len(h.Steps) == 0) != (tt.reason != "") {
				t.Errorf("steps %v, finding %+v", h.Steps, h.Finding)
			}
		})
	}
}

// TestWhole_unable: no daemon is brought to a host that cannot run one more, and those that are on record there are left as they are.
func TestWhole_unable(t *testing.T) {
	o := joined(v1alpha1.ClusterSpec{})
	o.Workloads.Stuck = map[string][]string{"n1": {"the pod x does not start: ErrImagePull."}}
	deploys := func() (out string) {
		for _, s := range New(o).Whole(nil).Steps {
			if s.Action() == v1alpha1.ActionDeployDaemon || s.Action() == v1alpha1.ActionStartMonitor {
				out += s.(Step).Daemon.Kind + " "
			}
		}
		return out
	}
	o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
	if got := deploys(); got != "mgr mds mon " {
		t.Fatalf("with enough memory %q are deployed", got)
	}
	o.Machines["n1"] = preflight.Machine{MemoryBytes: 1 << 30, OS: "linux", Architecture: "amd64", Clock: &preflight.Clock{}}
	if got := deploys(); got != "mon " {
		t.Errorf("with too little memory %q are deployed", got)
	}
	for _, want := range []string{"Host n1 has too little memory: its daemons need", "On host n1 the pod x does not start: ErrImagePull."} {
		if !slices.ContainsFunc(New(o).plan.waits, func(w string) bool { return strings.HasPrefix(w, want) }) {
			t.Errorf("%q is not among %q", want, New(o).plan.waits)
		}
	}
}

// TestWhole_besideMonitor: a host that has a monitor of another Cluster gets all daemons but a monitor, and that is told.
func TestWhole_besideMonitor(t *testing.T) {
	for _, beside := range []bool{false, true} {
		o := joined(v1alpha1.ClusterSpec{})
		o.World.Members[0].Spec.Ceph.Monitor = nil
		other := o.World.Members[0].DeepCopy()
		other.Name, other.Spec.Of = "other.n1", v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "other", UID: "u-other"}
		if beside {
			other.Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		}
		o.World.OtherMembers = append(o.World.OtherMembers, other)
		v := New(o)
		told := slices.Contains(v.plan.notes, "Host n1 has a monitor of Cluster other, and room for one (port 3300).")
		w := v.wantedMonitors(v.hosts())
		if (len(w.Hosts) == 0) != beside || (w.Target() == 0) != beside || v.able(v.hosts(), cephname.DaemonManager)[0].Unable || told != beside {
			t.Errorf("beside a monitor %t: hosts for monitors %v, %d wanted; %q", beside, w.Hosts, w.Target(), v.plan.notes)
		}
		// One that is on record stays where it is.
		o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
		if w := New(o).wantedMonitors(New(o).hosts()); len(w.Hosts) != 1 || w.Target() != 1 {
			t.Errorf("beside a monitor %t, with one on record: %v, %d wanted", beside, w.Hosts, w.Target())
		}
	}
}

// TestTake_atMost: of more disks than a record holds as many are taken as it has room for, and the rest is told.
func TestTake_atMost(t *testing.T) {
	o := joined(v1alpha1.ClusterSpec{Devices: &v1alpha1.DeviceSelector{Hotplug: true}})
	n := o.Nodes["n1"]
	for i := range 70 {
		d := n.Devices[1]
		d.KernelName = fmt.Sprintf("sdx%d", i)
		d.Path, d.WWN, d.Serial = "/dev/"+d.KernelName, d.KernelName, d.KernelName
		n.Devices = append(n.Devices, d)
	}
	o.Nodes["n1"], o.Machines["n1"] = n, preflight.Machine{MemoryBytes: 1 << 40, OS: "linux", Architecture: "amd64", Clock: &preflight.Clock{}}
	h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
	if len(h.Steps) != 1 || len(h.Steps[0].(Step).Devices) != v1alpha1.MaxMemberOSDs-1 || !strings.Contains(h.Finding.Message, "8 more disks are chosen, and a host has 64 OSDs at most") {
		t.Errorf("%d steps, finding %+v", len(h.Steps), h.Finding)
	}
}

// TestTake_namedAndTaken: a disk that the spec names, and that is an OSD by now, is not missed.
func TestTake_namedAndTaken(t *testing.T) {
	for path, missed := range map[v1alpha1.DevicePath]bool{"/dev/sdb": false, "/dev/gone": true} {
		o := joined(v1alpha1.ClusterSpec{Devices: &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{path}}})
		h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		if told := strings.Contains(h.Finding.Message, "no such device"); told != missed {
			t.Errorf("%s: %+v", path, h.Finding)
		}
	}
}

// TestTake_nameless: a disk without WWN and serial number in the place of a dead one may be that one, unless it is smaller. What to do is told.
func TestTake_nameless(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Observation)
		want   string
		says   string
	}{
		"a clean one at its path":       {nil, "", "Attach it at another place"},
		"it still carries the OSD":      {func(o *Observation) { o.Verdicts[diskUUID] = osd.Verdict{Kind: osd.Ready} }, "", "not safe elsewhere"},
		"nobody gave the OSD up":        {func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs[0].Replaced = false }, "", "approve ReplaceOSD"},
		"a bigger one may be one grown": {func(o *Observation) { o.Nodes["n1"].Devices[0].SizeBytes *= 2 }, "", "Attach it at another place"},
		"a smaller one is another one":  {func(o *Observation) { o.Nodes["n1"].Devices[0].SizeBytes /= 2; o.Verdicts = nil }, v1alpha1.ActionTakeDisks, ""},
		"it is at another place": {func(o *Observation) {
			o.Nodes["n1"].Devices[0].Path, o.Nodes["n1"].Devices[0].KernelName = "/dev/sdd", "sdd"
			o.Verdicts = nil
		}, v1alpha1.ActionTakeDisks, ""},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		n := o.Nodes["n1"]
		n.Devices = slices.DeleteFunc(n.Devices, func(d decide.Device) bool { return d.Path != "/dev/sdb" })
		n.Devices[0].WWN, n.Devices[0].Serial = "", ""
		o.Nodes["n1"] = n
		r := &o.World.Members[0].Spec.Ceph.OSDs[0]
		r.WWN, r.Serial, r.Replaced = "", "", true
		o.Verdicts[diskUUID] = osd.Verdict{Kind: osd.Empty}
		o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In = false, false
		if tt.change != nil {
			tt.change(&o)
		}
		h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		got := ""
		for _, s := range h.Steps {
			got += s.Action()
		}
		if got != tt.want || !strings.Contains(h.Finding.Message, tt.says) {
			t.Errorf("%s: steps %q, finding %+v", name, got, h.Finding)
		}
	}
}

// TestDevices_samePath: of a disk that died and one in its place with the same path the status has the latter, for it takes each path once.
func TestDevices_samePath(t *testing.T) {
	for _, first := range []bool{true, false} {
		o := joined(v1alpha1.ClusterSpec{})
		r := o.World.Members[0].Spec.Ceph
		dead := v1alpha1.MemberOSD{UUID: "dead", Path: "/dev/sdb", Serial: "dead", Size: 1 << 40}
		if r.OSDs = append(r.OSDs, dead); first {
			slices.Reverse(r.OSDs)
		}
		got := bare(o).devices("n1", *r)
		if len(got) != 1 || got[0].Identity != "b" || got[0].State != v1alpha1.DevicePresent {
			t.Errorf("dead first %t: %+v", first, got)
		}
	}
}
