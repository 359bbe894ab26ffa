package block

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/transport"
)

// places map a part of the device's place in sysfs to how it is attached; the first that fits wins.
var places = []struct{ part, name string }{
	{"/session", transport.ISCSI},
	{"/rport-", transport.FC},
	{"/usb", transport.USB},
	{"/ata", transport.SATA},
	{"/end_device-", transport.SAS},
	{"/mmc_host", transport.MMC},
	{"/vbd-", transport.Xen},
	{"/ndbus", transport.NVDIMM},
	{"/virtio", transport.Virtio},
}

// buses map udev's names of buses to transports. Others stay as they are.
var buses = map[string]string{"ata": transport.SATA, "scsi": transport.SCSI, "usb": transport.USB}

// overNetwork are the kinds of virtual devices that another machine stands behind.
var overNetwork = map[string]string{
	"nbd": transport.NBD, "rbd": transport.RBD, "rnbd": transport.RNBD, "aoe": transport.AoE, "drbd": transport.DRBD,
}

// transport tells how the device is attached.
func (s *sysfs) transport() {
	d := s.dev
	if name, ok := overNetwork[d.Type]; ok {
		d.Transport = name
		return
	}
	real, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		d.fail("transport", err)
		return
	}
	if strings.HasPrefix(d.Name, "nvme") {
		if d.Transport, err = s.nvme(real); err != nil {
			d.fail("transport", err)
		}
		return
	}
	for _, p := range places {
		if strings.Contains(real, p.part) {
			d.Transport = p.name
			return
		}
	}
	bus := s.env["ID_BUS"]
	if d.Transport = bus; buses[bus] != "" {
		d.Transport = buses[bus]
	}
}

// errNoController means that the kernel has no controller for a device at the moment: each of its paths may be over a network.
var errNoController = errors.New("no NVMe controller serves the device")

// nvme asks the controllers that serve a namespace: its own one or, where the kernel joins several paths, all of the subsystem. One over a
// network is enough for the disk to be over a network.
func (s *sysfs) nvme(place string) (string, error) {
	found := []string{s.optional("device/transport")}
	several, err := filepath.Glob(filepath.Join(s.dir, "device", "nvme[0-9]*", "transport"))
	if err != nil {
		return "", fmt.Errorf("controllers: %w", err)
	}
	for _, file := range several {
		attr, err := filepath.Rel(s.dir, file)
		if err != nil {
			return "", fmt.Errorf("controllers: %w", err)
		}
		found = append(found, s.optional(attr))
	}
	slices.Sort(found)
	found = slices.DeleteFunc(slices.Compact(found), func(t string) bool { return t == "" })
	for _, t := range found {
		if t != "pcie" && t != "apple-nvme" {
			return transport.Fabrics + t, nil
		}
	}
	if len(found) == 0 && (strings.Contains(place, "/nvme-subsystem/") || strings.Contains(place, "/nvme-fabrics/")) {
		return "", errNoController
	}
	return transport.NVMe, nil
}
