package iscsi_test

import (
	"context"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/pkg/sharedlun"
)

// mounted is a filesystem of a type, on one node.
func mounted(fsType string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType}},
	}
}

func (s *suite) publishAs(id, node string, want *csi.VolumeCapability) error {
	_, err := s.ControllerPublishVolume(s.t.Context(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: node, VolumeCapability: want})
	return err
}

// TestFirstUse: a filesystem is made once in the life of a volume, before its first attachment is done, and never on one that a pod may have seen.
func TestFirstUse(t *testing.T) {
	type attempt struct {
		node string
		want *csi.VolumeCapability
		code codes.Code
	}
	killed := func(s *suite, _ string) { s.nodes["n1"].KillFormat() }
	lost := func(s *suite, name string) { s.lun.Lose(name) }
	for name, c := range map[string]struct {
		first   attempt
		between func(s *suite, name string)
		second  attempt
		has     string
	}{
		"twice":                          {attempt{"n1", mounted("xfs"), codes.OK}, nil, attempt{"n2", mounted("ext4"), codes.OK}, "xfs"},
		"no type is asked for":           {attempt{"n1", mounted(""), codes.OK}, nil, attempt{"n1", mounted(""), codes.OK}, "ext4"},
		"a raw device":                   {attempt{"n1", access(), codes.OK}, nil, attempt{"n2", access(), codes.OK}, ""},
		"a raw device of before":         {attempt{"n1", access(), codes.OK}, nil, attempt{"n2", mounted("xfs"), codes.OK}, ""},
		"it was used, and looks empty":   {attempt{"n1", mounted("xfs"), codes.OK}, lost, attempt{"n2", mounted("xfs"), codes.OK}, ""},
		"one that another node began":    {attempt{"n1", mounted("xfs"), codes.Unavailable}, nil, attempt{"n2", mounted("ext4"), codes.OK}, "ext4"},
		"one that was begun on the node": {attempt{"n1", mounted("xfs"), codes.Unavailable}, nil, attempt{"n1", mounted("xfs"), codes.OK}, "xfs"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			id, volume := s.create("pvc-1", 8*mib).GetVolumeId(), sharedlun.Name("pvc-1")
			if c.first.code != codes.OK {
				killed(s, volume)
			}
			wantCode(t, s.publishAs(id, c.first.node, c.first.want), c.first.code)
			if v := s.volume(volume); v.Used != (c.first.code == codes.OK) || v.Used == (v.MakingOn != "") {
				t.Errorf("%+v", v)
			}
			if err := s.unpublish(id, c.first.node); err != nil {
				t.Fatal(err)
			}
			if c.between != nil {
				c.between(s, volume)
			}
			wantCode(t, s.publishAs(id, c.second.node, c.second.want), c.second.code)
			if got := s.lun.Filesystem(volume); got != c.has || !s.volume(volume).Used {
				t.Errorf("it has %q, want %q: %+v", got, c.has, s.volume(volume))
			}
			if damage := s.lun.Damage(); damage != "" {
				t.Error(damage)
			}
		})
	}
}

// TestFirstUse_rawWhileMaking: a raw device is shown to nobody while a program makes a filesystem on it. Once the volume was detached none does.
func TestFirstUse_rawWhileMaking(t *testing.T) {
	s := newSuite(t)
	id, volume := s.create("pvc-1", 8*mib).GetVolumeId(), sharedlun.Name("pvc-1")
	release := s.nodes["n2"].DelayZeroing()
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 15500*time.Millisecond)
	defer cancel()
	_, err := s.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n2", VolumeCapability: mounted("xfs")})
	wantCode(t, err, codes.Aborted)
	making := func() bool {
		is, err := s.nodes["n2"].Making(t.Context(), s.ref, s.volume(volume).UUID)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if !making() {
		t.Fatal("no program makes a filesystem")
	}
	wantCode(t, s.publishAs(id, "n2", access()), codes.FailedPrecondition)
	if v := s.volume(volume); v.Used || v.MakingOn != "n2" {
		t.Errorf("%+v", v)
	}
	if err := s.unpublish(id, "n2"); err != nil {
		t.Fatal(err)
	}
	if making() {
		t.Error("the making goes on")
	}
	wantCode(t, s.publishAs(id, "n2", access()), codes.OK)
	if v := s.volume(volume); !v.Used || v.MakingOn != "" || s.lun.Filesystem(volume) != "" {
		t.Errorf("%+v has %q", v, s.lun.Filesystem(volume))
	}
}
