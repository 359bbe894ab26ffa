package nfs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentnfs "quarry.storage/quarry/agent/agenttest/nfs"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/nfs"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	gib   = 1 << 30
	owner = "6d1f8f3e-0000-4000-8000-000000000001"
	other = "6d1f8f3e-0000-4000-8000-000000000002"
	pvc   = "pvc-11111111-2222-4333-8444-555555555555"
)

// cache answers like the informer cache.
type cache struct {
	client.Reader
	nfs     []v1alpha1.Nfs
	volumes []corev1.PersistentVolume
	err     error
}

func (c *cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if l, ok := list.(*v1alpha1.NfsList); ok && c.err == nil {
		l.Items = c.nfs
		return nil
	}
	return (&frametest.Volumes{Items: c.volumes, Err: c.err}).List(ctx, list, options...)
}

// suite is the driver on its socket, between a cache and a model of the agents.
type suite struct {
	*frametest.Served
	t      *testing.T
	cache  *cache
	agents *spy
	share  *agentnfs.Share
	// id is the identity of the share.
	id string
}

func newSuite(t *testing.T, nodes ...string) *suite {
	t.Helper()
	if len(nodes) == 0 {
		nodes = []string{"node-1", "node-2"}
	}
	n := v1alpha1.Nfs{}
	n.Name, n.UID = "media", types.UID(owner)
	n.Spec.Server, n.Spec.Path, n.Spec.OnDelete = "server", "/export", v1alpha1.DirectoryDelete
	n.Spec.MountOptions = []v1alpha1.MountOption{"vers=4.1"}
	servers := agentnfs.NewServers()
	s := &suite{
		t: t, cache: &cache{nfs: []v1alpha1.Nfs{n}}, share: servers.Export("server", "/export", 100*gib),
		agents: newAgents(t, servers, nodes),
	}
	s.id = s.prepare(owner)
	s.Served = frametest.Serve(t, nfs.Driver(), nfs.New(nfs.Config{Reader: s.cache, Agents: s.agents}), s.cache)
	return s
}

// prepare writes the mark of an owner on the share, as the reconciler of the Nfs does.
func (s *suite) prepare(uid string) string {
	s.t.Helper()
	seen, err := s.agents.controller.GetShare(s.t.Context(), s.agents.Online()[0], sharedvolume.Share{Server: "server", Path: "/export", Owner: uid}, true)
	if err != nil || seen.Problem != nil {
		s.t.Fatalf("%+v, %v", seen, err)
	}
	return seen.ID
}

// wantShare compares what exists on the share.
func (s *suite) wantShare(volumes int, directories ...string) {
	s.t.Helper()
	if got := s.share.Records(); len(got) != volumes {
		s.t.Errorf("records are %+v, want %d", got, volumes)
	}
	if diff := cmp.Diff(directories, s.share.Directories(), cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("directories (-want +got):\n%s", diff)
	}
}

// shared is a volume that many nodes write to.
func shared(flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}},
	}
}

func (s *suite) request(name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{shared()}, CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
		Parameters: map[string]string{
			v1alpha1.ParameterNfs: owner, "csi.storage.k8s.io/pvc/name": "claim", "csi.storage.k8s.io/pvc/namespace": "team",
			"csi.storage.k8s.io/pv/name": name,
		},
	}
}

func (s *suite) create(name string) *csi.Volume {
	s.t.Helper()
	resp, err := s.CreateVolume(s.t.Context(), s.request(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.GetVolume()
}

func (s *suite) remove(id string) error {
	_, err := s.DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

// record makes the PersistentVolume of a volume, as the provisioner does.
func (s *suite) record(v *csi.Volume) *corev1.PersistentVolume {
	p := corev1.PersistentVolume{}
	p.Name = fmt.Sprintf("pv-%d", len(s.cache.volumes))
	p.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(v.GetCapacityBytes(), resource.BinarySI)}
	p.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: v1alpha1.DriverNFS, VolumeHandle: v.GetVolumeId(), VolumeAttributes: v.GetVolumeContext(),
	}
	s.cache.volumes = append(s.cache.volumes, p)
	return &s.cache.volumes[len(s.cache.volumes)-1]
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %s, want %s: %v", got, want, err)
	}
}
