package lvm

import (
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func sharedDisk(d decide.Device) decide.Device {
	d.WWN, d.Serial = "0x5", "S-"+d.KernelName
	return decide.Node{Devices: []decide.Device{d}}.WithShared(func(decide.Device) string { return "n2" }).Devices[0]
}

// ownDisk is a device of the recorded group.
func ownDisk(name string) decide.Device {
	d := device(name)
	d.PVUUID, d.OwnerUID, d.VolumeGroup = "pv-"+name, "uid", "quarry-a"
	d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalOwned, Message: "owned"}}
	return d
}

// TestSharedDisk: a disk that another node sees is neither taken nor wiped nor given back, and a group on such a disk does not grow.
func TestSharedDisk(t *testing.T) {
	group := groupOf("u1", "sda")
	group.PVs = append(group.PVs, decide.PV{Path: "/dev/disk/by-id/sdc", UUID: "pv-sdc", SizeBytes: 1 << 30, FreeBytes: 1 << 30})
	unstamped := group
	unstamped.Unstamped = true
	pooled := clusterOf(func(c *v1alpha1.Cluster) { c.Spec.LVM = &v1alpha1.LVMSpec{ThinPool: &v1alpha1.ThinPoolSpec{}} })
	paths := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.Devices = &v1alpha1.DeviceSelector{Paths: []v1alpha1.DevicePath{"/dev/disk/by-id/sda"}}
	})
	consent := clusterOf(func(c *v1alpha1.Cluster) {
		c.Spec.Devices.Wipe = []v1alpha1.WipeConsent{{Host: "n1", Path: "/dev/disk/by-id/sdb"}}
	})
	dirty := device("sdb")
	dirty.Wipeable, dirty.Refusals = true, []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "ext4"}}
	begun := device("sdb")
	begun.WWN, begun.Serial = "0x5", "S-sdb"
	begun.PVUUID, begun.Refusals = disk.Future(begun, "uid"), []v1alpha1.Refusal{{Reason: v1alpha1.RefusalLVM, Message: "LVM"}}
	if !disk.Orphan(begun, "uid") {
		t.Fatal("the test is about a disk that a call was interrupted on")
	}
	const named = "SharedDisk: volume group quarry-a is on a disk that another node sees too: /dev/disk/by-id/sda: Node n2 sees the same disk"
	for name, tt := range map[string]struct {
		scene scene
		want  []string
	}{
		"no group is made of it": {scene{node: up("n1", nil, sharedDisk(device("sdb"))), object: memberOf(clusterOf())}, []string{"NoCleanDevice: no clean device: /dev/disk/by-id/sdb: Node n2 sees the same disk"}},
		"the others are taken": {
			scene{node: up("n1", []decide.Group{group}, ownDisk("sda"), sharedDisk(device("sdb")), device("sdd")), object: memberOf(clusterOf(), records("u1"))},
			[]string{"EnsureVolumeGroup quarry-a sdd"},
		},
		"it is not wiped": {
			scene{cluster: consent, node: up("n1", []decide.Group{group}, ownDisk("sda"), sharedDisk(dirty)), object: memberOf(consent, records("u1"))},
			[]string{"DeviceRefused: /dev/disk/by-id/sdb: cannot be wiped: ext4 (Filesystem), Node n2 sees the same disk"},
		},
		"what an interrupted call has begun with may be the other node's": {
			scene{node: up("n1", []decide.Group{group}, ownDisk("sda"), sharedDisk(begun)), object: memberOf(clusterOf(), records("u1"))}, nil,
		},
		"so it is not given back": {scene{node: up("n1", nil, sharedDisk(begun)), object: memberOf(clusterOf()), edit: removed}, nil},
		"a group on it does not grow": {
			scene{node: up("n1", []decide.Group{group}, sharedDisk(ownDisk("sda")), device("sdb")), object: memberOf(clusterOf(), records("u1"))}, []string{named},
		},
		"nor gets a pool": {
			scene{cluster: pooled, node: up("n1", []decide.Group{group}, sharedDisk(ownDisk("sda"))), object: memberOf(pooled, records("u1"))}, []string{named},
		},
		"it names its node, which keeps the other away": {
			scene{node: up("n1", []decide.Group{unstamped}, sharedDisk(ownDisk("sda"))), object: memberOf(clusterOf(), records("u1"))},
			[]string{named, "StampVolumeGroup quarry-a"},
		},
		"and gives empty disks back": {
			scene{cluster: paths, node: up("n1", []decide.Group{group}, sharedDisk(ownDisk("sda")), ownDisk("sdc")), object: memberOf(paths, records("u1"))},
			[]string{named, "ReduceVolumeGroup quarry-a sdc"},
		},
		"it can be removed": {
			scene{node: up("n1", []decide.Group{group}, sharedDisk(ownDisk("sda"))), object: memberOf(clusterOf(), records("u1")), edit: removed},
			[]string{"RemoveVolumeGroup quarry-a sda"},
		},
		"and its disk, clean then, hides no group": {
			scene{node: up("n1", nil, sharedDisk(device("sda"))), object: memberOf(clusterOf(), records("u1"), onDisk("sda")), edit: removed}, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			lines := strings.FieldsFunc(tell(tt.scene.decide()), func(r rune) bool { return r == '\n' })
			if len(lines) != len(tt.want) {
				t.Fatalf("got %q, want %q", lines, tt.want)
			}
			for i, want := range tt.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("got %q, want %q", lines[i], want)
				}
			}
		})
	}
}
