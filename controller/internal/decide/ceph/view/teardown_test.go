package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

const diskUUID = "11111111-2222-3333-4444-555555555555"

// deleted is a Cluster that is being deleted, without the record that it served, with an OSD on one disk.
func deleted(told *Told, kind osd.Kind, annotations map[string]string) Observation {
	now := metav1.NewTime(time.Unix(1e9, 0))
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: "u", DeletionTimestamp: &now, Annotations: annotations}}
	m := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "files.n1", DeletionTimestamp: &now},
		Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "files", UID: "u"}, Node: "n1",
			Ceph: &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: diskUUID, Path: "/dev/sdb", Size: 1 << 40}}},
		},
	}
	if told != nil && told.At.IsZero() {
		told.At = now.Time
	}
	return Observation{
		Cluster: c, World: backend.World{Members: []*v1alpha1.Member{m}}, Now: now.Time, Workloads: &Workloads{}, Ceph: told, Current: told != nil,
		Verdicts: map[string]osd.Verdict{diskUUID: {Kind: kind}},
	}
}

func TestTearDown_withoutTheRecordThatItServed(t *testing.T) {
	osds := []ceph.OSD{{ID: 1, UUID: diskUUID}}
	pools := ceph.Facts{Map: &ceph.Map{OSDs: osds, Pools: []ceph.Pool{{Name: cephname.PoolMetadata}, {Name: cephname.PoolData}}}}
	served := map[string]string{v1alpha1.AnnotationCephServed: "u"}
	tests := map[string]struct {
		told  *Told
		kind  osd.Kind
		notes map[string]string
		holds string
	}{
		"Ceph does not answer":          {nil, osd.Ready, nil, "nobody can list"},
		"nobody knows of a filesystem":  {&Told{Facts: pools}, osd.Ready, nil, "nobody can list"},
		"nobody listed the volumes":     {&Told{Facts: pools, Filesystem: ceph.Yes}, osd.Ready, nil, "nobody can list"},
		"nobody asked since":            {&Told{Facts: pools, At: time.Unix(1e9-1, 0)}, osd.Ready, nil, "it is being asked"},
		"there is a volume":             {&Told{Facts: pools, Filesystem: ceph.Yes, Subvolumes: &[]string{"left"}}, osd.Ready, nil, "left"},
		"there is none":                 {&Told{Facts: pools, Filesystem: ceph.Yes, Subvolumes: &[]string{}}, osd.Ready, nil, ""},
		"there is no filesystem":        {&Told{Facts: pools, Filesystem: ceph.No}, osd.Ready, nil, ""},
		"there are no pools":            {&Told{Facts: ceph.Facts{Map: &ceph.Map{OSDs: osds}}}, osd.Ready, nil, ""},
		"they may be those of a second": {&Told{Facts: ceph.Facts{Map: &ceph.Map{}}, Filesystem: ceph.No}, osd.Ready, nil, "nobody can list"},
		"the disk is empty":             {nil, osd.Empty, nil, ""},
		"the monitors were there":       {nil, osd.Empty, map[string]string{v1alpha1.AnnotationCephFormed: "u"}, "nobody can list"},
		"nobody looked at the disk":     {nil, osd.Unknown, nil, "nobody can list"},
		"it served, the disk is empty":  {nil, osd.Empty, served, "nobody can list"},
		"a person says that it may go":  {nil, osd.Ready, map[string]string{v1alpha1.AnnotationRemove: "u"}, ""},
		"a person says so of a former":  {nil, osd.Ready, map[string]string{v1alpha1.AnnotationRemove: "v"}, "nobody can list"},
		"the record is of a former one": {nil, osd.Ready, map[string]string{v1alpha1.AnnotationCephServed: "v"}, "nobody can list"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := New(deleted(test.told, test.kind, test.notes))
			w := v.Whole(nil)
			goes := slices.ContainsFunc(w.Steps, func(s backend.Step) bool { return s.Action() == v1alpha1.ActionTearDownCeph })
			holding := strings.Join(w.Holding, ", ")
			if goes != (test.holds == "") || !strings.Contains(holding, test.holds) || test.holds == "" && holding != "" {
				t.Errorf("torn down %v, holding %q, waits %q", goes, holding, v.plan.waits)
			}
		})
	}
}

// TestTearDown_disks: a disk that is not given back is told, with what to do about one that is dead or gone.
func TestTearDown_disks(t *testing.T) {
	device := []decide.Device{{Path: "/dev/sdb", KernelName: "sdb", SizeBytes: 1 << 40, Type: "disk"}}
	for name, tt := range map[string]struct {
		node    decide.Node
		verdict *osd.Verdict
		step    bool
		says    string
	}{
		"it carries the OSD":       {decide.Node{Agent: decide.AgentUp, Devices: device}, &osd.Verdict{Kind: osd.Ready}, true, ""},
		"it is clean":              {decide.Node{Agent: decide.AgentUp, Devices: device}, &osd.Verdict{Kind: osd.Empty}, true, ""},
		"it is not there any more": {decide.Node{Agent: decide.AgentUp}, nil, false, "tells of no such disk. Put it back, and it is cleared. If the disk fails"},
		"it cannot be read":        {decide.Node{Agent: decide.AgentUp, Devices: device}, &osd.Verdict{Message: "It cannot be read."}, false, "It cannot be read. If the disk fails"},
		"something else is on it":  {decide.Node{Agent: decide.AgentUp, Devices: device}, &osd.Verdict{Kind: osd.Other, Message: "It carries ext4."}, false, "It carries ext4."},
		"its host is off":          {decide.Node{Agent: decide.AgentUnreachable}, nil, false, "its agent has not said what is on it."},
	} {
		o := deleted(nil, osd.Ready, map[string]string{v1alpha1.AnnotationCephRemoved: "u"})
		o.Nodes = map[string]decide.Node{"n1": tt.node}
		if delete(o.Verdicts, diskUUID); tt.verdict != nil {
			o.Verdicts[diskUUID] = *tt.verdict
		}
		v := New(o)
		steps := slices.ContainsFunc(v.plan.steps, func(s Step) bool { return s.Does == v1alpha1.ActionZapOSD })
		waits := strings.Join(v.plan.waits, " ")
		if steps != tt.step || !strings.Contains(waits, tt.says) || (waits == "") != tt.step {
			t.Errorf("%s: steps %+v, waits %q", name, v.plan.steps, waits)
		}
	}
}

// TestTearDown_sweep: a pod that is to remove the data of a monitor, and does not start, is told.
func TestTearDown_sweep(t *testing.T) {
	for _, stuck := range []string{"", "the pod p with image i does not start: ErrImagePull."} {
		o := deleted(nil, osd.Empty, map[string]string{v1alpha1.AnnotationCephRemoved: "u"})
		o.World.Members[0].Spec.Ceph = &v1alpha1.MemberCeph{Swept: []string{"a"}}
		o.Workloads.Sweeps = map[string]string{"a": stuck}
		v := New(o)
		if waits := strings.Join(v.plan.waits, " "); len(v.plan.steps) != 1 || v.plan.steps[0].Daemon.Kind != cephname.DaemonSweep || stuck != "" && waits != "On host n1 "+stuck || stuck == "" && waits != "" {
			t.Errorf("steps %+v, waits %q", v.plan.steps, waits)
		}
	}
}

// TestTearDown_sweepsLast: the data of monitors stay on every host while a disk of any host is on record, unless a person said that the host of the disk is lost.
func TestTearDown_sweepsLast(t *testing.T) {
	device := []decide.Device{{Path: "/dev/sdb", KernelName: "sdb", SizeBytes: 1 << 40, Type: "disk"}}
	on := decide.Node{Agent: decide.AgentUp, Devices: device}
	for name, tt := range map[string]struct {
		node decide.Node
		// kind is what is on the disk of the other host; nil where nobody said.
		kind  *osd.Kind
		lost  bool
		swept bool
	}{
		"its disk carries the OSD":               {on, new(osd.Ready), false, false},
		"its disk is clean, and still on record": {on, new(osd.Empty), false, false},
		"its disk cannot be read":                {on, new(osd.Unknown), false, false},
		"it is off":                              {decide.Node{Agent: decide.AgentUnreachable}, nil, false, false},
		"it is off, and lost":                    {decide.Node{Agent: decide.AgentUnreachable}, nil, true, true},
		"it is lost, and its agent may come":     {decide.Node{Agent: decide.AgentConnecting}, nil, true, false},
		"it is lost, and back with its disk":     {on, new(osd.Ready), true, false},
		"it is lost, and answers without a disk": {decide.Node{Agent: decide.AgentUp}, nil, true, false},
	} {
		o := deleted(nil, osd.Ready, map[string]string{v1alpha1.AnnotationCephRemoved: "u"})
		other := o.World.Members[0].DeepCopy()
		other.Name, other.UID, other.Spec.Node = "files.n2", "m2", "n2"
		if tt.lost {
			other.Spec.Lost = string(other.UID)
		}
		other.Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "b"}
		o.World.Members[0].Spec.Ceph = &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: "a"}, Swept: []string{"c"}}
		o.World.Members = append(o.World.Members, other)
		o.Nodes = map[string]decide.Node{"n1": {Agent: decide.AgentUp}, "n2": tt.node}
		if delete(o.Verdicts, diskUUID); tt.kind != nil {
			o.Verdicts[diskUUID] = osd.Verdict{Kind: *tt.kind}
		}
		sweeps := func() (out []string) {
			v := New(o)
			for _, s := range v.plan.steps {
				if s.Daemon.Kind == cephname.DaemonSweep {
					out = append(out, s.Daemon.ID)
				}
			}
			if waits := strings.Join(v.plan.waits, " "); strings.Contains(waits, "The data of monitor a on n1 stay until every disk is given back.") == (len(out) > 0) {
				t.Errorf("%s: it removes those of %q, and waits for %q", name, out, waits)
			}
			return out
		}
		if got := sweeps(); tt.swept && !slices.Equal(got, []string{"c", "a"}) || !tt.swept && len(got) > 0 {
			t.Errorf("%s: the data of %q are removed", name, got)
		}
		// Once the disk is off the record, those of all go.
		other.Spec.Ceph.OSDs = nil
		if got := sweeps(); !slices.Equal(got, []string{"c", "a", "b"}) {
			t.Errorf("%s, off the record: the data of %q are removed", name, got)
		}
	}
}

func TestServe_writesALostRecordAgain(t *testing.T) {
	o := deleted(&Told{Filesystem: ceph.Yes, Group: ceph.Yes}, osd.Ready, nil)
	o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMetadata, ID: "h1", Node: "n1"}}
	facts := ceph.Facts{Map: &ceph.Map{Pools: []ceph.Pool{{Name: cephname.PoolMetadata}, {Name: cephname.PoolData}}}}
	var lost, kept plan
	New(o).serve(&lost, facts)
	if len(lost.steps) != 1 || lost.steps[0].Does != v1alpha1.ActionServeFilesystem {
		t.Errorf("a lost record: %+v", lost)
	}
	o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephServed: "u"}
	if New(o).serve(&kept, facts); len(kept.steps) != 0 {
		t.Errorf("the record is there: %+v", kept)
	}
}

// TestServe_unread: while nobody can say whether the filesystem, or its group, is there, nothing is made, and nobody is asked to approve that. A record that got lost is written all the same.
func TestServe_unread(t *testing.T) {
	noted := map[string]string{v1alpha1.AnnotationCephServed: "u"}
	for name, tt := range map[string]struct {
		filesystem, group ceph.Answer
		notes             map[string]string
		step              bool
		says              string
	}{
		"nothing is known":                {ceph.Unknown, ceph.Unknown, noted, false, "Whether the filesystem"},
		"the group is not known":          {ceph.Yes, ceph.Unknown, noted, false, "no metadata server serves yet"},
		"the same, and the record is not": {ceph.Yes, ceph.Unknown, nil, true, ""},
		"there is no group":               {ceph.Yes, ceph.No, noted, true, ""},
		"there is no filesystem":          {ceph.No, ceph.Unknown, noted, true, ""},
	} {
		o := deleted(&Told{Filesystem: tt.filesystem, Group: tt.group}, osd.Ready, tt.notes)
		o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMetadata, ID: "h1", Node: "n1"}}
		var p plan
		New(o).serve(&p, ceph.Facts{Map: &ceph.Map{Pools: []ceph.Pool{{Name: cephname.PoolMetadata}, {Name: cephname.PoolData}}}})
		if said := strings.Join(p.waits, " "); len(p.steps) > 0 != tt.step || !strings.Contains(said, tt.says) || tt.step && said != "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestServe_gone: a filesystem that is gone is not made anew while a PersistentVolume names a volume in it.
func TestServe_gone(t *testing.T) {
	const fsid, volume = "7a1c6d1e-0000-4000-8000-000000000001", "pvc-11111111-2222-4333-8444-555555555555"
	for of, made := range map[string]bool{fsid: false, "7a1c6d1e-0000-4000-8000-000000000002": true} {
		o := deleted(&Told{Filesystem: ceph.No}, osd.Ready, nil)
		o.Cluster.UID = fsid
		o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMetadata, ID: "h1", Node: "n1"}}
		o.World.Volumes = map[string][]backend.Volume{"": {{Name: volume, Handle: of + "/quarry/quarry/" + volume, Expected: true, Bound: true}}}
		var p plan
		New(o).serve(&p, ceph.Facts{Map: &ceph.Map{Pools: []ceph.Pool{{Name: cephname.PoolMetadata}, {Name: cephname.PoolData}}}})
		if said := strings.Join(p.waits, " "); len(p.steps) > 0 != made || strings.Contains(said, "not made anew") == made {
			t.Errorf("a volume of %s: %+v", of, p)
		}
	}
}

func TestNext_isNoNameThatIsKnown(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observation)
		want   string
	}{
		"nothing is known": {func(*Observation) {}, "a"},
		"by the record": {func(o *Observation) {
			o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephMonitors: "u/3"}
		}, "d"},
		"of another": {func(o *Observation) {
			o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephMonitors: "v/3"}
		}, "a"},
		"on a member": {func(o *Observation) { o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "c"} }, "d"},
		"to be swept": {func(o *Observation) { o.World.Members[0].Spec.Ceph.Swept = []string{"z"} }, "aa"},
		"being swept": {func(o *Observation) { o.Workloads.Sweeps = map[string]string{"b": ""} }, "c"},
		"deployed":    {func(o *Observation) { o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMonitor, ID: "e"}} }, "f"},
		"in the quorum": {func(o *Observation) {
			o.Ceph = &Told{Facts: ceph.Facts{Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "b"}}}}}
		}, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			o := deleted(nil, osd.Ready, nil)
			test.change(&o)
			if got := New(o).next(); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestSweep_leavesAMonitorThatMayRun(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Observation)
		swept  bool
	}{
		"it is gone": {func(*Observation) {}, true},
		"on record":  {func(o *Observation) { o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a"} }, false},
		"deployed":   {func(o *Observation) { o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMonitor, ID: "a"}} }, false},
		"mapped":     {func(o *Observation) { o.Ceph.Quorum.Monitors = []ceph.Monitor{{Name: "a"}} }, false},
		"unknown":    {func(o *Observation) { o.Ceph.Quorum = nil }, false},
		"was said":   {func(o *Observation) { o.Current = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := deleted(&Told{Facts: ceph.Facts{Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "b", In: true}}}}}, osd.Ready, nil)
			o.World.Members[0].Spec.Ceph.Swept = []string{"a"}
			test.change(&o)
			var p plan
			New(o).sweep(&p)
			if got := len(p.steps) == 1 && p.steps[0].Daemon.ID == "a"; got != test.swept || !got && len(p.waits) != 1 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// TestStopOSD_unknown: of an OSD that the monitors do not know the Deployment says which number it has. A pod that only has not ended is waited for.
func TestStopOSD_unknown(t *testing.T) {
	for name, want := range map[string]string{"deployed": "7", "being deleted": "", "a pod": ""} {
		o := joined(v1alpha1.ClusterSpec{})
		now := metav1.NewTime(o.Now)
		o.World.Members[0].DeletionTimestamp = &now
		o.Ceph.Map.OSDs = nil
		o.Workloads.Daemons, o.Workloads.OSDPods = nil, map[string]bool{diskUUID: true}
		if name != "a pod" {
			o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonOSD, ID: "7", Node: "n1", UUID: diskUUID, Going: name == "being deleted"}}
		}
		v := New(o)
		got := ""
		for _, s := range v.plan.steps {
			if s.Does == v1alpha1.ActionStopOSD {
				got = s.Daemon.ID
			}
		}
		if got != want || want == "" && !slices.ContainsFunc(v.plan.waits, func(w string) bool { return strings.Contains(w, "its pod has not ended") }) {
			t.Errorf("%s: it stops %q, and waits for %q", name, got, v.plan.waits)
		}
	}
}

// TestTake_recordedAt: a disk that came from another host is not taken before it is off that one's record. Disks that repeat a serial number alone are several.
func TestTake_recordedAt(t *testing.T) {
	const where = "/dev/sdc is on record as the disk of an OSD of host n2"
	for name, tt := range map[string]struct {
		wwn           string
		dirty         bool
		there, has    bool
		steps, refuse bool
	}{
		"on record at n2":                                       {wwn: "w", there: true, refuse: true},
		"on nobody's record":                                    {wwn: "w", steps: true},
		"a clean one with its serial number":                    {there: true, steps: true},
		"a used one with its serial number":                     {there: true, dirty: true, refuse: true},
		"a used one with its serial number, and n2 has its own": {there: true, dirty: true, has: true, steps: true},
	} {
		o := joined(v1alpha1.ClusterSpec{Devices: &v1alpha1.DeviceSelector{Hotplug: true, Wipe: []v1alpha1.WipeConsent{{Host: "n1", Path: "/dev/sdc"}}}})
		n1 := o.Nodes["n1"]
		d := &n1.Devices[1]
		if d.WWN = tt.wwn; tt.dirty {
			d.Refusals, d.Wipeable = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "ext4"}}, true
		}
		moved := v1alpha1.MemberOSD{UUID: "x", Path: "/dev/sdq", WWN: d.WWN, Serial: d.Serial, Size: d.SizeBytes}
		other := o.World.Members[0].DeepCopy()
		other.Name, other.Spec.Node, other.Spec.Ceph = "files.n2", "n2", &v1alpha1.MemberCeph{}
		if tt.there {
			other.Spec.Ceph.OSDs = []v1alpha1.MemberOSD{moved}
		}
		n2 := decide.Node{Name: "n2", Agent: decide.AgentUp}
		if tt.has {
			n2.Devices = []decide.Device{*d}
		}
		o.Nodes["n2"] = n2
		o.World.Members = append(o.World.Members, other)
		h := New(o).Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		if len(h.Steps) > 0 != tt.steps || strings.Contains(h.Finding.Message, where) != tt.refuse {
			t.Errorf("%s: steps %v, finding %+v", name, h.Steps, h.Finding)
		}
	}
}

// TestTearDown_unformed: of a Cluster whose monitors nobody ever saw, and that has keys, nothing is given up before every host has said that its disks carry no OSD of it. One that has not begun gives nothing up, and goes.
func TestTearDown_unformed(t *testing.T) {
	for name, tt := range map[string]struct {
		keys  bool
		agent decide.AgentState
		kind  osd.Kind
		holds bool
	}{
		"it has not begun, and nobody answers": {false, decide.AgentUnreachable, osd.Other, false},
		"it has not begun, and a disk says so": {false, decide.AgentUp, osd.Ready, false},
		"nobody answers":                       {true, decide.AgentUnreachable, osd.Other, true},
		"nobody was asked yet":                 {true, decide.AgentConnecting, osd.Other, true},
		"a disk carries an OSD of it":          {true, decide.AgentUp, osd.Ready, true},
		"nobody can say what it carries":       {true, decide.AgentUp, osd.Unknown, true},
		"it carries something else":            {true, decide.AgentUp, osd.Other, false},
	} {
		o, uuid := forgotten(t)
		now := metav1.NewTime(o.Now)
		o.Cluster.DeletionTimestamp, o.Cluster.Annotations = &now, nil
		if tt.keys {
			o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephKeys: string(o.Cluster.UID)}
		}
		n := o.Nodes["n1"]
		n.Agent = tt.agent
		o.Nodes["n1"] = n
		o.Suspected = map[string]osd.Verdict{"n1/sdb/" + uuid: {Kind: tt.kind}}
		// Monitors that answer, and have no filesystem and no OSD, may have made a second Ceph cluster: they say nothing of the first one.
		for _, told := range []*Told{nil, {At: o.Now, Filesystem: ceph.No, Facts: ceph.Facts{Quorum: o.Ceph.Quorum, Map: &ceph.Map{}}}} {
			o.Ceph, o.Current = told, told != nil
			got := strings.Join(New(o).holding(), ", ")
			if (got != "") != tt.holds || tt.holds && (!strings.Contains(got, "n1") || strings.Contains(got, "Ceph does not answer")) {
				t.Errorf("%s, monitors answer %t: held by %q", name, told != nil, got)
			}
		}
	}
	// Without a host nobody can say.
	o, _ := forgotten(t)
	now := metav1.NewTime(o.Now)
	o.Cluster.DeletionTimestamp, o.Cluster.Annotations = &now, map[string]string{v1alpha1.AnnotationCephKeys: string(o.Cluster.UID)}
	o.World.Members, o.World.Nodes, o.Ceph, o.Current = nil, nil, nil, false
	if got := New(o).holding(); len(got) == 0 {
		t.Error("without a Member it is given up")
	}
}

// TestNeverServed_strangers: monitors that do not tell of an OSD which a disk on record carries say nothing of the volumes.
func TestNeverServed_strangers(t *testing.T) {
	for name, tt := range map[string]struct {
		osds   []ceph.OSD
		kind   osd.Kind
		purged bool
		want   bool
	}{
		"they tell of it":           {[]ceph.OSD{{ID: 1, UUID: diskUUID}}, osd.Ready, false, true},
		"they do not":               {nil, osd.Ready, false, false},
		"nor of one that was begun": {nil, osd.Unfinished, false, false},
		"it was purged":             {nil, osd.Ready, true, true},
		"the disk carries none":     {nil, osd.Empty, false, true},
	} {
		o := deleted(&Told{Filesystem: ceph.No, Facts: ceph.Facts{Map: &ceph.Map{OSDs: tt.osds}}}, tt.kind, map[string]string{v1alpha1.AnnotationCephFormed: "u"})
		o.World.Members[0].Spec.Ceph.OSDs[0].Purged = tt.purged
		if got := bare(o).neverServed(); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// TestTearDown_unrecorded: an OSD that the monitors have, and that is on no record, keeps its Cluster until its disk can be cleared, or a person says that it may stay as it is.
func TestTearDown_unrecorded(t *testing.T) {
	all := &ceph.Map{OSDs: []ceph.OSD{{ID: 1, UUID: diskUUID}, {ID: 7, UUID: "22222222-2222-3333-4444-555555555555", Host: "n3"}}}
	for name, tt := range map[string]struct {
		m     *ceph.Map
		word  string
		waits string
	}{
		"one is on no record":                    {all, "", "osd.7, which ran on n3, is on no record"},
		"the volumes are not needed":             {all, v1alpha1.AnnotationRemove, "osd.7, which ran on n3, is on no record"},
		"its disk may stay":                      {all, v1alpha1.AnnotationLeaveDisks, ""},
		"nobody says which there are":            {nil, "", "Ceph does not say which OSDs it has"},
		"nobody says, and nothing is needed":     {nil, v1alpha1.AnnotationRemove, ""},
		"nobody says, and the disk may stay":     {nil, v1alpha1.AnnotationLeaveDisks, ""},
		"all that there are is on record":        {&ceph.Map{OSDs: all.OSDs[:1]}, "", ""},
		"all is on record, and volumes may stay": {&ceph.Map{OSDs: all.OSDs[:1]}, v1alpha1.AnnotationRemove, ""},
	} {
		told := &Told{Filesystem: ceph.Yes, Subvolumes: &[]string{}, Facts: ceph.Facts{Map: tt.m}}
		o := deleted(told, osd.Ready, map[string]string{v1alpha1.AnnotationCephFormed: "u", v1alpha1.AnnotationCephServed: "u"})
		if tt.word != "" {
			o.Cluster.Annotations[tt.word] = "u"
		}
		v := New(o)
		waits := strings.Join(v.plan.waits, " ")
		gives := slices.ContainsFunc(v.plan.steps, func(s Step) bool { return s.Does == v1alpha1.ActionTearDownCeph })
		if !strings.Contains(waits, tt.waits) || gives != (tt.waits == "") {
			t.Errorf("%s: steps %+v, waits %q", name, v.plan.steps, v.plan.waits)
		}
	}
}
