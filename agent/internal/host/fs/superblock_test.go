package fs

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
)

// TestTool_realPrograms makes filesystems in files, which needs no rights, with the programs of this machine.
func TestTool_realPrograms(t *testing.T) {
	for _, fsType := range []string{Ext4, XFS, Btrfs} {
		t.Run(fsType, func(t *testing.T) {
			for _, path := range []string{programs[fsType].path, "/usr/sbin/blkid"} {
				if _, err := os.Stat(path); err != nil {
					t.Skipf("a program of the filesystem is not installed, `make deps` does that: %v", err)
				}
			}
			for _, kernel := range []string{"99.0", "4.18.0", "5.10.0", "5.15.0"} {
				tool := New(run.Real{})
				tool.versions.kernel = func() (string, error) { return kernel, nil }
				device := image(t, 400<<20)
				before := time.Now().Unix()
				if err := tool.Format(t.Context(), device, Make{Type: fsType, UUID: id}); err != nil {
					t.Fatal(err)
				}
				c, err := tool.Describe(t.Context(), device)
				if err != nil || c.Type != fsType || c.UUID != id || c.Unfinished {
					t.Errorf("kernel %s: %+v, %v", kernel, c, err)
				}
				if now := time.Now().Unix(); fsType != Btrfs && (c.MadeUnix < before || c.MadeUnix > now) {
					t.Errorf("kernel %s: made at %d, between %d and %d", kernel, c.MadeUnix, before, now)
				}
				if err := tool.Check(t.Context(), device, fsType, nil); err != nil {
					t.Errorf("kernel %s: %v", kernel, err)
				}
			}
		})
	}
}

func TestTool_Describe_whatIsNoFilesystem(t *testing.T) {
	for name, c := range map[string]struct {
		at   []int64
		code int
		out  string
		want Content
	}{
		"nothing":      {code: 2},
		"unknown data": {code: 2, at: []int64{8192}, want: Content{Unknown: true}},
		"LUKS":         {out: "TYPE=crypto_LUKS\n", want: Content{Type: "crypto_LUKS"}},
		"partitions":   {out: "PTTYPE=gpt\n", want: Content{Type: "unknown data, probably partitions"}},
		"an xfs that was never finished": {
			out: "TYPE=xfs\n", at: []int64{126}, want: Content{Type: XFS, UUID: "00000000-0000-0000-0000-000000000000", Unfinished: true},
		},
		"an xfs whose root leads nowhere": {
			out: "TYPE=xfs\n", at: []int64{56}, want: Content{Type: XFS, UUID: "00000000-0000-0000-0000-000000000000"},
		},
	} {
		device := image(t, 1<<20, c.at...)
		got, err := New(run.NewFake(blkid(device, c.code, c.out))).Describe(t.Context(), device)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestTool_Own gives a copy its own UUID, once, and leaves its source alone.
func TestTool_Own(t *testing.T) {
	for _, path := range []string{"/usr/sbin/mkfs.btrfs", "/usr/bin/btrfstune"} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("a program of the filesystem is not installed, `make deps` does that: %v", err)
		}
	}
	counting := &run.Counting{Next: run.Real{}}
	tool, device := New(counting), image(t, 200<<20)
	if err := tool.Format(t.Context(), device, Make{Type: Btrfs, UUID: id}); err != nil {
		t.Fatal(err)
	}
	copied := device + ".copy"
	if err := exec.Command("cp", "--sparse=always", device, copied).Run(); err != nil {
		t.Fatal(err)
	}
	const own = "0c1f9e31-77f4-5a4e-9d0b-6a4c2a1b3c4d"
	for range 2 {
		if err := tool.Own(t.Context(), copied, Btrfs, own); err != nil {
			t.Fatal(err)
		}
	}
	if err := tool.Own(t.Context(), device, Btrfs, id); err != nil {
		t.Error(err)
	}
	if err := tool.Own(t.Context(), "/nonexistent", Ext4, own); err != nil {
		t.Error(err)
	}
	tuned := 0
	for _, c := range counting.Calls() {
		if c.Path == "/usr/bin/btrfstune" {
			tuned++
		}
	}
	if tuned != 1 {
		t.Errorf("changed %d times", tuned)
	}
	for path, want := range map[string]string{device: id, copied: own} {
		if c, err := tool.Describe(t.Context(), path); err != nil || c.UUID != want {
			t.Errorf("%s: %+v, %v", path, c, err)
		}
	}
}

// TestTool_Own_diedBefore: btrfstune died after it had said that it begins, and before it changed the UUID. The next call gets through.
func TestTool_Own_diedBefore(t *testing.T) {
	for _, path := range []string{"/usr/sbin/mkfs.btrfs", "/usr/bin/btrfstune", "/usr/bin/btrfs"} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("a program of the filesystem is not installed, `make deps` does that: %v", err)
		}
	}
	tool, device := New(run.Real{}), image(t, 200<<20)
	if err := tool.Format(t.Context(), device, Make{Type: Btrfs, UUID: id}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, at := range []int64{64 << 10, 64 << 20} {
		sb, err := readSuperblock(f, at)
		if err != nil || !sb.stands(at) || sb.changing() {
			t.Fatalf("superblock at %d: %v", at, err)
		}
		sb[btrfsFlags+4] |= 1 << 4
		binary.LittleEndian.PutUint32(sb, sb.sum())
		if _, err := f.WriteAt(sb, at); err != nil {
			t.Fatal(err)
		}
	}
	const own = "0c1f9e31-77f4-5a4e-9d0b-6a4c2a1b3c4d"
	if out, err := exec.Command("/usr/bin/btrfstune", "-M", own, device).CombinedOutput(); err == nil {
		t.Fatalf("btrfstune does not mind: %s", out)
	}
	if err := tool.Own(t.Context(), device, Btrfs, own); err != nil {
		t.Fatal(err)
	}
	if c, err := tool.Describe(t.Context(), device); err != nil || c.UUID != own {
		t.Errorf("%+v, %v", c, err)
	}
	if out, err := exec.Command("/usr/bin/btrfs", "check", device).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
