package device

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	path = "/dev/disk/by-id/wwn-1"
	gib  = 1 << 30
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

type edit = func(*Facts)

// scene is a node whose device is clean, and that nobody else wants.
func scene(edits ...edit) Facts {
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "g1"}}
	n.Spec.Storage = []v1alpha1.GlusterStorage{{Device: path}}
	f := Facts{
		Node: n, Host: "n1", Labels: map[string]string{"disk": "ssd"}, Now: noon, Began: noon.Add(-time.Minute),
		Agent: decide.Node{Name: "n1", Agent: decide.AgentUp, Devices: []decide.Device{{
			Path: path, KernelName: "sda", Type: "disk", Links: []string{path, "/dev/disk/by-id/ata-1", "/dev/disk/by-path/1"}, SizeBytes: 100 * gib, WWN: "0x1", Serial: "S1", Digest: "seen",
			Transport: "sata", Since: noon.Add(-time.Hour),
		}}},
	}
	for _, e := range edits {
		e(&f)
	}
	return f
}

// recorded puts the device on record, for a while.
func recorded(ago time.Duration, given bool) edit {
	return func(f *Facts) {
		f.Node.Spec.Devices = []v1alpha1.GlusterDevice{{
			Device: path, Node: "n1", Path: path, WWN: "0x1", Serial: "S1", Size: 100 * gib, Recorded: metav1.NewTime(f.Now.Add(-ago)), Given: given,
		}}
	}
}

func on(change func(*decide.Device)) edit { return func(f *Facts) { change(&f.Agent.Devices[0]) } }

func refused(reasons ...string) edit {
	return on(func(d *decide.Device) {
		for _, r := range reasons {
			d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: r, Message: "It is " + r + "."})
		}
	})
}

func member(change func(*v1alpha1.MemberSpec)) edit {
	return func(f *Facts) {
		m := v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "fast.n1"}, Spec: v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "fast", UID: "u"}, Node: "n1"}}
		change(&m.Spec)
		f.Members = append(f.Members, m)
	}
}

func cluster(change func(*v1alpha1.Cluster)) edit {
	return func(f *Facts) {
		c := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "fast", UID: "u"}, Spec: v1alpha1.ClusterSpec{Hosts: []v1alpha1.HostName{"n1"}}}
		change(&c)
		f.Clusters = append(f.Clusters, c)
	}
}

// other is a record of another GlusterNode for the same disk.
func other(name string, ago time.Duration, given bool) edit {
	return func(f *Facts) {
		n := v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: name}}
		n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: "/dev/disk/by-id/ata-1", Node: "n1", Path: path, WWN: "0x1", Serial: "S1", Recorded: metav1.NewTime(f.Now.Add(-ago)), Given: given}}
		f.Others = append(f.Others, disk.GivenTo([]v1alpha1.GlusterNode{n})...)
	}
}

// exchanged has another disk under the path.
var exchanged = on(func(d *decide.Device) { d.WWN, d.Serial = "0x2", "S2" })

var spare = v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/other"}}

// show tells a decision: the verdict, whether it may be registered, and what is written.
func show(d Decision) string {
	c := d.Condition()
	out := string(c.Status) + " " + c.Reason
	for _, r := range d.Records {
		out += fmt.Sprintf(" record:%s,%s,%s,%t", r.Node, r.WWN, r.Serial, r.Given)
	}
	for _, v := range d.Verdicts {
		if v.Register {
			out += " register"
		}
	}
	if d.Wake > 0 {
		out += " " + d.Wake.String()
	}
	return out
}

func TestDecide(t *testing.T) {
	const (
		offered  = "False StepTaken record:n1,0x1,S1,false 1m0s"
		waits    = "False Pending 30s"
		given    = "False StepTaken record:n1,0x1,S1,true"
		serves   = "True DevicesGiven"
		register = "True DevicesGiven register"
		refuses  = "False DeviceRefused"
		conflict = "False DeviceConflict"
	)
	silent := func(f *Facts) { f.Agent.Agent, f.Agent.Problem = decide.AgentUnreachable, "no answer" }
	for name, row := range map[string]struct {
		edits []edit
		want  string
		says  string
	}{
		"clean":                     {nil, offered, "is put on record"},
		"no devices":                {[]edit{func(f *Facts) { f.Node.Spec.Storage = []v1alpha1.GlusterStorage{{PVCName: "c"}} }}, serves, ""},
		"by a kernel name":          {[]edit{func(f *Facts) { f.Node.Spec.Storage[0].Device = "/dev/sda" }}, refuses, "named by a path below"},
		"by a slot":                 {[]edit{func(f *Facts) { f.Node.Spec.Storage[0].Device = "/dev/disk/by-path/1" }}, refuses, "named by a path below"},
		"nobody knows the host":     {[]edit{func(f *Facts) { f.Host = "" }}, "Unknown Pending", "not known"},
		"the agent is silent":       {[]edit{silent}, "Unknown AgentUnreachable", "no answer"},
		"it never spoke":            {[]edit{func(f *Facts) { f.Agent = decide.Node{} }}, "Unknown AgentUnreachable", "nothing is known"},
		"it connects":               {[]edit{func(f *Facts) { f.Agent.Agent = decide.AgentConnecting }}, "Unknown AgentUnreachable", "not heard"},
		"LVM does not run":          {[]edit{func(f *Facts) { f.Agent.LVMError = "locked" }}, "Unknown Pending", "locked"},
		"maintenance":               {[]edit{func(f *Facts) { f.Held = "it is under maintenance" }}, "Unknown Pending", "maintenance"},
		"not there":                 {[]edit{func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "no such device"},
		"not clean":                 {[]edit{refused(v1alpha1.RefusalFilesystem)}, refuses, "not clean"},
		"a physical volume":         {[]edit{refused(v1alpha1.RefusalLVM)}, refuses, "not clean"},
		"something happens to it":   {[]edit{refused(v1alpha1.RefusalSettling)}, refuses, "not clean"},
		"its content is not known":  {[]edit{on(func(d *decide.Device) { d.Digest = "" })}, refuses, "could not be read"},
		"of a storage":              {[]edit{on(func(d *decide.Device) { d.OwnerUID = "u" })}, conflict, "belongs to a storage"},
		"a partition":               {[]edit{on(func(d *decide.Device) { d.Type = "partition" })}, refuses, "no whole disk"},
		"without an identity":       {[]edit{on(func(d *decide.Device) { d.WWN, d.Serial = "", "" })}, refuses, "neither a WWN nor"},
		"without a name that stays": {[]edit{on(func(d *decide.Device) { d.Path = "/dev/disk/by-path/1" })}, refuses, "no name below"},
		"over a network":            {[]edit{on(func(d *decide.Device) { d.Transport = "iscsi" })}, refuses, "attached over iscsi"},
		"an OSD of a Member": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "Member fast.n1 has it on record"},
		"an OSD that was there": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Path: path, Serial: "old"}}}
		})}, conflict, "on record"},
		"an OSD of the path elsewhere": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Node, m.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Path: path, Serial: "old"}}}
		})}, offered, ""},
		"a LUN":                       {[]edit{member(func(m *v1alpha1.MemberSpec) { m.Node, m.Lun = "n2", &v1alpha1.MemberLun{WWID: "0x1"} })}, conflict, "on record"},
		"a group is being made of it": {[]edit{forming}, conflict, "on record"},
		"a group has it, as the status says": {[]edit{member(func(*v1alpha1.MemberSpec) {}), func(f *Facts) {
			f.Members[0].Status.Devices = []v1alpha1.MemberDevice{{Path: "/dev/x", Identity: "0x1"}}
		}}, conflict, "on record"},
		"retired":                       {[]edit{member(func(m *v1alpha1.MemberSpec) { m.Retire = []v1alpha1.RetiredDevice{{Path: path}} })}, conflict, "retired by Member fast.n1"},
		"a Cluster without a selector":  {[]edit{cluster(func(*v1alpha1.Cluster) {})}, conflict, "chosen by the spec of Cluster fast"},
		"one that has joined":           {[]edit{cluster(func(*v1alpha1.Cluster) {}), member(func(m *v1alpha1.MemberSpec) { m.Group = &v1alpha1.MemberGroup{UUID: "g"} })}, offered, ""},
		"one that has joined elsewhere": {[]edit{cluster(func(*v1alpha1.Cluster) {}), member(func(m *v1alpha1.MemberSpec) { m.Node, m.Group = "n2", &v1alpha1.MemberGroup{UUID: "g"} })}, conflict, "chosen"},
		"a Cluster that names it": {[]edit{cluster(func(c *v1alpha1.Cluster) {
			c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/ata-1"}}
		})}, conflict, "chosen"},
		"one that names another":            {[]edit{cluster(func(c *v1alpha1.Cluster) { c.Spec.Devices = &spare })}, offered, ""},
		"one of other hosts":                {[]edit{cluster(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n2"} })}, offered, ""},
		"one that is deleted":               {[]edit{cluster(func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: noon} })}, offered, ""},
		"one that selects the host":         {[]edit{cluster(selects("ssd"))}, conflict, "chosen"},
		"one that does not":                 {[]edit{cluster(selects("tape"))}, offered, ""},
		"one whose selector cannot be read": {[]edit{cluster(selects("not a value"))}, conflict, "cannot be told"},
		"another node has it":               {[]edit{other("g0", 0, false)}, conflict, "GlusterNode gluster/g0"},
		"by another name already":           {[]edit{recorded(0, true), func(f *Facts) { f.Node.Spec.Storage[0].Device = "/dev/disk/by-id/ata-1" }}, conflict, "on record already, as device " + path},
		"on record":                         {[]edit{recorded(30*time.Second, false)}, waits, "less than a minute"},
		"on record in the future":           {[]edit{recorded(-time.Hour, false)}, "False Pending 1m0s", "less than a minute"},
		"on record for long":                {[]edit{recorded(time.Minute, false)}, given, "is given"},
		"and chosen meanwhile":              {[]edit{recorded(time.Minute, false), cluster(func(*v1alpha1.Cluster) {})}, conflict, "chosen"},
		"and an OSD meanwhile": {[]edit{recorded(time.Minute, false), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "on record"},
		"and written meanwhile":                   {[]edit{recorded(time.Minute, false), refused(v1alpha1.RefusalLVM)}, refuses, "not clean"},
		"and another disk came":                   {[]edit{recorded(time.Minute, false), exchanged}, conflict, "another disk than the one on record, which is 0x1 S1"},
		"and it went":                             {[]edit{recorded(time.Minute, false), func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "is not on node n1"},
		"and it shrank":                           {[]edit{recorded(time.Minute, false), on(func(d *decide.Device) { d.SizeBytes = gib })}, conflict, "smaller"},
		"and it is there twice":                   {[]edit{recorded(time.Minute, false), func(f *Facts) { f.Agent.Devices = append(f.Agent.Devices, f.Agent.Devices[0]) }}, conflict, "2 devices"},
		"and its name changed":                    {[]edit{recorded(time.Minute, false), on(func(d *decide.Device) { d.Path, d.Links = "/dev/disk/by-id/new", nil })}, conflict, "another name now"},
		"and the agent is silent":                 {[]edit{recorded(time.Minute, false), silent}, "Unknown AgentUnreachable", "no answer"},
		"and the affinity is another":             {[]edit{recorded(time.Minute, false), func(f *Facts) { f.Host = "n2" }}, conflict, "on record on node n1"},
		"two records, the earlier":                {[]edit{recorded(2*time.Minute, false), other("g0", time.Minute, false)}, given, ""},
		"two records, the later":                  {[]edit{recorded(time.Minute, false), other("g2", 2*time.Minute, false)}, conflict, "g2"},
		"two records at once, the first by name":  {[]edit{recorded(time.Minute, false), other("g2", time.Minute, false)}, given, ""},
		"two records at once, the second by name": {[]edit{recorded(time.Minute, false), other("g0", time.Minute, false)}, conflict, "g0"},
		"two records, the other is given":         {[]edit{recorded(2*time.Minute, false), other("g2", time.Minute, true)}, conflict, "g2"},
		"given":                                   {[]edit{recorded(time.Hour, true)}, register, ""},
		"given, and another one's too":            {[]edit{recorded(time.Hour, true), other("g2", time.Minute, true)}, serves, ""},
		"given, and recorded by another":          {[]edit{recorded(time.Hour, true), other("g2", 2*time.Hour, false)}, register, ""},
		"given, and begun":                        {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM, v1alpha1.RefusalSettling)}, register, ""},
		"given, and in a group":                   {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), on(func(d *decide.Device) { d.VolumeGroup = "vg" })}, serves, ""},
		"given, and something else is on it":      {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM, v1alpha1.RefusalFilesystem)}, serves, ""},
		"given, and an OSD": {[]edit{recorded(time.Hour, true), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, serves, ""},
		"given, and the agent is silent":           {[]edit{recorded(time.Hour, true), silent}, serves, ""},
		"given, and maintenance":                   {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Held = "it is under maintenance" }}, serves, ""},
		"given, and another disk came":             {[]edit{recorded(time.Hour, true), exchanged}, conflict, "another disk"},
		"given, and it went":                       {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "is not on node n1"},
		"given, and nobody knows the host":         {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Host = "" }}, "Unknown Pending", "not known"},
		"given, and a second one is put on record": {[]edit{recorded(time.Hour, true), second}, "False StepTaken record:n1,0x1,S1,true record:n1,0x9,S9,false register 1m0s", "is put on record"},
		"given, and there is no pod":               {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Began = time.Time{} }}, serves, ""},
		"given, and plugged in later":              {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = noon })}, serves, ""},
		"given, and nobody knows when it came":     {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = time.Time{} })}, serves, ""},
		"of two devices one after the other":       {[]edit{second}, offered, "is put on record"},
		"what is wrong outranks what nobody knows": {[]edit{silent, second, func(f *Facts) { f.Node.Spec.Storage[1].Device = "/dev/sdb" }}, refuses, "named by a path"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene(row.edits...)
			d := Decide(f)
			if got := show(d); got != row.want || !strings.Contains(d.Condition().Message, row.says) {
				t.Errorf("got %q, %s; want %q, %q", got, d.Condition().Message, row.want, row.says)
			}
			for _, v := range d.Verdicts {
				if may, why := d.Registers(v.Device); may != v.Register || may == (why != "") {
					t.Errorf("%+v: %t, %q", v, may, why)
				}
			}
		})
	}
}

// second is another device that is clean.
func second(f *Facts) {
	d := f.Agent.Devices[0]
	d.Path, d.KernelName, d.Links, d.WWN, d.Serial = "/dev/disk/by-id/wwn-9", "sdb", nil, "0x9", "S9"
	f.Agent.Devices = append(f.Agent.Devices, d)
	f.Node.Spec.Storage = append(f.Node.Spec.Storage, v1alpha1.GlusterStorage{Device: "/dev/disk/by-id/wwn-9"})
}

func selects(value string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) {
		c.Spec.Hosts, c.Spec.HostSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"disk": value}}
	}
}

// forming has a group of a Member made of the device.
func forming(f *Facts) {
	stem := disk.Future(f.Agent.Devices[0], "u")
	member(func(m *v1alpha1.MemberSpec) { m.Group = &v1alpha1.MemberGroup{Forming: []string{stem}} })(f)
}

// TestDecide_whole goes through all passes: no record is changed once it is written, and what is decided is decided again if nothing was written.
func TestDecide_whole(t *testing.T) {
	f := scene()
	var passes []string
	for range 5 {
		d := Decide(f)
		if again := Decide(f); show(again) != show(d) {
			t.Fatalf("%q, and then %q", show(d), show(again))
		}
		passes = append(passes, show(d))
		if d.Records != nil {
			f.Node.Spec.Devices = d.Records
		}
		f.Now = f.Now.Add(40 * time.Second)
	}
	want := "False StepTaken record:n1,0x1,S1,false 1m0s\nFalse Pending 20s\nFalse StepTaken record:n1,0x1,S1,true\nTrue DevicesGiven register\nTrue DevicesGiven register"
	if got := strings.Join(passes, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDecision: what was not judged in a pass is not registered, and what the server has is judged in each, and counts alone once the server runs.
func TestDecision(t *testing.T) {
	f := scene(recorded(time.Hour, true), second)
	f.Node.Spec.Storage[0], f.Node.Spec.Storage[1] = f.Node.Spec.Storage[1], f.Node.Spec.Storage[0]
	d := Decide(f)
	if may, _ := d.Registers(path); !may || !d.Sound() || len(d.Records) != 2 {
		t.Errorf("%+v", d)
	}
	if may, why := d.Registers("/dev/disk/by-id/wwn-10"); may || why == "" {
		t.Errorf("an unknown device is registered: %q", why)
	}
	exchanged(&f)
	if Decide(f).Sound() {
		t.Error("another disk is taken for the one that the server has")
	}
	f = scene(recorded(time.Minute, false), exchanged)
	if !Decide(f).Sound() {
		t.Error("a disk that no server has keeps one from running")
	}
	three := scene(second)
	if _, why := Decide(three).Registers("/dev/disk/by-id/wwn-9"); why != "another device is put on record first" {
		t.Errorf("got %q", why)
	}
}
