package disk

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// aged is a disk that appeared that long before noon.
func aged(age time.Duration) func(*decide.Device) {
	return func(d *decide.Device) { d.Since = noon.Add(-age) }
}

func ageless(d *decide.Device) { d.Since = time.Time{} }

func joined(c Claim) Claim {
	c.Joined = true
	return c
}

// large gives a disk large sectors.
func large(d *decide.Device) { d.LogicalSectorBytes = 4096 }

func TestSelect_age(t *testing.T) {
	size := resource.MustParse("1Gi")
	sizes := func(edits ...func(*v1alpha1.DeviceSelector)) *v1alpha1.DeviceSelector {
		s := &v1alpha1.DeviceSelector{MinSize: &size}
		for _, e := range edits {
			e(s)
		}
		return s
	}
	hotplug := &v1alpha1.DeviceSelector{Hotplug: true}
	minAge := func(d time.Duration) *v1alpha1.DeviceSelector {
		return &v1alpha1.DeviceSelector{MinAge: &metav1.Duration{Duration: d}}
	}
	const young = "passed /dev/disk/by-id/sdb: is too young: it is taken within 40s, once it has been there for 1m0s (devices.minAge)\n"
	const late = "passed /dev/disk/by-id/sdb: was not there, or not clean, when the host joined: set devices.hotplug or select it\n"
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"a disk that has been there for a minute is taken":      {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", aged(time.Minute)))}, "take sda\n"},
		"a younger one waits":                                   {Input{Claim: claim("a", 1, nil), Node: node(disk("sdb", aged(25*time.Second)))}, young + "wake 35s\n"},
		"one that appeared in what the clock calls the future":  {Input{Claim: claim("a", 1, nil), Node: node(disk("sdb", aged(-time.Second)))}, "passed /dev/disk/by-id/sdb: is too young: it is taken within 1m10s, once it has been there for 1m0s (devices.minAge)\nwake 1m1s\n"},
		"a new group waits for all disks that belong in it":     {Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb", aged(25*time.Second)))}, young + "wake 35s\n"},
		"a spec that selects takes the others at once":          {Input{Claim: claim("a", 1, sizes()), Node: node(disk("sda"), disk("sdb", aged(25*time.Second)))}, "take sda\n" + young + "wake 35s\n"},
		"so does one with hotplug":                              {Input{Claim: claim("a", 1, hotplug), Node: node(disk("sda"), disk("sdb", aged(25*time.Second)))}, "take sda\n" + young + "wake 35s\n"},
		"the first of several to be old enough is looked at":    {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", aged(5*time.Second)), disk("sdb", aged(25*time.Second)))}, "passed /dev/disk/by-id/sda: is too young: it is taken within 1m0s, once it has been there for 1m0s (devices.minAge)\n" + young + "wake 35s\n"},
		"a disk under paths is taken at once":                   {Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sdb")), Node: node(disk("sdb", aged(0)))}, "take sdb\n"},
		"so is one of which nobody knows the age":               {Input{Claim: claim("a", 1, paths("/dev/disk/by-id/sdb")), Node: node(disk("sdb", ageless))}, "take sdb\n"},
		"a disk that may be wiped is wiped at once":             {Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sdb", "")), Host: "n1", Node: node(disk("sdb", written, aged(0)))}, "wipe sdb\n"},
		"the spec may want it older":                            {Input{Claim: claim("a", 1, minAge(2*time.Hour)), Node: node(disk("sda"))}, "passed /dev/disk/by-id/sda: is too young: it is taken within 1h0m0s, once it has been there for 2h0m0s (devices.minAge)\nwake 1h0m0s\n"},
		"or not care":                                           {Input{Claim: claim("a", 1, minAge(0)), Node: node(disk("sda", aged(0)), disk("sdb", ageless))}, "take sda\ntake sdb\n"},
		"a disk of which nobody knows the age is not taken":     {Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb", ageless))}, "take sda\npassed /dev/disk/by-id/sdb: its agent does not tell how long it has been there, which must be devices.minAge: update the agent, or list the disk under devices.paths\n"},
		"once the host has joined nothing is taken by default":  {Input{Claim: joined(claim("a", 1, nil)), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb"))}, "owned sda\n" + late},
		"nor is anything in place of a group that is not seen":  {Input{Claim: joined(claim("a", 1, nil)), Node: node(disk("sdb"))}, late},
		"nor by a spec that only says how old or what to wipe":  {Input{Claim: joined(claim("a", 1, minAge(0))), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb"))}, "owned sda\n" + late},
		"hotplug takes it":                                      {Input{Claim: joined(claim("a", 1, hotplug)), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb"))}, "owned sda\ntake sdb\n"},
		"hotplug takes it when it is old enough":                {Input{Claim: joined(claim("a", 1, hotplug)), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb", aged(25*time.Second)))}, "owned sda\n" + young + "wake 35s\n"},
		"a selector takes it":                                   {Input{Claim: joined(claim("a", 1, sizes())), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb"))}, "owned sda\ntake sdb\n"},
		"a disk that may be wiped is taken after that":          {Input{Claim: joined(claim("a", 1, wipe("/dev/disk/by-id/sdb", ""))), Host: "n1", Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb"))}, "owned sda\ntake sdb\n"},
		"what a call has begun with is finished, however young": {Input{Claim: joined(claim("a", 1, nil)), Group: group(empty("sda")), Node: node(disk("sda", owned("uid-a")), disk("sdb", begun, aged(0)))}, "owned sda\ntake sdb\n"},
		"an older Cluster that has joined is no rival":          {Input{Claim: claim("young", 1, nil), Rivals: []Claim{joined(claim("old", 2, nil))}, Node: node(disk("sda"))}, "take sda\n"},
		"an older Cluster that waits for a disk is one": {
			Input{Claim: claim("young", 1, minAge(0)), Rivals: []Claim{claim("old", 2, nil)}, Node: node(disk("sda", aged(0)))},
			"refused DeviceConflict /dev/disk/by-id/sda: is also chosen by Cluster old, which is older\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(choose(c.in))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestSelect_sectors(t *testing.T) {
	const kind = ", and a volume group has disks of one kind: choose with devices.paths or devices.model\n"
	for name, c := range map[string]struct {
		in   Input
		want string
	}{
		"disks of one kind make a group": {Input{Claim: claim("a", 1, nil), Node: node(disk("sda", large), disk("sdb", large))}, "take sda\ntake sdb\n"},
		"of disks of two kinds none is taken": {
			Input{Claim: claim("a", 1, nil), Node: node(disk("sda"), disk("sdb", large))},
			"passed /dev/disk/by-id/sda: has logical sectors of 512 bytes, /dev/disk/by-id/sdb of 4096" + kind +
				"passed /dev/disk/by-id/sdb: has logical sectors of 4096 bytes, /dev/disk/by-id/sda of 512" + kind,
		},
		"nor is one of them wiped": {
			Input{Claim: claim("a", 1, wipe("/dev/disk/by-id/sdb", "")), Host: "n1", Node: node(disk("sda"), disk("sdb", written, large))},
			"problem DeviceRefused /dev/disk/by-id/sdb: has logical sectors of 4096 bytes, /dev/disk/by-id/sda of 512" + kind +
				"passed /dev/disk/by-id/sda: has logical sectors of 512 bytes, /dev/disk/by-id/sdb of 4096" + kind,
		},
		"a group grows by disks of its kind only": {
			Input{
				Claim: joined(claim("a", 1, paths("/dev/disk/by-id/sda", "/dev/disk/by-id/sdb", "/dev/disk/by-id/sdc"))), Group: group(empty("sda")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb", large), disk("sdc")),
			},
			"owned sda\ntake sdc\nproblem DeviceRefused /dev/disk/by-id/sdb: has logical sectors of 4096 bytes, /dev/disk/by-id/sda of 512" + kind,
		},
		"what is of another kind keeps no empty group": {
			Input{
				Claim: joined(claim("a", 1, paths("/dev/disk/by-id/sdb"))), Group: group(empty("sda")),
				Node: node(disk("sda", owned("uid-a")), disk("sdb", large)),
			},
			"owned sda\nproblem DeviceRefused /dev/disk/by-id/sdb: has logical sectors of 4096 bytes, /dev/disk/by-id/sda of 512" + kind +
				"problem DeviceRefused /dev/disk/by-id/sda: is not listed under devices.paths any more, but no other device is there to keep the volume group\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, show(choose(c.in))); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}
