package storagenode

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// device returns a device that is refused for some reasons; a clean one without reasons.
func device(name, kind string, reasons ...string) decide.Device {
	d := decide.Device{KernelName: name, Path: "/dev/disk/by-id/" + name, Type: kind, SizeBytes: 1 << 40, Digest: "v1:0"}
	for _, r := range reasons {
		d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: r, Message: "It is so."})
	}
	return d
}

// owned returns a device of a volume group of ours, as an agent reports it.
func owned(name, uid string, more ...string) decide.Device {
	d := device(name, "disk", append([]string{v1alpha1.RefusalHeld, v1alpha1.RefusalOwned}, more...)...)
	d.OwnerUID, d.VolumeGroup, d.PVUUID = uid, "quarry-fast", "pv-"+name
	return d
}

// volume returns a logical volume, as udev links it.
func volume(i int) decide.Device {
	d := device(fmt.Sprintf("dm-%d", i), "dm", v1alpha1.RefusalVirtual, v1alpha1.RefusalFilesystem)
	d.Path = fmt.Sprintf("/dev/disk/by-id/dm-name-quarry--fast-pvc--%036d", i)
	d.Links = []string{fmt.Sprintf("/dev/disk/by-id/dm-uuid-LVM-%064d", i), fmt.Sprintf("/dev/disk/by-uuid/%036d", i)}
	return d
}

func TestLook_verdicts(t *testing.T) {
	of := owners{"u1": "Cluster fast"}
	unknown := device("sdx", "", v1alpha1.RefusalVirtual)
	blank := device("sdy", "disk")
	blank.Digest = ""
	ours := device("loop1", "loop", v1alpha1.RefusalVirtual, v1alpha1.RefusalOwned)
	ours.OwnerUID = "u1"
	remote, onUSB := device("sdi", "disk"), device("sdj", "disk", v1alpha1.RefusalFilesystem)
	remote.Transport, onUSB.Transport = "iscsi", "usb"
	first, second := device("sdk", "disk", v1alpha1.RefusalTwoPaths), device("sdl", "disk", v1alpha1.RefusalTwoPaths)
	first.WWN, second.WWN = "0x51", "0x51"
	v := look([]decide.Device{
		device("sda", "disk"),
		owned("sdb", "u1"),
		owned("sdc", "u9"),
		owned("sdd", "u1", v1alpha1.RefusalSuspended, v1alpha1.RefusalBusy),
		device("sde", "disk", v1alpha1.RefusalMounted, v1alpha1.RefusalFilesystem),
		device("ubda", "ubd"),
		unknown, blank, ours, remote, onUSB, first, second,
	}, of)
	got := map[string]string{}
	for _, d := range v.devices {
		got[d.KernelName] = fmt.Sprintf("%s | %s | %d", d.Verdict, d.InUseBy, len(d.Refusals))
	}
	want := map[string]string{
		"sda":   "available |  | 0",
		"sdb":   "in use by Cluster fast | Cluster fast | 0",
		"sdc":   "in use by a Cluster with UID u9, which does not exist any more | a Cluster with UID u9, which does not exist any more | 0",
		"sdd":   "in use by Cluster fast; Suspended | Cluster fast | 1",
		"sde":   "refused: Mounted, Filesystem |  | 2",
		"ubda":  "available |  | 0",
		"sdx":   "refused: VirtualDevice |  | 1",
		"sdy":   "refused: Unreadable |  | 0",
		"loop1": "in use by Cluster fast; VirtualDevice | Cluster fast | 1",
		"sdi":   "available on request: attached over iscsi |  | 0",
		"sdj":   "refused: Filesystem |  | 1",
		"sdk":   "refused: TwoPaths |  | 1",
		"sdl":   "refused: TwoPaths |  | 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Two paths are one disk.
	if v.total != 12 || v.available != 3 || v.inUse != 4 || v.summary() != "" {
		t.Errorf("%d devices, %d available, %d in use, others %q", v.total, v.available, v.inUse, v.summary())
	}
}

func TestLook_countsWhatNobodyChooses(t *testing.T) {
	path := device("dm-3", "dm", v1alpha1.RefusalVirtual)
	path.Links = []string{"/dev/disk/by-id/dm-uuid-mpath-3600"}
	crypt := device("dm-4", "dm", v1alpha1.RefusalVirtual)
	crypt.Path = "/dev/disk/by-id/dm-uuid-CRYPT-LUKS2-1"
	v := look([]decide.Device{
		device("sda", "disk"),
		device("sda1", "partition", v1alpha1.RefusalPartition),
		device("loop0", "loop", v1alpha1.RefusalVirtual), device("loop1", "loop", v1alpha1.RefusalVirtual),
		volume(0), volume(1), device("dm-2", "dm", v1alpha1.RefusalVirtual), path, crypt,
		device("md0", "md", v1alpha1.RefusalVirtual), device("sr0", "rom", v1alpha1.RefusalVirtual, v1alpha1.RefusalRemovable),
	}, nil)
	if len(v.devices) != 1 || v.total != 1 || v.devices[0].KernelName != "sda" {
		t.Errorf("%+v", v.devices)
	}
	if got, want := v.summary(), "1 crypt, 1 dm, 2 loop, 2 lvm, 1 md, 1 mpath, 1 partition, 1 rom"; got != want {
		t.Errorf("others: %q, want %q", got, want)
	}
}

func TestLook_moreDisksThanAStatusHolds(t *testing.T) {
	var devices []decide.Device
	for i := range 300 {
		devices = append(devices, device(fmt.Sprintf("sd%03d", i), "disk", v1alpha1.RefusalFilesystem))
	}
	devices = append(devices, owned("sd300", "u1"), device("sd301", "disk"))
	v := look(devices, nil)
	if len(v.devices) != v1alpha1.MaxNodeDevices || v.total != 302 || v.available != 1 || v.inUse != 1 || v.summary() != "46 disk" {
		t.Fatalf("%d devices of %d, %d available, %d in use, others %q", len(v.devices), v.total, v.available, v.inUse, v.summary())
	}
	last := v.devices[len(v.devices)-2:]
	if last[0].KernelName != "sd300" || last[1].KernelName != "sd301" || v.devices[253].KernelName != "sd253" {
		t.Errorf("the devices that matter are not listed in their order: %+v", last)
	}
}

// sentence is as long as what an agent says about a disk that very many volumes use.
func sentence() string {
	return "The device is in use by " + strings.Repeat("dm-1234 (/dev/mapper/vg-volume), ", 1000)
}

// sizes are a large node, and bad ones.
func sizes() map[string]sized {
	large := func(disk func(i int) decide.Device) decide.Node {
		n := decide.Node{
			Name: "n1", Agent: decide.AgentUp, Session: time.Unix(1, 0), AgentVersion: "v1.2.3", KernelRelease: "6.12", LVMVersion: "2.03.16",
			Problem: sentence(),
		}
		for i := range 60 {
			d := disk(i)
			d.Path = fmt.Sprintf("/dev/disk/by-id/wwn-0x%032d", i)
			d.Model, d.Serial, d.WWN, d.Transport = "SAMSUNG MZQL27T6HBLA-00A07", fmt.Sprintf("S6CKNN0W%06d", i), fmt.Sprintf("0x%032d", i), "nvme"
			n.Devices = append(n.Devices, d, device(fmt.Sprintf("sd%dp1", i), "partition", v1alpha1.RefusalPartition))
		}
		g := decide.Group{Name: "quarry-fast", UUID: "uuid-1", OwnerUID: "u1", SizeBytes: 60 << 40, FreeBytes: 1 << 40}
		for i := range 1000 {
			g.Volumes = append(g.Volumes, fmt.Sprintf("pvc-%036d", i))
			n.Devices = append(n.Devices, volume(i))
		}
		n.Groups = []decide.Group{g}
		return n
	}
	disturbed := func(i int) decide.Device {
		d := device(fmt.Sprintf("sd%d", i), "disk")
		for _, reason := range []string{
			v1alpha1.RefusalUnreadable, v1alpha1.RefusalSuspended, v1alpha1.RefusalMounted, v1alpha1.RefusalSwap, v1alpha1.RefusalHeld,
			v1alpha1.RefusalLVM, v1alpha1.RefusalPartitionTable, v1alpha1.RefusalRAID, v1alpha1.RefusalZFS, v1alpha1.RefusalSignature,
		} {
			d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: reason, Message: sentence()})
		}
		return d
	}
	crowded := large(disturbed)
	for i := range 1000 {
		crowded.Devices = append(crowded.Devices, disturbed(1000+i))
		g := decide.Group{Name: strings.Repeat("v", 127), UUID: fmt.Sprintf("uuid-x%d", i), OwnerUID: strings.Repeat("u", 1000)}
		for p := range 50 {
			g.Pools = append(g.Pools, decide.ThinPool{Name: fmt.Sprintf("pool%d", p)})
		}
		crowded.Groups = append(crowded.Groups, g)
	}
	// Of small entries the names of their fields are a large part.
	plain := func(i int) decide.Device {
		d := device(fmt.Sprintf("sd%d", i), "disk")
		d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: sentence()}}
		d.Model, d.Serial, d.WWN, d.Transport = "MZQL27T6HBLA", fmt.Sprintf("S6C%06d", i), fmt.Sprintf("0x%016d", i), "nvme"
		return d
	}
	many := large(plain)
	for i := range 300 {
		many.Devices = append(many.Devices, plain(1000+i))
		many.Groups = append(many.Groups, decide.Group{Name: "vg", UUID: fmt.Sprintf("uuid-x%d", i), OwnerUID: strings.Repeat("u", 300)})
	}
	return map[string]sized{
		"all disks in use":     {large(func(i int) decide.Device { return owned(fmt.Sprintf("sd%d", i), "u1") }), 60},
		"all disks refused":    {large(disturbed), 60},
		"what nobody plugs in": {crowded, 50},
		"many small disks":     {many, 150},
	}
}

// sized is a node, and the least number of its devices that must be shown.
type sized struct {
	node   decide.Node
	listed int
}

// TestFill_size: of a large node, and of bad ones, the status lists what matters.
func TestFill_size(t *testing.T) {
	for name, tt := range sizes() {
		t.Run(name, func(t *testing.T) {
			sn := &v1alpha1.StorageNode{}
			fill(sn, tt.node, owners{"u1": "Cluster fast"}, nil, nil)
			if len(sn.Status.Devices) < tt.listed || !strings.Contains(sn.Status.OtherDevices, "1000 lvm, 60 partition") {
				t.Errorf("%d devices are listed, others %q", len(sn.Status.Devices), sn.Status.OtherDevices)
			}
			if g := sn.Status.Groups; len(g) == 0 || g[0].Volumes != 1000 || g[0].Owner != "Cluster fast" || int(sn.Status.GroupCount) != len(tt.node.Groups) {
				t.Errorf("groups: %d of %d, the first %+v", len(g), sn.Status.GroupCount, g[0])
			}
		})
	}
}

// TestFill_storedSize: no StorageNode is larger than 200 KiB as the API server stores it, with the fields that it adds (managedFields).
func TestFill_storedSize(t *testing.T) {
	const limit = 200 << 10
	c := apitest.Client(t)
	for name, tt := range sizes() {
		t.Run(name, func(t *testing.T) {
			sn := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "large"}}
			if err := c.Create(t.Context(), sn, kube.FieldOwner); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.Background(), sn) })
			after := sn.DeepCopy()
			fill(after, tt.node, owners{"u1": "Cluster fast"}, nil, nil)
			if _, err := kube.WriteStatus(t.Context(), c, sn, after); err != nil {
				t.Fatal(err)
			}
			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("StorageNode"))
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(sn), stored); err != nil {
				t.Fatal(err)
			}
			all, fields := sizeInJSON(t, stored.Object), sizeInJSON(t, stored.GetManagedFields())
			t.Logf("%d bytes, %d of them managedFields, %d devices, %d groups", all, fields, len(after.Status.Devices), len(after.Status.Groups))
			if all > limit {
				t.Errorf("%d bytes, more than %d", all, limit)
			}
			if fields < 10*len(after.Status.Devices) {
				t.Errorf("managedFields have %d bytes: this is not the object as it is stored", fields)
			}
		})
	}
}

func sizeInJSON(t *testing.T, value any) int {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

func TestGroupsOf_twoOfOneName(t *testing.T) {
	groups := []decide.Group{{Name: "vg", UUID: "a", OwnerUID: "u1"}, {Name: "vg", UUID: "b", OwnerUID: "u2"}, {Name: "other", UUID: "b"}}
	var got []string
	for _, g := range groupsOf(decide.Node{Groups: groups}, owners{"u1": "Cluster fast"}) {
		got = append(got, g.UUID+" "+g.Name+" "+g.Owner)
	}
	want := []string{"a vg Cluster fast", "b vg a Cluster with UID u2, which does not exist any more"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestFill_unknownGroup: a node of which LVM cannot report a group cannot be used as it is, and shows why.
func TestFill_unknownGroup(t *testing.T) {
	sn := &v1alpha1.StorageNode{}
	n := decide.Node{Agent: decide.AgentUp, Session: time.Now(), Groups: []decide.Group{{Name: "vg", UUID: "U", OwnerUID: "u1", Unknown: true}}}
	n.Unknown = []decide.UnknownGroup{{Name: "vg", UUID: "U", OwnerUID: "u1", Devices: []string{"/dev/disk/by-id/a"}, Reason: "locked"}}
	fill(sn, n, owners{"u1": "Cluster fast"}, nil, nil)
	c := meta.FindStatusCondition(sn.Status.Conditions, v1alpha1.ConditionReady)
	const says = "LVM cannot report volume group vg on /dev/disk/by-id/a (locked)"
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonVolumeGroupUnknown || c.Message != says || sn.Status.Message != says {
		t.Errorf("%+v, %q", c, sn.Status.Message)
	}
	if len(sn.Status.Groups) != 1 {
		t.Errorf("what was reported last is gone: %+v", sn.Status.Groups)
	}
}

// TestFill_diedAfterItsIntroduction: an agent that said who it is and died before it reported its disks takes nothing from what an earlier
// controller wrote.
func TestFill_diedAfterItsIntroduction(t *testing.T) {
	sn := &v1alpha1.StorageNode{}
	sn.Status.DeviceCount, sn.Status.Devices = 1, []v1alpha1.NodeDevice{{Path: "/dev/disk/by-id/a"}}
	sn.Status.GroupCount, sn.Status.Groups = 1, []v1alpha1.NodeVolumeGroup{{Name: "vg", UUID: "U"}}
	before := sn.Status.DeepCopy()
	fill(sn, decide.Node{Agent: decide.AgentUnreachable, Problem: "the agent does not answer", AgentVersion: "v1"}, nil, nil, nil)
	if sn.Status.State != "offline" {
		t.Errorf("state %s", sn.Status.State)
	}
	sn.Status.State, sn.Status.Message, sn.Status.Conditions = "", "", nil
	if diff := cmp.Diff(*before, sn.Status); diff != "" {
		t.Error(diff)
	}
}

// TestBefore: while nobody knows which devices are on record, those of before are shown.
func TestBefore(t *testing.T) {
	sn := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	n := decide.Node{Name: "n1", Session: time.Now(), Devices: []decide.Device{device("sda", "disk"), owned("sdb", "u1"), device("sdc", "disk")}}
	n.Devices[0].Serial = "A"
	for range 2 {
		records := before(sn)
		if sn.Status.Devices == nil {
			records = []disk.Record{{Holder: "GlusterNode g/a", Device: v1alpha1.GlusterDevice{Node: "n1", Serial: "A", Size: 1 << 40}}}
		}
		fill(sn, n, owners{"u1": "Cluster fast"}, records, nil)
		if d := sn.Status.Devices; d[0].InUseBy != "GlusterNode g/a" || d[0].Available || d[1].InUseBy != "Cluster fast" || d[2].InUseBy != "" || !d[2].Available {
			t.Errorf("%+v", d)
		}
	}
}

// TestView_reserve: a device that a GlusterNode has on record is not available, whether glusterd2 was there already or not.
func TestView_reserve(t *testing.T) {
	n := decide.Node{Name: "n1", Devices: []decide.Device{
		{Path: "/dev/disk/by-id/a", KernelName: "sda", Type: "disk", Serial: "A", Digest: "seen"},
		{Path: "/dev/disk/by-id/b", KernelName: "sdb", Type: "disk", Serial: "B", Digest: "seen", Refusals: []v1alpha1.Refusal{{Reason: v1alpha1.RefusalLVM, Message: "It is."}}},
		{Path: "/dev/disk/by-id/c", KernelName: "sdc", Type: "disk", Serial: "C", Digest: "seen"},
	}}
	v := look(n.Devices, nil)
	v.reserve(n, []disk.Record{{Holder: "GlusterNode g/a", Device: v1alpha1.GlusterDevice{Node: "n1", Serial: "A"}}, {Holder: "GlusterNode g/b", Device: v1alpha1.GlusterDevice{Node: "n1", Serial: "B"}}})
	var got []string
	for _, d := range v.devices {
		got = append(got, d.Verdict)
	}
	if want := []string{"in use by GlusterNode g/a", "in use by GlusterNode g/b; LVMPhysicalVolume", "available"}; !slices.Equal(got, want) || v.available != 1 || v.inUse != 2 || v.devices[0].Available {
		t.Errorf("%q, %d available, %d in use", got, v.available, v.inUse)
	}
}

// TestView_share: the LUN of an Iscsi is in use by it, whatever is on it already. What is on it that the Iscsi did not put there is said as well.
func TestView_share(t *testing.T) {
	lun := func(name string, reasons ...string) decide.Device {
		d := decide.Device{Path: "/dev/disk/by-id/" + name, KernelName: name, Type: "disk", WWN: "0x6001405", Serial: "A", Transport: "iscsi", Digest: "seen"}
		for _, r := range reasons {
			d.Refusals = append(d.Refusals, v1alpha1.Refusal{Reason: r, Message: "It is."})
		}
		return d
	}
	other := lun("sdd")
	other.Serial = "B"
	n := decide.Node{Name: "n1", Session: time.Now(), Devices: []decide.Device{
		lun("sda"), lun("sdb", v1alpha1.RefusalOtherNode, v1alpha1.RefusalLVM, v1alpha1.RefusalHeld, v1alpha1.RefusalBusy), lun("sdc", v1alpha1.RefusalFilesystem, v1alpha1.RefusalSharedDisk), other, device("sde", "disk"),
	}}
	sn := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	fill(sn, n, nil, nil, func(d decide.Device) string {
		if d.WWN == "0x6001405" && d.Serial == "A" {
			return "Iscsi san"
		}
		return ""
	})
	var got []string
	for _, d := range sn.Status.Devices {
		got = append(got, d.Verdict)
	}
	want := []string{"in use by Iscsi san", "in use by Iscsi san", "in use by Iscsi san; Filesystem", "available on request: attached over iscsi", "available"}
	if d := sn.Status.Devices; !slices.Equal(got, want) || sn.Status.AvailableCount != 2 || sn.Status.InUseCount != 3 || len(d[1].Refusals) != 0 || len(d[2].Refusals) != 1 {
		t.Errorf("%q, %d available, %d in use, %+v", got, sn.Status.AvailableCount, sn.Status.InUseCount, sn.Status.Devices)
	}
}
