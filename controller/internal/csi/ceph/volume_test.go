package ceph_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
)

func TestCreateVolume(t *testing.T) {
	s := newSuite(t)
	v := s.create(pvc)
	if v.GetVolumeId() != handle(pvc) || v.GetCapacityBytes() != gib || len(v.GetAccessibleTopology()) > 0 {
		t.Errorf("%v", v)
	}
	id, err := cephvolume.Parse(v.GetVolumeId())
	if err != nil {
		t.Fatal(err)
	}
	if a, err := cephvolume.ParseAttributes(id, v.GetVolumeContext()); err != nil || len(a.Monitors) != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	again := s.create(pvc)
	if again.GetVolumeContext()[cephvolume.KeyPath] != v.GetVolumeContext()[cephvolume.KeyPath] {
		t.Errorf("%v, %v", v, again)
	}
	_, err = s.CreateVolume(t.Context(), request(pvc, sized(2*gib)))
	wantCode(t, "another size", err, codes.AlreadyExists)
	if got := s.ceph.Volumes.All[pvc].Bytes; got != gib {
		t.Errorf("a call that is refused changed the quota to %d", got)
	}
	// The volume grew, and a late call for its first size is repeated.
	if _, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: handle(pvc), CapacityRange: &csi.CapacityRange{RequiredBytes: 3 * gib}}); err != nil {
		t.Fatal(err)
	}
	if v := s.create(pvc); v.GetCapacityBytes() != 3*gib {
		t.Errorf("%v", v)
	}
	r, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: handle(pvc), CapacityRange: &csi.CapacityRange{RequiredBytes: gib}})
	if err != nil || r.GetCapacityBytes() != 3*gib || r.GetNodeExpansionRequired() || s.ceph.Volumes.All[pvc].Bytes != 3*gib {
		t.Errorf("growing to less: %v, %v", r, err)
	}
}

// TestCreateVolume_asks: a new volume costs four commands, however many there are: who answers, whether it exists, its making, and where it is.
func TestCreateVolume_asks(t *testing.T) {
	s := newSuite(t)
	s.create(pvc2)
	asked := 0
	s.late = func() error { asked++; return nil }
	s.create(pvc)
	if asked != 4 {
		t.Errorf("%d commands", asked)
	}
}

func TestCreateVolume_refuses(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		before func(*suite)
		edit   func(*csi.CreateVolumeRequest)
		want   codes.Code
		says   string
	}{
		"a raw device":              {nil, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{} }, codes.InvalidArgument, ""},
		"another filesystem":        {nil, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "ext4" }, codes.InvalidArgument, "ext4"},
		"an option for a key":       {nil, func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0] = shared("secret=x") }, codes.InvalidArgument, "secret=x"},
		"an unknown parameter":      {nil, func(r *csi.CreateVolumeRequest) { r.Parameters["pool"] = "x" }, codes.InvalidArgument, "pool"},
		"no Cluster":                {nil, func(r *csi.CreateVolumeRequest) { delete(r.Parameters, v1alpha1.ParameterCluster) }, codes.InvalidArgument, "is missing"},
		"a Cluster of LVM":          {nil, func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterCluster] = other }, codes.InvalidArgument, "no Cluster"},
		"a Cluster that is deleted": {func(s *suite) { s.cache.clusters[0].DeletionTimestamp = &now }, nil, codes.FailedPrecondition, "being removed"},
		"a late cache":              {func(s *suite) { s.live.change = func(c *v1alpha1.Cluster) { c.DeletionTimestamp = &now } }, nil, codes.FailedPrecondition, "being removed"},
		"a Cluster that is gone":    {func(s *suite) { s.live.gone = true }, nil, codes.FailedPrecondition, "is gone"},
		"another of its name":       {func(s *suite) { s.live.change = func(c *v1alpha1.Cluster) { c.UID = other } }, nil, codes.FailedPrecondition, "is gone"},
		"a Cluster nobody can read": {func(s *suite) { s.live.err = errCut }, nil, codes.Unavailable, "cannot be read"},
		"a copy of another Ceph":    {nil, fromVolume(other + "/quarry/quarry/" + pvc2), codes.InvalidArgument, "within its Ceph cluster"},
		"a copy of nothing":         {nil, fromVolume(handle(pvc2)), codes.NotFound, ""},
		"a restore of nothing":      {nil, fromSnapshot(owner + "/" + pvc2 + "/snap-" + pvc[4:]), codes.NotFound, ""},
		"no filesystem":             {func(s *suite) { s.ceph.Volumes.Served = false }, nil, codes.FailedPrecondition, "not found"},
		"no group":                  {func(s *suite) { s.ceph.Volumes.Grouped = false }, nil, codes.FailedPrecondition, "does not exist"},
		"another Ceph cluster":      {func(s *suite) { s.ceph.FSID = other }, nil, codes.Unavailable, "another Ceph cluster"},
		"no quorum":                 {func(s *suite) { s.ceph.Monitors = map[string]bool{"a": true, "b": false, "c": false} }, nil, codes.Unavailable, "cannot be asked"},
		"no pod to ask in":          {func(s *suite) { s.down = errCut }, nil, codes.Unavailable, "cut"},
	} {
		s := newSuite(t)
		if c.before != nil {
			c.before(s)
		}
		r := request(pvc)
		if c.edit != nil {
			c.edit(r)
		}
		_, err := s.CreateVolume(t.Context(), r)
		wantCode(t, name, err, c.want)
		if err == nil || !strings.Contains(err.Error(), c.says) || s.left() != "" {
			t.Errorf("%s: %v; left is %q", name, err, s.left())
		}
	}
}

// TestUnknownIsNeverAbsent: whatever is in the way of asking, a volume is neither missing nor deleted.
func TestUnknownIsNeverAbsent(t *testing.T) {
	for name, break_ := range map[string]func(*suite){
		"no quorum":            func(s *suite) { s.ceph.Monitors = map[string]bool{"a": true, "b": false, "c": false} },
		"no pod to ask in":     func(s *suite) { s.down = errCut },
		"a cut connection":     func(s *suite) { s.ceph.Fail = func([]string) error { return errCut } },
		"another Ceph cluster": func(s *suite) { s.ceph.FSID, s.ceph.Volumes = other, cephtest.NewVolumes() },
		"no filesystem":        func(s *suite) { s.ceph.Volumes.Served = false },
		"no group":             func(s *suite) { s.ceph.Volumes.Grouped = false },
		"no Cluster":           func(s *suite) { s.cache.clusters = s.cache.clusters[1:] },
		"no cache":             func(s *suite) { s.cache.err = errCut },
	} {
		s := newSuite(t)
		s.create(pvc)
		taken := s.snapshot(handle(pvc)).GetSnapshotId()
		break_(s)
		ctx := t.Context()
		_, getErr := s.ControllerGetVolume(ctx, &csi.ControllerGetVolumeRequest{VolumeId: handle(pvc)})
		_, growErr := s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: handle(pvc), CapacityRange: &csi.CapacityRange{RequiredBytes: 9}})
		_, snapErr := s.GetSnapshot(ctx, &csi.GetSnapshotRequest{SnapshotId: taken})
		_, listErr := s.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: taken})
		for what, err := range map[string]error{
			"get": getErr, "grow": growErr, "delete": s.remove(handle(pvc)), "get snapshot": snapErr, "list snapshot": listErr, "delete snapshot": s.removeSnapshot(taken),
		} {
			if c := status.Code(err); c != codes.Unavailable && c != codes.FailedPrecondition && (c != codes.Internal || name != "no cache") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

func TestDeleteVolume(t *testing.T) {
	s := newSuite(t)
	s.create(pvc)
	s.create(pvc2)
	for range 2 {
		if err := s.remove(handle(pvc)); err != nil {
			t.Error(err)
		}
	}
	if got := s.left(); got != pvc2+" 1073741824" {
		t.Errorf("left is %s", got)
	}
	if err := s.remove("not a handle"); err != nil {
		t.Error(err)
	}
	_, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: handle(pvc)})
	wantCode(t, "get", err, codes.NotFound)
}

func TestVolume_condition(t *testing.T) {
	s := newSuite(t)
	s.create(pvc)
	abnormal := func() string {
		r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: handle(pvc)})
		if err != nil {
			t.Fatal(err)
		}
		if c := r.GetStatus().GetVolumeCondition(); c.GetAbnormal() {
			return c.GetMessage()
		}
		return ""
	}
	set := func(kind, reason string) {
		s.cache.clusters[0].Status.Conditions = []metav1.Condition{{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "told"}}
	}
	if got := abnormal(); got != "" {
		t.Error(got)
	}
	set(v1alpha1.ConditionCephHealthy, v1alpha1.ReasonCephWarning)
	if got := abnormal(); got != "" {
		t.Errorf("a warning of Ceph is one of the volume: %s", got)
	}
	set(v1alpha1.ConditionCephHealthy, v1alpha1.ReasonCephError)
	if got := abnormal(); got != "told" {
		t.Error(got)
	}
}

func TestListVolumes(t *testing.T) {
	s := newSuite(t)
	s.record(s.create(pvc))
	s.create(pvc2)
	s.ceph.Volumes.All["somebody-elses"] = &cephtest.Subvolume{}
	list := func() string {
		var out []string
		for token, first := "", true; first || token != ""; first = false {
			r, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 1, StartingToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range r.GetEntries() {
				out = append(out, e.GetVolume().GetVolumeId())
			}
			token = r.GetNextToken()
		}
		return strings.Join(out, " ")
	}
	if got := list(); got != handle(pvc)+" "+handle(pvc2) {
		t.Error(got)
	}
	s.down = errCut
	if got := list(); got != handle(pvc) {
		t.Errorf("a Ceph cluster that cannot be asked: %s", got)
	}
}

func TestGetCapacity(t *testing.T) {
	s := newSuite(t)
	ask := func() (*csi.GetCapacityResponse, error) {
		return s.GetCapacity(t.Context(), &csi.GetCapacityRequest{Parameters: map[string]string{v1alpha1.ParameterCluster: owner}})
	}
	if r, err := ask(); err != nil || r.GetAvailableCapacity() != 100*gib || r.GetMaximumVolumeSize().GetValue() != 100*gib {
		t.Errorf("%v, %v", r, err)
	}
	s.down = errCut
	_, err := ask()
	wantCode(t, "nobody can be asked", err, codes.Unavailable)
}

// TestCreateVolume_namedTwice: a Cluster whose spec names the Ceph cluster of another one has no part in it, whichever was made first. Alone it has none before it has begun.
func TestCreateVolume_namedTwice(t *testing.T) {
	s := newSuite(t)
	const uid = "7a1c6d1e-0000-4000-8000-000000000003"
	second := v1alpha1.Cluster{}
	second.Name, second.UID, second.Spec.StorageType = "second", uid, v1alpha1.StorageTypeCephFS
	second.Spec.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: owner}}
	first := &s.cache.clusters[0]
	first.CreationTimestamp = metav1.Now()
	s.cache.clusters = append(s.cache.clusters, second)
	s.create(pvc)
	of := func(r *csi.CreateVolumeRequest) { r.Parameters[v1alpha1.ParameterCluster] = uid }
	_, err := s.CreateVolume(t.Context(), request(pvc2, of))
	wantCode(t, "of the second", err, codes.InvalidArgument)
	s.cache.clusters = s.cache.clusters[1:]
	_, err = s.CreateVolume(t.Context(), request(pvc2, of))
	wantCode(t, "of the second alone", err, codes.FailedPrecondition)
	if len(s.ceph.Volumes.All) != 1 {
		t.Errorf("volumes %v", s.ceph.Volumes.All)
	}
}

// TestVolume_withoutQuota: a volume whose quota somebody took off is listed, gets one when it grows, and is removed.
func TestVolume_withoutQuota(t *testing.T) {
	s := newSuite(t)
	s.create(pvc)
	s.ceph.Volumes.All[pvc].Bytes = 0
	r, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: handle(pvc)})
	if err != nil || r.GetVolume().GetCapacityBytes() != 0 {
		t.Errorf("%v, %v", r, err)
	}
	_, err = s.CreateVolume(t.Context(), request(pvc))
	wantCode(t, "it is made again", err, codes.AlreadyExists)
	one := s.snapshot(handle(pvc)).GetSnapshotId()
	s.create(pvc2, fromSnapshot(one), sized(2*gib))
	for _, remove := range []func() error{func() error { return s.removeSnapshot(one) }, func() error { return s.remove(handle(pvc)) }} {
		if err := remove(); err != nil {
			t.Error(err)
		}
	}
	if got := s.left(); got != pvc2+" 2147483648" {
		t.Errorf("left is %s", got)
	}
	s.ceph.Volumes.All[pvc2].Bytes = 0
	if grown, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: handle(pvc2), CapacityRange: &csi.CapacityRange{RequiredBytes: gib}}); err != nil || s.ceph.Volumes.All[pvc2].Bytes != gib {
		t.Errorf("%v, %v", grown, err)
	}
}
