package frame_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

func newModel(t *testing.T) (*frametest.Bare, *frametest.Served) {
	t.Helper()
	m := frametest.NewBare()
	return m, frametest.Serve(t, frametest.Driver(), frametest.Model{Bare: m}, &frametest.Volumes{})
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code is %s, want %s: %v", got, want, err)
	}
}

func mounted() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
}

func request(name string) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{mounted()}}
}

func TestCreateVolume_passesOnWhoItIsFor(t *testing.T) {
	_, s := newModel(t)
	r := request("a")
	r.Parameters = map[string]string{
		"pool": "p", "csi.storage.k8s.io/pvc/name": "claim", "csi.storage.k8s.io/pvc/namespace": "ns", "csi.storage.k8s.io/pv/name": "pvc-1",
	}
	v, err := s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.OK)
	if diff := cmp.Diff(map[string]string{"claim": "ns/claim"}, v.GetVolume().GetVolumeContext()); diff != "" {
		t.Error(diff)
	}
	if got := v.GetVolume().GetAccessibleTopology(); len(got) != 1 || got[0].GetSegments()[frametest.ModelTopology] != "node-1" {
		t.Errorf("topology is %v", got)
	}
}

func TestCreateVolume_badInputReachesNoBackend(t *testing.T) {
	m, s := newModel(t)
	m.Before = func(effect string) error {
		t.Errorf("effect %s", effect)
		return nil
	}
	for name, edit := range map[string]func(*csi.CreateVolumeRequest){
		"no name":            func(r *csi.CreateVolumeRequest) { r.Name = "" },
		"a long name":        func(r *csi.CreateVolumeRequest) { r.Name = strings.Repeat("x", 129) },
		"no capability":      func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities = nil },
		"a filesystem":       func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().FsType = "zfs" },
		"a mount group":      func(r *csi.CreateVolumeRequest) { r.VolumeCapabilities[0].GetMount().VolumeMountGroup = "1" },
		"a parameter":        func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"x": "y"} },
		"nearly a note":      func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"csi.storage.k8s.io.x/y": "z"} },
		"the class's type":   func(r *csi.CreateVolumeRequest) { r.Parameters = map[string]string{"csi.storage.k8s.io/fstype": "zfs"} },
		"mutable parameters": func(r *csi.CreateVolumeRequest) { r.MutableParameters = map[string]string{"x": "y"} },
		"a negative size":    func(r *csi.CreateVolumeRequest) { r.CapacityRange = &csi.CapacityRange{RequiredBytes: -1} },
		"a topology":         func(r *csi.CreateVolumeRequest) { r.AccessibilityRequirements = where("zone", "a") },
		"an empty source":    func(r *csi.CreateVolumeRequest) { r.VolumeContentSource = &csi.VolumeContentSource{} },
	} {
		t.Run(name, func(t *testing.T) {
			r := request("a")
			edit(r)
			_, err := s.CreateVolume(t.Context(), r)
			wantCode(t, err, codes.InvalidArgument)
		})
	}
}

func where(key, value string) *csi.TopologyRequirement {
	return &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{key: value}}}}
}

func TestCalls_oneAtATimePerVolume(t *testing.T) {
	m, s := newModel(t)
	v, err := s.CreateVolume(t.Context(), request("a"))
	wantCode(t, err, codes.OK)
	id := v.GetVolume().GetVolumeId()
	entered, leave := make(chan bool), make(chan bool)
	m.Before = func(string) error {
		entered <- true
		<-leave
		return nil
	}
	done := make(chan error)
	go func() {
		_, err := s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		done <- err
	}()
	<-entered
	_, err = s.CreateVolume(t.Context(), request("a"))
	wantCode(t, err, codes.Aborted)
	_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.Aborted)
	_, err = s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 1}})
	wantCode(t, err, codes.Aborted)
	_, err = s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n", VolumeCapability: mounted()})
	wantCode(t, err, codes.Aborted)
	_, err = s.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id, NodeId: "n"})
	wantCode(t, err, codes.Aborted)
	leave <- true
	wantCode(t, <-done, codes.OK)
}

func TestErrors_haveCodes(t *testing.T) {
	m, s := newModel(t)
	for want, errs := range map[codes.Code][]error{
		codes.Unavailable:        {volume.Refuse(volume.Unavailable, "x"), &decide.Fault{Kind: decide.FaultUnavailable}},
		codes.Aborted:            {volume.Refuse(volume.Unfinished, "7 of many removed"), &decide.Fault{Kind: decide.FaultBusy}},
		codes.FailedPrecondition: {volume.Refuse(volume.Precondition, "x"), fmt.Errorf("at it: %w", &decide.Fault{Kind: decide.FaultPrecondition})},
		codes.Internal:           {errors.New("odd"), &decide.Fault{}, &volume.Refusal{}},
		codes.DeadlineExceeded:   {context.DeadlineExceeded},
		codes.PermissionDenied:   {&decide.Fault{Kind: decide.FaultDenied}},
		codes.OK:                 {volume.ErrNotOurs},
	} {
		for _, e := range errs {
			m.Before = func(string) error { return e }
			_, err := s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "model/vol-x"})
			wantCode(t, err, want)
			if err != nil && status.Convert(err).Message() != e.Error() {
				t.Errorf("message is %q, want %q", status.Convert(err).Message(), e)
			}
		}
	}
	m.Before = func(string) error { return volume.ErrNotOurs }
	_, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: "model/vol-x", CapacityRange: &csi.CapacityRange{RequiredBytes: 1},
	})
	wantCode(t, err, codes.NotFound)
}

func TestControllerExpandVolume(t *testing.T) {
	_, s := newModel(t)
	r := request("a")
	r.CapacityRange = &csi.CapacityRange{RequiredBytes: 100}
	v, err := s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.OK)
	raw := mounted()
	raw.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	bad := mounted()
	bad.GetMount().FsType = "zfs"
	for name, c := range map[string]struct {
		size *csi.CapacityRange
		cap  *csi.VolumeCapability
		want codes.Code
		node bool
	}{
		"a filesystem":     {size: &csi.CapacityRange{RequiredBytes: 200}, node: true},
		"a raw device":     {size: &csi.CapacityRange{RequiredBytes: 200}, cap: raw},
		"no range":         {want: codes.InvalidArgument},
		"a limit below it": {size: &csi.CapacityRange{RequiredBytes: 1, LimitBytes: 2}, want: codes.OutOfRange},
		"bad capability":   {size: &csi.CapacityRange{RequiredBytes: 200}, cap: bad, want: codes.InvalidArgument},
	} {
		got, err := s.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: v.GetVolume().GetVolumeId(), CapacityRange: c.size, VolumeCapability: c.cap,
		})
		t.Log(name)
		wantCode(t, err, c.want)
		if got.GetNodeExpansionRequired() != c.node {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestDriver_withoutOptionalParts(t *testing.T) {
	d := frametest.Driver()
	d.Topology, d.Clones, d.NodeExpansion = "", false, false
	d.Offer = volume.Offer{Shared: true}
	s := frametest.Serve(t, d, frametest.NewBare(), &frametest.Volumes{})
	caps, err := s.ControllerGetCapabilities(t.Context(), &csi.ControllerGetCapabilitiesRequest{})
	wantCode(t, err, codes.OK)
	var got []string
	for _, c := range caps.GetCapabilities() {
		got = append(got, c.GetRpc().GetType().String())
	}
	want := []string{"CREATE_DELETE_VOLUME", "EXPAND_VOLUME", "LIST_VOLUMES", "GET_VOLUME", "VOLUME_CONDITION", "SINGLE_NODE_MULTI_WRITER"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	plugin, err := s.GetPluginCapabilities(t.Context(), &csi.GetPluginCapabilitiesRequest{})
	if err != nil || strings.Contains(plugin.String(), "ACCESSIBILITY") {
		t.Errorf("%v, %v", plugin, err)
	}
	r := request("a")
	r.AccessibilityRequirements = where("zone", "anywhere")
	v, err := s.CreateVolume(t.Context(), r)
	if err != nil || len(v.GetVolume().GetAccessibleTopology()) > 0 {
		t.Errorf("%v, %v", v, err)
	}
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: v.GetVolume().GetVolumeId()},
	}}
	_, err = s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.InvalidArgument)
	raw := request("raw")
	raw.VolumeCapabilities[0].AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	_, err = s.CreateVolume(t.Context(), raw)
	wantCode(t, err, codes.InvalidArgument)
	id := v.GetVolume().GetVolumeId()
	for name, call := range map[string]func() error{
		"CreateSnapshot": func() error {
			_, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
			return err
		},
		"DeleteSnapshot": func() error {
			_, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: "s"})
			return err
		},
		"ListSnapshots": func() error {
			_, err := s.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{})
			return err
		},
		"GetSnapshot": func() error {
			_, err := s.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: "s"})
			return err
		},
		"GetCapacity": func() error {
			_, err := s.GetCapacity(t.Context(), &csi.GetCapacityRequest{})
			return err
		},
		"ControllerPublishVolume": func() error {
			_, err := s.ControllerPublishVolume(t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n"})
			return err
		},
		"ControllerUnpublishVolume": func() error {
			_, err := s.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), codes.Unimplemented) })
	}
}

func TestServer_servesOnEveryReplica(t *testing.T) {
	s := frame.New(frame.Config{}, frametest.Driver(), frametest.NewBare())
	if s.NeedLeaderElection() {
		t.Error("a replica without the lead has to serve its sidecars, too")
	}
}
