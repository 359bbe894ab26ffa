package iscsi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/sharedlun"
)

func TestCreateVolume(t *testing.T) {
	s := newSuite(t)
	v := s.create("a", 5*mib)
	name := sharedlun.Name("a")
	if v.GetCapacityBytes() != 8*mib || v.GetVolumeId() != s.ref.UUID+"/"+name {
		t.Errorf("%v", v)
	}
	if got := v.GetAccessibleTopology(); len(got) != 1 || got[0].GetSegments()["iscsi.quarry.storage/san"] != "true" || len(got[0].GetSegments()) != 1 {
		t.Errorf("topology %v", got)
	}
	s.want(name, "", 8*mib, 8*mib, nil)
	before := s.lun.Group().Sequence
	if again := s.create("a", 5*mib); again.GetVolumeId() != v.GetVolumeId() || s.lun.Group().Sequence != before {
		t.Errorf("made again: %v", again)
	}
	_, err := s.CreateVolume(t.Context(), s.request("a", 32*mib))
	wantCode(t, err, codes.AlreadyExists)
	_, err = s.CreateVolume(t.Context(), s.request("b", 600*mib))
	wantCode(t, err, codes.ResourceExhausted)
	r := s.request("b", 8*mib)
	r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	_, err = s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.InvalidArgument)
	r = s.request("b", 8*mib)
	r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{"iscsi.quarry.storage/other": "true"}}}}
	_, err = s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.ResourceExhausted)
}

// TestCreateVolume_record: what is recorded says where a volume is made, and a record that is not whole or contradicts itself is refused.
func TestCreateVolume_record(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *cache)
		code   codes.Code
		says   string
	}{
		"no group yet": {func(c *cache) {
			for i := range c.members {
				c.members[i].Spec.Group = nil
			}
		}, codes.Unavailable, "has no volume group yet"},
		"no such Iscsi":          {func(c *cache) { c.iscsis = nil }, codes.InvalidArgument, "no Iscsi has the UID"},
		"two LUNs":               {func(c *cache) { c.members[1].Spec.Lun.WWID = "naa.other" }, codes.FailedPrecondition, "different LUNs"},
		"two groups":             {func(c *cache) { c.members[1].Spec.Group.UUID = "other" }, codes.FailedPrecondition, "different volume groups"},
		"a member that joins":    {func(c *cache) { c.members[1].Spec.Lun, c.members[1].Spec.Group = nil, nil }, codes.OK, ""},
		"it is on its way out":   {func(c *cache) { c.iscsis[0].DeletionTimestamp = new(now) }, codes.FailedPrecondition, "is being removed"},
		"a member that saw less": {func(c *cache) { c.members[1].Spec.Lun.Size -= mib }, codes.OK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			c.change(s.cache)
			_, err := s.CreateVolume(t.Context(), s.request("a", 8*mib))
			wantCode(t, err, c.code)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// TestCreateVolume_hidesWhatWasThere: the next user of a place finds zeroes, unless the policy says otherwise; and even then no filesystem at its
// beginning.
func TestCreateVolume_hidesWhatWasThere(t *testing.T) {
	for policy, hidden := range map[v1alpha1.CleanupPolicy]int64{
		v1alpha1.CleanupZero: 12 * mib, v1alpha1.CleanupDiscard: 12 * mib, v1alpha1.CleanupNone: extent,
	} {
		t.Run(string(policy), func(t *testing.T) {
			s := newSuite(t)
			s.cache.iscsis[0].Spec.Cleanup = policy
			write := func(id, name string) {
				if _, err := s.publish(id, "n2"); err != nil {
					t.Fatal(err)
				}
				v := s.volume(name)
				for at := int64(0); at < v.SizeBytes; at += extent {
					if err := s.nodes["n2"].Write(v.UUID, at); err != nil {
						t.Fatal(err)
					}
				}
			}
			first := s.create("first", 12*mib).GetVolumeId()
			write(first, sharedlun.Name("first"))
			if err := s.unpublish(first, "n2"); err != nil {
				t.Fatal(err)
			}
			if err := s.remove(first); err != nil {
				t.Fatal(err)
			}
			second := s.create("second", 12*mib).GetVolumeId()
			if _, err := s.publish(second, "n3"); err != nil {
				t.Fatal(err)
			}
			v := s.volume(sharedlun.Name("second"))
			if n := s.nodes["n3"]; !n.Blank(v.UUID, 0, hidden) || hidden < v.SizeBytes && n.Blank(v.UUID, hidden, v.SizeBytes) {
				t.Errorf("the first %d bytes are blank: %t; all: %t", hidden, n.Blank(v.UUID, 0, hidden), n.Blank(v.UUID, 0, v.SizeBytes))
			}
		})
	}
}

// TestCreateVolume_saysHowFar: a call that ends before the zeroing does says how far that is, and the next one goes on.
func TestCreateVolume_saysHowFar(t *testing.T) {
	s := newSuite(t)
	release := map[string]func(){}
	for name, n := range s.nodes {
		release[name] = n.DelayZeroing()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 16*time.Second)
	defer cancel()
	_, err := s.CreateVolume(ctx, s.request("a", 8*mib))
	wantCode(t, err, codes.Aborted)
	if err == nil || !strings.Contains(err.Error(), "is being zeroed on node n1: 0 of 8Mi are done") {
		t.Error(err)
	}
	name := sharedlun.Name("a")
	id := s.ref.UUID + "/" + name
	// Until then nobody gets it.
	_, err = s.publish(id, "n1")
	wantCode(t, err, codes.FailedPrecondition)
	_, err = s.expand(id, 16*mib)
	wantCode(t, err, codes.FailedPrecondition)
	for _, r := range release {
		r()
	}
	s.create("a", 8*mib)
	s.want(name, "", 8*mib, 8*mib, nil)
}

func TestPublish(t *testing.T) {
	s := newSuite(t)
	id, name := s.create("a", 8*mib).GetVolumeId(), sharedlun.Name("a")
	got, err := s.publish(id, "n2")
	if err != nil {
		t.Fatal(err)
	}
	a, err := sharedlun.ParseAttached(got)
	if err != nil || a.UUID != s.volume(name).UUID || a.Ref != s.ref {
		t.Errorf("%+v, %v", a, err)
	}
	s.want(name, "n2", 8*mib, 8*mib, map[string]int64{"n2": 8 * mib})
	if _, err := s.publish(id, "n2"); err != nil {
		t.Errorf("again: %v", err)
	}
	_, err = s.publish(id, "n3")
	wantCode(t, err, codes.FailedPrecondition)
	_, err = s.publish(id, "n9")
	wantCode(t, err, codes.NotFound)
	wantCode(t, s.remove(id), codes.FailedPrecondition)
	_, err = s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: id, NodeId: "n2", VolumeCapability: access(), Readonly: true,
	})
	wantCode(t, err, codes.InvalidArgument)
	r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	if err != nil || len(r.GetStatus().GetPublishedNodeIds()) != 1 || r.GetStatus().GetPublishedNodeIds()[0] != "n2" {
		t.Errorf("%v, %v", r, err)
	}
	if err := s.unpublish(id, "n3"); err != nil {
		t.Errorf("taken from where it is not: %v", err)
	}
	s.want(name, "n2", 8*mib, 8*mib, map[string]int64{"n2": 8 * mib})
	closing, err := s.nodes["n2"].Open(s.volume(name).UUID)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.unpublish(id, "n2"), codes.FailedPrecondition)
	wantCode(t, s.remove(id), codes.FailedPrecondition)
	closing()
	for range 2 {
		if err := s.unpublish(id, "n2"); err != nil {
			t.Fatal(err)
		}
	}
	s.want(name, "", 8*mib, 8*mib, nil)
	for range 2 {
		if err := s.remove(id); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPublish_silentNode: a volume of a node that fell silent stays its own until it is fenced.
func TestPublish_silentNode(t *testing.T) {
	s := newSuite(t)
	id, name := s.create("a", 8*mib).GetVolumeId(), sharedlun.Name("a")
	if _, err := s.publish(id, "n2"); err != nil {
		t.Fatal(err)
	}
	s.silence("n2")
	wantCode(t, s.unpublish(id, "n2"), codes.Unavailable)
	_, err := s.publish(id, "n3")
	wantCode(t, err, codes.Unavailable)
	wantCode(t, s.remove(id), codes.Unavailable)
	s.lun.Preempt(0xa2)
	s.fleet.set("n2", func(m *san.Member) { m.Fenced = true })
	if err := s.unpublish(id, "n2"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.publish(id, "n3"); err != nil {
		t.Fatal(err)
	}
	if v := s.volume(name); v.HeldBy != "n3" {
		t.Errorf("%+v", v)
	}
	if err := s.nodes["n2"].Write(s.volume(name).UUID, 0); err == nil {
		t.Error("the fenced node writes")
	}
}

func TestExpand(t *testing.T) {
	s := newSuite(t)
	id, name := s.create("a", 8*mib).GetVolumeId(), sharedlun.Name("a")
	if got, err := s.expand(id, 10*mib); err != nil || got != 12*mib {
		t.Fatalf("%d, %v", got, err)
	}
	s.want(name, "", 12*mib, 8*mib, nil)
	if _, err := s.publish(id, "n3"); err != nil {
		t.Fatal(err)
	}
	s.want(name, "n3", 12*mib, 12*mib, map[string]int64{"n3": 12 * mib})
	// In use: what is new is shown once it is zeroed.
	closing, err := s.nodes["n3"].Open(s.volume(name).UUID)
	if err != nil {
		t.Fatal(err)
	}
	defer closing()
	for range 2 {
		if got, err := s.expand(id, 20*mib); err != nil || got != 20*mib {
			t.Fatalf("%d, %v", got, err)
		}
	}
	s.want(name, "n3", 20*mib, 20*mib, map[string]int64{"n3": 20 * mib})
	if _, err := s.expand(id, 900*mib); err == nil {
		t.Error("it grew beyond the LUN")
	}
	_, err = s.expand(s.ref.UUID+"/"+sharedlun.Name("none"), 20*mib)
	wantCode(t, err, codes.NotFound)
}

// TestUnknown: what is not on record may exist, and is not taken for absent.
func TestUnknown(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	members := s.cache.members
	s.cache.members = nil
	wantCode(t, s.remove(id), codes.FailedPrecondition)
	wantCode(t, s.unpublish(id, "n1"), codes.FailedPrecondition)
	_, err := s.publish(id, "n1")
	wantCode(t, err, codes.FailedPrecondition)
	// The object may be gone before its volumes.
	s.cache.members, s.cache.iscsis = members, nil
	if err := s.remove(id); err != nil {
		t.Error(err)
	}
	if len(s.lun.Group().Volumes) > 0 {
		t.Errorf("%+v", s.lun.Group())
	}
}

// TestUnknown_otherLun: a LUN that was replaced says nothing about the volumes of the one on record.
func TestUnknown_otherLun(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.lun.Swap("other")
	for what, err := range map[string]error{"delete": s.remove(id), "unpublish": s.unpublish(id, "n1")} {
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{}); err == nil {
		t.Error("listed")
	}
	if s.volume(sharedlun.Name("a")) == nil {
		t.Error("the volume was removed")
	}
}

// TestListVolumes_contradicted: Members that name two groups hide neither. Nobody can say which volumes there are, and both handles say why.
func TestListVolumes_contradicted(t *testing.T) {
	s := newSuite(t)
	id := s.ref.UUID + "/" + sharedlun.Name("a")
	const other = "Zz3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"
	s.cache.members[1].Spec.Group.UUID = other
	_, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	wantCode(t, err, codes.FailedPrecondition)
	_, err = s.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	wantCode(t, err, codes.FailedPrecondition)
	for _, handle := range []string{id, other + "/" + sharedlun.Name("a")} {
		_, err := s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: handle})
		if wantCode(t, err, codes.FailedPrecondition); err != nil && !strings.Contains(err.Error(), "different volume groups") {
			t.Errorf("%s: %v", handle, err)
		}
	}
}

func TestListVolumes(t *testing.T) {
	s := newSuite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.create(name, 8*mib)
	}
	if _, err := s.publish(s.ref.UUID+"/"+sharedlun.Name("b"), "n1"); err != nil {
		t.Fatal(err)
	}
	var found []string
	for token := ""; ; {
		r, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.GetEntries() {
			found = append(found, e.GetVolume().GetVolumeId()+" "+strings.Join(e.GetStatus().GetPublishedNodeIds(), ","))
		}
		if token = r.GetNextToken(); token == "" {
			break
		}
	}
	if len(found) != 3 || !strings.HasSuffix(found[1], " n1") || strings.HasSuffix(found[0], "n1") {
		t.Errorf("%q", found)
	}
}

func TestGetCapacity(t *testing.T) {
	s := newSuite(t)
	s.create("a", 8*mib)
	r, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{v1alpha1.ParameterIscsi: owner}})
	if g := s.lun.Group(); err != nil || r.GetAvailableCapacity() != g.FreeBytes || r.GetMaximumVolumeSize().GetValue() != g.FreeBytes || g.FreeBytes == g.SizeBytes {
		t.Errorf("%v, %v", r, err)
	}
	at := func(name string) *csi.Topology {
		return &csi.Topology{Segments: map[string]string{"iscsi.quarry.storage/" + name: "true"}}
	}
	for name, want := range map[string]int64{"san": s.lun.Group().FreeBytes, "other": 0} {
		if r, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{AccessibleTopology: at(name)}); err != nil || r.GetAvailableCapacity() != want {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if r, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{AccessibleTopology: &csi.Topology{Segments: map[string]string{"zone": "z"}}}); err != nil || r.GetAvailableCapacity() != 0 {
		t.Errorf("nodes that reach no storage: %v, %v", r, err)
	}
}

// TestExpand_earlierMachine: while a key of an earlier boot of the node is on the LUN, another machine of its name may have the volume mapped. Nothing grows, and
// nothing is mapped anew or gets ready, whoever asks again.
func TestExpand_earlierMachine(t *testing.T) {
	s := newSuite(t)
	id, name := s.create("a", 8*mib).GetVolumeId(), sharedlun.Name("a")
	if _, err := s.publish(id, "n3"); err != nil {
		t.Fatal(err)
	}
	s.lun.Reserve(0xa1, 0xa2, 0xa3, 0xb3)
	s.fleet.set("n3", func(m *san.Member) { m.Previous = []uint64{0xb3} })
	for _, size := range []int64{20 * mib, 8 * mib} {
		_, err := s.expand(id, size)
		wantCode(t, err, codes.Unavailable)
	}
	s.want(name, "n3", 8*mib, 8*mib, map[string]int64{"n3": 8 * mib})
	s.lun.Reserve(0xa1, 0xa2, 0xa3)
	if got, err := s.expand(id, 20*mib); err != nil || got != 20*mib {
		t.Fatalf("%d, %v", got, err)
	}
	s.want(name, "n3", 20*mib, 20*mib, map[string]int64{"n3": 20 * mib})
	// What was being zeroed when the key came back does not get ready by the word of the node.
	release := s.nodes["n3"].DelayZeroing()
	done := make(chan error, 1)
	go func() { _, err := s.expand(id, 28*mib); done <- err }()
	for end := time.Now().Add(20 * time.Second); s.volume(name).SizeBytes < 28*mib; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never grows")
		}
	}
	s.lun.Reserve(0xa1, 0xa2, 0xa3, 0xb3)
	release()
	wantCode(t, <-done, codes.Unavailable)
	if v := s.volume(name); v.ReadyBytes != 20*mib {
		t.Errorf("%+v", v)
	}
}

// TestAttach_repeated: a repeated call is answered by the node alone as long as nothing has changed. After anything else it is what a first one is.
func TestAttach_repeated(t *testing.T) {
	const volume = "the volume"
	for name, c := range map[string]struct {
		meanwhile func(s *suite, id string) error
		node      string
		// code of the repeated call, and whether it takes a turn.
		code codes.Code
		turn bool
	}{
		"nothing happens":      {node: "n2"},
		"it is another node":   {node: "n3", code: codes.FailedPrecondition, turn: true},
		"it was detached":      {meanwhile: func(s *suite, id string) error { return s.unpublish(id, "n2") }, node: "n2", turn: true},
		"it grew, and is seen": {meanwhile: func(s *suite, id string) error { _, err := s.expand(id, 16*mib); return err }, node: "n2", turn: true},
		"another process moved it": {meanwhile: func(s *suite, id string) error {
			b := s.backend("csi/2", s.calls)
			if err := b.Detach(s.t.Context(), id, "n2"); err != nil {
				return err
			}
			_, err := b.Attach(s.t.Context(), frame.Attachment{Handle: id, Node: "n3", Access: csirpc.Access{Block: true}})
			return err
		}, node: "n2", code: codes.FailedPrecondition, turn: true},
		"another process took it away": {meanwhile: func(s *suite, id string) error {
			return s.backend("csi/2", s.calls).Detach(s.t.Context(), id, "n2")
		}, node: "n2", turn: true},
		"the node was fenced": {meanwhile: func(s *suite, _ string) error {
			s.lun.Preempt(0xa2)
			s.fleet.set("n2", func(m *san.Member) { m.Fenced = true })
			return nil
		}, node: "n2", code: codes.FailedPrecondition, turn: true},
		"the node lost its key, and nobody knows": {meanwhile: func(s *suite, _ string) error { s.lun.Preempt(0xa2); return nil }, node: "n2", code: codes.FailedPrecondition, turn: true},
		"the node was booted": {meanwhile: func(s *suite, _ string) error {
			s.fleet.set("n2", func(m *san.Member) { m.ReportedBootID, m.Up = "b2", false })
			return nil
		}, node: "n2", code: codes.Unavailable, turn: true},
		"it may be another machine": {meanwhile: func(s *suite, _ string) error {
			s.fleet.set("n2", func(m *san.Member) { m.Stranger, m.ReportedBootID, m.Up = "it may be another machine", "", false })
			return nil
		}, node: "n2", code: codes.Unavailable, turn: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			id := s.create(volume, 8*mib).GetVolumeId()
			if _, err := s.publish(id, "n2"); err != nil {
				t.Fatal(err)
			}
			if c.meanwhile != nil {
				if err := c.meanwhile(s, id); err != nil {
					t.Fatal(err)
				}
			}
			before := s.leases.written()
			_, err := s.publish(id, c.node)
			wantCode(t, err, c.code)
			if turn := s.leases.written() > before; turn != c.turn {
				t.Errorf("it took a turn: %t; %v", turn, err)
			}
		})
	}
}

// amiss are agents whose devices are not what the LUN says.
type amiss struct {
	iscsi.Nodes
	change func(*sharedlun.Mapping)
}

func (a amiss) Map(ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, sequence uint64) (sharedlun.Mapping, error) {
	m, err := a.Nodes.Map(ctx, node, ref, c, v, sequence)
	a.change(&m)
	return m, err
}

// TestAttach_amiss: no pod gets a device that does not show what the LUN has of the volume, and the event of the pod says in words what is wrong and what to do.
func TestAttach_amiss(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*sharedlun.Mapping)
		says   []string
	}{
		"another place": {func(m *sharedlun.Mapping) {
			for i := range m.Ranges {
				m.Ranges[i].Start += extent
			}
		}, []string{"lies at other places of the LUN", "end the pods that use the volume on that node"}},
		"a part":    {func(m *sharedlun.Mapping) { m.Ranges[0].Size -= extent }, []string{"or ends elsewhere", "tried again by itself"}},
		"cut":       {func(m *sharedlun.Mapping) { m.Cut = true }, []string{"it returns errors", "the node was fenced", "see the Member of the node"}},
		"suspended": {func(m *sharedlun.Mapping) { m.Suspended = true }, []string{"it is suspended", "see the log of the agent on that node"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			id := s.create("a", 8*mib).GetVolumeId()
			s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/2", amiss{s.calls, c.change}), s.cache)
			_, err := s.publish(id, "n2")
			wantCode(t, err, codes.Unavailable)
			if err == nil {
				return
			}
			for _, says := range append(c.says, "node n2 has a device of volume", "does not show what the LUN has of it") {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("it does not say %q: %v", says, err)
				}
			}
			if strings.ContainsAny(err.Error(), "{}") {
				t.Errorf("it has what only a program can read: %v", err)
			}
		})
	}
}

// looks tells of each look of a Backend at its members, before it gets them. What the SAN asks goes past it.
type looks struct {
	san.Fleet
	count int
	at    func(look int)
}

// Members returns them.
func (l *looks) Members(ctx context.Context, ref sharedlun.Ref) ([]san.Member, error) {
	l.count++
	l.at(l.count)
	return l.Fleet.Members(ctx, ref)
}

// TestDetach_waitsForAFence: a call about a node that fell silent waits for its fence, as long as it has the time, so that it need not come again.
func TestDetach_waitsForAFence(t *testing.T) {
	for name, c := range map[string]struct {
		// fenced is the look before which the node is fenced; none for zero. counts: its key is on the LUN all the same.
		fenced int
		counts bool
		// time that the call has, and how many others wait.
		time   time.Duration
		others int
		// taken: the volume is, after so many looks.
		taken bool
		looks int
	}{
		"it is fenced while the call waits":         {fenced: 3, time: time.Hour, taken: true, looks: 3},
		"it is fenced before the call looks":        {fenced: 1, time: time.Hour, taken: true, looks: 1},
		"it is called fenced, and its key counts":   {fenced: 1, counts: true, time: time.Hour, looks: 1},
		"nobody vouches for it":                     {time: time.Hour, looks: 20},
		"the call has little time":                  {fenced: 1, time: 10 * time.Second},
		"as many others wait as may wait at a time": {fenced: 1, time: time.Hour, others: 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			id := s.create("a", 8*mib).GetVolumeId()
			if _, err := s.publish(id, "n2"); err != nil {
				t.Fatal(err)
			}
			s.silence("n2")
			ctx, cancel := context.WithTimeout(t.Context(), c.time)
			defer cancel()
			b := s.backend("csi/1", s.calls)
			l := &looks{Fleet: b.Fleet, at: func(look int) {
				if look != c.fenced {
					return
				}
				if !c.counts {
					s.lun.Preempt(0xa2)
				}
				s.fleet.set("n2", func(m *san.Member) { m.Fenced = true })
			}}
			b.Fleet = l
			b.Occupy(c.others)
			if err := b.Detach(ctx, id, "n2"); (err == nil) != c.taken {
				t.Error(err)
			}
			if l.count != c.looks {
				t.Errorf("%d looks, want %d", l.count, c.looks)
			}
			if v := s.volume(sharedlun.Name("a")); (v.HeldBy == "") != c.taken {
				t.Errorf("%+v", v)
			}
		})
	}
}
