package ceph_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runner "quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/controller/internal/csi/ceph"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const (
	gib   = 1 << 30
	owner = "7a1c6d1e-0000-4000-8000-000000000001"
	other = "7a1c6d1e-0000-4000-8000-000000000002"
	pvc   = "pvc-11111111-2222-4333-8444-555555555555"
	pvc2  = "pvc-11111111-2222-4333-8444-555555555556"
	snap  = "snapshot-11111111-2222-4333-8444-555555555557"
)

// cache answers like the informer cache.
type cache struct {
	client.Reader
	clusters []v1alpha1.Cluster
	volumes  []corev1.PersistentVolume
	err      error
}

func (c *cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if l, ok := list.(*v1alpha1.ClusterList); ok && c.err == nil {
		l.Items = c.clusters
		return nil
	}
	return (&frametest.Volumes{Items: c.volumes, Err: c.err}).List(ctx, list, options...)
}

// server answers like the API server itself: with what the cache has, unless that is late.
type server struct {
	client.Reader
	cache *cache
	// change is what the cache does not know yet of a Cluster; nil is nothing.
	change func(*v1alpha1.Cluster)
	gone   bool
	err    error
}

func (s *server) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	for _, c := range s.cache.clusters {
		if c.Name != key.Name || s.gone || s.err != nil {
			continue
		}
		c.DeepCopyInto(o.(*v1alpha1.Cluster))
		if s.change != nil {
			s.change(o.(*v1alpha1.Cluster))
		}
		return nil
	}
	return cmp.Or(s.err, error(apierrors.NewNotFound(schema.GroupResource{Resource: "clusters"}, key.Name)))
}

// suite is the driver on its socket, over a cache and a model of Ceph.
type suite struct {
	*frametest.Served
	t     *testing.T
	cache *cache
	live  *server
	ceph  *cephtest.Cluster
	// down is why no command can be run.
	down error
	// late is called after each command; of one that it fails nobody hears what became of it.
	late func() error
}

// lost are the commands of the model whose answers may be lost.
type lost struct {
	*cephtest.Cluster
	s *suite
}

func (l lost) Run(ctx context.Context, cmd runner.Command) (runner.Result, error) {
	r, err := l.Cluster.Run(ctx, cmd)
	if err == nil && l.s.late != nil {
		err = l.s.late()
	}
	return r, err
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	return patient(t, 0)
}

// patient is a suite whose calls wait so long for copies.
func patient(t *testing.T, patience time.Duration) *suite {
	t.Helper()
	c := v1alpha1.Cluster{}
	c.Name, c.UID, c.Spec.StorageType = "shared", types.UID(owner), v1alpha1.StorageTypeCephFS
	c.Status.Ceph = &v1alpha1.CephStatus{FSID: owner, Monitors: []string{"10.0.0.1:3300", "10.0.0.2:3300"}}
	local := v1alpha1.Cluster{}
	local.Name, local.UID, local.Spec.StorageType = "local", types.UID(other), v1alpha1.StorageTypeLVM
	m := cephtest.New(t, owner, "n0", "n1", "n2")
	m.Servers, m.Volumes = []string{"m"}, cephtest.NewVolumes()
	s := &suite{t: t, cache: &cache{clusters: []v1alpha1.Cluster{c, local}}, ceph: m}
	s.live = &server{cache: s.cache}
	s.Served = frametest.Serve(t, ceph.Driver(), ceph.New(ceph.Config{
		Reader: s.cache, Live: s.live, Log: logr.Discard(), Patience: patience, Connect: func(_ context.Context, fsid string) (runner.Runner, error) {
			if fsid != owner {
				t.Errorf("connected to %s", fsid)
			}
			return lost{m, s}, s.down
		},
	}), s.cache)
	return s
}

func shared(flags ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: flags}},
	}
}

func request(name string, edits ...func(*csi.CreateVolumeRequest)) *csi.CreateVolumeRequest {
	r := &csi.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csi.VolumeCapability{shared()}, CapacityRange: &csi.CapacityRange{RequiredBytes: gib},
		Parameters: map[string]string{v1alpha1.ParameterCluster: owner},
	}
	for _, edit := range edits {
		edit(r)
	}
	return r
}

func sized(bytes int64) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) { r.CapacityRange.RequiredBytes = bytes }
}

func fromVolume(handle string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: handle}}}
	}
}

func fromSnapshot(handle string) func(*csi.CreateVolumeRequest) {
	return func(r *csi.CreateVolumeRequest) {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: handle}}}
	}
}

func handle(name string) string { return owner + "/quarry/quarry/" + name }

// patiently repeats a call as a sidecar does, while Ceph has not finished.
func patiently[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	for range 60 {
		out, err := call()
		if err == nil {
			return out
		}
		if c := status.Code(err); c != codes.Aborted && c != codes.Unavailable {
			t.Fatal(err)
		}
	}
	panic("it does not end")
}

func (s *suite) create(name string, edits ...func(*csi.CreateVolumeRequest)) *csi.Volume {
	s.t.Helper()
	return patiently(s.t, func() (*csi.CreateVolumeResponse, error) {
		return s.CreateVolume(s.t.Context(), request(name, edits...))
	}).GetVolume()
}

func (s *suite) remove(id string) error {
	_, err := s.DeleteVolume(s.t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	return err
}

func (s *suite) snapshot(of string) *csi.Snapshot {
	s.t.Helper()
	r, err := s.CreateSnapshot(s.t.Context(), &csi.CreateSnapshotRequest{Name: snap, SourceVolumeId: of})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.GetSnapshot()
}

func (s *suite) removeSnapshot(id string) error {
	_, err := s.DeleteSnapshot(s.t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: id})
	return err
}

// left says what the model has.
func (s *suite) left() string {
	var out []string
	for name, v := range s.ceph.Volumes.All {
		for snapshot := range v.Snapshots {
			out = append(out, name+"@"+snapshot)
		}
		if !v.Retained {
			out = append(out, fmt.Sprintf("%s %d", name, v.Bytes))
		}
	}
	return strings.Join(out, ", ")
}

// record makes the PersistentVolume of a volume.
func (s *suite) record(v *csi.Volume) {
	p := corev1.PersistentVolume{}
	p.Name = fmt.Sprintf("pv-%d", len(s.cache.volumes))
	p.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(v.GetCapacityBytes(), resource.BinarySI)}
	p.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverCephFS, VolumeHandle: v.GetVolumeId(), VolumeAttributes: v.GetVolumeContext()}
	s.cache.volumes = append(s.cache.volumes, p)
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: code is %s, want %s: %v", what, got, want, err)
	}
}

var errCut = errors.New("the connection was cut")
