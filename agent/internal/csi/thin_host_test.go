//go:build hostroot

package csi_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// newThin makes the volume "pvc-1" in a thin pool of LVM's, on a loop device, and tells how full the pool is in percent.
func newThin(t *testing.T, n *realNode) (handle string, used func() float64) {
	t.Helper()
	n.add(t, 600*mib)
	id := csitest.ID("pvc-1")
	disk := n.devices[id.Name]
	group := "quarry-thin-" + strconv.Itoa(os.Getpid())
	lvm := func(args ...string) string {
		t.Helper()
		args = append(args, "--config", `devices{use_devicesfile=0 filter=["a|^`+disk+`$|","r|.*|"]} activation{udev_sync=0 udev_rules=0 monitoring=0}`)
		c := exec.Command("lvm", args...)
		var complaints bytes.Buffer
		c.Stderr = &complaints
		out, err := c.Output()
		if err != nil {
			t.Fatalf("lvm %q: %v: %s", args, err, complaints.Bytes())
		}
		return strings.TrimSpace(string(out))
	}
	lvm("vgcreate", group, disk)
	t.Cleanup(func() { lvm("vgremove", "-f", "-y", group) })
	lvm("lvcreate", "-L", "500M", "--type", "thin-pool", "--poolmetadatasize", "4M", "-n", "pool", group)
	lvm("lvcreate", "-V", "400M", "-T", group+"/pool", "-n", "v", "-y")
	n.devices[id.Name] = filepath.Join("/dev/mapper", strings.ReplaceAll(group, "-", "--")+"-v")
	return id.String(), func() float64 {
		t.Helper()
		percent, err := strconv.ParseFloat(lvm("lvs", "--noheadings", "-o", "data_percent", group+"/pool"), 64)
		must(t, err)
		return percent
	}
}

// TestRealNode_thinGivesSpaceBack: the space of a deleted file goes back to the pool, without anybody's fstrim.
func TestRealNode_thinGivesSpaceBack(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := newRealNode(t)
			handle, used := newThin(t, n)
			n.host.Add(csitest.ID("pvc-1"), 0).Thin = true
			must(t, n.stage(t, handle, filesystem(fsType)))
			defer func() { must(t, n.unstage(t, handle)) }()
			empty := used()
			file := n.path(t, "staging/globalmount/file")
			must(t, os.WriteFile(file, bytes.Repeat([]byte("much"), 150*mib/4), 0o600))
			unix.Sync()
			full := used()
			if full < empty+25 {
				t.Fatalf("150 of 500 MiB were written, and the pool went from %.2f to %.2f %%", empty, full)
			}
			must(t, os.Remove(file))
			// The kernel writes the inode tables of a new ext4 meanwhile, so it is not as empty as before.
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
				unix.Sync()
				left := used()
				if left < full-20 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the file is gone, and %.2f %% of the pool are in use; with it, it was %.2f %%", left, full)
				}
			}
		})
	}
}
