package lvm

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// clusterOf returns a Cluster "a" with UID "uid" and the hosts n1 and n2. It takes every clean disk, whenever that appears.
func clusterOf(edits ...func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid", CreationTimestamp: metav1.NewTime(start)}}
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1", "n2"}
	c.Spec.Devices = &v1alpha1.DeviceSelector{Hotplug: true}
	for _, e := range edits {
		e(c)
	}
	return c
}

// memberOf returns the Member of a Cluster on n1.
func memberOf(c *v1alpha1.Cluster, edits ...func(*v1alpha1.Member)) *v1alpha1.Member {
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: c.Name + ".n1", UID: "m-uid"}}
	m.Spec.Of, m.Spec.Node = backend.OwnerOf(c).API(), "n1"
	for _, e := range edits {
		e(m)
	}
	return m
}

// records returns an edit that records a group.
func records(uuid string, forming ...string) func(*v1alpha1.Member) {
	return func(m *v1alpha1.Member) {
		m.Spec.Group = &v1alpha1.MemberGroup{UUID: uuid, Name: "quarry-a", Forming: forming}
	}
}

// groupOf returns a group of Cluster "a" with one physical volume for every device.
func groupOf(uuid string, devices ...string) decide.Group {
	g := decide.Group{Name: "quarry-a", UUID: uuid, OwnerUID: "uid", SizeBytes: 10 << 30, FreeBytes: 4 << 30}
	for _, d := range devices {
		g.PVs = append(g.PVs, decide.PV{Path: "/dev/disk/by-id/" + d, UUID: "pv-" + d, SizeBytes: 1 << 30})
	}
	return g
}

func up(name string, groups []decide.Group, devices ...decide.Device) decide.Node {
	return decide.Node{Name: name, Agent: decide.AgentUp, Groups: groups, Devices: devices}
}

// scene is what a View is made of, and the member on n1 that it decides about.
type scene struct {
	cluster *v1alpha1.Cluster
	node    decide.Node
	object  *v1alpha1.Member
	volumes []backend.Volume
	world   backend.World
	edit    func(*backend.Member)
}

func (s scene) view() *View {
	if s.cluster == nil {
		s.cluster = clusterOf()
	}
	w := s.world
	if w.Nodes == nil {
		w.Nodes = map[string]backend.Node{"n1": {Name: "n1", Exists: true}, "n2": {Name: "n2", Exists: true}}
	}
	if s.object != nil {
		w.Members = append(w.Members, s.object)
	}
	nodes := map[string]decide.Node{"n1": s.node, "n2": up("n2", nil)}
	return NewView(Observation{Cluster: s.cluster, World: w, Nodes: nodes, Holders: []string{"n1"}, Now: start.Add(time.Hour)})
}

func (s scene) member() backend.Member {
	m := backend.Member{Node: "n1", Object: s.object, Volumes: s.volumes, Lost: backend.Lost(s.object)}
	m.Flags = nodestate.Of(s.node.Up(), true, false, s.object != nil && !s.object.DeletionTimestamp.IsZero())
	if s.edit != nil {
		s.edit(&m)
	}
	m.State = nodestate.Compute(m.Flags)
	return m
}

func (s scene) decide() backend.Host { return s.view().Decide(s.member()) }

// tell writes down what was decided, one line each.
func tell(h backend.Host) string {
	var b strings.Builder
	if r := h.Record; r != nil {
		fmt.Fprintf(&b, "record %q %s %d\n", r.UUID, r.Name, len(r.Forming))
	}
	if !h.Finding.IsZero() {
		fmt.Fprintf(&b, "%s: %s\n", h.Finding.Reason, h.Finding.Message)
	}
	for _, s := range h.Steps {
		fmt.Fprintf(&b, "%s %s", s.Action(), s.(Step).Group)
		for _, d := range s.(Step).Devices {
			b.WriteString(" " + d.KernelName)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// removed are the flags of a member that is being removed and holds no data.
func removed(m *backend.Member) { m.Flags = nodestate.Of(m.Flags.IsUp(), false, false, true) }

// failing are the flags of a member that is being removed and holds data.
func failing(m *backend.Member) { m.Flags = nodestate.Of(m.Flags.IsUp(), true, false, true) }

func frozen(m *backend.Member) { m.Frozen = true }
