package lvm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// fresh is a disk that has been there for a quarter of a minute.
func fresh(name string) decide.Device {
	d := device(name)
	d.Since = start.Add(time.Hour - 15*time.Second)
	return d
}

// TestDecide_laterDisks: a spec without a selector means the disks that are there when the record of the group is set.
func TestDecide_laterDisks(t *testing.T) {
	byDefault := func(c *v1alpha1.Cluster) { c.Spec.Devices = nil }
	c := clusterOf(byDefault)
	rival := clusterOf(byDefault, func(c *v1alpha1.Cluster) { c.Name, c.UID = "b", "uid-b" })
	for name, tt := range map[string]struct {
		scene scene
		want  string
		wake  time.Duration
	}{
		"disks that are there when the host joins": {
			scene{cluster: c, object: memberOf(c), node: up("n1", nil, device("sda"), device("sdb"))},
			"record \"\" quarry-a 2\nEnsureVolumeGroup quarry-a sda sdb\n", 0,
		},
		"the host joins when the youngest is old enough": {
			scene{cluster: c, object: memberOf(c), node: up("n1", nil, device("sda"), fresh("sdb"))},
			"Preparing: waits for disks that belong in the new volume group: /dev/disk/by-id/sdb: is too young: it is taken within 50s, once it has been there for 1m0s (devices.minAge)\n",
			45 * time.Second,
		},
		"a disk that appears later": {
			scene{cluster: c, object: memberOf(c, records("A")), node: up("n1", []decide.Group{groupOf("A", "sda")}, device("sda"), device("sdb"))},
			": The member serves volumes. Clean disks that are not taken: /dev/disk/by-id/sdb: was not there, or not clean, when the host joined: set devices.hotplug or select it\n", 0,
		},
		"a group that is seen before it is on record": {
			scene{cluster: c, object: memberOf(c), node: up("n1", []decide.Group{groupOf("A", "sda")}, device("sda"), device("sdb"))},
			"record \"A\" quarry-a 0\n: The member serves volumes. Clean disks that are not taken: /dev/disk/by-id/sdb: was not there, or not clean, when the host joined: set devices.hotplug or select it\n", 0,
		},
		"hotplug takes it when it is old enough": {
			scene{object: memberOf(c, records("A")), node: up("n1", []decide.Group{groupOf("A", "sda")}, device("sda"), fresh("sdb"))},
			": The member serves volumes. Clean disks that are not taken: /dev/disk/by-id/sdb: is too young: it is taken within 50s, once it has been there for 1m0s (devices.minAge)\n",
			45 * time.Second,
		},
		"another Cluster that has joined leaves it": {
			scene{cluster: rival, object: memberOf(rival), node: up("n1", []decide.Group{groupOf("A", "sda")}, device("sdb"))},
			"record \"\" quarry-b 1\nEnsureVolumeGroup quarry-b sdb\n", 0,
		},
		"disks of two kinds make no group": {
			scene{cluster: c, object: memberOf(c), node: up("n1", nil, device("sda"), func() decide.Device {
				d := device("sdb")
				d.LogicalSectorBytes = 4096
				return d
			}())},
			"NoCleanDevice: no clean device: /dev/disk/by-id/sda: has logical sectors of 0 bytes, /dev/disk/by-id/sdb of 4096, and a volume group has disks of one kind: choose with devices.paths or devices.model; " +
				"/dev/disk/by-id/sdb: has logical sectors of 4096 bytes, /dev/disk/by-id/sda of 0, and a volume group has disks of one kind: choose with devices.paths or devices.model\n", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.scene.cluster == rival {
				tt.scene.world.Others = []v1alpha1.Storage{c}
			}
			got := tt.scene.decide()
			if d := cmp.Diff(tt.want, tell(got)); d != "" || got.Wake != tt.wake {
				t.Errorf("wake %v, -want +got:\n%s", got.Wake, d)
			}
		})
	}
}
