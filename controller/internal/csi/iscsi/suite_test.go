package iscsi_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/agenttest/sharedgroup"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	mib   = 1 << 20
	owner = "6d1f8f3e-0000-4000-8000-000000000014"
	// extent of the model's groups.
	extent = 4 * mib
)

// cache answers like the informer cache.
type cache struct {
	client.Reader
	iscsis  []v1alpha1.Iscsi
	members []v1alpha1.Member
	volumes []corev1.PersistentVolume
}

func (c *cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch l := list.(type) {
	case *v1alpha1.IscsiList:
		l.Items = c.iscsis
		return nil
	case *v1alpha1.MemberList:
		l.Items = c.members
		return nil
	}
	return (&frametest.Volumes{Items: c.volumes}).List(ctx, list, options...)
}

// suite is the driver on its socket, over the real agents' services of a model of a SAN.
type suite struct {
	*frametest.Served
	t     *testing.T
	cache *cache
	lun   *sharedgroup.LUN
	nodes map[string]*sharedgroup.Node
	agent map[string]*agenttest.Agent
	fleet *fleet
	// calls goes to the agents as the CSI controller does, and leases keeps the records.
	calls  shared.Calls
	leases *leases
	ref    sharedlun.Ref
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	model := sharedgroup.NewSAN()
	s := &suite{t: t, lun: model.AddLUN("lun1", 500*mib), nodes: map[string]*sharedgroup.Node{}, agent: map[string]*agenttest.Agent{}, leases: newLeases()}
	ca := agenttest.NewCA(t)
	connect := func(config func(testing.TB, string) *tls.Config) *agents.Pool {
		pool := agents.New(context.Background(), agents.Config{
			TLS: func(node string) (*tls.Config, error) { return config(t, node), nil }, GroupsOnly: true,
			Grace: time.Second, Patience: 50 * time.Millisecond, Absence: 50 * time.Millisecond,
		})
		t.Cleanup(pool.Close)
		return pool
	}
	pool, controller := connect(ca.CSITLS), connect(ca.ControllerTLS)
	s.fleet = &fleet{pool: pool}
	s.lun.Reserve(0xa1, 0xa2, 0xa3)
	for _, key := range []uint64{0xa1, 0xa2, 0xa3} {
		n := model.AddNode(t, key)
		name := fmt.Sprintf("n%d", key&0xf)
		s.nodes[name] = n
		a := agenttest.New(t, agenttest.Options{NodeName: name, CA: ca, SharedGroups: n, Luns: sharedgroup.Keys{N: n}})
		s.agent[name] = a
		pool.SetAddress(name, a.Addr(), "pod-of-"+name)
		controller.SetAddress(name, a.Addr(), "pod-of-"+name)
		s.fleet.members = append(s.fleet.members, san.Member{
			Node: name, Credential: sharedlun.Credential{Key: key}, BootID: "b1", ReportedBootID: "b1", Up: true,
		})
	}
	for deadline := time.Now().Add(10 * time.Second); len(pool.Online()) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the agents do not come up")
		}
	}
	s.calls = shared.Calls{Pool: pool}
	s.ref = sharedlun.Ref{Lun: s.lun.Identity(), OwnerUID: owner}
	g, err := shared.Calls{Pool: controller}.Create(t.Context(), "n1", s.ref, sharedlun.Mandate{Epoch: 1, Credential: sharedlun.Credential{Key: 0xa1}, Timeout: time.Minute}, "quarry-"+owner, "")
	if err != nil {
		t.Fatal(err)
	}
	s.ref.UUID = g.UUID
	s.cache = s.recorded()
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/1", s.calls), s.cache)
	return s
}

// recorded is what the API server has of it.
func (s *suite) recorded() *cache {
	o := v1alpha1.Iscsi{}
	o.Name, o.UID, o.Spec.Cleanup = "san", owner, v1alpha1.CleanupZero
	o.Spec.CopyRate = resource.NewQuantity(1<<40, resource.BinarySI)
	c := &cache{iscsis: []v1alpha1.Iscsi{o}}
	for name := range s.nodes {
		m := v1alpha1.Member{}
		m.Name = "san." + name
		m.Spec.Of = v1alpha1.MemberOwner{Kind: v1alpha1.KindIscsi, Name: o.Name, UID: types.UID(owner)}
		m.Spec.Node, m.Spec.Group = v1alpha1.HostName(name), &v1alpha1.MemberGroup{UUID: s.ref.UUID, Name: "quarry-" + owner}
		m.Spec.Lun = &v1alpha1.MemberLun{WWID: s.ref.Lun.WWID, Serial: s.ref.Lun.Serial, Size: s.ref.Lun.SizeBytes}
		c.members = append(c.members, m)
	}
	return c
}

// backend is that of a process.
func (s *suite) backend(self string, nodes iscsi.Nodes) *iscsi.Backend {
	return iscsi.New(iscsi.Config{
		Reader: s.cache, Nodes: nodes, Fleet: s.fleet, Leases: s.leases, Pause: time.Millisecond,
		SAN: san.New(san.Config{Self: self, Nodes: nodes, Fleet: s.fleet, Leases: s.leases, Pause: time.Millisecond, Patience: time.Hour}),
	})
}

// now is some time.
var now = metav1.Now()

// access is that of a raw device on one node.
func access() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}

func (s *suite) request(name string, bytes int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{access()}, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		Parameters: map[string]string{v1alpha1.ParameterIscsi: owner},
	}
}

func (s *suite) create(name string, bytes int64) *csi.Volume {
	s.t.Helper()
	resp, err := s.CreateVolume(s.t.Context(), s.request(name, bytes))
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetVolume()
}

func (s *suite) publish(id, node string) (map[string]string, error) {
	r, err := s.ControllerPublishVolume(s.t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: access()})
	return r.GetPublishContext(), err
}

func (s *suite) unpublish(id, node string) error {
	_, err := s.ControllerUnpublishVolume(s.t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: node})
	return err
}

func (s *suite) expand(id string, bytes int64) (int64, error) {
	r, err := s.ControllerExpandVolume(s.t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes}, VolumeCapability: access(),
	})
	return r.GetCapacityBytes(), err
}

func (s *suite) remove(id string) error {
	_, err := s.DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

// silence ends the agent of a node, and waits until that is known.
func (s *suite) silence(node string) {
	s.t.Helper()
	s.agent[node].Kill()
	for deadline := time.Now().Add(10 * time.Second); s.calls.Pool.Node(node).Up(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("the agent stays up")
		}
	}
}

// volume is one as it is on the LUN; nil when it is not there.
func (s *suite) volume(name string) *sharedlun.Volume { return s.lun.Group().Volume(name) }

// mapped are the devices of a volume, by node.
func (s *suite) mapped(uuid string) map[string]sharedlun.Mapping {
	s.t.Helper()
	out := map[string]sharedlun.Mapping{}
	for name, n := range s.nodes {
		all, err := n.Mappings(s.t.Context(), s.ref)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, m := range all {
			if m.VolumeUUID == uuid && m.Part == sharedlun.PartShown {
				out[name] = m
			}
		}
	}
	return out
}

// want compares where a volume is, and how much of it is shown there.
func (s *suite) want(name, heldBy string, size, ready int64, shown map[string]int64) {
	s.t.Helper()
	v := s.volume(name)
	if v == nil {
		s.t.Errorf("volume %s is gone", name)
		return
	}
	if v.HeldBy != heldBy || v.Leaving || v.SizeBytes != size || v.ReadyBytes != ready {
		s.t.Errorf("volume %s is %+v, want %d bytes with %d ready, held by %q", name, v, size, ready, heldBy)
	}
	got := s.mapped(v.UUID)
	for node, m := range got {
		sum := int64(0)
		for _, r := range m.Ranges {
			sum += r.Size
		}
		if sum != shown[node] {
			s.t.Errorf("node %s shows %d bytes of volume %s, want %d", node, sum, name, shown[node])
		}
	}
	if len(got) != len(shown) {
		s.t.Errorf("volume %s is mapped on %v, want %v", name, got, shown)
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %s, want %s: %v", got, want, err)
	}
}
