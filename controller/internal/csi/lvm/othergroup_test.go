package lvm_test

import (
	"context"
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
