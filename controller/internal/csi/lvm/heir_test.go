package lvm_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/systemid"
	"quarry.storage/quarry/pkg/volumeid"
)

// imported is a group of node-1 with a volume and a snapshot that was imported on node-2. Then node-1 joined anew, and has a group of that name
// again.
type imported struct {
	*suite
	volume   string
	snapshot string
	// uuid of the group that was imported.
	uuid string
}

func newImported(t *testing.T) *imported {
	t.Helper()
	s := &imported{suite: newSuite(t, true, "node-1")}
	v := s.create(s.request(claimed))
	s.volume, s.uuid = v.GetVolumeId(), s.uuidOn("node-1")
	made, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: s.volume})
	if err != nil {
		t.Fatal(err)
	}
	s.snapshot = made.GetSnapshot().GetSnapshotId()
	one, two := s.agents["node-1"], agenttest.New(t, agenttest.Options{NodeName: "node-2", CA: s.agents["node-1"].CA})
	s.agents["node-2"] = two
	one.Move(two.Host, "sdb")
	two.SetSystemID(group, systemid.Of("node-2"))
	one.AddDisks(diskBytes, "sdc")
	one.AddGroup(group, owner, "sdc")
	s.pool.SetAddress("node-2", two.Addr(), "pod-of-node-2")
	s.await("both report", func() bool {
		a, b := s.pool.Node("node-1").Groups, s.pool.Node("node-2").Groups
		return len(a) == 1 && a[0].UUID != s.uuid && len(b) == 1 && b[0].UUID == s.uuid && len(b[0].Volumes) >= 2
	})
	s.cache.members = []v1alpha1.Member{memberOf("node-1", s.uuidOn("node-1")), memberOf("node-2", s.uuid)}
	return s
}

func (s *imported) removeSnapshot() error {
	_, err := s.DeleteSnapshot(s.t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.snapshot})
	return err
}

// TestDelete_imported: what a handle names is deleted where it is, and while it is anywhere nobody hears that it is gone.
func TestDelete_imported(t *testing.T) {
	const away = "may be"
	for name, c := range map[string]struct {
		edit func(s *imported)
		want codes.Code
		// left is what node-2 has afterwards, unless the deletion is refused.
		left int
	}{
		"it is where the group is":               {edit: func(*imported) {}},
		"its PersistentVolume records no group":  {edit: func(s *imported) { s.released("") }},
		"its PersistentVolume records the group": {edit: func(s *imported) { s.released(s.uuid) }},
		"the Member of its node is lost": {edit: func(s *imported) {
			s.agents["node-1"].Kill()
			s.await("node-1 is silent", func() bool { return !s.pool.Node("node-1").Up() })
			m := &s.cache.members[0]
			m.Spec.Lost, m.DeletionTimestamp, m.Spec.Group.UUID = string(m.UID), new(metav1.Now()), s.uuid
		}},
		"the node with the group is silent": {edit: func(s *imported) {
			s.agents["node-2"].Kill()
			s.await("node-2 is silent", func() bool { return !s.pool.Node("node-2").Up() })
		}, want: codes.Unavailable},
		"nothing is known of the node with the group": {edit: func(s *imported) {
			s.pool.Forget("node-2")
			s.await("nothing is known", func() bool { return len(s.pool.Node("node-2").Groups) == 0 })
		}, want: codes.Unavailable},
		"the group is not imported yet": {edit: func(s *imported) {
			s.cache.members[1].Spec.Group = nil
			s.agents["node-2"].SetSystemID(group, systemid.Of("node-1"))
			s.await("it is another node's", func() bool { return len(s.pool.Node("node-2").OtherNodes) == 1 })
		}, want: codes.Unavailable},
		"objects stand for it under the other node": {edit: func(s *imported) {
			s.recordIn("pv-2", "node-2/"+group+s.volume[len("node-1/"+group):], s.uuid)
			s.cache.contents = []unstructured.Unstructured{
				frametest.Content("content-2", v1alpha1.DriverLVM, "node-2/"+group+s.snapshot[len("node-1/"+group):], false),
			}
		}, left: 2},
		"it was declared lost with its group": {edit: func(s *imported) { s.cache.clusters[0].Status.LostGroups = []string{s.uuid} }, left: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newImported(t)
			c.edit(s)
			for range 2 {
				checkRefusal(t, s.removeSnapshot(), c.want, away)
				checkRefusal(t, s.remove(s.volume), c.want, away)
			}
			if c.want != codes.OK {
				c.left = 2
			}
			if left := s.agents["node-2"].Volumes(group); len(slices.DeleteFunc(left, func(v agenttest.Volume) bool { return v.Name == v1alpha1.ThinPoolName })) != c.left {
				t.Errorf("left are %+v, want %d", left, c.left)
			}
		})
	}
}

// TestDelete_importedAndRenamed: a person renamed the volume a moment ago, and the cache does not have its new PersistentVolume yet. The deletion of
// the old one removes nothing.
func TestDelete_importedAndRenamed(t *testing.T) {
	s := newImported(t)
	behind := &cache{clusters: s.cache.clusters, members: s.cache.members}
	s.recordIn("pv-2", "node-2/"+group+s.volume[len("node-1/"+group):], s.uuid)
	b := &lvm.Backend{Reader: behind, Live: s.cache, Agents: s.pool}
	if err := b.DeleteVolume(t.Context(), s.volume); err != nil {
		t.Errorf("deletion under the name of before: %v", err)
	}
	s.keeps("node-2", s.volume)

	b.Live = failing{}
	if err := b.DeleteVolume(t.Context(), s.volume); !errors.Is(err, errSilent) {
		t.Errorf("while the API server does not answer: %v", err)
	}
	s.keeps("node-2", s.volume)
}

// keeps expects that a node has what a handle names.
func (s *imported) keeps(node, handle string) {
	s.t.Helper()
	id, err := volumeid.Parse(handle)
	if err != nil {
		s.t.Fatal(err)
	}
	if left := s.agents[node].Volumes(group); !slices.ContainsFunc(left, func(v agenttest.Volume) bool { return v.Name == id.Name }) {
		s.t.Errorf("%s is gone, left are %+v", handle, left)
	}
}

var errSilent = errors.New("the API server does not answer")

// failing is an API server that does not answer.
type failing struct{ client.Reader }

func (failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return errSilent }

// released adds the PersistentVolume of the volume, whose claim was deleted.
func (s *imported) released(uuid string) {
	s.recordIn("pv-1", s.volume, uuid)
	s.cache.volumes[0].Status.Phase = corev1.VolumeReleased
}
