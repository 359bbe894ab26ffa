package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func disk(name string) decide.Device {
	return decide.Device{Path: "/dev/disk/by-id/" + name, KernelName: name, SizeBytes: 1 << 30, Serial: "S" + name, Digest: "D" + name}
}

func dirty(name string) decide.Device {
	d := disk(name)
	d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "carries ext4"}}
	return d
}

func hostOf(name string, edit func(*Host)) Host {
	h := Host{Name: name, Owner: "uid", GroupName: "quarry-a", Node: decide.Node{Name: name, Agent: decide.AgentUp}}
	edit(&h)
	return h
}

// show writes steps as a log.
func show(steps []decide.Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "%s %s %s", s.Host, s.Action, s.Group)
		for _, d := range s.Devices {
			b.WriteString(" " + d.KernelName)
		}
		fmt.Fprintf(&b, ": %s\n", s.Reason)
	}
	return b.String()
}

func TestSteps(t *testing.T) {
	owned := []decide.Group{{Name: "quarry-a", OwnerUID: "uid", PVs: []decide.PV{{Path: "/dev/disk/by-id/sda", UUID: "u"}}}}
	for name, c := range map[string]struct {
		host Host
		want string
	}{
		"nothing chosen, nothing done": {hostOf("n1", func(*Host) {}), ""},
		"clean devices make the group in one step": {
			hostOf("n1", func(h *Host) { h.Choice = device.Choice{Take: []decide.Device{disk("sda"), disk("sdb")}} }),
			"n1 EnsureVolumeGroup quarry-a sda sdb: The spec chooses these 2 devices for the new volume group.\n",
		},
		"wiped devices are taken one by one": {
			hostOf("n1", func(h *Host) {
				h.Groups = owned
				h.Choice = device.Choice{Take: []decide.Device{disk("sdb")}, Wipe: []decide.Device{dirty("sdc"), dirty("sdd")}}
			}),
			"n1 EnsureVolumeGroup quarry-a sdb: The spec chooses this device to extend the volume group.\n" +
				"n1 WipeDevice  sdc: It is listed under devices.wipe and not clean: carries ext4 (Filesystem).\n" +
				"n1 EnsureVolumeGroup quarry-a sdc: The spec chooses this device to extend the volume group.\n" +
				"n1 WipeDevice  sdd: It is listed under devices.wipe and not clean: carries ext4 (Filesystem).\n" +
				"n1 EnsureVolumeGroup quarry-a sdd: The spec chooses this device to extend the volume group.\n",
		},
		"released devices leave one by one": {
			hostOf("n1", func(h *Host) { h.Groups = owned; h.Choice = device.Choice{Release: []decide.Device{disk("sda")}} }),
			"n1 ReduceVolumeGroup quarry-a sda: devices.paths does not list this device any more, and nothing is stored there.\n",
		},
		"an agent that is away gets no steps": {
			hostOf("n1", func(h *Host) {
				h.Node.Agent = decide.AgentUnreachable
				h.Choice = device.Choice{Take: []decide.Device{disk("sda")}}
			}), "",
		},
		"a group that lacks a disk is not changed": {
			hostOf("n1", func(h *Host) {
				h.Groups = []decide.Group{{Name: "quarry-a", Partial: true}}
				h.Choice = device.Choice{Take: []decide.Device{disk("sda")}}
			}), "",
		},
		"a teardown removes every group that carries the tag, under the name that it has": {
			hostOf("n1", func(h *Host) {
				h.Teardown = true
				h.Groups = []decide.Group{{Name: "renamed", PVs: owned[0].PVs}, {Name: "other"}}
				h.Node.Devices = []decide.Device{disk("sda"), disk("sdz")}
			}),
			"n1 RemoveVolumeGroup renamed sda: The host holds no volumes and is not used by the Cluster any more.\n" +
				"n1 RemoveVolumeGroup other: The host holds no volumes and is not used by the Cluster any more.\n",
		},
		"a teardown removes a group that lacks a disk, and says what it leaves behind": {
			hostOf("n1", func(h *Host) {
				h.Teardown = true
				h.Groups = []decide.Group{{
					Name: "quarry-a", Partial: true, PVs: append(owned[0].PVs, decide.PV{UUID: "gone", SizeBytes: 1 << 30}),
				}}
				h.Node.Devices = []decide.Device{disk("sda")}
			}),
			"n1 RemoveVolumeGroup quarry-a sda: The host holds no volumes and is not used by the Cluster any more. " +
				"What is missing of the group is left behind as it is: physical volume gone (1Gi).\n",
		},
		"a teardown leaves the disks of others alone": {
			hostOf("n1", func(h *Host) {
				h.Teardown = true
				h.Node.Devices = []decide.Device{{Path: "/dev/disk/by-id/sda", PVUUID: "foreign", Digest: "D"}, dirty("sdb")}
			}), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(c.host.Steps())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func awake(string) bool { return false }

// wipeAndTake are the steps of host n1 with one clean disk and two to wipe.
func wipeAndTake() []decide.Step {
	return hostOf("n1", func(h *Host) {
		h.Choice = device.Choice{Take: []decide.Device{disk("sda")}, Wipe: []decide.Device{dirty("sdb"), dirty("sdc")}}
	}).Steps()
}

func TestApprove_automaticHoldsBackWipesOnly(t *testing.T) {
	steps := append(wipeAndTake(), hostOf("n2", func(h *Host) { h.Choice.Take = []decide.Device{disk("sda")} }).Steps()...)
	v := Approve(v1alpha1.ApprovalAutomatic, steps, nil, "", awake)
	want := "n1 EnsureVolumeGroup quarry-a sda: The spec chooses this device for the new volume group.\n" +
		"n2 EnsureVolumeGroup quarry-a sda: The spec chooses this device for the new volume group.\n"
	if d := cmp.Diff(want, show(v.Run)); d != "" {
		t.Errorf("steps that run, -want +got:\n%s", d)
	}
	if !v.Waiting() || len(v.Plan.Steps) != 4 {
		t.Errorf("plan %+v", v.Plan)
	}
	// What ran by itself was no part of the plan, so the digest stands.
	if after := Approve(v1alpha1.ApprovalAutomatic, steps[1:5], v.Plan, "", awake); after.Plan.Digest != v.Plan.Digest {
		t.Error("the digest changed though what waits did not")
	}
}

func TestApprove_manualHoldsBackEverything(t *testing.T) {
	v := Approve(v1alpha1.ApprovalManual, wipeAndTake(), nil, "", awake)
	if len(v.Run) != 0 || !v.Waiting() || len(v.Plan.Steps) != 5 {
		t.Errorf("%+v", v)
	}
}

func TestApprove_wrongDigestApprovesNothing(t *testing.T) {
	for _, mode := range []v1alpha1.Approval{v1alpha1.ApprovalAutomatic, v1alpha1.ApprovalManual} {
		v := Approve(mode, wipeAndTake(), nil, "0123", awake)
		for _, s := range v.Run {
			if s.Destroys() {
				t.Errorf("%s: a wipe runs without approval", mode)
			}
		}
	}
}

func TestApprove_goesOnAfterEveryInterruption(t *testing.T) {
	steps := wipeAndTake()
	shown := Approve(v1alpha1.ApprovalManual, steps, nil, "", awake).Plan
	recorded := Approve(v1alpha1.ApprovalManual, steps, shown, shown.Digest, awake).Plan
	if !recorded.Approved {
		t.Fatal("the approval was not seen")
	}
	for done := range steps {
		v := Approve(v1alpha1.ApprovalManual, steps[done:], recorded, shown.Digest, awake)
		if len(v.Run) != len(steps)-done || v.UsedUp || v.Plan.Digest != shown.Digest {
			t.Errorf("after %d steps: %+v", done, v)
		}
	}
	if v := Approve(v1alpha1.ApprovalManual, nil, recorded, shown.Digest, awake); !v.UsedUp || v.Plan != nil {
		t.Errorf("at the end: %+v", v)
	}
}

func TestApprove_newStepAsksAgain(t *testing.T) {
	steps := wipeAndTake()
	shown := Approve(v1alpha1.ApprovalManual, steps, nil, "", awake).Plan
	recorded := Approve(v1alpha1.ApprovalManual, steps, shown, shown.Digest, awake).Plan
	more := append(steps[2:], hostOf("n1", func(h *Host) { h.Choice.Take = []decide.Device{disk("sdx")} }).Steps()...)
	if v := Approve(v1alpha1.ApprovalManual, more, recorded, shown.Digest, awake); len(v.Run) != 0 || !v.Waiting() {
		t.Errorf("%+v", v)
	}
}

func TestApprove_takingTheApprovalBackStops(t *testing.T) {
	steps := wipeAndTake()
	shown := Approve(v1alpha1.ApprovalManual, steps, nil, "", awake).Plan
	recorded := Approve(v1alpha1.ApprovalManual, steps, shown, shown.Digest, awake).Plan
	if v := Approve(v1alpha1.ApprovalManual, steps[1:], recorded, "", awake); len(v.Run) != 0 || !v.Waiting() {
		t.Errorf("%+v", v)
	}
}

func TestApprove_isNotUsedUpWhileAHostIsSilent(t *testing.T) {
	steps := wipeAndTake()
	shown := Approve(v1alpha1.ApprovalManual, steps, nil, "", awake).Plan
	recorded := Approve(v1alpha1.ApprovalManual, steps, shown, shown.Digest, awake).Plan
	v := Approve(v1alpha1.ApprovalManual, nil, recorded, shown.Digest, func(h string) bool { return h == "n1" })
	if v.UsedUp || v.Plan == nil || !v.Plan.Approved {
		t.Errorf("%+v", v)
	}
}

func TestDigest_tellsWhatMatters(t *testing.T) {
	wipe := wipeAndTake()[1]
	change := func(edit func(*decide.Step)) string {
		s := wipe
		s.Devices = append([]decide.Device{}, wipe.Devices...)
		edit(&s)
		return s.Digest()
	}
	for name, edit := range map[string]func(*decide.Step){
		"another disk at the same path":    func(s *decide.Step) { s.Devices[0].Serial = "other" },
		"other content on the same disk":   func(s *decide.Step) { s.Devices[0].Digest = "other" },
		"another size":                     func(s *decide.Step) { s.Devices[0].SizeBytes++ },
		"another path":                     func(s *decide.Step) { s.Devices[0].Path += "x" },
		"another host":                     func(s *decide.Step) { s.Host = "n2" },
		"another Cluster":                  func(s *decide.Step) { s.Owner = "other" },
		"another action on the same disks": func(s *decide.Step) { s.Action = v1alpha1.ActionReduceVolumeGroup },
	} {
		if change(edit) == wipe.Digest() {
			t.Errorf("%s has the same digest", name)
		}
	}
	if change(func(s *decide.Step) { s.Reason, s.Devices[0].KernelName = "other words", "sdq" }) != wipe.Digest() {
		t.Error("words and names of the kernel change the digest")
	}
	ensure := wipeAndTake()[2]
	before := ensure.Digest()
	ensure.Devices = []decide.Device{disk("sdb")}
	ensure.Devices[0].Digest = "wiped"
	if ensure.Digest() != before {
		t.Error("taking a device is another step once it was wiped")
	}
}
