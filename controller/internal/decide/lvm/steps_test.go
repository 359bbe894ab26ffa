package lvm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
)

func device(name string) decide.Device {
	return decide.Device{Path: "/dev/disk/by-id/" + name, KernelName: name, SizeBytes: 1 << 30, Serial: "S" + name, Digest: "D" + name, Since: start}
}

func dirty(name string) decide.Device {
	d := device(name)
	d.Wipeable, d.Refusals = true, []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "carries ext4"}}
	return d
}

// orphan carries a physical volume that an interrupted call for the Cluster has made.
func orphan(name string) decide.Device {
	d := device(name)
	d.PVUUID = pvuuid.Stem("uid", pvuuid.Disk{Serial: d.Serial, SizeBytes: d.SizeBytes}, d.Path) + "AA-BBBB-BBBBBB"
	d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalLVM, Message: "carries a physical volume"}}
	return d
}

func workOf(edit func(*work)) work {
	w := work{node: "n1", owner: "uid", name: "quarry-a"}
	edit(&w)
	return w
}

// show writes steps as a log.
func show(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s %s %s", s.Node, s.Does, s.Group)
		for _, d := range s.Devices {
			b.WriteString(" " + d.KernelName)
		}
		fmt.Fprintf(&b, ": %s\n", s.Reason)
	}
	return b.String()
}

func TestWork_grow(t *testing.T) {
	owned := []decide.Group{{Name: "quarry-a", OwnerUID: "uid", PVs: []decide.PV{{Path: "/dev/disk/by-id/sda", UUID: "u"}}}}
	for name, c := range map[string]struct {
		work work
		want string
	}{
		"nothing chosen, nothing done": {workOf(func(*work) {}), ""},
		"clean devices make the group in one step": {
			workOf(func(w *work) { w.choice = disk.Choice{Take: []decide.Device{device("sda"), device("sdb")}} }),
			"n1 EnsureVolumeGroup quarry-a sda sdb: The spec chooses these 2 devices for the new volume group.\n",
		},
		"wiped devices are taken one by one": {
			workOf(func(w *work) {
				w.groups = owned
				w.choice = disk.Choice{Take: []decide.Device{device("sdb")}, Wipe: []decide.Device{dirty("sdc"), dirty("sdd")}}
			}),
			"n1 EnsureVolumeGroup quarry-a sdb: The spec chooses this device to extend the volume group.\n" +
				"n1 WipeDevice  sdc: It is listed under devices.wipe and not clean: carries ext4 (Filesystem).\n" +
				"n1 EnsureVolumeGroup quarry-a sdc: The spec chooses this device to extend the volume group.\n" +
				"n1 WipeDevice  sdd: It is listed under devices.wipe and not clean: carries ext4 (Filesystem).\n" +
				"n1 EnsureVolumeGroup quarry-a sdd: The spec chooses this device to extend the volume group.\n",
		},
		"released devices leave one by one": {
			workOf(func(w *work) { w.groups = owned; w.choice = disk.Choice{Release: []decide.Device{device("sda")}} }),
			"n1 ReduceVolumeGroup quarry-a sda: devices.paths does not list this device any more, and nothing is stored there.\n",
		},
		"a group that lacks a disk is not changed": {
			workOf(func(w *work) {
				w.groups = []decide.Group{{Name: "quarry-a", Partial: true}}
				w.choice = disk.Choice{Take: []decide.Device{device("sda")}}
			}), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(c.work.grow())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestWork_remove(t *testing.T) {
	owned := []decide.PV{{Path: "/dev/disk/by-id/sda", UUID: "u"}}
	for name, c := range map[string]struct {
		work work
		want string
	}{
		"a teardown removes every group that carries the tag, under the name that it has": {
			workOf(func(w *work) {
				w.groups = []decide.Group{{Name: "renamed", PVs: owned}, {Name: "other"}}
				w.devices = []decide.Device{device("sda"), device("sdz")}
			}),
			"n1 RemoveVolumeGroup renamed sda: The host holds no volumes and is not used by the Cluster any more.\n" +
				"n1 RemoveVolumeGroup other: The host holds no volumes and is not used by the Cluster any more.\n",
		},
		"a teardown removes a group that lacks a disk, and says what it leaves behind": {
			workOf(func(w *work) {
				w.groups = []decide.Group{{
					Name: "quarry-a", Partial: true, PVs: append(owned, decide.PV{UUID: "gone", SizeBytes: 1 << 30}),
				}}
				w.devices = []decide.Device{device("sda")}
			}),
			"n1 RemoveVolumeGroup quarry-a sda: The host holds no volumes and is not used by the Cluster any more. " +
				"What is missing of the group is left behind as it is: physical volume gone (1Gi).\n",
		},
		"a teardown clears what an interrupted call has left behind, recorded or not": {
			workOf(func(w *work) { w.devices = []decide.Device{orphan("sdb"), device("sda")} }),
			"n1 RemoveVolumeGroup quarry-a sdb: The host holds no volumes and is not used by the Cluster any more.\n",
		},
		"a teardown leaves the disks of others alone": {
			workOf(func(w *work) {
				w.devices = []decide.Device{{Path: "/dev/disk/by-id/sda", PVUUID: "foreign", Digest: "D"}, dirty("sdb")}
			}), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(c.work.remove())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// wipeAndTake are the steps of host n1 with one clean disk and two to wipe.
func wipeAndTake() []Step {
	return workOf(func(w *work) {
		w.choice = disk.Choice{Take: []decide.Device{device("sda")}, Wipe: []decide.Device{dirty("sdb"), dirty("sdc")}}
	}).grow()
}

func TestDigest_tellsWhatMatters(t *testing.T) {
	wipe := wipeAndTake()[1]
	change := func(edit func(*Step)) string {
		s := wipe
		s.Devices = append([]decide.Device{}, wipe.Devices...)
		edit(&s)
		return s.Digest()
	}
	for name, edit := range map[string]func(*Step){
		"another disk at the same path":    func(s *Step) { s.Devices[0].Serial = "other" },
		"other content on the same disk":   func(s *Step) { s.Devices[0].Digest = "other" },
		"another size":                     func(s *Step) { s.Devices[0].SizeBytes++ },
		"another path":                     func(s *Step) { s.Devices[0].Path += "x" },
		"another host":                     func(s *Step) { s.Node = "n2" },
		"another Cluster":                  func(s *Step) { s.Owner = "other" },
		"another action on the same disks": func(s *Step) { s.Does = v1alpha1.ActionReduceVolumeGroup },
	} {
		if change(edit) == wipe.Digest() {
			t.Errorf("%s has the same digest", name)
		}
	}
	if change(func(s *Step) { s.Reason, s.Devices[0].KernelName = "other words", "sdq" }) != wipe.Digest() {
		t.Error("words and names of the kernel change the digest")
	}
	ensure := wipeAndTake()[2]
	before := ensure.Digest()
	ensure.Devices = []decide.Device{device("sdb")}
	ensure.Devices[0].Digest = "wiped"
	if ensure.Digest() != before {
		t.Error("taking a device is another step once it was wiped")
	}
}

func TestStep_isShownAsItIs(t *testing.T) {
	s := wipeAndTake()[1]
	want := v1alpha1.PlanStep{
		Host: "n1", Action: v1alpha1.ActionWipeDevice, Devices: []string{"/dev/disk/by-id/sdb (Ssdb, 1Gi)"}, Digest: s.Digest(),
		Reason: "It is listed under devices.wipe and not clean: carries ext4 (Filesystem).",
	}
	if d := cmp.Diff(want, s.API()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if s.Host() != "n1" || s.Via() != "" || s.Action() != v1alpha1.ActionWipeDevice || !s.Destroys() || s.Later() {
		t.Errorf("%+v", s)
	}
	pool := Step{ThinPool: &decide.ThinPoolSpec{Name: "p", Percent: 90}}
	if got := pool.API().ThinPool; got != "p (90 % of the group)" {
		t.Error(got)
	}
	if pool.ThinPool.SizeBytes = 1 << 30; pool.API().ThinPool != "p (1Gi)" || pool.Destroys() {
		t.Errorf("%+v", pool.API())
	}
}

func TestStep_digestIsThatOfEarlierVersions(t *testing.T) {
	// Approvals were given for this value: it never changes.
	if got := wipeAndTake()[1].Digest(); got != "d45b4d75f62c2f7e88709e812be4cb5b" {
		t.Error(got)
	}
}

func TestFailureReason(t *testing.T) {
	for _, c := range []struct {
		action string
		kind   decide.FaultKind
		want   string
	}{
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultConflict, v1alpha1.ReasonVolumeGroupConflict},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultPrecondition, v1alpha1.ReasonDeviceRefused},
		{v1alpha1.ActionRemoveVolumeGroup, decide.FaultPrecondition, v1alpha1.ReasonVolumesExist},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultNotFound, v1alpha1.ReasonDeviceNotFound},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultUnavailable, v1alpha1.ReasonAgentUnreachable},
		{v1alpha1.ActionEnsureVolumeGroup, decide.FaultNoRoom, v1alpha1.ReasonNoRoom},
		{v1alpha1.ActionEnsureThinPool, decide.FaultConflict, v1alpha1.ReasonThinPoolConflict},
		{v1alpha1.ActionEnsureThinPool, decide.FaultPrecondition, v1alpha1.ReasonStepFailed},
		{v1alpha1.ActionEnsureThinPool, decide.FaultUnavailable, v1alpha1.ReasonAgentUnreachable},
		{v1alpha1.ActionWipeDevice, decide.FaultInternal, v1alpha1.ReasonStepFailed},
	} {
		if got := FailureReason(c.action, c.kind); got != c.want {
			t.Errorf("%s, %d: %s, want %s", c.action, c.kind, got, c.want)
		}
	}
	for kind, want := range map[decide.FaultKind]bool{
		decide.FaultPrecondition: true, decide.FaultNotFound: true, decide.FaultBusy: true, decide.FaultUnavailable: true,
		decide.FaultInternal: false, decide.FaultConflict: false, decide.FaultNoRoom: false, decide.FaultDenied: false,
	} {
		if Passing(kind) != want {
			t.Errorf("Passing(%d) is not %t", kind, want)
		}
	}
}

// TestStep_digestHasTheGroup: an approval is for the group that was shown, and for no other of its name. Steps that make or grow a group are the
// same before it exists and afterwards. The agent is told the UUID wherever there is one.
func TestStep_digestHasTheGroup(t *testing.T) {
	for _, action := range []string{
		v1alpha1.ActionReduceVolumeGroup, v1alpha1.ActionRemoveVolumeGroup, v1alpha1.ActionForgetMissingDevice, v1alpha1.ActionMoveExtents,
		v1alpha1.ActionRepairThinPool, v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool,
	} {
		of := func(uuid string) Step {
			w := workOf(func(w *work) { w.groups = []decide.Group{{Name: "quarry-a", UUID: uuid}} })
			return w.step(action, w.group(), []decide.Device{device("sdb")}, "")
		}
		one, other := of("u1"), of("u2")
		makes := action == v1alpha1.ActionEnsureVolumeGroup || action == v1alpha1.ActionEnsureThinPool
		if same := one.Digest() == other.Digest(); same != makes || one.Ref() != (decide.GroupRef{Name: "quarry-a", Owner: "uid", UUID: "u1"}) {
			t.Errorf("%s: the same is %t; %+v", action, same, one.Ref())
		}
	}
	two := workOf(func(w *work) {
		w.groups = []decide.Group{{Name: "quarry-a", UUID: "u1"}, {Name: "quarry-a", UUID: "u2"}}
	}).remove()
	if len(two) != 2 || two[0].UUID != "u1" || two[1].UUID != "u2" {
		t.Errorf("removes %+v", two)
	}
	// What is left of a group that is removed but for its marks on devices is the same step.
	left := workOf(func(w *work) { w.recorded, w.devices = "u1", []decide.Device{orphan("sdb")} }).remove()
	if len(left) != 1 || left[0].Digest() != two[0].Digest() {
		t.Errorf("what is left: %+v", left)
	}
}
