package iscsi_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/sharedlun"
)

// TestOlderGroup: a target that answers from a backup, under the same WWID and serial number, shows a group which lacks the volumes that were made since. What such a volume lies on is free there, and
// its pod writes to it. Nothing is made, grown, given away or told of such a group until a person took the record away.
func TestOlderGroup(t *testing.T) {
	s := newSuite(t)
	first := s.create("a", 8*mib)
	before := s.lun.Group()
	since := s.create("b", 8*mib)
	if _, err := s.publish(since.GetVolumeId(), "n2"); err != nil {
		t.Fatal(err)
	}
	writes := s.mapped(s.volume(sharedlun.Name("b")).UUID)["n2"].Ranges
	s.lun.Restore(before)
	for what, do := range map[string]func() error{
		"make a volume": func() error {
			_, err := s.CreateVolume(t.Context(), s.request("c", 8*mib))
			return err
		},
		"grow one": func() error {
			_, err := s.expand(first.GetVolumeId(), 16*mib)
			return err
		},
		"attach one": func() error {
			_, err := s.publish(first.GetVolumeId(), "n1")
			return err
		},
		"detach one that it lacks": func() error { return s.unpublish(since.GetVolumeId(), "n2") },
		"remove one":               func() error { return s.remove(first.GetVolumeId()) },
		"look for one that it lacks": func() error {
			_, err := s.ControllerGetVolume(t.Context(), &csi.ControllerGetVolumeRequest{VolumeId: since.GetVolumeId()})
			return err
		},
		"list them": func() error {
			_, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
			return err
		},
	} {
		err := do()
		wantCode(t, err, codes.Unavailable)
		if err == nil || !strings.Contains(err.Error(), "older") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, v := range s.lun.Group().Volumes {
		for _, has := range v.Ranges {
			for _, w := range writes {
				if w.Start < has.Start+has.Size && has.Start < w.Start+w.Size {
					t.Errorf("volume %s lies where a pod on n2 writes to volume b: %+v", v.Name, has)
				}
			}
		}
	}
	// Whoever takes the record away has seen to it that no node has anything of it mapped.
	s.leases.forget(owner)
	if _, err := s.CreateVolume(t.Context(), s.request("c", 8*mib)); err != nil {
		t.Error(err)
	}
}
