package lvm_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

func raw() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}

// newZeroing is a suite of one node, where a tenant has written all over 4 GiB of the group and left.
func newZeroing(t *testing.T, policy v1alpha1.ZeroPolicy) *suite {
	t.Helper()
	s := newSuite(t, false, "node-1")
	s.cache.clusters[0].Spec.LVM = &v1alpha1.LVMSpec{Zero: v1alpha1.ZeroNever}
	r := s.request("pvc-other")
	r.CapacityRange.RequiredBytes = 4 * gib
	id := s.create(r).GetVolumeId()
	s.agents["node-1"].WriteVolume(group, volumeid.Name("pvc-other"), "secret")
	if err := s.remove(id); err != nil {
		t.Fatal(err)
	}
	s.cache.clusters[0].Spec.LVM.Zero = policy
	return s
}

// secret reports whether the volume pvc-1 shows what the tenant wrote.
func (s *suite) secret() bool {
	return slices.Contains(s.agents["node-1"].ReadVolume(group, volumeid.Name("pvc-1")), "secret")
}

// TestCreateVolume_showsNothingOfOthers: what a tenant left is not in the next one's raw block device, nor in what that grows by.
func TestCreateVolume_showsNothingOfOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		policy       v1alpha1.ZeroPolicy
		capabilities []*csi.VolumeCapability
		shows        bool
	}{
		"by default, raw":          {"", []*csi.VolumeCapability{raw()}, false},
		"by default, both":         {"", []*csi.VolumeCapability{mounted("ext4"), raw()}, false},
		"by default, a filesystem": {"", []*csi.VolumeCapability{mounted("ext4")}, true},
		"raw block devices, raw":   {v1alpha1.ZeroBlock, []*csi.VolumeCapability{raw()}, false},
		"always, a filesystem":     {v1alpha1.ZeroAlways, []*csi.VolumeCapability{mounted("ext4")}, false},
		"never, raw":               {v1alpha1.ZeroNever, []*csi.VolumeCapability{raw()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newZeroing(t, tt.policy)
			r := s.request("pvc-1")
			r.VolumeCapabilities = tt.capabilities
			id := s.create(r).GetVolumeId()
			if got := s.secret(); got != tt.shows {
				t.Errorf("a new volume shows what another wrote: %t", got)
			}
			grow := &csi.ControllerExpandVolumeRequest{
				VolumeId: id, VolumeCapability: tt.capabilities[0], CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib},
			}
			if _, err := s.ControllerExpandVolume(t.Context(), grow); err != nil {
				t.Fatal(err)
			}
			if got := s.secret(); got != tt.shows {
				t.Errorf("a volume that grew shows what another wrote: %t", got)
			}
			if left := s.agents["node-1"].Volumes(group); len(left) != 1 || left[0].Unzeroed {
				t.Errorf("left: %+v", left)
			}
		})
	}
}

// TestExpandVolume_callerSaysNothing: what a volume was made for is written on it, so a growing filesystem waits for no zeroes.
func TestExpandVolume_callerSaysNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		made  *csi.VolumeCapability
		shows bool
	}{"a filesystem": {mounted("ext4"), true}, "raw": {raw(), false}} {
		t.Run(name, func(t *testing.T) {
			s := newZeroing(t, v1alpha1.ZeroBlock)
			r := s.request("pvc-1")
			r.VolumeCapabilities = []*csi.VolumeCapability{tt.made}
			id := s.create(r).GetVolumeId()
			s.agents["node-1"].WriteVolume(group, volumeid.Name("pvc-1"), "mine")
			grow := &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}}
			if _, err := s.ControllerExpandVolume(t.Context(), grow); err != nil {
				t.Fatal(err)
			}
			if got := s.secret(); got != tt.shows {
				t.Errorf("what it grew by shows what another wrote: %t", got)
			}
		})
	}
}

// TestExpandVolume_ofBefore: a volume of which nobody recorded what it was made for grows by zeroes.
func TestExpandVolume_ofBefore(t *testing.T) {
	s := newZeroing(t, v1alpha1.ZeroNever)
	id := s.create(s.request("pvc-1")).GetVolumeId()
	a := s.agents["node-1"]
	a.WriteVolume(group, volumeid.Name("pvc-1"), "mine")
	s.cache.clusters[0].Spec.LVM.Zero = ""
	grow := &csi.ControllerExpandVolumeRequest{VolumeId: id, CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * gib}}
	if _, err := s.ControllerExpandVolume(t.Context(), grow); err != nil {
		t.Fatal(err)
	}
	if got := a.ReadVolume(group, volumeid.Name("pvc-1")); len(got) != 1 || got[0] != "mine" {
		t.Errorf("it reads %q", got)
	}
}

// TestCreateVolume_whileItIsZeroed is ABORTED: the sidecars ask again, for the same volume on the same node.
func TestCreateVolume_whileItIsZeroed(t *testing.T) {
	s := newZeroing(t, v1alpha1.ZeroBlock)
	s.agents["node-1"].FailAt(2, errors.New("a slow disk"))
	r := s.request("pvc-1")
	r.VolumeCapabilities = []*csi.VolumeCapability{raw()}
	_, err := s.CreateVolume(t.Context(), r)
	wantCode(t, err, codes.Aborted)
	if err == nil || !strings.Contains(err.Error(), "0 of 1073741824 bytes are zeroed") {
		t.Errorf("it says %v", err)
	}
	s.await("the report of it", func() bool {
		z := s.pool.Node("node-1").Groups[0].Zeroing
		return len(z) == 1 && z[0].Volume == volumeid.Name("pvc-1") && z[0].SizeBytes == gib
	})
	s.create(r)
	if s.secret() {
		t.Error("the volume shows what another wrote")
	}
	s.await("the end in the report", func() bool { return len(s.pool.Node("node-1").Groups[0].Zeroing) == 0 })
}

// TestDeleteVolume_discards: the Cluster says at the moment of the delete whether the disks are to forget the volume.
func TestDeleteVolume_discards(t *testing.T) {
	for _, discard := range []bool{false, true} {
		s := newZeroing(t, v1alpha1.ZeroNever)
		id := s.create(s.request("pvc-1")).GetVolumeId()
		s.agents["node-1"].WriteVolume(group, volumeid.Name("pvc-1"), "secret")
		s.cache.clusters[0].Spec.LVM.DiscardOnDelete = discard
		if err := s.remove(id); err != nil {
			t.Fatal(err)
		}
		s.create(s.request("pvc-1"))
		if got := s.secret(); got == discard {
			t.Errorf("discardOnDelete %t: the disk keeps what was there: %t", discard, got)
		}
	}
}
