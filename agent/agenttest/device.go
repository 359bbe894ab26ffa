package agenttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/agenttest/marks"
	"quarry.storage/quarry/agent/internal/plan"
)

// links below /dev/disk that udev would make.
func (d *disk) links() []string {
	out := []string{}
	if d.WWN != "" {
		out = append(out, "/dev/disk/by-id/wwn-"+d.WWN)
	}
	if d.Serial != "" {
		out = append(out, "/dev/disk/by-id/ata-"+strings.ReplaceAll(d.Model, " ", "_")+"_"+d.Serial)
	}
	if d.Type == "disk" {
		out = append(out, fmt.Sprintf("/dev/disk/by-path/pci-0000:00:17.0-ata-%d", d.number))
	}
	slices.Sort(out)
	return out
}

// path is the best of the links, else the name.
func (d *disk) path() string {
	if links := d.links(); len(links) > 0 {
		return links[0]
	}
	return "/dev/" + d.Name
}

type wipeMark struct { // what a wipe that is under way leaves on a disk
	digest  string
	covered []plan.Signature // when it was approved
}

func (d *disk) empty() bool {
	return len(d.signatures) == 0 && len(d.partitions) == 0 && d.data == "" && d.wipe == nil && d.pv == "" && d.marks.Unmarked()
}

// erase leaves nothing on the disk.
func (d *disk) erase() {
	d.signatures, d.partitions, d.data, d.wipe, d.pv, d.outdated, d.marks = nil, nil, "", nil, "", nil, marks.Marks{}
}

func (d *disk) inUse() bool { return len(d.mounts) > 0 || len(d.holders) > 0 || d.marks.Mapped }

// device is the disk as an observation shows it.
func (h *Host) device(d *disk) plan.Device {
	out := plan.Device{
		Path: d.path(), KernelName: d.Name, Major: 8, Minor: d.number * 16, Type: d.Type, Links: d.links(),
		SizeBytes: d.SizeBytes, LogicalSectorBytes: sectorBytes, PhysicalSectorBytes: sectorBytes,
		Rotational: d.Rotational, Removable: d.Removable, ReadOnly: d.ReadOnly,
		Model: d.Model, Serial: d.Serial, WWN: d.WWN, Transport: d.Transport,
		Holders: slices.Clone(d.holders), Partitions: slices.Clone(d.partitions), Mounts: slices.Clone(d.mounts),
		Signatures: slices.Clone(d.signatures), HeadTailZero: d.empty(), Version: fmt.Sprint(d.events),
		PVUUID: d.pv, UdevTags: maps.Clone(d.udev), Unreadable: slices.Clone(d.unreadable),
	}
	out.Appeared = new(d.appeared)
	d.showLabels(&out)
	if d.dead {
		out.Signatures, out.Labels, out.HeadTailZero, out.PVUUID = nil, nil, false, ""
		out.Unreadable = append(out.Unreadable, "content: input/output error")
		return out
	}
	if d.wipe != nil {
		out.Wipe = &plan.WipeMark{Digest: d.wipe.digest}
		for _, s := range d.signatures {
			if !slices.Contains(d.wipe.covered, s) {
				out.Wipe.Later = append(out.Wipe.Later, s.Type)
			}
		}
	}
	if d.pv != "" {
		out.Signatures = append(out.Signatures, plan.Signature{Type: "LVM2_member", Offset: 536, UUID: d.pv})
		if g := h.groupOf(d.pv); g != nil {
			out.Group, out.OwnerUID, out.PVGroup = g.name, g.owner(), g.uuid
			if h.access(g) == plan.AccessOther {
				out.OtherNode = g.systemID
			}
		}
		if h.active(d) {
			out.Holders = append(out.Holders, "dm-0")
		}
	}
	if d.outdated != nil {
		out.Unreadable = append(out.Unreadable, "volume group: LVM does not report it")
	}
	if d.pv == "" && !d.inUse() && len(d.unreadable) == 0 {
		out.ContentDigest = d.contentDigest()
	}
	return out
}

func (d *disk) contentDigest() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%v %v %q %v %v", d.signatures, d.partitions, d.data, d.wipe, d.marks.AtStart()))
	return hex.EncodeToString(sum[:])
}

// Deafen lets udev miss every change of the disk from now on, until it is told to look: so does a real one that handles an earlier
// event of the disk when the disk is closed.
func (h *Host) Deafen(name string) { h.edit(name, func(d *disk) { d.deaf = true }) }

// Udev is what udev's database says of the format of a disk.
func (h *Host) Udev(name string) map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.disks[name].udev)
}

// look is udev's: its database has what is on the disk now.
func (d *disk) look() {
	d.udev = map[string]string{}
	if d.pv != "" {
		d.udev["ID_FS_TYPE"], d.udev["ID_FS_UUID"] = "LVM2_member", d.pv
	}
	for _, s := range d.signatures {
		if len(d.partitions) > 0 || s.Type == "gpt" || s.Type == "dos" {
			d.udev["ID_PART_TABLE_TYPE"] = s.Type
			continue
		}
		d.udev["ID_FS_TYPE"], d.udev["ID_FS_UUID"], d.udev["ID_FS_LABEL"] = s.Type, s.UUID, s.Label
	}
}

// Seize lets a program have the disk for itself, without a trace, until Free.
func (h *Host) Seize(name string) { h.edit(name, func(d *disk) { d.seized = true }) }

// Free lets the program close the disk, of which nothing tells.
func (h *Host) Free(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disks[name].seized = false
}

// Open lets a program have the disk open, without a trace, in a way that keeps nobody from opening it exclusively. Without a name of a
// program, nobody has it open any more.
func (h *Host) Open(name, program string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disks[name].users = nil
	if program != "" {
		h.disks[name].users = []string{"process " + program + " (pid 7)"}
	}
}

// Users names the programs that have the disks open.
func (s session) Users(_ context.Context, devices []plan.Device) ([][]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out [][]string
	for _, d := range devices {
		found, err := s.present(d.Path)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.Clone(found.users))
	}
	return out, nil
}

// Exclusive opens a disk exclusively.
func (s session) Exclusive(_ context.Context, d plan.Device) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.present(d.Path)
	if err != nil {
		return false, err
	}
	return !s.occupied(found), nil
}

func (h *Host) occupied(d *disk) bool { return d.inUse() || d.seized || h.active(d) }

// Idle is true: udev does everything at once.
func (s session) Idle() bool { return true }

// Trigger makes udev look at a disk.
func (s session) Trigger(d plan.Device) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.present(d.Path)
	if err != nil || s.faults.life != s.life {
		return err
	}
	found.look()
	found.events++
	s.changed()
	return nil
}

// Hold keeps nobody away, as there is nobody. On release udev looks at the disks.
func (s session) Hold(_ context.Context, p plan.Plan) (release func(context.Context), err error) {
	return func(context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.faults.life != s.life {
			return
		}
		for _, path := range p.Changes() {
			if d := s.find(path); d != nil {
				d.look()
				d.events++
			}
		}
		s.changed()
	}, nil
}

// Die lets every read of the disk fail from now on; it is there, and keeps its content. Revive ends that.
func (h *Host) Die(name string) { h.edit(name, func(d *disk) { d.dead = true }) }

// Revive lets a disk that died be read again.
func (h *Host) Revive(name string) { h.edit(name, func(d *disk) { d.dead = false }) }

// present is the plugged disk with that path.
func (s session) present(path string) (*disk, error) {
	if d := s.find(path); d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("%s: no such device", path)
}

// exclusive opens the device of a step exclusively, and compares it with the step's token.
func (s session) exclusive(step plan.Destructive) (*disk, error) {
	path := step.Token().Device().Path
	if err := s.verified(path, step.Token().Verify); err != nil {
		return nil, err
	}
	return s.present(path)
}

// verified opens a device exclusively, and lets verify judge it.
func (s session) verified(path string, verify func(plan.Device) error) error {
	d, err := s.present(path)
	if err != nil {
		return err
	}
	if s.occupied(d) {
		return fmt.Errorf("open %s exclusively: device or resource busy: %w", path, plan.ErrTaken)
	}
	seen := s.device(d)
	if seen.Use = plan.Unused; len(d.users) > 0 {
		seen.Use, seen.Users = plan.Used, slices.Clone(d.users)
	}
	return verify(seen)
}

// SwapSlots exchanges the slots of two disks: each has the kernel name and the path of the other one then. What is on them goes with them.
func (h *Host) SwapSlots(a, b string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, other := h.disks[a], h.disks[b]
	if one == nil || other == nil {
		panic(fmt.Sprintf("agenttest: no disks %q and %q", a, b))
	}
	one.Name, other.Name = b, a
	one.number, other.number = other.number, one.number
	h.disks[a], h.disks[b] = other, one
	one.events++
	other.events++
	h.changed()
}

// MoveBlank takes a disk out of the host, with what is on it, and plugs it into another one under that name. It does nothing and returns false
// when a group is on the disk, or was.
func (h *Host) MoveBlank(name string, to *Host, as string) bool {
	h.mu.Lock()
	d := h.disks[name]
	if d == nil || d.pv != "" || d.outdated != nil {
		h.mu.Unlock()
		return false
	}
	delete(h.disks, name)
	h.changed()
	h.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	to.plugIn(d, as)
	to.changed()
	return true
}

// plugIn gives a disk from elsewhere a free name.
func (h *Host) plugIn(d *disk, as string) {
	if h.disks[as] != nil {
		panic(fmt.Sprintf("agenttest: node %s has a disk %q", h.node, as))
	}
	h.minors++
	d.Name, d.number, d.plugged, d.events = as, h.minors, true, d.events+1
	h.disks[as] = d
}
