package lvm_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// lagging are agents whose reports name groups with another UUID than they have by now. Those of before the field for it are not told which
// group is meant.
type lagging struct {
	*agents.Pool
	before bool
}

func (l lagging) Node(name string) decide.Node {
	n := l.Pool.Node(name)
	n.Groups = append([]decide.Group(nil), n.Groups...)
	for i := range n.Groups {
		n.Groups[i].UUID = "reported-before"
	}
	return n
}

func (l lagging) CreateVolume(ctx context.Context, node string, v decide.VolumeSpec) (decide.Volume, error) {
	if l.before {
		v.GroupUUID = ""
	}
	return l.Pool.CreateVolume(ctx, node, v)
}

// TestCreateVolume_groupOfTheReportIsGone: a volume is made in the group that was judged, or not at all, and what is recorded of it is the group
// that its agent made it in.
func TestCreateVolume_groupOfTheReportIsGone(t *testing.T) {
	s := newSuite(t, false, "node-1")
	uuid := s.pool.Node("node-1").Groups[0].UUID
	s.cache.members[0].Spec.Group.UUID = "reported-before"
	serve := func(before bool) {
		s.Served = frametest.Serve(t, lvm.Driver(), &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: lagging{s.pool, before}}, s.cache)
	}
	serve(false)
	before := s.steps()
	_, err := s.CreateVolume(t.Context(), s.request("pvc-1", "node-1"))
	wantCode(t, err, codes.FailedPrecondition)
	if n := s.steps() - before; n != 0 {
		t.Errorf("%d changes", n)
	}
	serve(true)
	v := s.create(s.request("pvc-1", "node-1"))
	if got := v.GetVolumeContext()[v1alpha1.AttributeGroupUUID]; got != uuid {
		t.Errorf("recorded in %q, made in %q", got, uuid)
	}
}

// twins are agents of which one reports a second group of the name, before its own. They note the group that a removal means.
type twins struct {
	*agents.Pool
	node   string
	second decide.Group
	meant  []string
}

func (t *twins) Node(name string) decide.Node {
	n := t.Pool.Node(name)
	if name == t.node {
		n.Groups = append([]decide.Group{t.second}, n.Groups...)
	}
	return n
}

func (t *twins) DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error {
	t.meant = append(t.meant, v.GroupUUID)
	return t.Pool.DeleteVolume(ctx, node, v)
}

// exchange puts another group of the name in the place of a node's, with a volume under the same handle that nobody used.
func (s *suite) exchange(node, handle string) {
	s.t.Helper()
	s.agents[node].AddDisks(diskBytes, "sdx")
	s.agents[node].AddGroup(group, owner, "sdx")
	s.await("the volume in the other group", func() bool {
		_, err := s.pool.CreateVolume(s.t.Context(), node, decide.VolumeSpec{
			Group: group, Owner: owner, Name: claimed, ID: handle, SizeBytes: gib, Zero: decide.ZeroRaw,
		})
		return err == nil
	})
}

// kept expects that a removal was refused for the group that it meant, and that the node has its volume still.
func (s *suite) kept(node string, err error) {
	s.t.Helper()
	var fault *decide.Fault
	if !errors.As(err, &fault) || fault.Kind != decide.FaultPrecondition {
		s.t.Errorf("removed from another group: %v", err)
	}
	if left := s.agents[node].Volumes(group); len(left) != 1 || left[0].Name != claimed {
		s.t.Errorf("left are %+v", left)
	}
}

// TestDelete_importedMeansAGroup: what an imported group has is removed from the group that was judged. Where two may have it, and none is on record, the
// agent says which one does.
func TestDelete_importedMeansAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		recorded bool
		// in are the volumes of the second group.
		in   []string
		want bool
	}{
		"the record says which":              {recorded: true, in: []string{claimed}, want: true},
		"only one has it":                    {want: true},
		"both may have it, without a record": {in: []string{claimed}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newImported(t)
			meant := ""
			if c.want {
				meant = s.uuid
			}
			if s.released(""); c.recorded {
				s.cache.volumes[0].Spec.CSI.VolumeAttributes[v1alpha1.AttributeGroupUUID] = s.uuid
			}
			all := &twins{Pool: s.pool, node: "node-2", second: decide.Group{Name: group, OwnerUID: owner, UUID: "second", Volumes: c.in}}
			b := &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: all}
			if err := b.DeleteVolume(t.Context(), s.volume); err != nil || !slices.Equal(all.meant, []string{meant}) {
				t.Errorf("%v, means %q, want %q", err, all.meant, meant)
			}
		})
	}
	s := newImported(t)
	s.released(s.uuid)
	b := &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: racing{s.pool, func() { s.exchange("node-2", s.volume) }}}
	s.kept("node-2", b.DeleteVolume(t.Context(), s.volume))
}

// TestStray_meansAGroup: a stray is removed from the group that the Member has on record, and from no other of its name.
func TestStray_meansAGroup(t *testing.T) {
	serve := func() *suite {
		s := newSuite(t, false, "node-1", "node-2")
		s.twice()
		s.record(claimed, handleOn("node-2"))
		return s
	}
	s := serve()
	all := &twins{Pool: s.pool, node: "node-1", second: decide.Group{Name: group, OwnerUID: owner, UUID: "second", Volumes: []string{claimed}}}
	s.sweep(&lvm.Backend{Reader: s.cache, Live: s.cache, Agents: all}, handleOn("node-1"))
	if want := []string{s.cache.members[0].Spec.Group.UUID}; !slices.Equal(all.meant, want) {
		t.Errorf("means %q, want %q", all.meant, want)
	}

	s = serve()
	removed, err := (&lvm.Backend{Reader: s.cache, Live: s.cache, Agents: racing{s.pool, func() { s.exchange("node-1", handleOn("node-1")) }}}).Sweep(t.Context())
	s.kept("node-1", err)
	if len(removed) > 0 {
		t.Errorf("removed %v", removed)
	}
}
