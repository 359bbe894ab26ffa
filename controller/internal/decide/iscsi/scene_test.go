package iscsi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	owner     = "11111111-2222-3333-4444-555555555555"
	groupUUID = "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"
	iqn       = "iqn.2026-01.lab.quarry:disk"
	portal    = "10.0.0.1:3260"
)

var (
	now  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	disk = sharedlun.Identity{WWID: "naa.6001", Serial: "s1", SizeBytes: 1 << 30}
)

// scene is what a test changes before it asks for decisions.
type scene struct {
	o       Observation
	last    *View
	deleted map[string]bool
	state   nodestate.State
}

// fresh is an Iscsi with initiators that nothing was done for yet.
func fresh(nodes ...string) *scene {
	i := &v1alpha1.Iscsi{ObjectMeta: metav1.ObjectMeta{Name: "san", UID: owner, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}}
	i.Spec.Targets, i.Spec.IQN = []v1alpha1.PortalAddress{"10.0.0.1"}, iqn
	s := &scene{o: Observation{Iscsi: i, Now: now, Hosts: map[string]Host{}, Machines: map[string]string{}, Chap: Chap{Version: NoChap}}, deleted: map[string]bool{}}
	s.o.World = backend.World{Nodes: map[string]backend.Node{}, Volumes: map[string][]backend.Volume{}, Started: now.Add(-time.Hour)}
	for _, n := range nodes {
		i.Spec.Initiators = append(i.Spec.Initiators, v1alpha1.HostName(n))
		s.o.World.Nodes[n] = backend.Node{Name: n, Exists: true}
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "san." + n}}
		m.Spec.Of, m.Spec.Node = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: "san", UID: owner}, v1alpha1.HostName(n)
		s.o.World.Members = append(s.o.World.Members, m)
		s.o.Machines[n] = uuid("machine-" + n)
		s.o.Hosts[n] = Host{
			Agent: decide.AgentUp, At: now, BootID: "boot-" + n, Machine: uuid("machine-" + n), Initiator: sharedlun.Initiator{Name: "iqn." + n, Multipath: true},
			Seen: sharedlun.Seen{Sessions: []sharedlun.Session{{Portal: portal}}},
		}
	}
	return s
}

// uuid is the systemUUID of a machine of a name; empty for none.
func uuid(name string) string {
	if name == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// loggedIn is fresh with a session on each node, and a blank LUN that was read.
func loggedIn(nodes ...string) *scene {
	s := fresh(nodes...)
	for _, n := range nodes {
		s.member(n).Annotations = map[string]string{v1alpha1.AnnotationChap: NoChap}
		s.host(n, func(h *Host) {
			h.Seen.Sessions[0].State = sharedlun.SessionUp
			h.Seen.Luns = []sharedlun.Lun{{Identity: disk, Device: "/dev/sdb", Paths: []sharedlun.Path{{Portal: portal, Device: "sdb", Up: true}}}}
		})
	}
	s.o.Reading = Reading{At: now, Good: now, Via: nodes[0], Known: true, Keys: sharedlun.Reservation{Supported: true}}
	return s
}

// keyed is loggedIn with keys that are registered.
func keyed(nodes ...string) *scene {
	s := loggedIn(nodes...)
	for i, n := range nodes {
		m := s.member(n)
		m.Spec.Lun = &v1alpha1.MemberLun{WWID: disk.WWID, Serial: disk.Serial, Size: disk.SizeBytes, IQN: iqn}
		m.Spec.Reservation = &v1alpha1.MemberReservation{Key: "000000000000000" + string(rune('a'+i)), BootID: "boot-" + n, Machine: uuid("machine-" + n)}
		s.o.Reading.Keys.Keys = append(s.o.Reading.Keys.Keys, uint64(10+i))
		s.host(n, func(h *Host) { h.RegisteredPaths = portal + "=sdb/0" })
	}
	s.o.Reading.Keys.Type = sharedlun.WriteExclusiveAllRegistrants
	return s
}

// made is keyed with the group on the LUN and on record.
func made(nodes ...string) *scene {
	s := keyed(nodes...)
	for _, n := range nodes {
		s.member(n).Spec.Group = &v1alpha1.MemberGroup{UUID: groupUUID, Name: "vg"}
		s.host(n, func(h *Host) { h.Mapped = true })
	}
	s.o.Reading.Contents.Group = &sharedlun.Group{UUID: groupUUID, Name: "vg", OwnerUID: owner, Epoch: 1, Sequence: 7, SizeBytes: 1000 << 20, FreeBytes: 50 << 20}
	s.o.Record = writer.Record{Epoch: 1, Writer: nodes[0]}
	return s
}

func (s *scene) member(node string) *v1alpha1.Member {
	i := slices.IndexFunc(s.o.World.Members, func(m *v1alpha1.Member) bool { return string(m.Spec.Node) == node })
	return s.o.World.Members[i]
}

func (s *scene) host(node string, change func(*Host)) {
	h := s.o.Hosts[node]
	h.Seen.Sessions, h.Seen.Luns = slices.Clone(h.Seen.Sessions), slices.Clone(h.Seen.Luns)
	change(&h)
	s.o.Hosts[node] = h
}

// volume puts a volume into the group.
func (s *scene) volume(v sharedlun.Volume) {
	g := s.o.Reading.Contents.Group
	g.Volumes = append(g.Volumes, v)
}

// silence lets the agent of a node not answer.
func (s *scene) silence(node string, tainted bool) {
	s.o.Hosts[node] = Host{Agent: decide.AgentUnreachable, Problem: "it does not answer", OutOfService: tainted}
}

func (s *scene) delete() {
	s.o.Iscsi.DeletionTimestamp = new(metav1.NewTime(now))
	for _, m := range s.o.World.Members {
		s.remove(string(m.Spec.Node))
	}
}

// remove begins to remove a member.
func (s *scene) remove(node string) {
	s.member(node).DeletionTimestamp = new(metav1.NewTime(now))
	s.deleted[node] = true
}

func (s *scene) view() *View { return NewView(s.o, s.last) }

// decide decides about a node as the engine does.
func (s *scene) decide(node string) backend.Host {
	v := s.view()
	facts := v.Facts(node)
	flags := nodestate.Of(facts.Up, facts.Data.Counts(), false, s.deleted[node])
	s.state = nodestate.Compute(flags)
	return v.Decide(backend.Member{Node: node, Object: s.member(node), Flags: flags, State: s.state})
}

// wholeOf decides about the steps of the whole, and returns the view for the next look.
func (s *scene) wholeOf() ([]backend.Step, *View) {
	v := s.view()
	return s.decideWhole(v).Steps, v
}

// whole decides about the whole as the engine does.
func (s *scene) whole() backend.Whole { return s.decideWhole(s.view()) }

func (s *scene) decideWhole(v *View) backend.Whole {
	var hosts []backend.HostHealth
	for _, n := range v.names() {
		facts := v.Facts(n)
		hosts = append(hosts, backend.HostHealth{
			Node: n, Object: s.member(n), Facts: facts, Flags: nodestate.Of(facts.Up, facts.Data.Counts(), false, s.deleted[n]), Decided: s.decide(n),
		})
	}
	return v.Whole(hosts)
}

func actions(steps []backend.Step) []string {
	out := []string{}
	for _, s := range steps {
		out = append(out, s.Action())
	}
	return out
}
