package block

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// withoutVersion leaves out what no test can know.
var withoutVersion = cmpopts.IgnoreFields(Device{}, "Version")

func TestList_disk(t *testing.T) {
	tr := newTree(t)
	dir := tr.disk("pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0", "sda", "8:0")
	part := tr.partition(dir, "sda1", "8:1")
	tr.mkdir(part + "/holders/dm-0")
	tr.mkdir(dir + "/holders/md0")
	tr.udev("8:0", "sda", "S:disk/by-id/ata-DISK_S1", "S:disk/by-id/wwn-0x5000c500a1b2c3d4", "S:disk/by-path/pci-1", "S:mapper/x",
		`E:ID_MODEL_ENC=GOOD\x20DISK\x20\x20\x20`, "E:ID_MODEL=GOOD_DISK", "E:ID_SERIAL=GOOD_DISK_S1", "E:ID_SERIAL_SHORT=S1",
		"E:ID_WWN=0x5000c500a1b2c3d4", "E:ID_BUS=ata", "E:ID_PART_TABLE_TYPE=gpt", "E:UNRELATED=1", "E:ID_FS_TYPE=")
	tr.udev("8:1", "sda1", "S:disk/by-id/ata-DISK_S1-part1", "E:ID_SERIAL_SHORT=S1", "E:ID_FS_TYPE=ext4")
	got := tr.list()
	dev := tr.root + "/dev"
	want := map[string]Device{
		"sda": {
			Name: "sda", Node: dev + "/sda", Path: dev + "/disk/by-id/wwn-0x5000c500a1b2c3d4", Type: "disk", Major: 8,
			Links: []string{
				dev + "/disk/by-id/ata-DISK_S1", dev + "/disk/by-id/wwn-0x5000c500a1b2c3d4", dev + "/disk/by-path/pci-1",
			},
			SizeBytes: 1 << 30, LogicalSectorBytes: 512, PhysicalSectorBytes: 4096, Rotational: true,
			Model: "GOOD DISK", Serial: "S1", WWN: "0x5000c500a1b2c3d4", Transport: "sata",
			Holders: []string{"dm-0", "md0"}, Partitions: []string{"sda1"}, Udev: map[string]string{"ID_PART_TABLE_TYPE": "gpt"},
			Appeared: new(1234 * time.Microsecond),
		},
		"sda1": {
			Name: "sda1", Node: dev + "/sda1", Path: dev + "/disk/by-id/ata-DISK_S1-part1", Type: "partition", Major: 8, Minor: 1,
			Links: []string{dev + "/disk/by-id/ata-DISK_S1-part1"}, SizeBytes: 1 << 20, LogicalSectorBytes: 512,
			PhysicalSectorBytes: 4096, Rotational: true, Serial: "S1", Parent: "sda", Holders: []string{"dm-0"},
			Udev: map[string]string{"ID_FS_TYPE": "ext4"}, Appeared: new(1234 * time.Microsecond),
		},
	}
	if diff := cmp.Diff(want, got, withoutVersion); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestList_sysfsTellsWhatUdevDoesNot(t *testing.T) {
	tr := newTree(t)
	scsi := tr.disk("platform/host1/session1/target1:0:0/1:0:0:1", "sdb", "8:16")
	tr.write(scsi+"/device/model", "tcmloop         \n", scsi+"/device/vpd_pg80", "\x00\x80\x00\x06ABC123", scsi+"/device/wwid",
		"naa.6001405aaaa\n")
	nvme := tr.disk("pci0000:00/nvme/nvme0", "nvme0n1", "259:0")
	tr.write(nvme+"/device/model", "FAST\n", nvme+"/device/serial", "N1  \n", nvme+"/wwid", "eui.0025385b\n")
	virtio := tr.disk("pci0000:00/virtio2", "vda", "254:0")
	tr.write(virtio+"/serial", "V1\n")
	t10 := tr.disk("pci0000:00/host3", "sdc", "8:32")
	tr.write(t10+"/device/wwid", "t10.ATA     DISK\n", t10+"/serial", "(null)\n")
	for n, d := range map[string]string{"8:16": "sdb", "259:0": "nvme0n1", "254:0": "vda", "8:32": "sdc"} {
		tr.udev(n, d)
	}
	type identity struct{ Model, Serial, WWN, Transport string }
	want := map[string]identity{
		"sdb":     {"tcmloop", "ABC123", "0x6001405aaaa", "iscsi"},
		"nvme0n1": {"FAST", "N1", "eui.0025385b", "nvme"},
		"vda":     {"", "V1", "", "virtio"},
		"sdc":     {"", "", "", ""},
	}
	got := map[string]identity{}
	for name, d := range tr.list() {
		got[name] = identity{d.Model, d.Serial, d.WWN, d.Transport}
		if len(d.Unreadable) > 0 || d.Path != d.Node {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if diff := cmp.Diff(want, got, withoutVersion); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestList_transport: the transport decides who may have the disk, so a path over a network counts even beside a local one.
func TestList_transport(t *testing.T) {
	// served has the controllers of a device, each with its transport.
	served := func(pairs ...string) func(tr tree, dir string) {
		return func(tr tree, dir string) {
			for i := 0; i < len(pairs); i += 2 {
				tr.write(dir+"/device/"+pairs[i]+"transport", pairs[i+1]+"\n")
			}
		}
	}
	bus := func(name string) func(tree, string) {
		return func(tr tree, _ string) { tr.udev("8:0", "sda", "E:ID_BUS="+name) }
	}
	for _, tt := range []struct {
		place, disk string
		change      func(tr tree, dir string)
		want        string
	}{
		{"pci0000:00/ata1/host0/target0:0:0/0:0:0:0", "sda", nil, "sata"},
		{"pci0000:00/host6/port-6:0/end_device-6:0/target6:0:0/6:0:0:0", "sda", nil, "sas"},
		{"platform/host1/session1/target1:0:0/1:0:0:1", "sda", nil, "iscsi"},
		{"pci0000:00/host2/rport-2:0-1/target2:0:0/2:0:0:0", "sda", nil, "fc"},
		{"pci0000:00/usb2/2-1/2-1:1.0/host5/target5:0:0/5:0:0:0", "sda", nil, "usb"},
		{"pci0000:00/virtio1/host3/target3:0:0/3:0:0:0", "sda", nil, "virtio"},
		{"pci0000:00/virtio2", "vda", nil, "virtio"},
		{"pci0000:00/host9/target9:0:0/9:0:0:0", "sda", bus("scsi"), "scsi"},
		{"pci0000:00/host8/target8:0:0/8:0:0:0", "sda", bus("ata"), "sata"},
		{"platform/uml-blkdev.1", "ubdb", nil, ""},
		{"virtual", "nbd0", nil, "nbd"},
		{"rbd/0", "rbd0", nil, "rbd"},
		{"pci0000:00/nvme/nvme0", "nvme0n1", served("", "pcie"), "nvme"},
		{"pci0000:00/nvme/nvme9", "nvme9n1", nil, "nvme"},
		{"virtual/nvme-fabrics/ctl/nvme1", "nvme1n1", served("", "tcp"), "nvme-tcp"},
		{"virtual/nvme-subsystem/nvme-subsys2", "nvme2n1", served("nvme2/", "pcie"), "nvme"},
		{"virtual/nvme-subsystem/nvme-subsys3", "nvme3n1", served("nvme3/", "rdma"), "nvme-rdma"},
		{"virtual/nvme-subsystem/nvme-subsys4", "nvme4n1", served("nvme4/", "pcie", "nvme5/", "fc"), "nvme-fc"},
		{"virtual/nvme-subsystem/nvme-subsys5", "nvme5n1", nil, "unreadable"},
	} {
		tr := newTree(t)
		dir := tr.disk(tt.place, tt.disk, "8:0")
		tr.udev("8:0", tt.disk)
		if tt.change != nil {
			tt.change(tr, dir)
		}
		d := tr.list()[tt.disk]
		got := d.Transport
		if slices.Contains(d.Unreadable, "transport: "+errNoController.Error()) {
			got = "unreadable"
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q (%v)", tt.place, got, tt.want, d.Unreadable)
		}
	}
}

// A disk of which the connection is lost keeps who reads it; an offline one fails at once. A partition is as its disk.
func TestList_held(t *testing.T) {
	tr := newTree(t)
	dir := tr.disk("pci0000:00/0000:00:01.0", "sda", "8:0")
	tr.partition(dir, "sda1", "8:1")
	tr.udev("8:0", "sda")
	tr.udev("8:1", "sda1")
	for state, want := range map[string]string{
		"running": "", "offline": "", "transport-offline": "", "live": "", "blocked": "blocked", "created-blocked": "created-blocked", "quiesce": "quiesce",
		"connecting": "connecting", "resetting": "resetting",
	} {
		tr.write(dir+"/device/state", state+"\n")
		for _, d := range tr.list() {
			if d.Held != want {
				t.Errorf("%s while the state is %s: held %q", d.Name, state, d.Held)
			}
		}
	}
	tr.remove(dir + "/device/state")
	for _, d := range tr.list() {
		if d.Held != "" || len(d.Unreadable) > 0 {
			t.Errorf("without a state: %+v", d)
		}
	}
}

func TestList_zoned(t *testing.T) {
	for value, want := range map[string]string{"none": "", "host-managed": "host-managed", "host-aware": "host-aware"} {
		tr := newTree(t)
		dir := tr.disk("x", "sda", "8:0")
		tr.udev("8:0", "sda")
		if d := tr.list()["sda"]; d.Zoned != "" || len(d.Unreadable) > 0 {
			t.Errorf("an old kernel: %+v", d)
		}
		tr.write(dir+"/queue/zoned", value+"\n")
		if got := tr.list()["sda"].Zoned; got != want {
			t.Errorf("%s: %q", value, got)
		}
		tr.remove(dir + "/queue/zoned")
		tr.mkdir(dir + "/queue/zoned")
		if d := tr.list()["sda"]; len(d.Unreadable) == 0 {
			t.Error("an attribute that cannot be read is taken for one that is not there")
		}
	}
}

func TestList_unreadable(t *testing.T) {
	tests := map[string]struct {
		change func(tr tree, dir string)
		want   string
	}{
		"nothing missing":           {func(tree, string) {}, ""},
		"not in udev's database":    {func(tr tree, _ string) { tr.remove("run/udev/data/b8:0") }, "udev: not yet"},
		"udev has not finished":     {func(tr tree, _ string) { tr.write("run/udev/data/b8:0", "E:ID_BUS=ata\n") }, "udev: not yet"},
		"no size":                   {func(tr tree, dir string) { tr.remove(dir + "/size") }, "size:"},
		"a size that is no number":  {func(tr tree, dir string) { tr.write(dir+"/size", "big") }, "size:"},
		"no read-only flag":         {func(tr tree, dir string) { tr.remove(dir + "/ro") }, "read-only:"},
		"a flag that is no flag":    {func(tr tree, dir string) { tr.write(dir+"/removable", "2") }, "removable:"},
		"no queue":                  {func(tr tree, dir string) { tr.remove(dir + "/queue") }, "sector size:"},
		"no holders":                {func(tr tree, dir string) { tr.remove(dir + "/holders") }, "holders:"},
		"no slaves":                 {func(tr tree, dir string) { tr.remove(dir + "/slaves") }, "slaves:"},
		"no device number":          {func(tr tree, dir string) { tr.remove(dir + "/dev") }, "device number:"},
		"a strange device number":   {func(tr tree, dir string) { tr.write(dir+"/dev", "8") }, "device number:"},
		"no node":                   {func(tr tree, _ string) { tr.remove("dev/sda") }, "node:"},
		"a serial that is a folder": {func(tr tree, dir string) { tr.mkdir(dir + "/serial") }, "serial:"},
	}
	for name, tt := range tests {
		tr := newTree(t)
		dir := tr.disk("x", "sda", "8:0")
		tr.udev("8:0", "sda")
		tt.change(tr, dir)
		got := tr.list()["sda"].Unreadable
		found := slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, tt.want) })
		if (tt.want == "" && len(got) > 0) || (tt.want != "" && !found) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestList_linksThatLeadElsewhere(t *testing.T) {
	tr := newTree(t)
	tr.disk("x", "sda", "8:0")
	tr.disk("y", "sdb", "8:16")
	tr.udev("8:0", "sda", "S:disk/by-id/wwn-0x1")
	// sdb claims the same name, and one that does not exist; the link leads to sda.
	tr.write("run/udev/data/b8:16", "S:disk/by-id/wwn-0x1\nS:disk/by-id/none\nI:1\n")
	got := tr.list()
	if len(got["sda"].Links) != 1 || len(got["sdb"].Links) != 0 || got["sdb"].Path != got["sdb"].Node {
		t.Errorf("%+v", got)
	}
}

func TestList_withoutUdev(t *testing.T) {
	tr := newTree(t)
	tr.disk("x", "sda", "8:0")
	tr.link("dev/disk/by-id/scsi-1", "../../sda")
	// A directory that is gone once it is read.
	tr.link("dev/disk/by-label", "gone")
	tr.remove("run/udev")
	h := New(Config{Sys: tr.root + "/sys", Dev: tr.root + "/dev", Udev: tr.root + "/run/udev", WithoutUdev: true})
	got, err := h.List(t.Context())
	if err != nil || len(got) != 1 || len(got[0].Unreadable) > 0 || got[0].Path != tr.root+"/dev/disk/by-id/scsi-1" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestList_mapper(t *testing.T) {
	tr := newTree(t)
	dir := tr.disk("virtual", "dm-0", "253:0")
	tr.write(dir+"/dm/suspended", "1\n", dir+"/dm/name", "mpatha\n", dir+"/dm/uuid", "mpath-3600\n")
	tr.mkdir(dir + "/slaves/sda")
	tr.udev("253:0", "dm-0")
	d := tr.list()["dm-0"]
	if d.Type != "dm" || !d.Suspended || d.DMName != "mpatha" || d.DMUUID != "mpath-3600" || !slices.Equal(d.Slaves, []string{"sda"}) {
		t.Errorf("%+v", d)
	}
	tr.remove(dir + "/dm")
	if d := tr.list()["dm-0"]; len(d.Unreadable) != 3 {
		t.Errorf("%+v", d)
	}
}

func TestList_hiddenAndVanished(t *testing.T) {
	tr := newTree(t)
	dir := tr.disk("x", "nvme0c0n1", "0:0")
	tr.write(dir+"/hidden", "1\n")
	tr.link("sys/class/block/sdz", "/nonexistent")
	if got := tr.list(); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	if d, err := tr.host().Device(0, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a hidden device alone: %+v, %v", d, err)
	}
	if d, err := tr.host().Device(8, 400); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no device alone: %+v, %v", d, err)
	}
	tr.remove("sys/class")
	if _, err := tr.host().List(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no sysfs: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newTreeWithDisk(t).host().List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// An empty card reader is told of; an empty loop device is not.
func TestList_emptyLoopDevices(t *testing.T) {
	tr := newTree(t)
	for name, number := range map[string]string{"loop0": "7:0", "loop1": "7:1", "sr0": "11:0"} {
		tr.udev(number, name)
		dir := tr.disk("virtual", name, number)
		if name != "loop1" {
			tr.write(dir+"/size", "0\n")
		}
	}
	var names []string
	for name := range tr.list() {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"loop1", "sr0"}; !slices.Equal(names, want) {
		t.Errorf("listed %v, want %v", names, want)
	}
}

func newTreeWithDisk(t *testing.T) tree {
	tr := newTree(t)
	tr.disk("x", "sda", "8:0")
	return tr
}

func TestKindOf(t *testing.T) {
	for name, want := range map[string]string{
		"sda": "disk", "sdaa": "disk", "nvme0n1": "disk", "vda": "disk", "mmcblk0": "disk", "pmem0": "disk", "xvda": "disk",
		"rssda": "disk", "loop0": "loop", "ram0": "ram", "zram0": "zram", "dm-12": "dm", "md0": "md", "md_d0": "md", "md127": "md",
		"sr0": "rom", "fd0": "floppy", "nbd3": "nbd", "drbd1000": "drbd", "bcache0": "bcache", "ubda": "ubd", "rbd0": "rbd",
		"mtdblock0": "mtd", "zd16": "zvol", "ublkb1": "ublk", "etherd!e0.0": "aoe", "cciss!c0d0": "disk",
	} {
		if got := kindOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if got := devName("cciss!c0d0"); got != "cciss/c0d0" {
		t.Error(got)
	}
}

func TestBest(t *testing.T) {
	tests := []struct {
		want  string
		links []string
	}{
		{"by-id/wwn-0x1", []string{"by-id/ata-X", "by-id/scsi-3600", "by-id/wwn-0x1", "by-path/pci-1"}},
		{"by-id/nvme-eui.1", []string{"by-id/nvme-MODEL_S", "by-id/nvme-eui.1"}},
		{"by-id/scsi-3600", []string{"by-id/scsi-0X", "by-id/scsi-3600"}},
		{"by-id/ata-X", []string{"by-id/ata-X", "by-id/usb-Y"}},
		{"by-id/zzz", []string{"by-id/zzz", "by-path/pci-1"}},
		{"by-path/pci-1", []string{"by-id/dm-name-x", "by-id/dm-uuid-LVM-y", "by-id/lvm-pv-uuid-z", "by-id/md-uuid-1", "by-path/pci-1"}},
		{"", []string{"by-uuid/1", "by-label/x", "by-partuuid/2"}},
	}
	for _, tt := range tests {
		var links []string
		for _, l := range tt.links {
			links = append(links, filepath.Join("/dev/disk", l))
		}
		want := "/dev/sda"
		if tt.want != "" {
			want = "/dev/disk/" + tt.want
		}
		if got := best(links, "/dev", "/dev/sda"); got != want {
			t.Errorf("%v: %s", tt.links, got)
		}
	}
}

func TestList_thisHost(t *testing.T) {
	got, err := New(Config{WithoutUdev: true}).List(t.Context())
	if err != nil {
		t.Skipf("no sysfs here: %v", err)
	}
	for _, d := range got {
		if len(d.Unreadable) > 0 {
			t.Logf("%s: %v", d.Name, d.Unreadable)
		}
	}
}

// TestList_appeared: a record that does not say when is one of a device of unknown age, not of an old one.
func TestList_appeared(t *testing.T) {
	tr := newTree(t)
	for i, line := range []string{"I:5000000", "I:", "I:soon", "I:0"} {
		name := string(rune('a' + i))
		number := "8:" + string(rune('0'+i))
		tr.disk("pci0000:00/ata"+name, "sd"+name, number)
		tr.write("dev/sd"+name, "", "run/udev/data/b"+number, line+"\n")
	}
	got := tr.list()
	if a := got["sda"].Appeared; a == nil || *a != 5*time.Second {
		t.Errorf("appeared %v", a)
	}
	for _, name := range []string{"sdb", "sdc", "sdd"} {
		if d, ok := got[name]; !ok || d.Appeared != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if up, err := Uptime(); err != nil || up <= 0 {
		t.Errorf("uptime %v, %v", up, err)
	}
}
