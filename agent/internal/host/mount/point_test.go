package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// table is as kernels 6.1 and 6.18 write it.
const table = `21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 0:5 / /dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=4096k
40 21 253:3 / /var/lib/kubelet/staging/globalmount rw,noatime shared:3 - xfs /dev/mapper/vg-lv rw,nouuid
41 21 253:3 / /var/lib/kubelet/pods/a ro,nosuid,noatime shared:3 - xfs /dev/mapper/vg-lv rw,nouuid
42 21 253:3 /sub /var/lib/kubelet/pods/sub rw,noatime shared:3 - xfs /dev/mapper/vg-lv rw,nouuid
43 21 0:5 /dm-4 /var/lib/kubelet/pods/dev rw,nosuid shared:2 - devtmpfs devtmpfs rw,size=4096k
44 21 0:44 / /var/lib/kubelet/pods/btrfs\040here rw - btrfs /dev/mapper/vg-b rw,space_cache=v2
45 21 253:6 / /var/lib/kubelet/pods/broken rw - ext4 /dev/dm-6 rw,emergency_ro
46 21 253:7 / /var/lib/kubelet/pods/ro ro - ext4 /dev/dm-7 ro
47 21 0:50 / /var/lib/kubelet/pods/lost rw - btrfs /dev/mapper/gone rw
48 21 0:51 /x /var/lib/kubelet/pods/tmp rw - tmpfs tmpfs rw
49 21 0:60 / /var/lib/kubelet/pods/nfs ro,nosuid - nfs4 [fd00::1]:/export/a\040b rw,vers=4.2,addr=fd00::1
`

func TestPoints(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mountinfo")
	if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	number := func(path string) (Device, error) {
		switch path {
		case "/var/lib/kubelet/pods/dev":
			return Device{253, 4}, nil
		case "/dev/mapper/vg-b":
			return Device{253, 5}, nil
		case "/var/lib/kubelet/pods/tmp":
			return Device{}, errors.New("not a block device")
		}
		return Device{}, os.ErrNotExist
	}
	got, err := points(file, number)
	if err != nil {
		t.Fatal(err)
	}
	want := []Point{
		{Path: "/", Source: "/dev/vda", Options: "rw", Filesystem: Device{254, 0}, Device: Device{254, 0}, Whole: true, FSType: "ext4", Shared: true},
		{Path: "/dev", Source: "devtmpfs", Options: "rw,size=4096k", Filesystem: Device{0, 5}, Whole: true, FSType: "devtmpfs", Shared: true},
		{Path: "/var/lib/kubelet/staging/globalmount", Source: "/dev/mapper/vg-lv", Options: "rw,nouuid", Filesystem: Device{253, 3}, Device: Device{253, 3}, Whole: true, FSType: "xfs", Shared: true},
		{Path: "/var/lib/kubelet/pods/a", Source: "/dev/mapper/vg-lv", Options: "rw,nouuid", Filesystem: Device{253, 3}, Device: Device{253, 3}, Whole: true, FSType: "xfs", Shared: true, ReadOnly: true},
		{Path: "/var/lib/kubelet/pods/sub", Source: "/dev/mapper/vg-lv", Options: "rw,nouuid", Filesystem: Device{253, 3}, Device: Device{253, 3}, FSType: "xfs", Shared: true},
		{Path: "/var/lib/kubelet/pods/dev", Source: "devtmpfs", Options: "rw,size=4096k", Filesystem: Device{0, 5}, Device: Device{253, 4}, Node: true, Whole: true, FSType: "devtmpfs", Shared: true},
		{Path: "/var/lib/kubelet/pods/btrfs here", Source: "/dev/mapper/vg-b", Options: "rw,space_cache=v2", Filesystem: Device{0, 44}, Device: Device{253, 5}, Whole: true, FSType: "btrfs"},
		{Path: "/var/lib/kubelet/pods/broken", Source: "/dev/dm-6", Options: "rw,emergency_ro", Filesystem: Device{253, 6}, Device: Device{253, 6}, Whole: true, FSType: "ext4", Frozen: true},
		{Path: "/var/lib/kubelet/pods/ro", Source: "/dev/dm-7", Options: "ro", Filesystem: Device{253, 7}, Device: Device{253, 7}, Whole: true, FSType: "ext4", ReadOnly: true, Frozen: true},
		{Path: "/var/lib/kubelet/pods/lost", Source: "/dev/mapper/gone", Options: "rw", Filesystem: Device{0, 50}, Whole: true, FSType: "btrfs"},
		{Path: "/var/lib/kubelet/pods/tmp", Source: "tmpfs", Options: "rw", Filesystem: Device{0, 51}, FSType: "tmpfs"},
		{Path: "/var/lib/kubelet/pods/nfs", Source: "[fd00::1]:/export/a b", Options: "rw,vers=4.2,addr=fd00::1", Filesystem: Device{0, 60}, Whole: true, FSType: "nfs4", ReadOnly: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Point{})); diff != "" {
		t.Error(diff)
	}
	if flags := got[3].flags; flags != unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NOATIME {
		t.Errorf("flags are %#x", flags)
	}
	if p, ok := Holding(got, "/var/lib/kubelet/pods/a/b/c"); !ok || p.Path != "/var/lib/kubelet/pods/a" {
		t.Errorf("got %v", p)
	}
	if p, ok := Holding(got, "/usr"); !ok || p.Path != "/" {
		t.Errorf("got %v", p)
	}
}

func TestParseOptions(t *testing.T) {
	got, err := ParseOptions("ext4", []string{"ro,noatime", "commit=30", "errors=remount-ro,nosuid", "commit=30", "defaults"})
	if err != nil {
		t.Fatal(err)
	}
	if !got.ReadOnly || got.bits() != unix.MS_RDONLY|unix.MS_NOATIME|unix.MS_NOSUID || joined(got.data) != "commit=30,errors=remount-ro" {
		t.Errorf("got %+v", got)
	}
	if got, err := ParseOptions("xfs", []string{"ro", "rw", "noatime", "relatime"}); err != nil || got.ReadOnly || got.bits() != unix.MS_RELATIME {
		t.Errorf("the last one counts: %+v, %v", got, err)
	}
	for _, option := range []string{
		"suid", "dev", "exec", "bind", "rbind", "move", "remount", "shared", "user", "loop", "", ",", "commit", "commit=", "commit=5\n", "commit=0x5",
		"journal_path=/dev/sda", "journal_dev=0x801", "sb=8193", "logdev=/dev/sda", "device=/dev/sda", "subvol=/", "context=x", "x-systemd.automount",
		"data=ordered\x00", "data=ordered=", "errors=remount-ro ", "NOATIME", "acl=", "-o", "uid=0",
	} {
		for _, fsType := range []string{"ext4", "xfs", "btrfs", "ntfs"} {
			if got, err := ParseOptions(fsType, []string{option}); !errors.Is(err, ErrOption) {
				t.Errorf("%s %q: got %+v, %v", fsType, option, got, err)
			}
		}
	}
}
