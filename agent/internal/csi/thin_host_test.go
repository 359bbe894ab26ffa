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

// thinPool is a group of LVM's with a thin pool "pool", and the volume "pvc-1" in it as "v".
type thinPool struct {
	t     *testing.T
	group string
	// disk is the only device of the group.
	disk   string
	handle string
}

func (p thinPool) lvm(args ...string) string {
	p.t.Helper()
	args = append(args, "--config", `devices{use_devicesfile=0 filter=["a|^`+p.disk+`$|","r|.*|"]} activation{udev_sync=0 udev_rules=0 monitoring=0 error_when_full=1}`)
	c := exec.Command("lvm", args...)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("lvm %q: %v: %s", args, err, complaints.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// device is the path of a volume in the pool.
func (p thinPool) device(name string) string {
	return filepath.Join("/dev/mapper", strings.ReplaceAll(p.group, "-", "--")+"-"+name)
}

// used is how full the pool is, in percent.
func (p thinPool) used() float64 {
	p.t.Helper()
	percent, err := strconv.ParseFloat(p.lvm("lvs", "--noheadings", "-o", "data_percent", p.group+"/pool"), 64)
	must(p.t, err)
	return percent
}

// newThin makes a pool and a volume, of sizes in MiB, on a loop device of 600 MiB. The pool fails writes when it is full, as the agent's do.
func newThin(t *testing.T, n *realNode, poolSize, size int) thinPool {
	t.Helper()
	n.add(t, 600*mib)
	id := csitest.ID("pvc-1")
	p := thinPool{t: t, group: "quarry-thin-" + strconv.Itoa(os.Getpid()), disk: n.devices[id.Name], handle: id.String()}
	p.lvm("vgcreate", p.group, p.disk)
	t.Cleanup(func() { p.lvm("vgremove", "-f", "-y", p.group) })
	p.lvm("lvcreate", "-L", strconv.Itoa(poolSize)+"M", "--type", "thin-pool", "--poolmetadatasize", "4M", "-n", "pool", p.group)
	p.lvm("lvcreate", "-V", strconv.Itoa(size)+"M", "-T", p.group+"/pool", "-n", "v", "-y")
	n.devices[id.Name] = p.device("v")
	n.host.Add(id, 0).Thin = true
	return p
}

// TestRealNode_thinGivesSpaceBack: the space of a deleted file goes back to the pool, without anybody's fstrim.
func TestRealNode_thinGivesSpaceBack(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			n := newRealNode(t)
			p := newThin(t, n, 500, 400)
			must(t, n.stage(t, p.handle, filesystem(fsType)))
			defer func() { must(t, n.unstage(t, p.handle)) }()
			empty := p.used()
			file := n.path(t, "staging/globalmount/file")
			must(t, os.WriteFile(file, bytes.Repeat([]byte("much"), 150*mib/4), 0o600))
			unix.Sync()
			full := p.used()
			if full < empty+25 {
				t.Fatalf("150 of 500 MiB were written, and the pool went from %.2f to %.2f %%", empty, full)
			}
			must(t, os.Remove(file))
			// The kernel writes the inode tables of a new ext4 meanwhile, so it is not as empty as before.
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
				unix.Sync()
				left := p.used()
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
