package lvm_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	gib       = 1 << 30
	owner     = "6d1f8f3e-0000-4000-8000-000000000001"
	group     = "quarry-pool"
	diskBytes = 100 * gib
)

// cache answers like the informer cache.
type cache struct {
	client.Reader
	clusters []v1alpha1.Cluster
	nodes    []v1alpha1.StorageNode
	members  []v1alpha1.Member
	volumes  []corev1.PersistentVolume
	contents []unstructured.Unstructured
}

func (c *cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch l := list.(type) {
	case *v1alpha1.ClusterList:
		l.Items = c.clusters
	case *v1alpha1.StorageNodeList:
		l.Items = c.nodes
	case *v1alpha1.MemberList:
		l.Items = c.members
	default:
		return (&frametest.Volumes{Items: c.volumes, Contents: c.contents}).List(ctx, list, options...)
	}
	return nil
}

// suite is the driver on its socket, between a cache and real agents over fake hosts.
type suite struct {
	*frametest.Served

	t      *testing.T
	cache  *cache
	pool   *agents.Pool
	agents map[string]*agenttest.Agent
	thin   bool
}

// newSuite starts agents on the hosts, each with one group of one disk and, if wanted, a thin pool of half of it.
func newSuite(t *testing.T, thin bool, hosts ...string) *suite {
	t.Helper()
	s := &suite{t: t, thin: thin, agents: map[string]*agenttest.Agent{}, cache: &cache{}}
	ca := agenttest.NewCA(t)
	s.pool = agents.New(context.Background(), agents.Config{
		TLS: func(node string) (*tls.Config, error) { return ca.CSITLS(t, node), nil }, GroupsOnly: true,
		Grace: time.Second, Patience: 50 * time.Millisecond, Absence: 50 * time.Millisecond,
	})
	t.Cleanup(s.pool.Close)
	c := v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "pool", UID: types.UID(owner)}}
	c.Spec.StorageType = v1alpha1.StorageTypeLVM
	if thin {
		half := resource.MustParse("50Gi")
		c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{Size: &half, OverprovisionRatio: "2.0"}}
	}
	for _, h := range hosts {
		c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(h))
		a := agenttest.New(t, agenttest.Options{NodeName: h, CA: ca})
		a.AddDisks(diskBytes, "sdb")
		a.AddGroup(group, owner, "sdb")
		s.agents[h] = a
		s.pool.SetAddress(h, a.Addr(), "pod-of-"+h)
	}
	s.pool.Complete()
	s.cache.clusters = []v1alpha1.Cluster{c}
	for _, h := range hosts {
		s.await("agent of "+h, func() bool { n := s.pool.Node(h); return n.Up() && len(n.Groups) == 1 })
		s.cache.members = append(s.cache.members, memberOf(h, s.pool.Node(h).Groups[0].UUID))
		if thin {
			s.addPool(h)
		}
	}
	s.Served = frametest.Serve(t, lvm.Driver(), &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: s.pool}, s.cache)
	return s
}

// memberOf returns the Member of a host that records a group.
func memberOf(host, uuid string) v1alpha1.Member {
	return v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool." + host, UID: types.UID("member-of-" + host)},
		Spec: v1alpha1.MemberSpec{
			Of:   v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "pool", UID: owner},
			Node: v1alpha1.HostName(host), Group: &v1alpha1.MemberGroup{UUID: uuid, Name: group},
		},
	}
}

// addPool makes the pool as the controller does: the driver may not.
func (s *suite) addPool(host string) {
	s.t.Helper()
	controller := agents.New(s.t.Context(), agents.Config{
		TLS: func(node string) (*tls.Config, error) { return s.agents[host].CA.ControllerTLS(s.t, node), nil },
	})
	defer controller.Close()
	controller.SetAddress(host, s.agents[host].Addr(), "pod-of-"+host)
	spec := decide.ThinPoolSpec{Group: group, Owner: owner, Name: v1alpha1.ThinPoolName, SizeBytes: 50 * gib}
	var fault *decide.Fault
	if _, err := s.pool.EnsureThinPool(s.t.Context(), host, spec); !errors.As(err, &fault) || fault.Kind != decide.FaultDenied {
		s.t.Errorf("the driver makes a pool: %v", err)
	}
	if _, err := controller.EnsureThinPool(s.t.Context(), host, spec); err != nil {
		s.t.Fatal(err)
	}
	s.await("pool of "+host, func() bool { return len(s.pool.Node(host).Groups[0].Pools) == 1 })
}

func (s *suite) await(what string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

func (s *suite) parameters() map[string]string {
	p := map[string]string{v1alpha1.ParameterCluster: owner}
	if s.thin {
		p[v1alpha1.ParameterThinPool], p[v1alpha1.ParameterOverprovision] = v1alpha1.ThinPoolName, "200"
	}
	return p
}

// request makes a good request for 1 GiB; on nodes, in their order, if there are any.
func (s *suite) request(name string, nodes ...string) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name: name, Parameters: s.parameters(), VolumeCapabilities: []*csi.VolumeCapability{mounted("ext4")},
		CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
	}
	if len(nodes) > 0 {
		r.AccessibilityRequirements = &csi.TopologyRequirement{}
	}
	for _, n := range nodes {
		r.AccessibilityRequirements.Preferred = append(r.AccessibilityRequirements.Preferred, on(n))
		r.AccessibilityRequirements.Requisite = append(r.AccessibilityRequirements.Requisite, on(n))
	}
	return r
}

func (s *suite) create(r *csi.CreateVolumeRequest) *csi.Volume {
	s.t.Helper()
	resp, err := s.CreateVolume(s.t.Context(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetVolume()
}

// steps is how many changes were made to all hosts so far.
func (s *suite) steps() (n int) {
	for _, a := range s.agents {
		n += a.Steps()
	}
	return n
}

func on(node string) *csi.Topology {
	return &csi.Topology{Segments: map[string]string{v1alpha1.TopologyHost: node}}
}

func mounted(fs string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs}},
	}
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %s, want %s: %v", got, want, err)
	}
}
