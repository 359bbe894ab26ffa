package lvm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/pvuuid"
)

// pinned returns a volume on n1 whose group is recorded on it, unless the UUID is empty.
func pinned(name, uuid string) backend.Volume {
	return backend.Volume{
		Name: name, Claim: "ns/" + name, GroupUUID: uuid,
		Handle: "n1/quarry-old/pvc-00000000-0000-0000-0000-000000000000",
	}
}

// unnamed is said of the group that is here in place of the recorded one, and names no node.
const unnamed = "; it cannot be adopted in its place: the group that is here does not name this node"

const untilBack = "; nothing is changed here and no volume is made until the recorded group is back"

func TestDecide_recordedOutranksSeen(t *testing.T) {
	one, other := groupOf("A", "sda"), groupOf("B", "sdb")
	other.Name = "quarry-b"
	renamed := one
	renamed.Name = "mine"
	own := func(g ...decide.Group) decide.Node { return up("n1", g, device("sdz")) }
	recorded, forming := memberOf(clusterOf(), records("A")), memberOf(clusterOf(), records("", "pv-sda"))
	const grows = "EnsureVolumeGroup quarry-a sdz\n"
	const both = "volume groups quarry-a (UUID A) and quarry-b (UUID B) carry the tag of this Cluster, a host has one group; " +
		"what is in it stays served, nothing is changed here and no volume is made\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"the recorded group is seen":           {scene{node: own(one), object: recorded}, grows},
		"a group of an earlier version":        {scene{node: own(one), object: memberOf(clusterOf())}, "record \"A\" quarry-a 0\n" + grows},
		"a group without a Member":             {scene{node: own(one)}, "record \"A\" quarry-a 0\n" + grows},
		"a single group that was renamed":      {scene{node: own(renamed)}, "record \"A\" mine 0\nEnsureVolumeGroup mine sdz\n"},
		"volumes of an earlier version":        {scene{node: own(one), volumes: []backend.Volume{pinned("v1", "")}}, "record \"A\" quarry-a 0\n" + grows},
		"the record is lost, volumes have it":  {scene{node: own(one), volumes: []backend.Volume{pinned("v1", "A")}}, "record \"A\" quarry-a 0\n" + grows},
		"the record is older than the volumes": {scene{node: own(one), object: forming, volumes: []backend.Volume{pinned("v1", "A")}}, "record \"A\" quarry-a 0\n" + grows},
		"no group is seen": {
			scene{node: own(), object: recorded}, "VolumeGroupLost: volume group quarry-a (UUID A) is not seen on this host" + untilBack + "\n",
		},
		"no group is seen, and volumes were in it": {
			scene{node: own(), object: recorded, volumes: []backend.Volume{pinned("v1", "A"), pinned("v2", "")}},
			"VolumeGroupLost: volume group quarry-a (UUID A) is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1), v2 (claim ns/v2)\n",
		},
		"no group is seen, and only volumes tell of it": {
			scene{node: own(), volumes: []backend.Volume{pinned("v1", "A")}},
			"VolumeGroupLost: volume group quarry-old (UUID A) is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1)\n",
		},
		"no group is seen, and only volumes of an earlier version tell of it": {
			scene{node: own(), volumes: []backend.Volume{pinned("v1", "")}},
			"VolumeGroupLost: volume group quarry-old is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1)\n",
		},
		"a group that was being made has volumes and is not seen": {
			scene{node: own(), object: forming, volumes: []backend.Volume{pinned("v1", "")}},
			"VolumeGroupLost: volume group quarry-a is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1)\n",
		},
		"another group is seen instead": {
			scene{node: own(other), object: recorded},
			"VolumeGroupLost: volume group quarry-a (UUID A) is not seen on this host, but volume group quarry-b (UUID B) with the tag of this " +
				"Cluster, which serves what it holds" + untilBack + unnamed + "\n",
		},
		"volumes are in another group than the seen one": {
			scene{node: own(one), volumes: []backend.Volume{pinned("v1", "X")}},
			"VolumeGroupLost: volume group quarry-old (UUID X) is not seen on this host, but volume group quarry-a (UUID A) with the tag of this " +
				"Cluster, which serves what it holds" + untilBack + "; its volumes are v1 (claim ns/v1); it cannot be adopted in its place: its Member does not exist yet\n",
		},
		"volumes are in another group than the recorded one": {
			scene{node: own(one), object: recorded, volumes: []backend.Volume{pinned("v1", "A"), pinned("v2", "X")}},
			"VolumeGroupLost: volume group quarry-old (UUID X) is not seen on this host, but volume group quarry-a (UUID A) with the tag of this " +
				"Cluster, which serves what it holds" + untilBack + "; its volumes are v2 (claim ns/v2)" + unnamed + "\n",
		},
		"the recorded group and another one":                  {scene{node: own(other, one), object: recorded}, "VolumeGroupConflict: " + both},
		"two groups, nothing recorded: the name tells":        {scene{node: own(other, one)}, "record \"A\" quarry-a 0\nVolumeGroupConflict: " + both},
		"two groups of one name, nothing recorded":            {scene{node: own(one, groupOf("C", "sdc"))}, "VolumeGroupConflict: " + strings.Replace(both, "quarry-b (UUID B)", "quarry-a (UUID C)", 1)},
		"two groups of other names, nothing recorded":         {scene{node: own(renamed, other)}, "VolumeGroupConflict: " + strings.Replace(both, "quarry-a (UUID A)", "mine (UUID A)", 1)},
		"volumes tell which of two groups is the member's":    {scene{node: own(other, one), volumes: []backend.Volume{pinned("v1", "B")}}, "record \"B\" quarry-b 0\nVolumeGroupConflict: " + "volume groups quarry-b (UUID B) and quarry-a (UUID A)" + strings.TrimPrefix(both, "volume groups quarry-a (UUID A) and quarry-b (UUID B)")},
		"what was being made is seen":                         {scene{node: own(one), object: forming}, "record \"A\" quarry-a 0\n" + grows},
		"what was being made has grown since":                 {scene{node: own(groupOf("A", "sda", "sdb")), object: forming}, "record \"A\" quarry-a 0\n" + grows},
		"what was being made, and another one":                {scene{node: own(other, one), object: forming}, "record \"A\" quarry-a 0\nVolumeGroupConflict: " + both},
		"another group than that which was being made":        {scene{node: own(other), object: forming}, "VolumeGroupConflict: volume group quarry-b (UUID B) with the tag of this Cluster is not the group that was being made here; what is in it stays served, nothing is changed here and no volume is made" + unnamed + "\n"},
		"a frozen member records what is seen all the same":   {scene{node: own(one), edit: frozen}, "record \"A\" quarry-a 0\n"},
		"a frozen member records nothing that it will make":   {scene{node: own(), edit: frozen}, ""},
		"nothing is recorded of what cannot be asked for":     {scene{node: decide.Node{Agent: decide.AgentUp, LVMError: "no lvm", Groups: []decide.Group{one}}}, "StepFailed: LVM cannot be run: no lvm\n"},
		"nothing is recorded while the agent does not answer": {scene{node: decide.Node{Agent: decide.AgentUnreachable, Groups: []decide.Group{one}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.in.decide()
			if d := cmp.Diff(c.want, tell(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if strings.Contains(c.want, "VolumeGroup") && !strings.Contains(c.want, "EnsureVolumeGroup") && got.Finding.Kind != backend.Bad {
				t.Errorf("%+v", got.Finding)
			}
		})
	}
}

// TestDecide_restoredWithoutItsMembers: a Cluster that came back from a backup has another UID than the tag on its disks. Until somebody
// says what becomes of its volumes, it makes no group on other disks.
func TestDecide_restoredWithoutItsMembers(t *testing.T) {
	before := device("sda")
	before.OwnerUID, before.VolumeGroup = "uid-before", "quarry-a"
	elsewhere := backend.World{Volumes: map[string][]backend.Volume{"n2": {pinned("v1", "A")}, "": {{Name: "v0"}}}}
	const stranger = "; /dev/disk/by-id/sda belongs to a Cluster with UID uid-before, which does not exist any more\n"
	const earlier = "VolumeGroupLost: volumes of an earlier Cluster of this name exist, and no volume group is made until they are found or deleted: " +
		"v0, v1 (claim ns/v1)"
	other := memberOf(clusterOf(), records("A"))
	other.Spec.Node = "n2"
	announced := memberOf(clusterOf(), records("", "pv"))
	announced.Spec.Node = "n2"
	rival := clusterOf(func(c *v1alpha1.Cluster) { c.Name, c.UID = "rival", "uid-before" })
	with := func(w backend.World, edit func(*backend.World)) backend.World {
		edit(&w)
		return w
	}
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"the host of a volume": {
			scene{node: up("n1", nil, before, device("sdz")), volumes: []backend.Volume{pinned("v1", "A")}},
			"VolumeGroupLost: volume group quarry-old (UUID A) is not seen on this host" + untilBack + "; its volumes are v1 (claim ns/v1)" + stranger,
		},
		"a host without volumes":  {scene{node: up("n1", nil, before, device("sdz")), object: memberOf(clusterOf()), world: elsewhere}, earlier + stranger},
		"a host with clean disks": {scene{node: up("n1", nil, device("sdz")), world: elsewhere}, earlier + "\n"},
		"a disk of another Cluster": {
			scene{node: up("n1", nil, before), world: with(elsewhere, func(w *backend.World) { w.Others = []v1alpha1.Storage{rival} })}, earlier + "\n",
		},
		"the record of another host": {
			scene{node: up("n1", nil, device("sdz")), world: with(elsewhere, func(w *backend.World) { w.Members = []*v1alpha1.Member{other} })},
			"record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sdz\n",
		},
		"a group is being made on another host": {
			scene{node: up("n1", nil, device("sdz")), world: with(elsewhere, func(w *backend.World) { w.Members = []*v1alpha1.Member{announced} })},
			"record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sdz\n",
		},
		"no volumes": {
			scene{node: up("n1", nil, device("sdz")), world: backend.World{Volumes: map[string][]backend.Volume{"n2": {}}}},
			"record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sdz\n",
		},
		"its group is found": {scene{node: up("n1", []decide.Group{groupOf("A", "sda")}, device("sdz")), world: elsewhere}, "record \"A\" quarry-a 0\nEnsureVolumeGroup quarry-a sdz\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestDecide_lostGroupNamesTenVolumes(t *testing.T) {
	var volumes []backend.Volume
	for i := range 15 {
		volumes = append(volumes, pinned(fmt.Sprintf("v%02d", i), "A"))
	}
	got := scene{node: up("n1", nil, device("sdz")), volumes: volumes}.decide().Finding.Message
	if !strings.Contains(got, "v09 (claim ns/v09) and 5 more") || strings.Contains(got, "v10") {
		t.Error(got)
	}
}

func TestDecide_formingIsRecordedBeforeTheGroupIsMade(t *testing.T) {
	s := scene{node: up("n1", nil, device("sdb"), orphan("sda")), object: memberOf(clusterOf())}
	first := s.decide()
	want := []string{disk.Future(device("sdb"), "uid"), orphan("sda").PVUUID}
	slices.Sort(want)
	if first.Record == nil || first.Record.UUID != "" || first.Record.Name != "quarry-a" || !slices.Equal(first.Record.Forming, want) || len(first.Steps) != 1 {
		t.Fatalf("%+v", first)
	}
	// Recorded: the steps go on with the same devices, and nothing is left to record.
	s.object.Spec.Group = first.Record
	if again := s.decide(); again.Record != nil || tell(again) != "EnsureVolumeGroup quarry-a sdb sda\n" {
		t.Errorf("%+v", again)
	}
	// A further disk is announced too; what was announced stays so, for the call may have got through.
	s.node = up("n1", nil, device("sdc"))
	more := s.decide()
	if more.Record == nil || len(more.Record.Forming) != 3 || !slices.IsSorted(more.Record.Forming) || !slices.Contains(more.Record.Forming, want[0]) {
		t.Errorf("%+v", more.Record)
	}
	// The group is seen: only its UUID is left of the record.
	g := groupOf("A")
	g.PVs = []decide.PV{{Path: "/dev/disk/by-id/sdc", UUID: pvuuid.Complete(disk.Future(device("sdc"), "uid"))}}
	s.object.Spec.Group, s.node.Groups = more.Record, []decide.Group{g}
	if seen := s.decide(); seen.Record == nil || seen.Record.UUID != "A" || seen.Record.Forming != nil {
		t.Errorf("%+v", seen.Record)
	}
}

func TestDecide_formingIsKnownByItsStem(t *testing.T) {
	s := scene{node: up("n1", nil, device("sdb"), device("sda")), object: memberOf(clusterOf())}
	s.object.Spec.Group = s.decide().Record
	// A call was cut off after it had made both physical volumes: they were announced.
	s.node = up("n1", nil, orphan("sdb"), orphan("sda"))
	if again := s.decide(); again.Record != nil || len(again.Steps) != 1 {
		t.Errorf("%+v", again)
	}
}

func TestDecide_formingIsKnownUnderAnotherPath(t *testing.T) {
	d := device("sda")
	d.Links = []string{d.Path, "/dev/disk/by-path/slot"}
	before := d
	before.Path = "/dev/disk/by-path/slot"
	// What a controller before stems announced.
	first := func(d decide.Device) string {
		return pvuuid.First("uid", pvuuid.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes}, d.Path)
	}
	object := memberOf(clusterOf(), records("", first(before)))
	// Between the record and the call udev gave the disk a better name, which the agent used.
	g := groupOf("A", "sda")
	for _, uuid := range []string{first(d), pvuuid.Complete(disk.Future(d, "uid"))} {
		g.PVs[0].UUID = uuid
		if got := (scene{node: up("n1", []decide.Group{g}, d), object: object}).decide(); got.Record == nil || got.Record.UUID != "A" {
			t.Errorf("%s: %s", uuid, tell(got))
		}
	}
	if got := (scene{node: up("n1", []decide.Group{g}, d), object: object}).decide(); got.Record == nil || got.Record.UUID != "A" {
		t.Errorf("%s", tell(got))
	}
	// A physical volume that was not made for the Cluster on this device is not known by it.
	g.PVs[0].UUID = "foreign"
	if got := (scene{node: up("n1", []decide.Group{g}, d), object: object}).decide(); got.Finding.Reason != v1alpha1.ReasonVolumeGroupConflict {
		t.Errorf("%s", tell(got))
	}
}

func TestDecide_formingIsBounded(t *testing.T) {
	var devices []decide.Device
	for i := range 300 {
		devices = append(devices, device(fmt.Sprintf("sd%d", i)))
	}
	s := scene{node: up("n1", nil, devices...), object: memberOf(clusterOf())}
	s.object.Spec.Group = s.decide().Record
	if n := len(s.object.Spec.Group.Forming); n != maxForming {
		t.Fatalf("%d are recorded", n)
	}
	if got := s.decide(); got.Record != nil || len(got.Steps) != 1 {
		t.Errorf("the record never settles: %+v", got.Record)
	}
}

func TestDecide_lostGroupsAreForeign(t *testing.T) {
	lost := clusterOf(func(c *v1alpha1.Cluster) { c.Status.LostGroups = []string{"A"} })
	node := up("n1", []decide.Group{groupOf("A", "sda")}, device("sdz"))
	const back = "VolumeGroupConflict: volume group quarry-a (UUID A) of a member that was declared lost is back on this host; " +
		"nothing is changed here until its disks are taken out\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		// The agent would extend, or remove, the group of this name and tag.
		"no group is made of its name": {scene{cluster: lost, node: node}, back},
		"it is not removed with the member": {
			scene{cluster: lost, node: up("n1", node.Groups, orphan("sdy")), edit: removed, object: memberOf(lost)}, back,
		},
		"it does not hold the member": {scene{cluster: lost, node: node, edit: removed, object: memberOf(lost)}, ""},
		"it does not matter to a group of another name": {
			scene{cluster: lost, node: up("n1", append([]decide.Group{{Name: "mine", UUID: "B", OwnerUID: "uid"}}, node.Groups...), device("sdz"))},
			"record \"B\" mine 0\nEnsureVolumeGroup mine sdz\n",
		},
		"under another name it does no harm": {scene{cluster: lost, node: up("n1", []decide.Group{{Name: "x", UUID: "A", OwnerUID: "uid"}}, device("sdz"))}, "record \"\" quarry-a 1\nEnsureVolumeGroup quarry-a sdz\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, tell(c.in.decide())); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if v := c.in.view(); len(v.Hosts()) != len(v.host(c.in.member()).groups) || len(v.Facts("n1").Holding) != 0 {
				t.Error("a lost group counts")
			}
		})
	}
}

// TestDecide_recordOfASilentHost: the Member was made again while its node is dead, and its volumes tell of its group.
func TestDecide_recordOfASilentHost(t *testing.T) {
	node := func(a decide.AgentState) decide.Node { return decide.Node{Name: "n1", Agent: a} }
	silent := node(decide.AgentUnreachable)
	volume := func(uuid string) backend.Volume {
		return backend.Volume{Name: "v" + uuid, GroupUUID: uuid, Handle: "n1/mine/" + lv}
	}
	one := []backend.Volume{volume("A"), volume(""), volume("A")}
	bare := memberOf(clusterOf())
	other := memberOf(clusterOf(), records("A"))
	other.Spec.Node = "n2"
	const recorded = "record \"A\" mine 0\n"
	for name, c := range map[string]struct {
		in   scene
		want string
	}{
		"its volumes agree":                                       {scene{node: silent, object: bare, volumes: one}, recorded},
		"no agent runs there":                                     {scene{node: node(decide.AgentMissing), object: bare, volumes: one}, recorded},
		"it is being removed":                                     {scene{node: silent, object: bare, volumes: one, edit: failing}, recorded},
		"it is too early to say":                                  {scene{node: node(decide.AgentConnecting), object: bare, volumes: one}, ""},
		"there is no Member":                                      {scene{node: silent, volumes: one}, ""},
		"there are no volumes":                                    {scene{node: silent, object: bare}, ""},
		"its volumes record nothing":                              {scene{node: silent, object: bare, volumes: []backend.Volume{volume("")}}, ""},
		"its volumes do not agree":                                {scene{node: silent, object: bare, volumes: append(one, volume("B"))}, ""},
		"a group is recorded":                                     {scene{node: silent, object: memberOf(clusterOf(), records("A")), volumes: one}, ""},
		"a group is being made":                                   {scene{node: silent, object: memberOf(clusterOf(), records("", "pv-x")), volumes: one}, ""},
		"the group was declared lost":                             {scene{cluster: clusterOf(lostGroup("A")), node: silent, object: bare, volumes: one}, ""},
		"another member records the group":                        {scene{node: silent, object: bare, volumes: one, world: backend.World{Members: []*v1alpha1.Member{other}}}, ""},
		"the disks are out, and a person says that they are lost": {scene{node: up("n1", nil), object: memberOf(clusterOf(), lostMember), volumes: one}, recorded + "VolumeGroupLost"},
		"the disks are out":                                       {scene{node: up("n1", nil), object: bare, volumes: one}, "VolumeGroupLost"},
		"it is no UUID":                                           {scene{node: silent, object: bare, volumes: []backend.Volume{volume(strings.Repeat("x", 65))}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _ := strings.Cut(tell(c.in.decide()), ": ")
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func lostGroup(uuid string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) { c.Status.LostGroups = append(c.Status.LostGroups, uuid) }
}
