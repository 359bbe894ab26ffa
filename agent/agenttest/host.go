package agenttest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/agent/agenttest/marks"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
)

// Disk describes a disk of the fake host.
type Disk struct {
	// Name in the kernel: "sdb". REQUIRED.
	Name string
	// SizeBytes; 100 GiB when zero.
	SizeBytes int64
	// Serial and WWN. Both are made up from node and name when both are empty, unless Anonymous is set.
	Serial, WWN string
	Anonymous   bool
	// Type is "disk" when empty.
	Type, Model, Transport          string
	Rotational, Removable, ReadOnly bool
	// Fresh is true for a disk that is plugged in now. The others have been there since the node booted.
	Fresh bool
}

const (
	defaultSize = 100 << 30
	extentBytes = 4 << 20
	sectorBytes = 512
	// upBefore is how long a node has been up when its model is made.
	upBefore = time.Hour
)

// disk is the state of one disk, what is written on it included. It keeps its content while it is unplugged.
type disk struct {
	Disk
	number     uint32
	plugged    bool
	appeared   time.Duration // after the boot of the node
	signatures []plan.Signature
	partitions []string
	mounts     []string
	holders    []string
	unreadable []string
	marks      marks.Marks // of OSDs
	dead       bool        // no read of it succeeds
	data       string      // anything that is no known signature
	wipe       *wipeMark
	pv         string            // UUID of the physical volume
	udev       map[string]string // what udev's database says of it
	deaf       bool              // udev misses its changes
	seized     bool              // a program has it for itself
	users      []string          // programs that have it open
	events     int               // that happened to it
	outdated   *group            // what the disk says of a group that went on without it; nil when that is what all say
}

// Host is a model of a node's disks: what is on them, what LVM makes of them, and what happens to them. All methods are safe for
// concurrent use. Its changes reach watchers as uevents would.
type Host struct {
	node   string
	booted time.Time

	mu           sync.Mutex
	disks        map[string]*disk
	groups       map[string]*group
	minors       uint32
	watchers     map[chan struct{}]bool
	broken, mute error // mute is why LVM reports nothing
	faults       faults
	created      int64 // volumes made so far
	kubelet      string
	mounts       *mount.Fake // nil when no kubelet is served
	commands     int
	ceph
	contents
}

func newHost(node, kubelet string) *Host {
	h := &Host{
		node: node, booted: time.Now().Add(-upBefore), disks: map[string]*disk{}, groups: map[string]*group{}, watchers: map[chan struct{}]bool{},
		faults: faults{gate: closedGate()}, kubelet: kubelet,
	}
	h.unmount()
	return h
}

// unmount begins with an empty mount table.
func (h *Host) unmount() {
	if h.kubelet != "" {
		h.mounts = mount.NewFake(h.kubelet, h.number)
	}
}

// AddDisk plugs a new, empty disk in and returns its stable path.
func (h *Host) AddDisk(d Disk) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d.SizeBytes == 0 {
		d.SizeBytes = defaultSize
	}
	if d.Type == "" {
		d.Type = "disk"
	}
	if d.Serial == "" && d.WWN == "" && !d.Anonymous {
		d.Serial = strings.ToUpper(h.node + "-" + d.Name)
	}
	h.minors++
	added := &disk{Disk: d, number: h.minors, plugged: true}
	if d.Fresh {
		added.appeared = time.Since(h.booted)
	}
	h.disks[d.Name] = added
	h.changed()
	return added.path()
}

// AddDisks plugs in several disks of the same size, with the given names.
func (h *Host) AddDisks(sizeBytes int64, names ...string) []string {
	var out []string
	for _, n := range names {
		out = append(out, h.AddDisk(Disk{Name: n, SizeBytes: sizeBytes}))
	}
	return out
}

// Unplug takes the disk away; its content stays for Plug.
func (h *Host) Unplug(name string) { h.edit(name, func(d *disk) { d.plugged = false; h.strand(d) }) }

// Plug brings a disk that was unplugged back.
func (h *Host) Plug(name string) {
	h.edit(name, func(d *disk) { d.plugged, d.appeared = true, time.Since(h.booted) })
}

// Replace puts another, empty disk with another serial number into the same slot.
func (h *Host) Replace(name, serial string) {
	h.edit(name, func(d *disk) {
		size, number := d.SizeBytes, d.number
		*d = disk{Disk: Disk{Name: name, SizeBytes: size, Serial: serial, Type: "disk"}, number: number, plugged: true, appeared: time.Since(h.booted)}
	})
}

// Format writes a signature as libblkid would name it: "ext4", "gpt", "crypto_LUKS".
func (h *Host) Format(name, format, label, uuid string) {
	h.edit(name, func(d *disk) {
		d.signatures = append(d.signatures, plan.Signature{Type: format, Offset: int64(1024 + len(d.signatures)), UUID: uuid, Label: label})
	})
}

// Partition writes a partition table with n partitions; without a name of a table the kernel shows partitions that nothing on the disk tells of.
func (h *Host) Partition(name, table string, n int) {
	if table != "" {
		h.Format(name, table, "", "")
	}
	h.edit(name, func(d *disk) {
		for i := range n {
			d.partitions = append(d.partitions, fmt.Sprintf("%s%d", name, i+1))
		}
	})
}

// Scribble writes data of no known format.
func (h *Host) Scribble(name, data string) { h.edit(name, func(d *disk) { d.data += data }) }

// Mount mounts the disk somewhere; "[swap]" uses it as swap space.
func (h *Host) Mount(name, where string) {
	h.edit(name, func(d *disk) { d.mounts = append(d.mounts, where) })
}

// Unmount takes the disk off everywhere.
func (h *Host) Unmount(name string) { h.edit(name, func(d *disk) { d.mounts = nil }) }

// Hold builds another device on the disk.
func (h *Host) Hold(name, holder string) {
	h.edit(name, func(d *disk) { d.holders = append(d.holders, holder) })
}

// Unhold takes those devices away.
func (h *Host) Unhold(name string) { h.edit(name, func(d *disk) { d.holders = nil }) }

// Corrupt makes a fact of the disk unreadable; an empty fact heals it.
func (h *Host) Corrupt(name, fact string) {
	h.edit(name, func(d *disk) {
		d.unreadable = nil
		if fact != "" {
			d.unreadable = []string{fact + ": input/output error"}
		}
	})
}

// Clear empties the disk as dd would, whatever is on it.
func (h *Host) Clear(name string) { h.edit(name, func(d *disk) { d.erase() }) }

// Break makes every observation fail with the error until it is called with nil.
func (h *Host) Break(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
	h.changed()
}

// Path is the stable path of a disk.
func (h *Host) Path(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.disks[name]; d != nil {
		return d.path()
	}
	return "/dev/" + name
}

// edit changes one disk and tells the watchers. A name that is not there is a mistake of the test.
func (h *Host) edit(name string, change func(*disk)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.disks[name]
	if d == nil {
		panic(fmt.Sprintf("agenttest: no disk %q", name))
	}
	change(d)
	d.events++
	h.changed()
}

// changed tells the watchers, without waiting for them.
func (h *Host) changed() {
	h.resurface()
	for _, d := range h.disks {
		if !d.deaf {
			d.look()
		}
	}
	for w := range h.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

func (h *Host) watch(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	h.mu.Lock()
	h.watchers[out] = true
	h.mu.Unlock()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.watchers, out)
		close(out)
	})
	return out
}

// resolve follows links as the file system would.
func (h *Host) resolve(path string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.find(path); d != nil {
		return "/dev/" + d.Name, nil
	}
	return "", fmt.Errorf("lstat %s: %w", path, fs.ErrNotExist)
}

// find is the plugged disk with that path.
func (h *Host) find(path string) *disk {
	for _, d := range h.disks {
		if d.plugged && (path == "/dev/"+d.Name || slices.Contains(d.links(), path)) {
			return d
		}
	}
	return nil
}

func (h *Host) observe(ctx context.Context) (plan.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := errors.Join(ctx.Err(), h.broken); err != nil {
		return plan.Snapshot{}, err
	}
	var s plan.Snapshot
	for _, d := range h.disks {
		if d.plugged {
			s.Devices = append(append(s.Devices, h.device(d)), d.marks.Mapping(d.Name)...)
		}
	}
	slices.SortFunc(s.Devices, func(a, b plan.Device) int { return strings.Compare(a.KernelName, b.KernelName) })
	h.observeGroups(&s)
	return s, nil
}
