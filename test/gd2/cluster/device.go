package cluster

import (
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Device is what the store has of a device.
type Device struct {
	Device      string `json:"device"`
	Provisioner string `json:"provisioner"`
	State       string `json:"state"`
	FreeSize    uint64 `json:"free-size"`
	TotalSize   uint64 `json:"total-size"`
	UsedSize    uint64 `json:"used-size"`
	ExtentSize  uint64 `json:"extent-size"`
	DeviceUsed  bool   `json:"device-used"`
	PeerID      string `json:"peer-id"`
}

// Group returns the volume group of a device.
func (d Device) Group() string { return "gluster" + strings.ReplaceAll(d.Device, "/", "-") }

const (
	enabled  = "enabled"
	disabled = "disabled"
	extent   = 4 << 20
)

// DeviceRequest is what a device is added with.
type DeviceRequest struct {
	Device      string `json:"device"`
	Provisioner string `json:"provisioner"`
}

const noDevice = "device does not exist in the given peer"

// Devices lists the devices of a peer, or of all: those of peers that left, too.
func (c *Call) Devices(peer string) ([]Device, *Failure) {
	if peer != "" && uuid.Validate(peer) != nil {
		return nil, Fail(400, "invalid peer-id passed in url")
	}
	if f := c.Read(); f != nil {
		return nil, f
	}
	return c.C.DevicesOf(peer), nil
}

// DevicesOf returns the devices of a peer, or of all, in the order of the store's keys.
func (c *Cluster) DevicesOf(peer string) []Device {
	var out []Device
	for _, id := range slices.Sorted(maps.Keys(c.devices)) {
		if peer != "" && id != peer {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.devices[id])) {
			out = append(out, *c.devices[id][name])
		}
	}
	return out
}

// Device returns one device, as a list of one.
func (c *Call) Device(peer, name string) ([]Device, *Failure) {
	if uuid.Validate(peer) != nil {
		return nil, Fail(400, "invalid peer-id passed in url")
	}
	if f := c.Read(); f != nil {
		return nil, f
	}
	d := c.C.devices[peer][name]
	if d == nil {
		return nil, Fail(500, noDevice)
	}
	return []Device{*d}, nil
}

// EditDevice sets the state of a device, in the store alone.
func (c *Call) EditDevice(peer, name, state string) *Failure {
	if state != enabled && state != disabled {
		return Fail(400, "invalid state. Supported states are enabled, disabled")
	}
	unlock, f := c.Lock(peer + name)
	if f != nil {
		return f
	}
	defer unlock()
	d := c.C.devices[peer][name]
	if d == nil {
		return Fail(500, noDevice)
	}
	d.State = state
	return nil
}

// Space changes what the store counts as free on a device. It never asks the device.
func (c *Cluster) Space(peer, name string, change func(free uint64) uint64) {
	if d := c.devices[peer][name]; d != nil {
		d.FreeSize = change(d.FreeSize)
		// Where free and total were swapped at first, this wraps below zero.
		d.UsedSize = d.TotalSize - d.FreeSize
	}
}

const notPrepared = "transaction to prepare device failed"

// AddDevice prepares a device on a peer, and says nothing of why it fails.
func (c *Call) AddDevice(peer string, r DeviceRequest) (Device, *Failure) {
	if r.Provisioner == "" {
		r.Provisioner = "lvm"
	}
	unlock, f := c.Lock(peer)
	if f != nil {
		return Device{}, f
	}
	defer unlock()
	if c.C.devices[peer][r.Device] != nil {
		return Device{}, Fail(400, "device already exists")
	}
	if c.C.peers[peer] == nil {
		return Device{}, Fail(404, "peer not found")
	}
	c.Settle()
	n := c.C.node(peer)
	if !c.C.Alive(peer) || !n.Runs() {
		return Device{}, Fail(500, notPrepared)
	}
	if !c.Wait(20*time.Second, func() bool { return !n.frozen }) {
		return Device{}, Fail(500, notPrepared)
	}
	d, ok := n.prepare(r)
	if !n.running {
		// The server ended over it. If it is the one that was asked, nobody answers.
		c.Wait(0, func() bool { return true })
	}
	if !ok {
		return Device{}, Fail(500, notPrepared)
	}
	d.PeerID, d.Device, d.State = peer, r.Device, enabled
	if c.C.devices[peer] == nil {
		c.C.devices[peer] = map[string]*Device{}
	}
	c.C.devices[peer][r.Device] = &d
	return d, nil
}

// prepare makes a device ready for bricks.
func (n *Node) prepare(r DeviceRequest) (Device, bool) {
	if r.Provisioner == "loop" {
		return n.prepareLoop(r.Device)
	}
	b := n.Disk.Blocks[r.Device]
	if b == nil || b.Signature || b.Group != "" {
		return Device{}, false
	}
	size := (b.Size - 1<<20) / extent * extent
	d := Device{Device: r.Device, Provisioner: "lvm", FreeSize: size, TotalSize: size, ExtentSize: extent}
	b.Group = d.Group()
	return d, true
}

func (n *Node) prepareLoop(dir string) (Device, bool) {
	if n.Disk.notDirectory(dir) {
		// Any error but "does not exist" ends the server.
		n.kill()
		return Device{}, false
	}
	fs := n.Disk.at(path.Clean(dir))
	if dir == "" || fs == nil || !n.Disk.Exists(dir) {
		return Device{}, false
	}
	// Total and free are swapped.
	return Device{Provisioner: "loop", FreeSize: fs.Total, TotalSize: fs.Free, UsedSize: fs.Total - fs.Free}, true
}
