package lvm_test

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

// restored is a Cluster that came back with another UID and does not list the node, as from an older backup. A volume and a snapshot of it
// are on the node.
type restored struct {
	*suite
	volume   *csi.Volume
	snapshot string
}

func newRestored(t *testing.T) *restored {
	t.Helper()
	s := &restored{suite: newSuite(t, true, "node-1")}
	s.volume = s.create(s.request("pvc-1"))
	made, err := s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: s.volume.GetVolumeId()})
	if err != nil {
		t.Fatal(err)
	}
	s.snapshot = made.GetSnapshot().GetSnapshotId()
	c := &s.cache.clusters[0]
	c.UID, c.Spec.Hosts = "another", []v1alpha1.HostName{"node-2"}
	s.cache.members = nil
	return s
}

// released adds the PersistentVolume of the volume, whose claim was deleted.
func (s *restored) released() {
	pv := bound("pv-1", s.volume)
	pv.Status.Phase = corev1.VolumeReleased
	s.cache.volumes = []corev1.PersistentVolume{pv}
}

// unplugged takes the disk out, so that nothing on the node tells of the group.
func (s *restored) unplugged() {
	s.t.Helper()
	s.agents["node-1"].Unplug("sdb")
	s.await("the group is gone", func() bool { return len(s.pool.Node("node-1").Groups) == 0 })
}

// unreadable adds a disk that may carry any group.
func (s *restored) unreadable() {
	s.t.Helper()
	a := s.agents["node-1"]
	a.AddDisks(diskBytes, "sdc")
	a.Corrupt("sdc", "content")
	s.await("the disk", func() bool {
		return len(s.pool.Node("node-1").Hiding) == 1 && len(s.pool.Node("node-1").Devices) == 0
	})
}

// forgotten takes the node away, as for a driver that starts later.
func (s *restored) forgotten() {
	s.t.Helper()
	s.pool.Forget("node-1")
	s.await("nothing is known of the node", func() bool {
		n := s.pool.Node("node-1")
		return n.Agent == decide.AgentMissing && len(n.Groups) == 0
	})
}

// TestDelete_afterRestore: the disk keeps its data while nobody sees it. To call that deleted would leave it there, and nothing would name
// it any more.
func TestDelete_afterRestore(t *testing.T) {
	const volumeOut = "set persistentVolumeReclaimPolicy of the PersistentVolume to Retain and delete that"
	for name, c := range map[string]struct {
		edit func(s *restored)
		want codes.Code
		// says is in the messages about the volume and the snapshot, and the other two are in one of them.
		says, volumeSays, snapshotSays string
	}{
		"the disks are there, with the tag of the earlier Cluster": {edit: func(s *restored) { s.released() }},
		"no agent runs on the node": {
			edit: func(s *restored) { s.released(); s.forgotten() }, want: codes.Unavailable,
			says: "node node-1 cannot be reached", snapshotSays: "set deletionPolicy of the VolumeSnapshotContent to Retain and delete that",
		},
		"no agent runs on the node, and nothing names the volume": {
			edit: func(s *restored) { s.forgotten() }, want: codes.Unavailable, says: "cannot be reached",
		},
		"no agent runs any more on the node that was seen": {
			edit: func(s *restored) {
				s.released()
				s.pool.Remove("node-1")
				s.await("no agent", func() bool { return s.pool.Node("node-1").Agent == decide.AgentMissing })
			}, want: codes.Unavailable, says: "cannot be reached",
		},
		"the disks are away, and the volume has a PersistentVolume": {
			edit: func(s *restored) {
				s.released()
				s.cache.contents = []unstructured.Unstructured{frametest.Content("content-1", v1alpha1.DriverLVM, s.snapshot, false)}
				s.unplugged()
			}, want: codes.Unavailable,
			says: "is not seen on node node-1 and its disks may be away, for it is named by ", volumeSays: "PersistentVolume pv-1; ", snapshotSays: "by VolumeSnapshotContent content-1; ",
		},
		"the disks are away, and a Member of the earlier Cluster has the group on record": {
			edit: func(s *restored) { s.cache.members = []v1alpha1.Member{memberOf("node-1", "G")}; s.unplugged() },
			want: codes.Unavailable, says: "named by Member pool.node-1; ",
		},
		"the disks are away, and a Member records a group without a name": {
			edit: func(s *restored) {
				m := memberOf("node-1", "G")
				m.Spec.Group.Name = ""
				s.cache.members = []v1alpha1.Member{m}
				s.unplugged()
			}, want: codes.Unavailable, says: "named by Member pool.node-1; ",
		},
		"nobody can say what another Member's group of that name holds": {
			edit: func(s *restored) { s.cache.members = []v1alpha1.Member{memberOf("node-2", "G")}; s.unplugged() },
			want: codes.Unavailable, says: "may be on node node-2, if its group was imported there",
		},
		"another disk does not answer": {
			edit: func(s *restored) { s.unplugged(); s.unreadable() }, want: codes.Unavailable, says: "a disk cannot be read",
		},
		"nothing speaks for the group": {edit: func(s *restored) {
			m := memberOf("node-2", "G")
			m.Spec.Group.Name = "other"
			s.cache.members = []v1alpha1.Member{m}
			s.cache.volumes = []corev1.PersistentVolume{bound("other", &csi.Volume{VolumeId: s.volume.GetVolumeId() + "x"})}
			s.unplugged()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRestored(t)
			c.edit(s)
			_, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: s.snapshot})
			checkRefusal(t, err, c.want, c.says)
			checkRefusal(t, err, c.want, c.snapshotSays)
			err = s.remove(s.volume.GetVolumeId())
			checkRefusal(t, err, c.want, c.says)
			checkRefusal(t, err, c.want, c.volumeSays)
			if c.want != codes.OK {
				checkRefusal(t, err, c.want, volumeOut)
			}
		})
	}
}

func checkRefusal(t *testing.T, err error, want codes.Code, says string) {
	t.Helper()
	wantCode(t, err, want)
	if err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("message is %v, want %q", err, says)
	}
}

// TestDeleteVolume_lostGroup: a person declared the Member of the group lost, and its PersistentVolume outlived that Member.
func TestDeleteVolume_lostGroup(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *restored)
		want codes.Code
	}{
		"the node is away":                 {func(s *restored) { s.forgotten() }, codes.OK},
		"the disks are away":               {func(s *restored) { s.unplugged() }, codes.OK},
		"it is another group that is lost": {func(s *restored) { s.cache.clusters[0].Status.LostGroups = []string{"x"}; s.unplugged() }, codes.Unavailable},
		"a second PersistentVolume records another group": {func(s *restored) {
			s.cache.volumes[0].Spec.CSI.VolumeAttributes = map[string]string{v1alpha1.AttributeGroupUUID: "x"}
			s.unplugged()
		}, codes.Unavailable},
		"the PersistentVolume records none": {func(s *restored) {
			s.cache.volumes[0].Spec.CSI.VolumeAttributes = nil
			s.unplugged()
		}, codes.Unavailable},
		"a disk does not answer": {func(s *restored) { s.unplugged(); s.unreadable() }, codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRestored(t)
			s.released()
			s.cache.clusters[0].Status.LostGroups = []string{s.volume.GetVolumeContext()[v1alpha1.AttributeGroupUUID]}
			c.edit(s)
			wantCode(t, s.remove(s.volume.GetVolumeId()), c.want)
		})
	}
}

// TestDeleteVolume_recordedInUse: the group that the PersistentVolume has on record is in use, and nobody looked into it: a person has renamed it, or the
// node in the handle has a volume of that handle in another group, which is somebody else's.
func TestDeleteVolume_recordedInUse(t *testing.T) {
	handle := "node-1/" + group + "/" + volumeid.Name("pvc-1")
	record := func(s *suite, uuid string) {
		s.recordIn("pv-1", handle, uuid)
		s.cache.volumes[0].Status.Phase = corev1.VolumeReleased
	}
	t.Run("it was renamed", func(t *testing.T) {
		s := newSuite(t, false, "node-1")
		s.agents["node-1"].AddDisks(diskBytes, "sdc")
		s.agents["node-1"].AddGroup("renamed", owner, "sdc")
		s.await("both groups are seen", func() bool { return len(s.pool.Node("node-1").Groups) == 2 })
		for _, g := range s.pool.Node("node-1").Groups {
			if g.Name == "renamed" {
				record(s, g.UUID)
			}
		}
		checkRefusal(t, s.remove(handle), codes.Unavailable, "is not the one that PersistentVolume pv-1 has on record")
	})
	t.Run("it is on another node", func(t *testing.T) {
		s := newSuite(t, false, "node-1", "node-2")
		s.create(s.request("pvc-1", "node-1"))
		s.await("the volume is seen", func() bool { return len(s.pool.Node("node-1").Groups[0].Volumes) == 1 })
		record(s, s.uuidOn("node-2"))
		checkRefusal(t, s.remove(handle), codes.Unavailable, "is not the one that PersistentVolume pv-1 has on record")
		if left := s.agents["node-1"].Volumes(group); len(left) != 1 {
			t.Errorf("volumes are %+v", left)
		}
	})
}

// TestDeleteVolume_recordedElsewhere: the disks of the recorded group are away, and another group of its name is there.
func TestDeleteVolume_recordedElsewhere(t *testing.T) {
	s := newSuite(t, false, "node-1")
	v := s.create(s.request("pvc-1"))
	pv := bound("pv-1", v)
	pv.Status.Phase, pv.Spec.CSI.VolumeAttributes = corev1.VolumeReleased, map[string]string{v1alpha1.AttributeGroupUUID: "X"}
	s.cache.volumes = []corev1.PersistentVolume{pv}
	checkRefusal(t, s.remove(v.GetVolumeId()), codes.Unavailable, "is not the one that PersistentVolume pv-1 has on record")
	if left := s.agents["node-1"].Volumes(group); len(left) != 1 {
		t.Fatalf("volumes are %+v", left)
	}
	s.cache.clusters[0].Status.LostGroups = []string{"X"}
	wantCode(t, s.remove(v.GetVolumeId()), codes.OK)
}

// TestDeleteVolume_givenUp: a volume whose recorded group was given up for the one that the node has counts as deleted, unless the group is back.
func TestDeleteVolume_givenUp(t *testing.T) {
	s := newSuite(t, false, "node-1")
	v := s.create(s.request("pvc-1"))
	handle := "node-1/" + group + "/" + volumeid.Name("pvc-2")
	s.recordIn("pv-2", handle, "X")
	s.cache.volumes[0].Status.Phase = corev1.VolumeReleased
	checkRefusal(t, s.remove(handle), codes.Unavailable, "is not the one that PersistentVolume pv-2 has on record")
	s.cache.members[0].Spec.Group.Earlier = []string{"Y"}
	wantCode(t, s.remove(handle), codes.Unavailable)
	s.cache.members[0].Spec.Group.Earlier = []string{"X"}
	wantCode(t, s.remove(handle), codes.OK)
	// The disks were copied: a volume of that name is in the group that was adopted, too, and may be the only copy.
	s.recordIn("pv-1", v.GetVolumeId(), "X")
	s.cache.volumes[len(s.cache.volumes)-1].Status.Phase = corev1.VolumeReleased
	checkRefusal(t, s.remove(v.GetVolumeId()), codes.Unavailable, "has a volume of the name")
	if left := s.agents["node-1"].Volumes(group); len(left) != 1 {
		t.Errorf("volumes are %+v, with %s", left, v.GetVolumeId())
	}
}

// TestDeleteVolume_givenUpForAGroupOfAnotherName: somebody renamed the group that was adopted, or the Cluster is gone by now. What was given up counts as
// deleted once the node says for sure that it is not there, and nothing of its name is.
func TestDeleteVolume_givenUpForAGroupOfAnotherName(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*suite)
		why  string
	}{
		"another name":    {func(*suite) {}, ""},
		"no Cluster":      {func(s *suite) { s.cache.clusters = nil }, ""},
		"not given up":    {func(s *suite) { s.cache.members[0].Spec.Group.Earlier = []string{"Y"} }, "its disks may be away"},
		"on another node": {func(s *suite) { s.cache.members[0].Spec.Node = "node-2" }, "is not seen on node node-1"},
		"its record is of another group": {func(s *suite) {
			s.cache.volumes[0].Spec.CSI.VolumeAttributes = map[string]string{v1alpha1.AttributeGroupUUID: "Z"}
		}, "its disks may be away"},
		"its record names no group": {func(s *suite) { s.cache.volumes[0].Spec.CSI.VolumeAttributes = nil }, "its disks may be away"},
		"the node has a volume of the name": {func(s *suite) {
			name := volumeid.Name("pvc-2")
			spec := decide.VolumeSpec{Group: "renamed", Owner: owner, Name: name, ID: "node-1/renamed/" + name, SizeBytes: gib}
			if _, err := s.pool.CreateVolume(s.t.Context(), "node-1", spec); err != nil {
				s.t.Fatal(err)
			}
			s.await("the volume", func() bool { return len(s.pool.Node("node-1").Groups[0].Volumes) == 1 })
		}, "volume group renamed on node node-1 has a volume of the name"},
		"a disk cannot be read": {func(s *suite) {
			s.agents["node-1"].AddDisks(diskBytes, "sdc")
			s.agents["node-1"].Corrupt("sdc", "content")
			s.await("the disk", func() bool { return len(s.pool.Node("node-1").Hiding) > 0 })
		}, "its disks may be away"},
		"the node is silent": {func(s *suite) {
			s.agents["node-1"].Kill()
			s.await("silence", func() bool { return !s.pool.Node("node-1").Up() })
		}, "node-1"},
		"the node is silent, and there is no Cluster": {func(s *suite) {
			s.cache.clusters = nil
			s.agents["node-1"].Kill()
			s.await("silence", func() bool { return s.pool.Node("node-1").Agent == decide.AgentUnreachable })
		}, "node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, false, "node-1")
			handle := "node-1/" + group + "/" + volumeid.Name("pvc-2")
			s.agents["node-1"].DropGroup(group)
			s.agents["node-1"].AddGroup("renamed", owner, "sdb")
			s.await("the renamed group", func() bool { g := s.pool.Node("node-1").Groups; return len(g) == 1 && g[0].Name == "renamed" })
			s.cache.members[0].Spec.Group = &v1alpha1.MemberGroup{UUID: s.pool.Node("node-1").Groups[0].UUID, Name: "renamed", Earlier: []string{"X"}}
			s.recordIn("pv-2", handle, "X")
			s.cache.volumes[0].Status.Phase = corev1.VolumeReleased
			c.edit(s)
			before := s.steps()
			if c.why == "" {
				wantCode(t, s.remove(handle), codes.OK)
			} else {
				checkRefusal(t, s.remove(handle), codes.Unavailable, c.why)
			}
			if n := s.steps() - before; n != 0 {
				t.Errorf("%d changes", n)
			}
		})
	}
}
