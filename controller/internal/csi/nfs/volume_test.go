package nfs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

func name(i int) string { return fmt.Sprintf("pvc-%08d-2222-4333-8444-555555555555", i) }

func TestListVolumes_persistentOnesAndThoseOfTheShare(t *testing.T) {
	s := newSuite(t)
	var want []string
	for i := range 5 {
		v := s.create(name(i))
		want = append(want, v.GetVolumeId())
		if i%2 == 0 {
			s.record(v)
		}
	}
	gone := &csi.Volume{VolumeId: other + "/" + name(7), CapacityBytes: gib}
	s.record(gone)
	want = append(want, gone.GetVolumeId())
	foreign := s.record(&csi.Volume{VolumeId: "hand-made"})
	foreign.Name = "foreign"
	for limit := range int32(8) {
		var got []string
		for token, first := "", true; first || token != ""; first = false {
			r, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: limit, StartingToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range r.GetEntries() {
				got = append(got, e.GetVolume().GetVolumeId())
				if abnormal := e.GetStatus().GetVolumeCondition().GetAbnormal(); abnormal != strings.HasPrefix(e.GetVolume().GetVolumeId(), other) {
					t.Errorf("entry is %v", e)
				}
			}
			token = r.GetNextToken()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	_, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: "none"})
	wantCode(t, err, codes.Aborted)
	s.share.Break("", sharedvolume.ReasonUnreachable, "no answer")
	r, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if err != nil || len(r.GetEntries()) != 4 {
		t.Errorf("a share out of reach hides PersistentVolumes: %v, %v", r, err)
	}
}

func TestControllerGetVolume_condition(t *testing.T) {
	s := newSuite(t)
	v := s.create(pvc)
	get := func(id string) (*csi.ControllerGetVolumeResponse, error) {
		return s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: id})
	}
	r, err := get(v.GetVolumeId())
	if err != nil || r.GetStatus().GetVolumeCondition().GetAbnormal() {
		t.Errorf("%v, %v", r, err)
	}
	s.record(v)
	s.cache.nfs[0].Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionShareReachable, Status: metav1.ConditionFalse, Message: "server does not answer",
	}}
	s.agents.asked()
	r, err = get(v.GetVolumeId())
	c := r.GetStatus().GetVolumeCondition()
	if err != nil || !c.GetAbnormal() || !strings.Contains(c.GetMessage(), "server does not answer") || r.GetVolume().GetCapacityBytes() != gib {
		t.Errorf("%v, %v", r, err)
	}
	if calls := s.agents.asked(); len(calls) > 0 {
		t.Errorf("agents were asked: %v", calls)
	}
	s.cache.nfs = nil
	if r, err = get(v.GetVolumeId()); err != nil || !r.GetStatus().GetVolumeCondition().GetAbnormal() {
		t.Errorf("%v, %v", r, err)
	}
	_, err = get(owner + "/" + name(1))
	wantCode(t, err, codes.FailedPrecondition)
	_, err = get("not a handle")
	wantCode(t, err, codes.NotFound)
}

func TestControllerExpandVolume_changesTheNumberOnly(t *testing.T) {
	s := newSuite(t)
	v := s.create(pvc)
	s.record(v)
	s.agents.asked()
	for _, c := range []struct{ ask, want int64 }{{2 * gib, 2 * gib}, {1, gib}} {
		r, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: v.GetVolumeId(), CapacityRange: &csi.CapacityRange{RequiredBytes: c.ask}, VolumeCapability: shared(),
		})
		if err != nil || r.GetCapacityBytes() != c.want || r.GetNodeExpansionRequired() {
			t.Errorf("%v, %v", r, err)
		}
	}
	if calls := s.agents.asked(); len(calls) > 0 {
		t.Errorf("agents were asked: %v", calls)
	}
	_, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: owner + "/" + name(1), CapacityRange: &csi.CapacityRange{RequiredBytes: 1},
	})
	wantCode(t, err, codes.NotFound)
}

func TestDriver_offersNeitherCapacityNorSnapshotsNorAttaching(t *testing.T) {
	s := newSuite(t)
	r, err := s.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.GetCapabilities() {
		if slices.Contains([]csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_GET_CAPACITY, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
			csi.ControllerServiceCapability_RPC_CLONE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		}, c.GetRpc().GetType()) {
			t.Errorf("offers %s", c)
		}
	}
	_, err = s.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
	wantCode(t, err, codes.Unimplemented)
}
