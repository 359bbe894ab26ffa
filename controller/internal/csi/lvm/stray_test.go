package lvm_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/csi/lvm"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/volumeid"
)

const claimed = "pvc-00000000-0000-4000-9000-000000000001"

func handleOn(node string) string {
	return volumeid.ID{Node: node, Group: group, Name: claimed}.String()
}

// uuidOn is the UUID of the group of a node.
func (s *suite) uuidOn(node string) string { return s.pool.Node(node).Groups[0].UUID }

// record makes the PersistentVolume of a handle, with the group of its node.
func (s *suite) record(name, handle string) {
	id, err := volumeid.Parse(handle)
	if err != nil {
		s.t.Fatal(err)
	}
	s.recordIn(name, handle, s.uuidOn(id.Node))
}

// recordIn makes the PersistentVolume of a handle, with a group; without one if that is empty.
func (s *suite) recordIn(name, handle, uuid string) {
	s.cache.volumes = append(s.cache.volumes, corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: handle, VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: uuid}},
		}},
	})
}

// loseAnswer lets node-1 make the volume of the claim, and die before it says so.
func (s *suite) loseAnswer() {
	s.t.Helper()
	a := s.agents["node-1"]
	a.CrashAfter(1)
	_, err := s.CreateVolume(s.t.Context(), s.request(claimed, "node-1"))
	wantCode(s.t, err, codes.Unavailable)
	s.await("node-1 is silent", func() bool { return !s.pool.Node("node-1").Up() })
	if len(a.Volumes(group)) != 1 {
		s.t.Fatalf("volumes are %+v", a.Volumes(group))
	}
}

// comeBack lets node-1 serve again.
func (s *suite) comeBack() {
	s.t.Helper()
	s.agents["node-1"].Restart(s.t)
	s.await("node-1 tells of the volume", func() bool {
		n := s.pool.Node("node-1")
		return n.Up() && slices.Contains(n.Groups[0].Volumes, claimed)
	})
}

func (s *suite) backend() *lvm.Backend {
	return &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: s.pool}
}

// sweep expects that these handles are removed.
func (s *suite) sweep(b *lvm.Backend, want ...string) {
	s.t.Helper()
	if got, err := b.Sweep(s.t.Context()); err != nil || !slices.Equal(got, want) {
		s.t.Errorf("removed %v, %v, want %v", got, err, want)
	}
}

// TestLostAnswer: the volume was made, and its node fell silent before it said so. The claim keeps its node until the node says what is there.
func TestLostAnswer(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	s.loseAnswer()
	_, err := s.CreateVolume(t.Context(), s.request(claimed, "node-1"))
	wantCode(t, err, codes.Unavailable)
	s.cache.clusters[0].DeletionTimestamp = new(metav1.Now())
	_, err = s.CreateVolume(t.Context(), s.request(claimed, "node-1"))
	wantCode(t, err, codes.Unavailable)
	s.cache.clusters[0].DeletionTimestamp = nil
	s.comeBack()
	if got := s.create(s.request(claimed, "node-1")).GetVolumeId(); got != handleOn("node-1") {
		t.Errorf("made %s", got)
	}
	if n := len(s.agents["node-1"].Volumes(group)); n != 1 {
		t.Errorf("%d volumes", n)
	}
}

// TestLostAnswer_elsewhere: the Node was deleted, or a person sent the claim to another node. It is served there, and what the first node still
// has of it goes once a PersistentVolume says that the claim has its volume.
func TestLostAnswer_elsewhere(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	s.loseAnswer()
	s.comeBack()
	if got := s.create(s.request(claimed, "node-2")).GetVolumeId(); got != handleOn("node-2") {
		t.Fatalf("made %s", got)
	}
	s.sweep(s.backend())
	if got := s.create(s.request(claimed, "node-2")).GetVolumeId(); got != handleOn("node-2") {
		t.Errorf("again made %s", got)
	}
	s.record(claimed, handleOn("node-2"))
	s.sweep(s.backend(), handleOn("node-1"))
	s.sweep(s.backend())
	if a, b := s.agents["node-1"].Volumes(group), s.agents["node-2"].Volumes(group); len(a) != 0 || len(b) != 1 {
		t.Errorf("left are %+v and %+v", a, b)
	}
}

// TestLostAnswer_silent: a node was last seen with the volume, and nobody can ask it whether that was used. The claim waits.
func TestLostAnswer_silent(t *testing.T) {
	s := newSuite(t, false, "node-1", "node-2")
	s.create(s.request(claimed, "node-1"))
	s.agents["node-1"].Kill()
	s.await("node-1 is silent", func() bool { return !s.pool.Node("node-1").Up() })
	_, err := s.CreateVolume(t.Context(), s.request(claimed, "node-2"))
	wantCode(t, err, codes.Unavailable)
	s.record(claimed, handleOn("node-2"))
	s.sweep(s.backend())
}

// TestStray_neverWhatIsUsed: a volume that somebody may have used, or that a PersistentVolume names, is no stray.
func TestStray_neverWhatIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *suite) *lvm.Backend
		// conflict says that the claim is not served elsewhere either.
		conflict bool
	}{
		"it was used": {func(s *suite) *lvm.Backend {
			s.agents["node-1"].UseVolume(group, claimed)
			return s.backend()
		}, true},
		"it is open": {func(s *suite) *lvm.Backend {
			s.agents["node-1"].OpenVolume(group, claimed)
			return s.backend()
		}, true},
		"a PersistentVolume names it": {func(s *suite) *lvm.Backend {
			s.record("mine", handleOn("node-1"))
			return s.backend()
		}, true},
		"one names it that the cache does not have yet": {func(s *suite) *lvm.Backend {
			behind := &cache{clusters: s.cache.clusters, members: s.cache.members, volumes: slices.Clone(s.cache.volumes)}
			s.record("mine", handleOn("node-1"))
			return &lvm.Backend{Reader: behind, Live: s.cache, Agents: s.pool}
		}, true},
		"the agent is older and does not say": {func(s *suite) *lvm.Backend {
			return &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: older{s.pool}}
		}, false},
		"somebody wrote on it, and older metadata calls it new": {func(s *suite) *lvm.Backend {
			s.agents["node-1"].FormatVolume(group, claimed, "ext4")
			return s.backend()
		}, false},
		"it is used between the question and the command": {func(s *suite) *lvm.Backend {
			return &lvm.Backend{Reader: s.cache, Live: s.cache, Agents: racing{s.pool, func() { s.agents["node-1"].UseVolume(group, claimed) }}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, false, "node-1", "node-2")
			s.twice()
			s.record(claimed, handleOn("node-2"))
			b := c.edit(s)
			if removed, _ := b.Sweep(t.Context()); len(removed) > 0 {
				t.Errorf("removed %v", removed)
			}
			if c.conflict {
				wantCode(t, s.remove(handleOn("node-2")), codes.OK)
				s.await("it is gone", func() bool { return len(s.pool.Node("node-2").Groups[0].Volumes) == 0 })
				_, err := s.CreateVolume(t.Context(), s.request(claimed, "node-2"))
				wantCode(t, err, codes.AlreadyExists)
			}
			if n := len(s.agents["node-1"].Volumes(group)); n != 1 {
				t.Errorf("%d volumes are left", n)
			}
		})
	}
}

// twice makes the volume of the claim on two nodes.
func (s *suite) twice() {
	s.t.Helper()
	s.create(s.request(claimed, "node-1"))
	s.create(s.request(claimed, "node-2"))
	s.await("both are told of", func() bool {
		has := func(node string) bool { return slices.Contains(s.pool.Node(node).Groups[0].Volumes, claimed) }
		return has("node-1") && has("node-2")
	})
}

// TestStray_movedVolume: a volume moved along with its group, and has the handle of its new node. Its PersistentVolume still has the earlier one, as
// in the midst of the recipe, and as when etcd came back from a backup.
func TestStray_movedVolume(t *testing.T) {
	for name, edit := range map[string]func(s *suite){
		"the PersistentVolume records this very group": func(s *suite) { s.recordIn(claimed, handleOn("node-2"), s.uuidOn("node-1")) },
		"it records no group":                          func(s *suite) { s.recordIn(claimed, handleOn("node-2"), "") },
		"it records one that nobody sees":              func(s *suite) { s.recordIn(claimed, handleOn("node-2"), "X") },
		"a second one records this group": func(s *suite) {
			s.record(claimed, handleOn("node-2"))
			s.recordIn("second", handleOn("node-2"), s.uuidOn("node-1"))
		},
		"the node of the PersistentVolume does not have it": func(s *suite) {
			s.record(claimed, handleOn("node-2"))
			wantCode(s.t, s.remove(handleOn("node-2")), codes.OK)
			s.await("it is gone", func() bool { return len(s.pool.Node("node-2").Groups[0].Volumes) == 0 })
		},
		"the node of the PersistentVolume is silent": func(s *suite) {
			s.record(claimed, handleOn("node-2"))
			s.agents["node-2"].Kill()
			s.await("node-2 is silent", func() bool { return !s.pool.Node("node-2").Up() })
		},
		"no Member has the group on record": func(s *suite) {
			s.record(claimed, handleOn("node-2"))
			s.cache.members[0].Spec.Group.UUID = "X"
		},
		"its Member goes": func(s *suite) {
			s.record(claimed, handleOn("node-2"))
			s.cache.members[0].DeletionTimestamp = new(metav1.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, false, "node-1", "node-2")
			s.twice()
			edit(s)
			s.sweep(s.backend())
			if left := s.agents["node-1"].Volumes(group); len(left) != 1 {
				t.Errorf("left are %+v", left)
			}
		})
	}
}

// older is an agent of before unused volumes were told.
type older struct{ lvm.Agents }

// ListVolumes tells of no unused one.
func (o older) ListVolumes(ctx context.Context, node, group string) ([]decide.Volume, []decide.ThinPool, error) {
	all, pools, err := o.Agents.ListVolumes(ctx, node, group)
	for i := range all {
		all[i].Unused = false
	}
	return all, pools, err
}

// racing lets something happen right before a removal.
type racing struct {
	lvm.Agents
	before func()
}

// DeleteVolume comes second.
func (r racing) DeleteVolume(ctx context.Context, node string, v decide.VolumeSpec) error {
	r.before()
	return r.Agents.DeleteVolume(ctx, node, v)
}
