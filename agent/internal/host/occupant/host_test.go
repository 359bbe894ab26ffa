//go:build hostroot

package occupant

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// disksVariable names spare disks: everything on them is lost. Without it a loop device is made.
const disksVariable = "QUARRY_TEST_DISKS"

// spare is a disk that nobody uses.
func spare(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root sees what others have open, and makes loop devices: run make conformance")
	}
	if list := os.Getenv(disksVariable); list != "" {
		path, err := filepath.EvalSymlinks(strings.Split(list, ",")[0])
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20)); err != nil {
		t.Fatal(err)
	}
	path := run(t, "losetup -f --show "+image)
	t.Cleanup(func() { run(t, "losetup -d "+path) })
	return path
}

func run(t *testing.T, script string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestHost_users uses a disk in every way that neither its holders nor an exclusive open tell of.
func TestHost_users(t *testing.T) {
	disk := spare(t)
	for name, tt := range map[string]struct {
		// begin uses DEV and goes on in the background, as a process of nobody: the program under test does not count what it started. end
		// is run after the process was killed. Both run in DIR.
		begin, end string
		// want is part of what is told of the user; empty when there is none.
		want string
	}{
		"nobody":                           {},
		"a process that reads it":          {begin: "exec 3<DEV; sleep 600", want: "process sleep (pid PID)"},
		"a process that writes it":         {begin: "exec 3<>DEV; sleep 600", want: "process sleep (pid PID)"},
		"a process with a node of its own": {begin: "unshare -m sh -c 'mount -t tmpfs own /mnt; mknod /mnt/mine b NUMBER; exec 3</mnt/mine; sleep 600'", want: "process sleep (pid "},
		"a process whose first thread has ended": {
			begin: `exec python3 -c '
import ctypes, subprocess, threading, time
disk = open("DEV")
threading.Thread(target=lambda: time.sleep(600)).start()
subprocess.Popen(["sh", "-c", "until grep -q ^State:.Z /proc/$PPID/status; do :; done; exec sleep 600"])
ctypes.CDLL(None).pthread_exit(None)'`,
			want: "process python3 (pid ",
		},
		"its node in another mount namespace": {
			begin: "unshare -m sh -c 'mount --bind DEV DIR/node; sleep 600'", want: "a mount of its device node at DIR/node, as process ",
		},
		"a node that was made, in another mount namespace": {
			begin: "unshare -m sh -c 'mount -t tmpfs own /mnt; mknod /mnt/mine b NUMBER; mount --bind /mnt/mine DIR/node; sleep 600'",
			want:  "a mount of its device node at DIR/node, as process ",
		},
		"its node on the host": {begin: "mount --bind DEV DIR/node; sleep 600", end: "umount DIR/node", want: "a mount of its device node at DIR/node"},
		// The kernel lets go of the disk once nobody has the loop device open, and udev looks at it for a moment.
		"a loop device": {
			begin: "losetup LOOP DEV; sleep 600", want: "loop device ",
			end: "losetup -d LOOP; for i in $(seq 100); do [ -e /sys/block/$(basename LOOP)/loop ] || exit 0; sleep 0.1; done; exit 1",
		},
	} {
		t.Run(name, func(t *testing.T) { checkUser(t, disk, tt.begin, tt.end, tt.want) })
	}
}

func checkUser(t *testing.T, disk, begin, end, want string) {
	d, _, err := number(disk, true)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	words := []string{"DEV", disk, "DIR", dir, "NUMBER", strings.ReplaceAll(run(t, "stat -Lc '0x%t 0x%T' "+disk), "0x ", "0x0 ")}
	if strings.Contains(begin, "LOOP") {
		words = append(words, "LOOP", run(t, "losetup -f"))
	}
	pid := ""
	if begin != "" {
		run(t, "touch "+dir+"/node")
		script := filepath.Join(dir, "use")
		if err := os.WriteFile(script, []byte(strings.NewReplacer(words...).Replace(begin)), 0o600); err != nil {
			t.Fatal(err)
		}
		session := run(t, "setsid sh "+script+" >/dev/null 2>&1 & echo $!")
		// All that the script starts is in the session that it leads.
		t.Cleanup(func() {
			run(t, "pkill -9 -s "+session+"; while pgrep -s "+session+" >/dev/null; do sleep 0.05; done; "+strings.NewReplacer(words...).Replace(end))
		})
		pid = run(t, "for i in $(seq 100); do pgrep -s "+session+" sleep && exit 0; sleep 0.05; done; exit 1")
	}
	want = strings.NewReplacer(append(words, "PID", pid)...).Replace(want)
	got, err := New(Config{Pause: 100 * time.Millisecond}).Find(t.Context(), []Device{d})
	if err != nil {
		t.Fatal(err)
	}
	// udev looks at a disk for a moment whenever somebody closes it after a write, as the case before this one did: Find rightly names it.
	users := slices.DeleteFunc(got[0], func(user string) bool { return strings.HasPrefix(user, "process (udev-worker) ") })
	found := slices.ContainsFunc(users, func(user string) bool { return strings.HasPrefix(user, want) })
	if (want == "") != (len(users) == 0) || want != "" && !found {
		t.Errorf("found %q, want %q", users, want)
	}
	// If the kernel kept others away there would be nothing to look for.
	f, err := os.OpenFile(disk, os.O_RDONLY|unix.O_EXCL, 0)
	if err != nil {
		t.Fatalf("it can be found with an exclusive open, too: %v", err)
	}
	f.Close()
}

// TestHost_exported: a backstore of the kernel's SCSI target that is a file opens the disk in the kernel, and no process and no holder tells
// of it.
func TestHost_exported(t *testing.T) {
	disk := spare(t)
	if err := exec.Command("modprobe", "-a", "configfs", "target_core_mod", "target_core_file").Run(); err != nil {
		t.Skipf("the kernel has no SCSI target: %v", err)
	}
	const dir = "/sys/kernel/config/target/core/fileio_7/quarry"
	checkUser(t, disk, "grep -q ' /sys/kernel/config ' /proc/mounts || mount -t configfs configfs /sys/kernel/config; mkdir -p "+dir+"; cd "+dir+
		"; echo fd_dev_name=DEV,fd_dev_size=$(blockdev --getsize64 DEV) > control; echo DEV > udev_path; echo 1 > enable; cd /; sleep 600",
		"rmdir "+dir+" "+filepath.Dir(dir), "the kernel's SCSI target (backstore fileio_7/quarry)")
}

// TestHost_userOfAPartition: a process that has a partition open uses the disk.
func TestHost_userOfAPartition(t *testing.T) {
	disk := spare(t)
	if os.Getenv(disksVariable) == "" {
		t.Skip("a loop device shows partitions only if its driver was loaded for that; make conformance has disks that do")
	}
	run(t, "flock "+disk+" sgdisk --new=1:2048:+64M "+disk+"; udevadm settle")
	t.Cleanup(func() {
		run(t, "flock "+disk+" sgdisk --zap-all "+disk)
		// While udev has the partition open the kernel keeps it.
		run(t, "for i in $(seq 100); do udevadm settle; [ -e "+disk+"1 ] || exit 0; blockdev --rereadpt "+disk+"; sleep 0.05; done 2>&1; exit 1")
	})
	checkUser(t, disk, "exec 3<"+disk+"1; sleep 600", "", "process sleep (pid PID)")
	checkUser(t, disk, "losetup LOOP "+disk+"1; sleep 600", "losetup -d LOOP", "loop device ")
}
