package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/refusal"
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
		Node: n, Host: "n1", Labels: map[string]string{"disk": "ssd"}, Now: noon,
		Pod: Pod{Workload: true, Has: []string{path}, Started: noon.Add(-time.Minute), Made: noon.Add(-2 * time.Minute), Began: noon.Add(-2 * time.Minute)},
		Agent: decide.Node{Name: "n1", Agent: decide.AgentUp, Session: noon.Add(-time.Hour), Devices: []decide.Device{{
			Path: path, KernelName: "sda", Type: "disk", Links: []string{path, "/dev/disk/by-id/ata-1", "/dev/disk/by-path/1"}, SizeBytes: 100 * gib, WWN: "0x1", Serial: "S1", Digest: "seen",
			Transport: "sata", Since: noon.Add(-time.Hour),
		}}},
		Looked: map[v1alpha1.DevicePath]bool{path: true, "/dev/disk/by-id/wwn-9": true},
		Absent: map[v1alpha1.DevicePath]bool{path: true},
	}
	for _, e := range edits {
		e(&f)
	}
	return f
}

// recorded puts the device on record, for a while.
func recorded(ago time.Duration, allocated bool) edit {
	return func(f *Facts) {
		f.Seen = map[v1alpha1.DevicePath]time.Time{path: f.Now.Add(-ago)}
		f.Node.Spec.Devices = []v1alpha1.GlusterDevice{{
			Device: path, Node: "n1", Path: path, WWN: "0x1", Serial: "S1", Size: 100 * gib, Recorded: metav1.NewTime(f.Now.Add(-ago)), Allocated: allocated,
		}}
	}
}

func on(change func(*decide.Device)) edit { return func(f *Facts) { change(&f.Agent.Devices[0]) } }

func refused(reasons ...string) edit {
	return on(func(d *decide.Device) {
		for _, r := range reasons {
			d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: r, Message: "It is " + r + "."})
			if r == v1alpha1.RefusalLVM {
				d.PVUUID = "pv"
			}
		}
	})
}

// mountedAt is where the server's own pod has the disk, and ownMount what the agent calls that.
var (
	mountedAt = workload.Disk(v1alpha1.GlusterDevice{Node: "n1", Device: path})
	ownMount  = "a mount of its device node at " + mountedAt + ", as process glusterd2 (pid 200) sees it"
)

// busy has the disk in use.
func busy(users string) edit {
	return on(func(d *decide.Device) {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: v1alpha1.RefusalBusy, Message: "The device is in use by " + users + "."})
	})
}

// grouped has the volume group of glusterd2 on the disk.
var grouped = func(f *Facts) {
	refused(v1alpha1.RefusalLVM)(f)
	on(func(d *decide.Device) { d.VolumeGroup = workload.Group(mountedAt) })(f)
}

// active has volumes of that group in use, so that nobody opens the disk exclusively.
func active(f *Facts) {
	refused(v1alpha1.RefusalHeld)(f)
	on(func(d *decide.Device) {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: v1alpha1.RefusalBusy, Message: refusal.NotExclusive})
	})(f)
}

// unlooked: the agent did not look at this moment. bare: the template of the workload does not have the disk.
func unlooked(f *Facts) { f.Looked = nil }
func bare(f *Facts)     { f.Pod.Has = nil }

// live: the API server itself says all of it.
func live(f *Facts) { f.Live = true }

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
func other(name string, ago time.Duration, allocated bool) edit {
	return func(f *Facts) {
		n := v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: name}}
		n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: "/dev/disk/by-id/ata-1", Node: "n1", Path: path, WWN: "0x1", Serial: "S1", Recorded: metav1.NewTime(f.Now.Add(-ago)), Allocated: allocated}}
		f.Others = append(f.Others, disk.RecordsOf([]v1alpha1.GlusterNode{n})...)
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
		out += fmt.Sprintf(" record:%s,%s,%s,%t", r.Node, r.WWN, r.Serial, r.Allocated)
	}
	if d.Withdrawn() != "" && d.Records != nil {
		out += " withdrawn"
	}
	for _, v := range d.Verdicts {
		if v.Register {
			out += " register"
		} else if v.Allocated == gluster.Yes {
			out += " but " + v.Reason
		}
	}
	if d.Wake > 0 {
		out += " " + d.Wake.String()
	}
	return out
}

func TestDecide(t *testing.T) {
	const (
		offered   = "False StepTaken record:n1,0x1,S1,false 3m0s"
		waits     = "False Pending 2m30s"
		allocated = "False StepTaken record:n1,0x1,S1,true"
		serves    = "True DevicesAllocated"
		register  = "True DevicesAllocated register"
		refuses   = "False DeviceRefused"
		conflict  = "False DeviceConflict"
		withdrawn = "False DeviceConflict withdrawn"
	)
	silent := func(f *Facts) { f.Agent.Agent, f.Agent.Problem = decide.AgentUnreachable, "no answer" }
	unseen := func(f *Facts) { f.Seen = nil }
	registered := func(f *Facts) { f.Registered = true }
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
		"a physical volume":         {[]edit{refused(v1alpha1.RefusalLVM)}, refuses, "do not wipe it: write spec.devices again"},
		"not clean, and it served":  {[]edit{refused(v1alpha1.RefusalFilesystem), func(f *Facts) { f.Node.Spec.Pool = "p" }}, refuses, "do not wipe it: write spec.devices again"},
		"not clean, and it joined":  {[]edit{refused(v1alpha1.RefusalFilesystem), func(f *Facts) { f.Node.Status.Joined = true }}, refuses, "do not wipe it: write spec.devices again"},
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
		"an OSD of another machine": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Node, m.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1", Size: 100 * gib}}}
		})}, conflict, "on record"},
		"an OSD of another machine that has its names": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Node, m.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1", Size: gib}}}
		})}, offered, ""},
		"an OSD of another machine that has its serial number": {[]edit{on(func(d *decide.Device) { d.WWN = "" }), member(func(m *v1alpha1.MemberSpec) {
			m.Node, m.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Serial: "S1", Size: 100 * gib}}}
		})}, "False StepTaken record:n1,,S1,false 3m0s", ""},
		"an OSD that was there": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Path: path, Serial: "old"}}}
		})}, conflict, "on record"},
		"an OSD of the path elsewhere": {[]edit{member(func(m *v1alpha1.MemberSpec) {
			m.Node, m.Ceph = "n2", &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Path: path, Serial: "old"}}}
		})}, offered, ""},
		"a LUN":                              {[]edit{member(func(m *v1alpha1.MemberSpec) { m.Node, m.Lun = "n2", &v1alpha1.MemberLun{WWID: "0x1"} })}, conflict, "on record"},
		"a LUN with another serial number":   {[]edit{member(func(m *v1alpha1.MemberSpec) { m.Node, m.Lun = "n2", &v1alpha1.MemberLun{WWID: "0x1", Serial: "S2"} })}, offered, ""},
		"a LUN with its serial number alone": {[]edit{member(func(m *v1alpha1.MemberSpec) { m.Node, m.Lun = "n2", &v1alpha1.MemberLun{WWID: "0x2", Serial: "S1"} })}, offered, ""},
		"a group is being made of it":        {[]edit{forming}, conflict, "on record"},
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
		"one that names another":             {[]edit{cluster(func(c *v1alpha1.Cluster) { c.Spec.Devices = &spare })}, offered, ""},
		"one of other hosts":                 {[]edit{cluster(func(c *v1alpha1.Cluster) { c.Spec.Hosts = []v1alpha1.HostName{"n2"} })}, offered, ""},
		"one that is deleted":                {[]edit{cluster(func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: noon} })}, offered, ""},
		"one that selects the host":          {[]edit{cluster(selects("ssd"))}, conflict, "chosen"},
		"one that does not":                  {[]edit{cluster(selects("tape"))}, offered, ""},
		"one whose selector cannot be read":  {[]edit{cluster(selects("not a value"))}, conflict, "cannot be told"},
		"another node has it":                {[]edit{other("g0", 0, false)}, conflict, "GlusterNode gluster/g0"},
		"by another name already":            {[]edit{recorded(0, true), func(f *Facts) { f.Node.Spec.Storage[0].Device = "/dev/disk/by-id/ata-1" }}, conflict, "on record already, as device " + path},
		"on record":                          {[]edit{recorded(30*time.Second, false)}, waits, "less than three minutes"},
		"on record in the future":            {[]edit{recorded(-time.Hour, false)}, "False Pending 3m0s", "less than three minutes"},
		"on record for long, and just seen":  {[]edit{recorded(time.Hour, false), func(f *Facts) { f.Seen[path] = f.Now }}, "False Pending 3m0s", "less than three minutes"},
		"on record for long, and never seen": {[]edit{recorded(time.Hour, false), func(f *Facts) { f.Seen = nil }}, "False Pending 3m0s", "less than three minutes"},
		"seen before it was written":         {[]edit{recorded(time.Minute, false), func(f *Facts) { f.Seen[path] = f.Now.Add(-time.Hour) }}, "False Pending 2m0s", "less than three minutes"},
		"on record for long":                 {[]edit{recorded(3*time.Minute, false)}, allocated, "is allocated"},
		"and chosen meanwhile":               {[]edit{recorded(3*time.Minute, false), cluster(func(*v1alpha1.Cluster) {})}, conflict, "chosen"},
		"and an OSD meanwhile": {[]edit{recorded(3*time.Minute, false), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "on record"},
		"and an OSD meanwhile, and no server has it": {[]edit{recorded(3*time.Minute, false), bare, live, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, withdrawn, "Member fast.n1 has the disk on record"},
		"that, under maintenance": {[]edit{recorded(time.Minute, false), bare, live, func(f *Facts) { f.Held = "it is under maintenance" }, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, withdrawn, "Member fast.n1"},
		"that, and a cache says so": {[]edit{recorded(3*time.Minute, false), bare, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "Member fast.n1"},
		"that, and the group of its server is on it": {[]edit{recorded(3*time.Minute, false), bare, live, grouped, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, refuses, "not clean"},
		"that, and glusterd2 has it, or nobody knows": {[]edit{recorded(3*time.Minute, false), bare, live, func(f *Facts) { f.Absent = nil }, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "Member fast.n1"},
		"that, and a pod of its server has it": {[]edit{recorded(3*time.Minute, false), bare, live, busy(ownMount), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, refuses, "not clean"},
		"that, and nobody knows what is on it": {[]edit{recorded(3*time.Minute, false), bare, live, silent, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, "Unknown AgentUnreachable", "no answer"},
		"and a group is being made of it":       {[]edit{recorded(3*time.Minute, false), bare, live, forming}, withdrawn, "on record"},
		"and a storage was cut off":             {[]edit{recorded(3*time.Minute, false), bare, live, refused(v1alpha1.RefusalLVM), orphan, cluster(func(c *v1alpha1.Cluster) { c.Spec.Devices = &spare })}, withdrawn, "has begun with"},
		"and a storage has it":                  {[]edit{recorded(3*time.Minute, false), bare, live, on(func(d *decide.Device) { d.OwnerUID = "u" })}, withdrawn, "has begun with"},
		"and a Cluster only chooses it":         {[]edit{recorded(3*time.Minute, false), bare, live, cluster(func(*v1alpha1.Cluster) {})}, conflict, "chosen"},
		"and written meanwhile by nobody known": {[]edit{recorded(3*time.Minute, false), bare, live, refused(v1alpha1.RefusalLVM)}, refuses, "not clean"},
		"allocated, and an OSD, and no server has it": {[]edit{recorded(time.Hour, true), bare, live, member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "Member fast.n1"},
		"and written meanwhile":                    {[]edit{recorded(3*time.Minute, false), refused(v1alpha1.RefusalLVM)}, refuses, "not clean"},
		"and another disk came":                    {[]edit{recorded(3*time.Minute, false), exchanged}, conflict, "another disk than the one on record, which is 0x1 S1"},
		"and it went":                              {[]edit{recorded(3*time.Minute, false), func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "is not on node n1"},
		"and it shrank":                            {[]edit{recorded(3*time.Minute, false), on(func(d *decide.Device) { d.SizeBytes = gib })}, conflict, "another disk than the one on record"},
		"and it is there twice":                    {[]edit{recorded(3*time.Minute, false), func(f *Facts) { f.Agent.Devices = append(f.Agent.Devices, f.Agent.Devices[0]) }}, conflict, "2 devices"},
		"and its name changed":                     {[]edit{recorded(3*time.Minute, false), on(func(d *decide.Device) { d.Path, d.Links = "/dev/disk/by-id/new", nil })}, conflict, "another name now"},
		"and the agent is silent":                  {[]edit{recorded(3*time.Minute, false), silent}, "Unknown AgentUnreachable", "no answer"},
		"and the affinity is another":              {[]edit{recorded(3*time.Minute, false), func(f *Facts) { f.Host = "n2" }}, conflict, "on record on node n1"},
		"two records, the earlier":                 {[]edit{recorded(5*time.Minute, false), other("g0", time.Minute, false)}, allocated, ""},
		"two records, the later":                   {[]edit{recorded(3*time.Minute, false), other("g2", 4*time.Minute, false)}, conflict, "g2"},
		"two records at once, the first by name":   {[]edit{recorded(3*time.Minute, false), other("g2", 3*time.Minute, false)}, allocated, ""},
		"two records at once, the second by name":  {[]edit{recorded(3*time.Minute, false), other("g0", 3*time.Minute, false)}, conflict, "g0"},
		"two records, the other is allocated":      {[]edit{recorded(5*time.Minute, false), other("g2", time.Minute, true)}, conflict, "g2"},
		"allocated":                                {[]edit{recorded(time.Hour, true)}, register, ""},
		"allocated, and another one's too":         {[]edit{recorded(time.Hour, true), other("g2", time.Minute, true)}, conflict, "g2"},
		"allocated, registered, and another one's": {[]edit{recorded(time.Hour, true), other("g2", time.Minute, true), registered}, conflict, "No server gets it newly"},
		"allocated, another one's, and silent":     {[]edit{recorded(time.Hour, true), other("g2", time.Minute, true), silent}, conflict, "g2"},
		"allocated, and of a storage":              {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.OwnerUID = "u" }), registered}, conflict, "belongs to a storage"},
		"allocated, registered, and retired":       {[]edit{recorded(time.Hour, true), member(func(m *v1alpha1.MemberSpec) { m.Retire = []v1alpha1.RetiredDevice{{Path: path}} }), registered}, conflict, "retired"},
		"allocated, and on record again": {[]edit{recorded(time.Hour, true), func(f *Facts) {
			r := f.Node.Spec.Devices[0]
			r.Device, r.Allocated = "/dev/disk/by-id/ata-1", false
			f.Node.Spec.Devices = append(f.Node.Spec.Devices, r)
		}}, register, ""},
		"allocated, and recorded by another":       {[]edit{recorded(time.Hour, true), other("g2", 2*time.Hour, false)}, register, ""},
		"allocated, and begun":                     {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM)}, register, ""},
		"allocated long ago, and just seen":        {[]edit{recorded(time.Hour, true), unseen}, serves + " but Pending 3m0s", ""},
		"allocated, just seen, and in no workload": {[]edit{recorded(time.Hour, true), unseen, func(f *Facts) { f.Pod = Pod{} }}, "False Pending 3m0s", "less than three minutes"},
		"allocated, just seen, and registered":     {[]edit{recorded(time.Hour, true), unseen, registered}, serves + " but Pending", ""},
		"allocated in the future":                  {[]edit{recorded(-time.Hour, true)}, serves + " but Pending 3m0s", ""},
		"allocated, begun, and LVM knows nothing":  {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), on(func(d *decide.Device) { d.PVUUID = "" })}, serves + " but DeviceRefused", ""},
		"allocated, and begun by a Cluster of other disks": {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), orphan, cluster(func(c *v1alpha1.Cluster) {
			c.Spec.Devices = &spare
		})}, serves + " but DeviceRefused", ""},
		"allocated, and begun by a Cluster that is gone": {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), orphan, member(func(*v1alpha1.MemberSpec) {})}, serves + " but DeviceRefused", ""},
		"allocated, begun, and LVM does not run":         {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), func(f *Facts) { f.Agent.LVMError = "locked" }}, serves + " but DeviceRefused", ""},
		"allocated, begun, and in a group that is not told": {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), func(f *Facts) {
			f.Agent.Unknown = []decide.UnknownGroup{{Name: "g", Devices: []string{path}}}
		}}, serves + " but DeviceRefused", ""},
		"allocated, begun, and a group has no devices": {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), func(f *Facts) {
			f.Agent.Unknown = []decide.UnknownGroup{{}}
		}}, serves + " but DeviceRefused", ""},
		"allocated, begun, and another group is not told": {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), func(f *Facts) {
			f.Agent.Unknown = []decide.UnknownGroup{{Name: "g", Devices: []string{"/dev/sdz"}}}
		}}, register, ""},
		"allocated, begun, and it may hide a group":              {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), func(f *Facts) { f.Agent.Hiding = []string{path} }}, serves + " but DeviceRefused", ""},
		"two are allocated, one is registered":                   {[]edit{second, bothAllocated}, register + " but Pending", ""},
		"two are allocated, glusterd2 refused the first":         {[]edit{second, bothAllocated, tried(time.Minute, 0)}, serves + " but Pending register", ""},
		"two are allocated, glusterd2 refused both, first later": {[]edit{second, bothAllocated, tried(time.Minute, time.Hour)}, serves + " but Pending register", ""},
		"two are allocated, glusterd2 refused both, first first": {[]edit{second, bothAllocated, tried(time.Hour, time.Minute)}, register + " but Pending", ""},
		"allocated, and registered":                              {[]edit{recorded(time.Hour, true), registered}, serves + " but Pending", ""},
		"allocated, registered, and exchanged":                   {[]edit{recorded(time.Hour, true), exchanged, func(f *Facts) { f.Registered = true }}, conflict, "another disk"},
		"allocated, and not tested for users":                    {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalSettling)}, serves + " but DeviceRefused", ""},
		"allocated, and in its own pod":                          {[]edit{recorded(time.Hour, true), busy(ownMount)}, register, ""},
		"allocated, and begun in its own pod":                    {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), busy(ownMount)}, register, ""},
		"allocated, and in another pod":                          {[]edit{recorded(time.Hour, true), busy("a mount of its device node at /vol, as process pause (pid 3) sees it")}, serves + " but DeviceRefused", ""},
		"allocated, and in its own pod and open":                 {[]edit{recorded(time.Hour, true), busy(ownMount + ", process dd (pid 3)")}, serves + " but DeviceRefused", ""},
		"allocated, and mounted on the host":                     {[]edit{recorded(time.Hour, true), busy("a mount of its device node at " + mountedAt)}, serves + " but DeviceRefused", ""},
		"allocated, and its content is not known":                {[]edit{recorded(time.Hour, true), busy(ownMount), on(func(d *decide.Device) { d.Digest = "" })}, serves + " but DeviceRefused", ""},
		"on record, and in its own pod":                          {[]edit{recorded(3*time.Minute, false), busy(ownMount)}, refuses, "not clean"},
		"in a pod":                                               {[]edit{busy(ownMount)}, refuses, "not clean"},
		"allocated, and in a group":                              {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), on(func(d *decide.Device) { d.VolumeGroup = "vg" })}, serves + " but DeviceRefused", ""},
		"allocated, and something else is on it":                 {[]edit{recorded(time.Hour, true), refused(v1alpha1.RefusalLVM, v1alpha1.RefusalFilesystem)}, serves + " but DeviceRefused", ""},
		"allocated, and an OSD": {[]edit{recorded(time.Hour, true), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{WWN: "0x1", Serial: "S1"}}}
		})}, conflict, "Member fast.n1"},
		"allocated, and chosen by a Cluster":             {[]edit{recorded(time.Hour, true), cluster(func(*v1alpha1.Cluster) {})}, serves + " but DeviceConflict", ""},
		"allocated, registered, and chosen by a Cluster": {[]edit{recorded(time.Hour, true), cluster(func(*v1alpha1.Cluster) {}), registered}, serves + " but Pending", ""},
		"allocated, and the agent is silent":             {[]edit{recorded(time.Hour, true), silent}, serves + " but AgentUnreachable", ""},
		"allocated, and maintenance":                     {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Held = "it is under maintenance" }}, serves + " but Pending", ""},
		"allocated, and another disk came":               {[]edit{recorded(time.Hour, true), exchanged}, conflict, "another disk"},
		"allocated, and it has grown":                    {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.SizeBytes++ })}, register, ""},
		"allocated, and it has shrunk":                   {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.SizeBytes-- })}, conflict, "another disk"},
		"allocated, registered, and stale":               {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = noon }), func(f *Facts) { f.Registered = true }}, serves + " but Pending", ""},
		"allocated, and it went":                         {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "is not on node n1"},
		"allocated, and nobody knows the host":           {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Host = "" }}, "Unknown Pending", "not known"},
		"allocated, and a second one is put on record":   {[]edit{recorded(time.Hour, true), second}, "False StepTaken record:n1,0x1,S1,true record:n1,0x9,S9,false register 3m0s", "is put on record"},
		"allocated, and no server runs":                  {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Pod = Pod{} }}, serves + " but Pending", ""},
		"allocated, and plugged in later":                {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = noon })}, serves + " but Pending", ""},
		"allocated, plugged in later, and in its pod":    {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = noon }), busy(ownMount)}, register, ""},
		"allocated, and its machine is ahead": {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = noon.Add(-time.Second) }), func(f *Facts) {
			f.Pod.Started = noon.Add(time.Hour)
		}}, serves + " but Pending", ""},
		"allocated, and its machine is behind":                  {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Pod.Started = noon.Add(-24 * time.Hour) }}, register, ""},
		"allocated, and nobody saw the pod begin":               {[]edit{recorded(time.Hour, true), func(f *Facts) { f.Pod.Made = time.Time{} }}, serves + " but Pending", ""},
		"allocated, and nobody knows when it came":              {[]edit{recorded(time.Hour, true), on(func(d *decide.Device) { d.Since = time.Time{} })}, serves + " but Pending", ""},
		"clean, and the agent did not look":                     {[]edit{unlooked}, "False Pending", "has to look at"},
		"on record for long, and the agent did not look":        {[]edit{recorded(3*time.Minute, false), unlooked}, "False Pending", "has to look at"},
		"allocated, and the agent did not look":                 {[]edit{recorded(time.Hour, true), unlooked}, register, ""},
		"in no template":                                        {[]edit{recorded(time.Hour, true), bare}, register, ""},
		"in no template, and the agent did not look":            {[]edit{recorded(time.Hour, true), bare, unlooked}, "False Pending", "has to look at"},
		"in no template, and the agent is silent":               {[]edit{recorded(time.Hour, true), bare, silent}, "Unknown AgentUnreachable", "no server newly gets a disk that nobody looks at"},
		"in no template, and LVM does not run":                  {[]edit{recorded(time.Hour, true), bare, func(f *Facts) { f.Agent.LVMError = "locked" }}, "Unknown Pending", "locked"},
		"in no template, and it went":                           {[]edit{recorded(time.Hour, true), bare, func(f *Facts) { f.Agent.Devices = nil }}, "False DeviceNotFound", "is not on node n1"},
		"in no template, and another disk came":                 {[]edit{recorded(time.Hour, true), bare, exchanged}, conflict, "another disk"},
		"in no template, and open":                              {[]edit{recorded(time.Hour, true), bare, busy("process qemu (pid 7)")}, refuses, "not clean"},
		"in no template, and not read":                          {[]edit{recorded(time.Hour, true), bare, on(func(d *decide.Device) { d.Digest = "" }), refused(v1alpha1.RefusalUnreadable)}, refuses, "not clean"},
		"in no template, and chosen by a Cluster":               {[]edit{recorded(time.Hour, true), bare, cluster(func(*v1alpha1.Cluster) {})}, conflict, "chosen"},
		"in no template, with its own group":                    {[]edit{recorded(time.Hour, true), bare, grouped, registered}, serves + " but Pending", ""},
		"in no template, with its own group that is chosen":     {[]edit{recorded(time.Hour, true), bare, grouped, registered, cluster(func(*v1alpha1.Cluster) {})}, serves + " but Pending", ""},
		"in no template, with its own group and volumes in use": {[]edit{recorded(time.Hour, true), bare, grouped, active, registered}, serves + " but Pending", ""},
		"in no template, with its own group, and open":          {[]edit{recorded(time.Hour, true), bare, grouped, busy("process qemu (pid 7)")}, refuses, "not clean"},
		"in no template, with its own group, and taken": {[]edit{recorded(time.Hour, true), bare, grouped, on(func(d *decide.Device) {
			d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: v1alpha1.RefusalBusy, Message: refusal.NotExclusive})
		})}, refuses, "not clean"},
		"in no template, with its own group and a filesystem": {[]edit{recorded(time.Hour, true), bare, grouped, refused(v1alpha1.RefusalFilesystem)}, refuses, "not clean"},
		"in no template, with its own group, and not read":    {[]edit{recorded(time.Hour, true), bare, grouped, on(func(d *decide.Device) { d.Digest = "" })}, refuses, "not clean"},
		"in no template, with somebody's group":               {[]edit{recorded(time.Hour, true), bare, grouped, on(func(d *decide.Device) { d.VolumeGroup = "data" })}, refuses, "do not wipe it"},
		"a Cluster whose OSDs there a person gave up": {[]edit{cluster(func(*v1alpha1.Cluster) {}), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Serial: "old", Replaced: true}}}
		})}, conflict, "chosen by the spec of Cluster fast"},
		"a Cluster with an OSD there": {[]edit{cluster(func(*v1alpha1.Cluster) {}), member(func(m *v1alpha1.MemberSpec) {
			m.Ceph = &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{Serial: "old"}}}
		})}, offered, ""},
		"of two devices one after the other":       {[]edit{second}, offered, "is put on record"},
		"what is wrong outranks what nobody knows": {[]edit{silent, second, func(f *Facts) { f.Node.Spec.Storage[1].Device = "/dev/sdb" }}, refuses, "named by a path"},
	} {
		t.Run(name, func(t *testing.T) {
			f := scene(row.edits...)
			d := Decide(f)
			if got := show(d); got != row.want || !strings.Contains(d.Condition().Message, row.says) {
				t.Errorf("got %q, %s; want %q, %q", got, d.Condition().Message, row.want, row.says)
			}
			f.Looked = nil
			if d := Decide(f); d.Records != nil && d.Withdrawn() == "" {
				t.Errorf("%+v is written, and the agent did not look", d.Records)
			}
			for _, r := range f.Node.Spec.Devices {
				// Nor does a server newly get anything.
				f.Pod.Has = nil
				if d := Decide(f); r.Allocated && slices.ContainsFunc(f.Node.Spec.Storage, func(s v1alpha1.GlusterStorage) bool { return s.Device == r.Device }) && !slices.Contains(Without(f, d), r.Device) {
					t.Errorf("a server gets %s, and the agent did not look", r.Device)
				}
			}
			for _, v := range d.Verdicts {
				if may, reason, why := d.Registers(v.Device); may != v.Register || may == (why != "") || may == (reason != "") {
					t.Errorf("%+v: %t, %q, %q", v, may, reason, why)
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

// bothAllocated has both devices allocated to the server.
func bothAllocated(f *Facts) {
	recorded(time.Hour, true)(f)
	r := f.Node.Spec.Devices[0]
	r.Device, r.Path, r.WWN, r.Serial = "/dev/disk/by-id/wwn-9", "/dev/disk/by-id/wwn-9", "0x9", "S9"
	f.Node.Spec.Devices, f.Seen[r.Device] = append(f.Node.Spec.Devices, r), f.Seen[path]
}

// tried has glusterd2 told of the devices in vain so long ago; 0 is never.
func tried(ago ...time.Duration) edit {
	return func(f *Facts) {
		f.Tried = map[v1alpha1.DevicePath]time.Time{}
		for i, ago := range ago {
			if ago > 0 {
				f.Tried[f.Node.Spec.Devices[i].Device] = f.Now.Add(-ago)
			}
		}
	}
}

func selects(value string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) {
		c.Spec.Hosts, c.Spec.HostSelector = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"disk": value}}
	}
}

// orphan has a physical volume on the device that a call for the Cluster left behind.
var orphan = on(func(d *decide.Device) { d.PVUUID = disk.Future(*d, "u") + "aa-aaaa-aaaa-aaaaaa" })

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
			f.Node.Spec.Devices, f.Seen = d.Records, map[v1alpha1.DevicePath]time.Time{path: noon}
		}
		f.Now = f.Now.Add(2 * time.Minute)
	}
	want := "False StepTaken record:n1,0x1,S1,false 3m0s\nFalse Pending 1m0s\nFalse StepTaken record:n1,0x1,S1,true\nTrue DevicesAllocated register\nTrue DevicesAllocated register"
	if got := strings.Join(passes, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDecision: what was not judged in a pass is not registered, and what the server has is judged in each.
func TestDecision(t *testing.T) {
	f := scene(recorded(time.Hour, true), second)
	f.Node.Spec.Storage[0], f.Node.Spec.Storage[1] = f.Node.Spec.Storage[1], f.Node.Spec.Storage[0]
	d := Decide(f)
	if may, _, _ := d.Registers(path); !may || d.Misplaced() || len(d.Records) != 2 {
		t.Errorf("%+v", d)
	}
	if may, reason, why := d.Registers("/dev/disk/by-id/wwn-10"); may || reason != v1alpha1.ReasonPending || why == "" {
		t.Errorf("an unknown device is registered: %q", why)
	}
	f.Host = "n2"
	if !Decide(f).Misplaced() {
		t.Error("a disk on record may move to another node")
	}
	f = scene(recorded(time.Hour, true), refused(v1alpha1.RefusalLVM), on(func(d *decide.Device) { d.VolumeGroup = "vg" }))
	if _, _, why := Decide(f).Registers(path); !strings.Contains(why, "its bricks may be there: do not wipe it") {
		t.Errorf("a disk that the server had may be wiped: %q", why)
	}
	three := scene(second)
	if _, _, why := Decide(three).Registers("/dev/disk/by-id/wwn-9"); why != "another device is put on record first" {
		t.Errorf("got %q", why)
	}
}

// TestWithout: a template leaves out a disk that is not there, and never because of what nobody knows or while a server runs with it. Bricks come to disks that are there alone.
func TestWithout(t *testing.T) {
	away := func(ago time.Duration) edit {
		return func(f *Facts) {
			f.Agent.Devices, f.Missing = nil, map[v1alpha1.DevicePath]time.Time{path: f.Now.Add(-ago)}
		}
	}
	gone := away(time.Hour)
	silent := func(f *Facts) { f.Agent.Agent = decide.AgentUnreachable }
	idle := func(ago time.Duration) edit {
		return func(f *Facts) { f.Pod.Started, f.Pod.Idle = time.Time{}, f.Now.Add(-ago) }
	}
	ended := func(f *Facts) { f.Pod.Started = time.Time{} }
	none := func(f *Facts) { f.Pod = Pod{} }
	fresh := func(f *Facts) { f.Agent.Session = f.Now.Add(-Settled + time.Second) }
	renamed := func(f *Facts) {
		f.Agent.Devices = scene().Agent.Devices
		f.Agent.Devices[0].Path, f.Agent.Devices[0].Links = "/dev/disk/by-id/new", nil
	}
	unseen := func(f *Facts) { f.Seen = nil }
	later := on(func(d *decide.Device) { d.Since = noon })
	for name, row := range map[string]struct {
		edits []edit
		out   bool
		fit   gluster.Answer
	}{
		"it is there":                                  {nil, false, gluster.Yes},
		"it is there, and no workload is":              {[]edit{none}, false, gluster.Yes},
		"it is there again":                            {[]edit{bare}, false, gluster.Yes},
		"it was plugged in again":                      {[]edit{later}, false, gluster.Unknown},
		"it was plugged in again, and the pod has it":  {[]edit{later, busy(ownMount)}, false, gluster.Yes},
		"nobody saw the server start":                  {[]edit{later, func(f *Facts) { f.Pod.Made, f.Pod.Began = time.Time{}, time.Time{} }}, false, gluster.Yes},
		"the clock of its machine is behind":           {[]edit{func(f *Facts) { f.Pod.Started = noon.Add(-24 * time.Hour) }}, false, gluster.Yes},
		"it was plugged in again, and no server runs":  {[]edit{later, ended}, false, gluster.Yes},
		"it is gone while the server runs":             {[]edit{gone}, false, gluster.No},
		"it is gone, and the pod ends":                 {[]edit{gone, ended}, false, gluster.No},
		"it is gone, and the pod hangs for a while":    {[]edit{gone, idle(Settled - time.Second)}, false, gluster.No},
		"it is gone, and the pod hangs":                {[]edit{gone, idle(Settled)}, true, gluster.No},
		"it went, and the pod hangs for long":          {[]edit{away(Settled - time.Second), idle(time.Hour)}, false, gluster.No},
		"it just went, and the pod hangs for long":     {[]edit{func(f *Facts) { f.Agent.Devices = nil }, idle(time.Hour)}, false, gluster.No},
		"it has another name, and the pod hangs":       {[]edit{gone, renamed, idle(Settled)}, true, gluster.No},
		"the pod hangs, and the agent only just spoke": {[]edit{gone, idle(Settled), fresh}, false, gluster.No},
		"the pod hangs, and nobody knows since when":   {[]edit{gone, idle(Settled), func(f *Facts) { f.Agent.Session = time.Time{} }}, false, gluster.No},
		"it is gone, and was left out":                 {[]edit{gone, bare}, true, gluster.No},
		"it is gone, and no workload is":               {[]edit{gone, none}, true, gluster.No},
		"another one is there while the server runs":   {[]edit{exchanged}, false, gluster.No},
		"another one is there, and no server runs":     {[]edit{exchanged, ended}, true, gluster.No},
		"another one is there, and no workload is":     {[]edit{exchanged, none}, true, gluster.No},
		"nobody knows":                                 {[]edit{silent}, false, gluster.Unknown},
		"nobody knows, and the pod hangs":              {[]edit{silent, gone, idle(time.Hour)}, false, gluster.Unknown},
		"nobody knows, and it was left out":            {[]edit{silent, bare}, true, gluster.Unknown},
		"nobody knows, and no workload is":             {[]edit{silent, none}, true, gluster.Unknown},
		"nobody looked":                                {[]edit{unlooked}, false, gluster.Yes},
		"nobody looked, and no workload is":            {[]edit{unlooked, none}, true, gluster.Yes},
		"somebody opened it, and no workload is":       {[]edit{busy("process qemu (pid 7)"), none}, true, gluster.Yes},
		"nobody knows, and nobody has a workload":      {[]edit{func(f *Facts) { f.Host = "" }, none}, true, gluster.Unknown},
		"it is there, and only just seen":              {[]edit{unseen}, false, gluster.Yes},
		"it was only just seen, and no workload is":    {[]edit{unseen, none}, true, gluster.Yes},
		"another one has it, too":                      {[]edit{other("g2", 0, true)}, false, gluster.No},
		"another one has it, and no workload is":       {[]edit{other("g2", 0, true), none}, true, gluster.No},
		"another one has it, and it was left out":      {[]edit{other("g2", 0, true), bare}, true, gluster.No},
		"nobody knows the host":                        {[]edit{func(f *Facts) { f.Host = "" }, gone, idle(time.Hour)}, false, gluster.Unknown},
		"the affinity is another":                      {[]edit{func(f *Facts) { f.Host = "n2" }, gone, idle(time.Hour)}, false, gluster.Unknown},
		"it is gone, and glusterd2 has it":             {[]edit{gone, idle(Settled), func(f *Facts) { f.Registered = true }}, true, gluster.No},
	} {
		f := scene(append([]edit{recorded(time.Hour, true)}, row.edits...)...)
		d := Decide(f)
		fit, reason, why := d.Fit(path)
		if out := Without(f, d); len(out) == 1 != row.out || fit != row.fit || (fit == gluster.No) != (why != "") || (why != "") != (reason != "") {
			t.Errorf("%s: without %q, fit %v (%s, %q)", name, out, fit, reason, why)
		}
	}
	for name, row := range map[string]struct {
		edits []edit
		want  bool
	}{
		"nobody knows the host":                       {[]edit{func(f *Facts) { f.Host = "" }}, true},
		"it was only just seen":                       {[]edit{func(f *Facts) { f.Seen, f.Pod = nil, Pod{} }}, true},
		"it is there":                                 {nil, false},
		"another one has it":                          {[]edit{other("g2", 0, true)}, false},
		"it is there, and no workload is":             {[]edit{none}, false},
		"no workload is, and nobody looked":           {[]edit{none, unlooked}, true},
		"no workload is, and the agent is silent":     {[]edit{none, silent}, true},
		"no workload is, and somebody opened it":      {[]edit{none, busy("process qemu (pid 7)")}, true},
		"no workload is, and it is gone for long":     {[]edit{none, gone}, false},
		"no workload is, and it just went":            {[]edit{none, away(Settled - time.Second)}, true},
		"no workload is, and the agent just spoke":    {[]edit{none, gone, fresh}, true},
		"no workload is, and another disk is there":   {[]edit{none, exchanged}, false},
		"no workload is, and a volume group is on it": {[]edit{none, refused(v1alpha1.RefusalLVM), on(func(d *decide.Device) { d.VolumeGroup = "data" })}, true},
	} {
		sight := scene(append([]edit{recorded(time.Hour, true)}, row.edits...)...)
		d := Decide(sight)
		if got := d.Undecided(); got != row.want {
			t.Errorf("%s: undecided %t", name, got)
		}
		if told := strings.Contains(d.Condition().Message, "The server is not made meanwhile"); told && !row.want {
			t.Errorf("%s: %s", name, d.Condition().Message)
		}
	}
	f := scene(recorded(time.Hour, false), gone, idle(time.Hour))
	if d := Decide(f); Without(f, d) != nil {
		t.Error("a disk that no server has is left out")
	}
}

// TestUndecided_isTold: a server that is not made because of a disk that the agent refuses has its condition say so.
func TestUndecided_isTold(t *testing.T) {
	d := Decide(scene(recorded(time.Hour, true), busy("process qemu (pid 7)"), func(f *Facts) { f.Pod = Pod{} }))
	if !d.Undecided() || !strings.HasSuffix(d.Condition().Message, "The server is not made meanwhile.") {
		t.Errorf("undecided %t: %s", d.Undecided(), d.Condition().Message)
	}
}

// TestLooks: the agent looks at a disk that a new server gets only where no other disk keeps the server from being made.
func TestLooks(t *testing.T) {
	two := func(f *Facts) {
		recorded(time.Hour, true)(f)
		second(f)
		r := f.Node.Spec.Devices[0]
		r.Device, r.Path, r.WWN, r.Serial = "/dev/disk/by-id/wwn-9", "/dev/disk/by-id/wwn-9", "0x9", "S9"
		f.Node.Spec.Devices, f.Seen[r.Device] = append(f.Node.Spec.Devices, r), f.Seen[path]
	}
	used := busy("process qemu (pid 7)")
	for name, row := range map[string]struct {
		edits []edit
		want  int
	}{
		"no workload is":                             {[]edit{two, unlooked, func(f *Facts) { f.Pod = Pod{} }}, 2},
		"no workload is, and somebody uses one":      {[]edit{two, unlooked, used, func(f *Facts) { f.Pod = Pod{} }}, 0},
		"the workload lacks both, and one is in use": {[]edit{two, unlooked, used, bare}, 1},
	} {
		if got := Decide(scene(row.edits...)).Looks(); len(got) != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
