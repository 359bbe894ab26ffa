package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel's own SCSI target (LIO) serves an image file to the node's own
// SCSI layer through its loopback fabric. The disk has a serial number and a
// WWN, and comes and goes with the uevents of a real one.
const (
	targetDir  = "/sys/kernel/config/target"
	backstores = targetDir + "/core/fileio_0"
	fabricDir  = targetDir + "/loopback"
	scsiDir    = runDir + "/scsi"
)

// scsiPatience is how long the kernel and udev may take to show a disk.
const scsiPatience = 15 * time.Second

func (d SCSIDisk) backstore() string { return filepath.Join(backstores, d.Serial) }

// wwn names the target port and differs per disk, so that each disk hangs on a
// host adapter of its own.
func (d SCSIDisk) wwn() string { return "naa.5001405" + d.Serial[:9] }

func (d SCSIDisk) port() string { return filepath.Join(fabricDir, d.wwn(), "tpgt_1") }

func (d SCSIDisk) lun() string { return filepath.Join(d.port(), "lun", "lun_0") }

// AddSCSI attaches an image file as a SCSI disk and returns its device name.
// A disk that is attached already is left as it is.
func AddSCSI(d SCSIDisk) (string, error) {
	if name, err := SCSIDevice(d.Serial); err == nil {
		return name, nil
	}
	if err := mountConfigfs(); err != nil {
		return "", err
	}
	if err := addBackstore(d); err != nil {
		return "", fmt.Errorf("backstore of %s: %w", d.Image, err)
	}
	if err := exportLoopback(d); err != nil {
		return "", fmt.Errorf("export %s: %w", d.Image, err)
	}
	deadline := time.Now().Add(scsiPatience)
	for {
		name, err := SCSIDevice(d.Serial)
		if err == nil {
			return name, exec.Command("udevadm", "settle", "--timeout=15").Run()
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("no SCSI disk for %s after %s: %w", d.Image, scsiPatience, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// addBackstore makes the image's directory writable for this node and the
// image a backstore. Writes are cached like in a disk with a volatile cache.
func addBackstore(d SCSIDisk) error {
	dir := filepath.Join(scsiDir, d.Serial)
	file := filepath.Join(dir, filepath.Base(d.Image))
	if _, err := os.Stat(file); err != nil {
		m := mount{source: "hostfs", target: dir, fstype: "hostfs", data: filepath.Dir(d.Image)}
		if err := m.do(); err != nil {
			return err
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.backstore(), 0o755); err != nil {
		return err
	}
	control := fmt.Sprintf("fd_dev_name=%s,fd_dev_size=%d,fd_buffered_io=1", file, info.Size())
	return writeAttributes(d.backstore(), [][2]string{
		{"control", control},
		{"enable", "1"},
		{"wwn/vpd_unit_serial", d.Serial},
		{"attrib/is_nonrot", "1"},
	})
}

func exportLoopback(d SCSIDisk) error {
	if err := os.MkdirAll(d.port(), 0o755); err != nil {
		return err
	}
	if err := writeAttributes(d.port(), [][2]string{{"nexus", d.wwn()}}); err != nil {
		return err
	}
	if err := os.MkdirAll(d.lun(), 0o755); err != nil {
		return err
	}
	return os.Symlink(d.backstore(), filepath.Join(d.lun(), "disk"))
}

// RemoveSCSI unplugs a SCSI disk, in use or not, as pulling it out would.
func RemoveSCSI(serial string) error {
	d := SCSIDisk{Serial: serial}
	if err := os.Remove(filepath.Join(d.lun(), "disk")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unplug SCSI disk %s: %w", serial, err)
	}
	var errs []error
	for _, dir := range []string{d.lun(), d.port(), filepath.Dir(d.port()), d.backstore()} {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := unix.Unmount(filepath.Join(scsiDir, serial), unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, err)
	}
	return errors.Join(append(errs, exec.Command("udevadm", "settle", "--timeout=15").Run())...)
}

// SCSIDevice gives the device name of an attached SCSI disk by its serial.
func SCSIDevice(serial string) (string, error) {
	address, err := os.ReadFile(filepath.Join(SCSIDisk{Serial: serial}.port(), "address"))
	if err != nil {
		return "", err
	}
	pattern := filepath.Join("/sys/bus/scsi/devices", strings.TrimSpace(string(address))+":0", "block", "*")
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("SCSI disk %s: %w", serial, fs.ErrNotExist)
	}
	return "/dev/" + filepath.Base(found[0]), nil
}

func mountConfigfs() error {
	if _, err := os.Stat(targetDir); err == nil {
		return nil
	}
	if out, err := exec.Command("modprobe", "-a", "configfs", "target_core_mod", "target_core_file", "tcm_loop").CombinedOutput(); err != nil {
		return fmt.Errorf("modprobe: %w: %s", err, strings.TrimSpace(string(out)))
	}
	err := mount{source: "configfs", target: "/sys/kernel/config", fstype: "configfs"}.do()
	if errors.Is(err, unix.EBUSY) {
		return nil
	}
	return err
}

func writeAttributes(dir string, attributes [][2]string) error {
	for _, a := range attributes {
		if err := os.WriteFile(filepath.Join(dir, a[0]), []byte(a[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
