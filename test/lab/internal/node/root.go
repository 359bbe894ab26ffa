package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/iscsi"
)

const (
	// scratch is a directory every Debian root has; the root is put together
	// on a tmpfs over it.
	scratch = "/mnt"
	// systemDisk is the node's own disk: everything it writes is on it.
	systemDisk = "/dev/ubda"
	// runDir holds what the lab itself needs in a node.
	runDir = "/run/lab"
	// logDir is the machine's log directory of this node.
	logDir = "/var/log/lab"
	// MachineView shows the machine's files as they are now. The overlay may
	// show a file as it was when the node first looked.
	MachineView = "/host"
)

// mount is one mount(2) call; its target, and the source of a bind mount, are
// made when missing.
type mount struct {
	source, target, fstype string
	flags                  uintptr
	data                   string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if m.flags&unix.MS_BIND != 0 {
		if err := os.MkdirAll(m.source, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.source, m.target, m.fstype, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
	}
	return nil
}

func mountAll(mounts []mount) error {
	for _, m := range mounts {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// buildRoot makes an overlay of the machine's files and the system disk the
// root, with the usual kernel file systems in it.
func buildRoot(c Config) error {
	// The kernel has mounted /dev itself.
	err := mountAll([]mount{
		{source: "proc", target: "/proc", fstype: "proc"},
		{source: "tmpfs", target: scratch, fstype: "tmpfs"},
		{source: systemDisk, target: scratch + "/disk", fstype: "ext4", flags: unix.MS_NOATIME},
	})
	if err != nil {
		return err
	}
	if err := insertModule(c, "kernel/fs/overlayfs/overlay.ko"); err != nil {
		return err
	}
	disk, root := scratch+"/disk", scratch+"/root"
	for _, d := range []string{disk + "/upper", disk + "/work", root} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	layers := fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work", disk, disk)
	if err := mountAll(append([]mount{
		{source: "overlay", target: root, fstype: "overlay", data: layers},
	}, rootMounts(c, root)...)); err != nil {
		return err
	}
	if err := linkDescriptors(filepath.Join(root, "dev")); err != nil {
		return err
	}
	return enterRoot(root)
}

// linkDescriptors makes the names that systemd makes in a real /dev for what a
// process has open. Without them a shell cannot open its own <(...).
func linkDescriptors(dev string) error {
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2",
	} {
		if err := os.Symlink(target, filepath.Join(dev, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// rootMounts are the mounts inside the new root, in order.
func rootMounts(c Config, root string) []mount {
	at := func(path string) string { return filepath.Join(root, path) }
	mounts := []mount{
		{source: "proc", target: at("/proc"), fstype: "proc"},
		{source: "sysfs", target: at("/sys"), fstype: "sysfs"},
		{source: "devtmpfs", target: at("/dev"), fstype: "devtmpfs"},
		{source: "devpts", target: at("/dev/pts"), fstype: "devpts", data: "ptmxmode=666"},
		{source: "tmpfs", target: at("/dev/shm"), fstype: "tmpfs"},
		{source: "mqueue", target: at("/dev/mqueue"), fstype: "mqueue"},
		{source: "cgroup2", target: at("/sys/fs/cgroup"), fstype: "cgroup2"},
		{source: "tmpfs", target: at("/run"), fstype: "tmpfs", data: "mode=755"},
		{source: systemDisk, target: at(runDir + "/system"), fstype: "ext4", flags: unix.MS_NOATIME},
		{source: "hostfs", target: at(MachineView), fstype: "hostfs", flags: unix.MS_RDONLY, data: "/"},
		{source: "hostfs", target: at(logDir), fstype: "hostfs", data: c.Logs},
	}
	for _, share := range c.Shares {
		mounts = append(mounts, mount{source: "hostfs", target: at(share), fstype: "hostfs", flags: unix.MS_RDONLY, data: share})
	}
	for _, dir := range plainDirs(c) {
		source := at(filepath.Join(runDir, "system", dir))
		mounts = append(mounts,
			mount{source: source, target: at(dir), flags: unix.MS_BIND})
	}
	return mounts
}

// plainDirs are the directories that need a plain file system below them.
// containerd puts overlays on its directory, volumes are mounted in the
// kubelet's, the NFS server keeps a database of its clients, and the iSCSI target
// one of reservations.
func plainDirs(c Config) []string {
	if c.Storage != nil {
		return []string{"/var/lib/nfs", iscsi.Records}
	}
	return []string{"/var/lib/containerd", "/var/lib/kubelet", "/var/lib/cni", "/var/log/pods"}
}

// enterRoot makes a mounted directory the root of every process and lets go of
// the old one.
func enterRoot(root string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	old := filepath.Join(root, scratch)
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("pivot_root to %s: %w", root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount(scratch, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	// The kubelet expects mounts to travel into containers and back.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// insertModule loads one kernel module by its path in the module directory.
func insertModule(c Config, path string) error {
	release, err := kernelRelease()
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(c.Modules, release, path))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", path, err)
	}
	return nil
}

func kernelRelease() (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(name.Release[:]), nil
}
