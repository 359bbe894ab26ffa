package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
	"quarry.storage/quarry/test/lab/internal/uml"
)

// Bus says how a disk is attached to a node.
type Bus string

const (
	// BusUBD is the user-mode kernel's own block device: fast, without serial
	// number or WWN.
	BusUBD Bus = "ubd"
	// BusSCSI is a SCSI disk with serial number and WWN.
	BusSCSI Bus = "scsi"
)

// Disk is a disk of a node. The list of them is kept so that a node that is
// started again has them all.
type Disk struct {
	Bus   Bus    `json:"bus"`
	Image string `json:"image"`
	// Unit is the device number on BusUBD.
	Unit int `json:"unit,omitempty"`
	// Serial is the serial number on BusSCSI.
	Serial string `json:"serial,omitempty"`
	// Device is the name in the node now; it is not kept.
	Device string `json:"-"`
}

func (c *Cluster) disksFile(name string) string {
	return filepath.Join(c.dir.Node(name), "disks.json")
}

func (c *Cluster) loadDisks(name string) ([]Disk, error) {
	var disks []Disk
	err := state.ReadJSON(c.disksFile(name), &disks)
	return disks, err
}

// ensureDisks gives a node's disks, making the system disk and the data disks
// the first time.
func (c *Cluster) ensureDisks(ctx context.Context, lab spec.Lab, name, template string) ([]Disk, error) {
	disks, err := c.loadDisks(name)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return disks, err
	}
	system := filepath.Join(c.dir.Node(name), systemDiskName)
	if err := makeSystemDisk(ctx, template, system); err != nil {
		return nil, err
	}
	disks = []Disk{{Bus: BusUBD, Image: system}}
	for unit := 1; unit <= lab.Disks.Count; unit++ {
		image := filepath.Join(c.dir.Node(name), fmt.Sprintf("data%d.img", unit))
		if err := makeSparse(image, lab.Disks.Bytes); err != nil {
			return nil, err
		}
		disks = append(disks, Disk{Bus: BusUBD, Image: image, Unit: unit})
	}
	return disks, state.WriteJSON(c.disksFile(name), disks)
}

// AddDisk plugs an image file in and returns the device name in the node. The
// serial number is made from the image's path when none is given, so that a
// disk keeps it wherever it is plugged in. A node without power has the disk
// when it boots; the device of a SCSI disk is not known until then.
func (c *Cluster) AddDisk(ctx context.Context, name, image string, bus Bus, serial string) (string, error) {
	image, err := filepath.Abs(image)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(image); err != nil {
		return "", err
	} else if info.Size() == 0 {
		return "", fmt.Errorf("%s is empty: give it a size first, for example truncate -s 1G", image)
	}
	disk := Disk{Bus: bus, Image: image}
	if bus == BusSCSI {
		if disk.Serial, err = serialNumber(serial, image); err != nil {
			return "", err
		}
	}
	return c.changeDisks(name, func(index int, lab spec.Lab, disks []Disk) ([]Disk, string, error) {
		if slices.ContainsFunc(disks, func(d Disk) bool { return d.Image == image }) {
			return nil, "", fmt.Errorf("%s is attached to node %s already", image, name)
		}
		device, err := c.attach(ctx, lab, index, disks, &disk)
		return append(disks, disk), device, err
	})
}

func (c *Cluster) attach(ctx context.Context, lab spec.Lab, index int, disks []Disk, disk *Disk) (string, error) {
	name := spec.NodeName(index)
	switch disk.Bus {
	case BusUBD:
		unit, err := uml.FreeUnit(ubdDisks(disks))
		if err != nil {
			return "", err
		}
		disk.Unit = unit
		if !c.processes.Alive(name) {
			// It is there when the node boots.
			return "/dev/" + uml.DeviceName(unit), nil
		}
		if err := c.machine(lab, index, nil).Attach(uml.Disk{Unit: unit, Image: disk.Image}); err != nil {
			return "", err
		}
		device := "/dev/" + uml.DeviceName(unit)
		_, err = c.capture(ctx, name, c.dir.Binary(), "node", "wait-device", device)
		return device, err
	case BusSCSI:
		if !c.processes.Alive(name) {
			return "", nil
		}
		return c.capture(ctx, name, c.dir.Binary(), "node", "scsi-add", disk.Image, disk.Serial)
	default:
		return "", fmt.Errorf("bus %q: want ubd or scsi", disk.Bus)
	}
}

// RemoveDisk unplugs a disk, named by its image file, serial number or device.
// A ubd disk in use is refused by the kernel; a SCSI disk is gone at once, as
// if pulled out.
func (c *Cluster) RemoveDisk(ctx context.Context, name, which string) error {
	_, err := c.changeDisks(name, func(index int, lab spec.Lab, disks []Disk) ([]Disk, string, error) {
		i := c.findDisk(ctx, name, disks, which)
		if i < 0 {
			return nil, "", fmt.Errorf("node %s has no disk %q, see `lab disk list %s`", name, which, name)
		}
		disk := disks[i]
		if disk.Bus == BusUBD && disk.Unit == 0 {
			return nil, "", fmt.Errorf("%s is the system disk of node %s", which, name)
		}
		var err error
		switch {
		case !c.processes.Alive(name):
			// A node without power does not notice.
		case disk.Bus == BusUBD:
			err = c.machine(lab, index, nil).Detach(disk.Unit)
		default:
			_, err = c.capture(ctx, name, c.dir.Binary(), "node", "scsi-remove", disk.Serial)
		}
		return slices.Delete(disks, i, i+1), "", err
	})
	return err
}

// changeDisks runs a change of a node's disks under the lab's lock and keeps
// the new list.
func (c *Cluster) changeDisks(name string, change func(index int, lab spec.Lab, disks []Disk) ([]Disk, string, error)) (string, error) {
	desc, err := c.running()
	if err != nil {
		return "", err
	}
	index, err := desc.Lab.Index(name)
	if err != nil {
		return "", err
	}
	if err := c.checkStorage(name); err != nil {
		return "", err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	disks, err := c.loadDisks(name)
	if err != nil {
		return "", err
	}
	disks, device, err := change(index, desc.Lab, disks)
	if err != nil {
		return "", err
	}
	return device, state.WriteJSON(c.disksFile(name), disks)
}

// Disks lists a node's disks with their devices; a device is empty while the
// node does not run.
func (c *Cluster) Disks(ctx context.Context, name string) ([]Disk, error) {
	desc, err := c.running()
	if err != nil {
		return nil, err
	}
	if _, err := desc.Lab.Index(name); err != nil {
		return nil, err
	}
	if err := c.checkStorage(name); err != nil {
		return nil, err
	}
	disks, err := c.loadDisks(name)
	for i := range disks {
		disks[i].Device = c.device(ctx, name, disks[i])
	}
	return disks, err
}

func (c *Cluster) device(ctx context.Context, name string, d Disk) string {
	if !c.processes.Alive(name) {
		return ""
	}
	if d.Bus == BusUBD {
		return "/dev/" + uml.DeviceName(d.Unit)
	}
	device, err := c.capture(ctx, name, c.dir.Binary(), "node", "scsi-device", d.Serial)
	if err != nil {
		return ""
	}
	return device
}

func (c *Cluster) findDisk(ctx context.Context, name string, disks []Disk, which string) int {
	image, err := filepath.Abs(which)
	if err != nil {
		image = which
	}
	return slices.IndexFunc(disks, func(d Disk) bool {
		if d.Image == image || (d.Serial != "" && d.Serial == which) {
			return true
		}
		return "/dev/"+strings.TrimPrefix(which, "/dev/") == c.device(ctx, name, d)
	})
}

func ubdDisks(disks []Disk) []uml.Disk {
	var units []uml.Disk
	for _, d := range disks {
		if d.Bus == BusUBD {
			units = append(units, uml.Disk{Unit: d.Unit, Image: d.Image})
		}
	}
	return units
}

func scsiDisks(disks []Disk) []node.SCSIDisk {
	var scsi []node.SCSIDisk
	for _, d := range disks {
		if d.Bus == BusSCSI {
			scsi = append(scsi, node.SCSIDisk{Image: d.Image, Serial: d.Serial})
		}
	}
	return scsi
}

// serialDigits is how long a serial number is: enough for the kernel to make a
// whole WWN from it.
const serialDigits = 32

func serialNumber(given, image string) (string, error) {
	if given == "" {
		sum := sha256.Sum256([]byte(image))
		return hex.EncodeToString(sum[:])[:serialDigits], nil
	}
	if _, err := hex.DecodeString(given); err != nil || len(given) != serialDigits {
		return "", fmt.Errorf("serial number %q: want %d hexadecimal digits", given, serialDigits)
	}
	return strings.ToLower(given), nil
}
