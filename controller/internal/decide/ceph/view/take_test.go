package view

import (
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
			Ceph: &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: diskUUID, Path: "/dev/sdb", Serial: "b", Size: 1 << 40}}},
		},
	}
	device := func(name, serial string) decide.Device {
		return decide.Device{Path: "/dev/" + name, KernelName: name, Serial: serial, SizeBytes: 1 << 40, Type: "disk", Digest: "d", Since: now.Add(-time.Hour)}
	}
	told := &Told{At: now, Facts: ceph.Facts{
		Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "a", In: true}}}, Groups: &ceph.Groups{Total: 8, Clean: 8}, Daemons: &[]ceph.Daemon{}, Blocked: &[]string{},
		Map: &ceph.Map{OSDs: []ceph.OSD{{ID: 1, UUID: diskUUID, Host: "n1", Up: true, In: true}}, HostFlags: map[string][]string{}},
	}}
	o := Observation{
		Cluster: c, World: backend.World{Members: []*v1alpha1.Member{m}, Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true}}}, Now: now,
		Nodes: map[string]decide.Node{"n1": {Agent: decide.AgentUp, Devices: []decide.Device{device("sdb", "b"), device("sdc", "c")}}}, Addresses: map[string]string{"n1": "10.0.0.1"},
		Verdicts: map[string]osd.Verdict{diskUUID: {Kind: osd.Ready}}, Ceph: told, Current: true,
		Workloads: &Workloads{Keys: true, Daemons: []Workload{{Kind: cephname.DaemonOSD, ID: "1", Node: "n1", UUID: diskUUID}}},
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
		"by default it is not taken":  {nil, nil, "", "The member serves volumes. Clean disks that are not taken: /dev/sdc: was not there"},
		"with hotplug":                {&v1alpha1.DeviceSelector{Hotplug: true}, nil, v1alpha1.ActionTakeDisks, ""},
		"a disk that is named":        {&v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/sdc"}}, nil, v1alpha1.ActionTakeDisks, ""},
		"a host without OSDs":         {nil, func(o *Observation) { o.World.Members[0].Spec.Ceph.OSDs = nil }, v1alpha1.ActionTakeDisks, ""},
		"beside an OSD that is down":  {nil, func(o *Observation) { o.Ceph.Map.OSDs[0].Up = false }, "", "does not run. Clean disks that are not taken: /dev/sdc"},
		"beside one that is replaced": {nil, func(o *Observation) { o.Ceph.Map.OSDs[0].Up, o.Ceph.Map.OSDs[0].In = false, false }, "", "ReplaceOSD in the plan of the Cluster. Clean disks"},
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
