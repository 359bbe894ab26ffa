package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPlans_neverTouchRefusedDevices makes random nodes and requests, and checks every step of every plan against what Judge says
// of the device: a step that destroys something needs a clean device, the owner's mark, or a consent that fits what is there.
func TestPlans_neverTouchRefusedDevices(t *testing.T) {
	const rounds = 3000
	r := rand.New(rand.NewPCG(1, 2))
	steps := 0
	for range rounds {
		s := randomSnapshot(r)
		want := randomSpec(r, s)
		for name, decide := range map[string]func() (Plan, error){
			"ensure": func() (Plan, error) { return EnsureGroup(s, want, testPolicy) },
			"reduce": func() (Plan, error) { return ReduceGroup(s, want, testPolicy) },
			"remove": func() (Plan, error) { return RemoveGroup(s, want, testPolicy) },
			"wipe":   func() (Plan, error) { return Wipe(s, want.Devices[0], testPolicy) },
		} {
			p, err := decide()
			if err != nil && len(p.Steps) > 0 {
				t.Fatalf("%s: steps beside the error %v", name, err)
			}
			steps += len(p.Steps)
			for i, step := range p.Steps {
				if why := forbidden(s, want, p.Steps[:i], step); why != "" {
					t.Fatalf("%s: %s, although %s\nsnapshot: %+v\nwanted: %+v", name, step, why, s, want)
				}
				if d, ok := step.(Destructive); ok && !slices.Equal(step.Touches(), []string{d.Token().Device().Path}) {
					t.Fatalf("%s: %s touches %q", name, step, step.Touches())
				}
			}
		}
	}
	if steps < rounds/10 {
		t.Errorf("only %d steps in %d rounds: the snapshots are too bad", steps, rounds)
	}
}

// forbidden says why a step must not be in a plan. It is empty when the step may be.
func forbidden(s Snapshot, want GroupSpec, before []Step, step Step) string {
	switch st := step.(type) {
	case CreatePV:
		return forbiddenCreate(s, st)
	case WipeDevice:
		return forbiddenWipe(s, st)
	case ReleasePV:
		return forbiddenRelease(s, want, before, st)
	case ReduceMissing:
		if len(seen(s, st.Name).missing()) == 0 {
			return "the group is complete"
		}
		return full(s, want, st.Name)
	case RemoveVG:
		return full(s, want, st.Name)
	case CreateVG:
		return joins(s, want, before, st.Devices)
	case ExtendVG:
		return joins(s, want, before, st.Devices)
	case ReduceVG:
		for _, path := range st.Devices {
			if d, _ := s.Find(path); d.Group != want.Name || d.OwnerUID != want.OwnerUID {
				return "the device is not in the owner's group"
			}
		}
	}
	return ""
}

func seen(s Snapshot, name string) Group {
	for _, g := range s.Groups {
		if g.Name == name {
			return g
		}
	}
	return Group{}
}

// full says why a group must stay.
func full(s Snapshot, want GroupSpec, name string) string {
	if g := seen(s, name); g.OwnerUID != want.OwnerUID || len(g.Volumes) > 0 || g.FreeBytes != g.SizeBytes {
		return "the group is not the owner's, or holds volumes"
	}
	return ""
}

func forbiddenCreate(s Snapshot, step CreatePV) string {
	d, _ := s.Find(step.Token().Device().Path)
	if refusals := Judge(d, testPolicy); len(refusals) > 0 || Match(d, step.Token().Device()) != nil {
		return fmt.Sprintf("the device is refused: %v", refusals)
	}
	return ""
}

func forbiddenRelease(s Snapshot, want GroupSpec, before []Step, step ReleasePV) string {
	d, _ := s.Find(step.Token().Device().Path)
	ours := d.Group == want.Name && d.OwnerUID == want.OwnerUID && leaves(before, d.Path)
	if !ours && !orphanOf(d, want.OwnerUID, identityPaths(want)...) {
		return "the physical volume is not the owner's"
	}
	return ""
}

func forbiddenWipe(s Snapshot, step WipeDevice) string {
	d, _ := s.Find(step.Token().Device().Path)
	if Match(d, step.Token().Device()) != nil || len(d.Mounts) > 0 || len(d.Holders) > 0 || d.Use == Used || d.OwnerUID != "" {
		return "the device is in use, ours, or another one"
	}
	return ""
}

// joins wants every device to be prepared before, or an orphan of the owner.
func joins(s Snapshot, want GroupSpec, before []Step, devices []string) string {
	for _, path := range devices {
		prepared := false
		for _, b := range before {
			c, ok := b.(CreatePV)
			prepared = prepared || ok && c.Token().Device().Path == path
		}
		if d, _ := s.Find(path); !prepared && !orphanOf(d, want.OwnerUID, identityPaths(want)...) {
			return path + " was not prepared"
		}
	}
	return ""
}

// leaves reports whether an earlier step takes the device out of its group.
func leaves(before []Step, path string) bool {
	for _, b := range before {
		switch st := b.(type) {
		case RemoveVG:
			return true
		case ReduceVG:
			for _, p := range st.Devices {
				if p == path {
					return true
				}
			}
		}
	}
	return false
}

func identityPaths(want GroupSpec) []string {
	var out []string
	for _, id := range want.Devices {
		out = append(out, id.Path)
	}
	return out
}

func randomSnapshot(r *rand.Rand) Snapshot {
	var s Snapshot
	var inGroup []Device
	for i := range 1 + r.IntN(4) {
		d := randomDevice(r, fmt.Sprintf("sd%c", 'a'+i))
		if d.Group == "vg" && d.OwnerUID == me {
			inGroup = append(inGroup, d)
		}
		s.Devices = append(s.Devices, d)
	}
	if len(inGroup) > 0 || r.IntN(4) == 0 {
		g := groupOf("vg", me, inGroup...)
		if r.IntN(8) == 0 {
			g.PVs = append(g.PVs, PV{UUID: "pv-gone", SizeBytes: 10, FreeBytes: 10 - r.Int64N(2)})
			g.SizeBytes, g.FreeBytes, g.Partial = g.SizeBytes+10, g.FreeBytes+g.PVs[len(g.PVs)-1].FreeBytes, true
		}
		if r.IntN(3) == 0 && len(g.PVs) > 0 {
			g.Volumes = []string{"lv"}
			g.PVs[0].FreeBytes--
			g.FreeBytes--
		}
		if r.IntN(8) == 0 {
			g.OwnerUID = somebody
		}
		s.Groups = append(s.Groups, g)
	}
	if r.IntN(16) == 0 {
		s.ForeignGroups = []string{"vg"}
	}
	return s
}

// randomDevice is clean, a member, an orphan or dirty, and has every flaw with a small chance.
func randomDevice(r *rand.Rand, name string) Device {
	kinds := []Device{
		cleanDisk(name), cleanDisk(name), member(name, "vg", me), member(name, "vg", me), member(name, "vg9", ""),
		member(name, "vg2", somebody), orphan(name, me), orphan(name, somebody),
	}
	d := kinds[r.IntN(len(kinds))]
	flaws := []func(*Device){
		func(d *Device) { d.Unreadable = []string{"x"} },
		func(d *Device) { d.Mounts = []string{"/"} },
		func(d *Device) { d.Mounts = []string{"[swap]"} },
		func(d *Device) { d.Holders = []string{"dm-0"} },
		func(d *Device) { d.Use = Used },
		func(d *Device) { d.Use = Untested },
		func(d *Device) { d.ReadOnly = true },
		func(d *Device) { d.Removable = true },
		func(d *Device) { d.SizeBytes = 1 },
		func(d *Device) { d.Type = "dm" },
		func(d *Device) { d.Suspended = true },
		func(d *Device) { d.HeadTailZero = false },
		func(d *Device) { d.Signatures = append(d.Signatures, Signature{Type: "ext4"}) },
		func(d *Device) {
			// A label of Ceph away from both ends, which are empty.
			d.Signatures, d.LabelDigest = append(d.Signatures, Signature{Type: "ceph_bluestore", Offset: gib}), "x"
		},
		func(d *Device) { d.Partitions = []string{name + "1"} },
		func(d *Device) { d.Wipe = &WipeMark{Digest: "v1:mark"} },
	}
	for _, flaw := range flaws {
		if r.IntN(30) == 0 {
			flaw(&d)
		}
	}
	return d
}

// randomSpec lists some devices, mostly as they are.
func randomSpec(r *rand.Rand, s Snapshot) GroupSpec {
	want := GroupSpec{Name: "vg", OwnerUID: me}
	for _, d := range s.Devices {
		id := IdentityOf(d)
		switch r.IntN(12) {
		case 0:
			id.Serial = "other"
		case 1:
			id.Digest = "v1:other"
		case 2:
			id.Path = "/dev/absent"
		}
		if len(want.Devices) == 0 || r.IntN(3) > 0 {
			want.Devices = append(want.Devices, id)
		}
	}
	return want
}
