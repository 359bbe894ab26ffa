package occupant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var (
	sda  = Device{8, 0}
	sda1 = Device{8, 1}
	sdb  = Device{8, 16}
)

// host is a host's /sys, /dev and /proc below a temporary directory, with two disks. Device nodes are those that nodes names.
type host struct {
	*testing.T
	root   string
	finder *Finder
	nodes  map[string]Device
	loops  map[string]Device
	// asked counts the paths that were looked at.
	asked map[string]int
	// after is what happens between two looks.
	after func()
}

// The mounts that every process of a host sees, with the numbers 1 to 4.
const table = `1 0 8:99 / / rw - ext4 /dev/sdz rw
2 1 0:6 / /dev rw,nosuid - devtmpfs devtmpfs rw
3 1 0:50 / /mnt/share rw - nfs4 server:/ rw
4 1 0:51 / /run rw,nodev - tmpfs tmpfs rw
`

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, root: t.TempDir(), nodes: map[string]Device{}, loops: map[string]Device{}, asked: map[string]int{}}
	h.finder = New(Config{Sys: h.root + "/sys", Dev: h.root + "/dev", Proc: h.root + "/proc", Pause: time.Millisecond, Timeout: time.Second})
	h.finder.number = func(path string, follow bool) (Device, bool, error) {
		if target, err := os.Readlink(path); err == nil && follow {
			path = target
		}
		path = strings.TrimPrefix(path, h.root)
		if h.asked[path]++; h.after != nil {
			h.after()
		}
		switch path {
		case "/broken":
			return Device{}, false, unix.EIO
		case "/dev/refused":
			return Device{}, false, unix.EACCES
		}
		d, ok := h.nodes[path]
		return d, ok, nil
	}
	h.finder.backing = func(path string) (Device, bool, error) {
		d, ok := h.loops[filepath.Base(path)]
		if d == sdb {
			return d, ok, unix.EACCES
		}
		return d, ok, nil
	}
	h.write("sys/dev/block/8:0/sda1/partition", "1\n")
	h.write("sys/dev/block/8:0/sda1/dev", "8:1\n")
	h.write("sys/dev/block/8:16/size", "1\n")
	h.write("sys/class/block/sda", "")
	h.link("proc/self", "100")
	h.process("1", "init")
	h.process("100", "agent")
	return h
}

func (h *host) write(path, text string) {
	h.Helper()
	path = filepath.Join(h.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		h.Fatal(err)
	}
}

func (h *host) link(path, target string) {
	h.Helper()
	path = filepath.Join(h.root, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
		h.Fatal(err)
	}
}

func (h *host) remove(path string) {
	h.Helper()
	if err := os.RemoveAll(filepath.Join(h.root, path)); err != nil {
		h.Fatal(err)
	}
}

// process makes a process in the host's mount namespace.
func (h *host) process(pid, name string) {
	h.write("proc/"+pid+"/comm", name+"\n")
	h.write("proc/"+pid+"/stat", pid+" (a ) b) S 1 2 3\n")
	h.write("proc/"+pid+"/mountinfo", table)
	h.link("proc/"+pid+"/ns/mnt", "mnt:[1]")
	h.link("proc/"+pid+"/root", "/")
	h.write("proc/"+pid+"/fd/x", "")
	h.remove("proc/" + pid + "/fd/x")
}

// container makes process 200, in a mount namespace of its own, with more mounts.
func (h *host) container(lines ...string) {
	const pid = "200"
	h.process(pid, "pause")
	h.remove("proc/" + pid + "/ns/mnt")
	h.link("proc/"+pid+"/ns/mnt", "mnt:["+pid+"]")
	h.write("proc/"+pid+"/mountinfo", table+strings.Join(lines, "\n")+"\n")
}

// open lets a process have something open.
func (h *host) open(pid, fd, target string, mount int) { h.openAs(pid, fd, target, mount, unix.O_RDWR) }

func (h *host) openAs(pid, fd, target string, mount, flags int) {
	h.link("proc/"+pid+"/fd/"+fd, target)
	h.write("proc/"+pid+"/fdinfo/"+fd, fmt.Sprintf("pos:\t0\nflags:\t0%o\nmnt_id:\t%d\nino:\t5\n", flags, mount))
}

// target lets a target of the kernel show something below configfs: a directory, if the file ends in a slash.
func (h *host) target(file, text string) {
	h.remove("proc/1/root")
	h.link("proc/1/root", filepath.Join(h.root, "host"))
	h.write("proc/1/mountinfo", table+"70 1 0:23 / /sys/kernel/config rw - configfs configfs rw\n")
	if path, dir := strings.CutSuffix(file, "/"); dir {
		file, text = path+"/x", ""
	}
	h.write("host/sys/kernel/config/"+file, text+"\n")
}

// loop sets loop3 up.
func (h *host) loop(d Device) {
	h.write("sys/class/block/loop3/loop/backing_file", "/x\n")
	h.loops["loop3"] = d
}

func TestFind(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(h *host)
		want   []string
		err    string
	}{
		"nobody":                  {change: func(*host) {}},
		"a loop device":           {change: func(h *host) { h.loop(sda) }, want: []string{"loop device loop3"}},
		"one on a partition":      {change: func(h *host) { h.loop(sda1) }, want: []string{"loop device loop3"}},
		"one on something else":   {change: func(h *host) { h.loop(Device{8, 32}) }},
		"one with nothing behind": {change: func(h *host) { h.write("sys/class/block/loop0/size", "0") }},
		"one that cannot be read": {change: func(h *host) { h.loop(sdb) }, err: "loop device loop3: permission denied"},
		"an open disk": {
			change: func(h *host) {
				h.open("100", "3", "/dev/none", 2)
				h.process("200", "qemu")
				h.open("200", "4", "/dev/sda", 2)
			},
			want: []string{"process qemu (pid 200)"},
		},
		"an open partition, twice": {
			change: func(h *host) {
				h.process("200", "qemu")
				h.open("200", "4", "/dev/sda1", 2)
				h.open("200", "5", "/dev/sda", 2)
			},
			want: []string{"process qemu (pid 200)"},
		},
		"a node that was made in a container": {
			change: func(h *host) {
				h.container("77 1 0:60 / /data rw - tmpfs tmpfs rw")
				h.open("200", "4", "/data/disk", 77)
			},
			want: []string{"process pause (pid 200)"},
		},
		"open by the agent and by a program that it started": {
			change: func(h *host) {
				h.open("100", "3", "/dev/sda", 2)
				h.process("101", "lvm")
				h.write("proc/101/stat", "101 (lvm) S 100 0 0\n")
				h.open("101", "3", "/dev/sda", 2)
			},
		},
		"closed at the second look": {
			change: func(h *host) {
				h.process("200", "udev-worker")
				h.open("200", "4", "/dev/sda", 2)
				h.after = func() { h.remove("proc/200") }
			},
		},
		"a link of a process that has just ended": {
			change: func(h *host) {
				h.process("200", "udev-worker")
				h.open("200", "4", "/dev/refused", 2)
				h.after = func() { h.remove("proc/200") }
			},
		},
		"a link that may not be followed": {
			change: func(h *host) {
				h.process("200", "udev-worker")
				h.open("200", "4", "/dev/refused", 2)
			},
			err: "process 200: descriptor 4: permission denied",
		},
		"a process whose first thread has ended": {
			change: func(h *host) {
				h.process("200", "fio")
				h.remove("proc/200/root")
				h.remove("proc/200/ns")
				h.write("proc/200/task/200/comm", "fio\n")
				h.process("200/task/201", "fio")
				h.open("200/task/201", "4", "/dev/sda", 2)
			},
			want: []string{"process fio (pid 200)"},
		},
		"one of two processes in a mount namespace ends": {
			change: func(h *host) {
				h.container("70 1 0:6 /sda /vol rw,nosuid - devtmpfs devtmpfs rw")
				h.process("150", "runc")
				h.remove("proc/150/ns/mnt")
				h.link("proc/150/ns/mnt", "mnt:[200]")
				h.remove("proc/150/mountinfo")
			},
			want: []string{"a mount of its device node at /vol, as process pause (pid 200) sees it"},
		},
		"one of two processes in a mount namespace ends while its mounts are looked at": {
			change: func(h *host) {
				h.container("70 1 0:61 /disk /vol rw - tmpfs tmpfs rw")
				h.nodes["/proc/200/root/vol"] = sda1
				h.process("150", "runc")
				h.remove("proc/150/ns/mnt")
				h.link("proc/150/ns/mnt", "mnt:[200]")
				h.write("proc/150/mountinfo", table+"70 1 0:61 /disk /vol rw - tmpfs tmpfs rw\n")
				h.after = func() { h.remove("proc/150") }
			},
			want: []string{"a mount of its device node at /vol, as process pause (pid 200) sees it"},
		},
		"open as a place only": {
			change: func(h *host) { h.process("200", "sh"); h.openAs("200", "4", "/dev/sda", 2, unix.O_PATH) },
		},
		"on a mount that no process sees any more, by its name": {
			change: func(h *host) { h.process("200", "sh"); h.open("200", "4", "/sda (deleted)", 99) },
			want:   []string{"process sh (pid 200)"},
		},
		"a process whose descriptors are secret": {
			change: func(h *host) { h.process("200", "sh"); h.open("200", "4", "/broken", 1) },
			err:    "process 200: descriptor 4: input/output error",
		},
		"many of them": {
			change: func(h *host) {
				h.process("200", "sh")
				for _, fd := range []string{"4", "5", "6", "7", "8"} {
					h.open("200", fd, "/broken", 1)
				}
			},
			err: "input/output error; and 2 more",
		},
		"a kernel that does not tell the mount": {
			change: func(h *host) {
				h.process("200", "sh")
				h.open("200", "4", "/dev/sda", 2)
				h.write("proc/200/fdinfo/4", "pos:\t0\nflags:\t02\n")
			},
			err: "process 200: descriptor 4: the kernel does not tell flags and mount of an open file",
		},
		"the node mounted in a pod": {
			change: func(h *host) { h.container("70 1 0:6 /sda /vol rw,nosuid - devtmpfs devtmpfs rw") },
			want:   []string{"a mount of its device node at /vol, as process pause (pid 200) sees it"},
		},
		"the node mounted on the host": {
			change: func(h *host) {
				h.write("proc/1/mountinfo", table+`70 1 0:6 /sda /vol\040x rw shared:1 - devtmpfs devtmpfs rw`+"\n")
			},
			want: []string{"a mount of its device node at /vol x"},
		},
		"a node of another tree mounted": {
			change: func(h *host) {
				h.container("70 1 0:61 /disk /vol rw - tmpfs tmpfs rw")
				h.nodes["/proc/200/root/vol"] = sda1
			},
			want: []string{"a mount of its device node at /vol, as process pause (pid 200) sees it"},
		},
		"a mounted node that nobody can open": {
			change: func(h *host) { h.container("70 1 0:6 /sda /vol rw,nodev - devtmpfs devtmpfs rw") },
		},
		"a directory that is mounted": {
			change: func(h *host) { h.container("70 1 8:99 /etc /etc rw - ext4 /dev/sdz rw") },
		},
		"a mount table that cannot be read": {
			change: func(h *host) { h.container("70") },
			err:    `unexpected line "70"`,
		},
		"a disk that is gone": {
			change: func(h *host) { h.remove("sys/dev/block/8:0") },
			err:    "partitions: ",
		},
		"a strange number of a partition": {
			change: func(h *host) { h.write("sys/dev/block/8:0/sda1/dev", "x") },
			err:    "partition sda1: ",
		},
		"exported by the NVMe target": {
			change: func(h *host) { h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path", "/dev/disk/by-id/a") },
			want:   []string{"the kernel's NVMe target (subsystem nqn.x, namespace 1)"},
		},
		"a partition exported by the SCSI target": {
			change: func(h *host) { h.target("target/core/iblock_0/disk/udev_path", "/dev/sda1") },
			want:   []string{"the kernel's SCSI target (backstore iblock_0/disk)"},
		},
		"exported by a node elsewhere": {
			change: func(h *host) {
				h.target("target/core/iblock_0/disk/udev_path", "/srv/node")
				h.nodes["/proc/1/root/srv/node"] = sda
			},
			want: []string{"the kernel's SCSI target (backstore iblock_0/disk)"},
		},
		"a file is exported": {
			change: func(h *host) {
				h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path", "/srv/image")
				h.target("target/core/fileio_0/f/udev_path", "/mnt/share/image")
			},
		},
		"a target without a disk": {
			change: func(h *host) {
				h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path", "(null)")
				h.target("target/core/iblock_0/disk/udev_path", "")
				h.target("target/core/iblock_0/hba_info", "HBA")
				h.target("target/core/alua/lu_gps/default", "")
			},
		},
		"a target whose disk is gone": {
			change: func(h *host) {
				h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path", "/dev/gone")
				number := h.finder.number
				h.finder.number = func(path string, follow bool) (Device, bool, error) {
					if strings.HasSuffix(path, "/dev/gone") {
						return Device{}, false, unix.ENOENT
					}
					return number(path, follow)
				}
			},
		},
		"a target whose disk cannot be looked at": {
			change: func(h *host) {
				h.target("target/core/iblock_0/disk/udev_path", "/dev/broken")
				h.finder.number = func(string, bool) (Device, bool, error) { return Device{}, false, unix.EIO }
			},
			err: "/dev/broken, which the kernel's SCSI target (backstore iblock_0/disk) exports: input/output error",
		},
		"a target that does not show its disks": {
			change: func(h *host) { h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path/", "") },
			err:    "targets: read ",
		},
		"what looks like a target where configfs is not mounted": {
			change: func(h *host) {
				h.target("nvmet/subsystems/nqn.x/namespaces/1/device_path", "/dev/sda")
				h.write("proc/1/mountinfo", table)
			},
		},
		"mounts of the host that cannot be read": {
			change: func(h *host) { h.write("proc/1/mountinfo", "70") },
			err:    `targets: `,
		},
		"no processes": {change: func(h *host) { h.remove("proc"); h.write("proc/cmdline", "") }, err: "shows none"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.nodes["/dev/sda"], h.nodes["/dev/sda1"], h.nodes["/data/disk"], h.nodes["/sda (deleted)"] = sda, sda1, sda, sda
			h.nodes["/dev/disk/by-id/a"] = sda
			tt.change(h)
			got, err := h.finder.Find(t.Context(), []Device{sdb, sda})
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff([][]string{nil, tt.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestFind_followsNothingThatMayHang: a stat through such a link would wait for a server.
func TestFind_followsNothingThatMayHang(t *testing.T) {
	h := newHost(t)
	h.container("70 3 8:99 /etc /mnt/share/etc rw - ext4 /dev/sdz rw", "71 1 0:52 /vol /vol rw - nfs4 server:/ rw")
	h.process("201", "sh")
	h.open("201", "1", "socket:[5]", 9)
	h.open("201", "3", "/mnt/share/file", 3)
	h.open("201", "4", "/run/lock", 4)
	h.open("201", "5", "/was/mounted/once", 99)
	if got, err := h.finder.Find(t.Context(), []Device{sda}); err != nil || len(got[0]) > 0 || len(h.asked) > 0 {
		t.Errorf("found %v, %v, and looked at %v", got, err, h.asked)
	}
}

// TestFind_hangsOnce: what does not answer is named, and costs one search only.
func TestFind_hangsOnce(t *testing.T) {
	h := newHost(t)
	// Long enough to come to what hangs, on a machine that is busy.
	h.finder.timeout = time.Second
	h.loop(sda)
	answer := make(chan struct{})
	var waiting atomic.Int32
	h.finder.backing = func(string) (Device, bool, error) {
		waiting.Add(1)
		<-answer
		return sda, true, nil
	}
	for range 3 {
		got, err := h.finder.Find(t.Context(), []Device{sda})
		if err == nil || got != nil || err.Error() != "/x, on which the loop device loop3 stands, does not answer" {
			t.Errorf("found %v, %v", got, err)
		}
	}
	if n := waiting.Load(); n != 1 {
		t.Errorf("%d searches wait", n)
	}
	close(answer)
	for range 500 {
		if got, err := h.finder.Find(t.Context(), []Device{sda}); err == nil && len(got[0]) == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("what answers again is not found")
}
