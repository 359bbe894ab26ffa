// Package decide holds the values that the controller's decisions are made on and made of: what is known about nodes, and
// the steps to take. Its sub-packages hold the decisions, one topic each, as pure functions. Nothing in here knows clients,
// the wire, clocks or the API server.
package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// AgentState says how the controller and the agent of a node get on.
type AgentState int

// States of an agent. The zero value is that no agent runs on the node.
const (
	// AgentMissing: no agent runs on the node.
	AgentMissing AgentState = iota
	// AgentConnecting: it is too early to say; the controller or the agent has just started.
	AgentConnecting
	// AgentUnreachable: an agent should run there, but does not answer.
	AgentUnreachable
	// AgentUp: the agent answers, and what it reports is current.
	AgentUp
)

// Node is what is known about one node through its agent. While the agent is not up it holds what was reported last.
type Node struct {
	Name  string
	Agent AgentState
	// Problem says why the agent is not up, one sentence; empty when it is.
	Problem string
	// AgentVersion, KernelRelease, LVMVersion and BootID as the agent reports them.
	AgentVersion, KernelRelease, LVMVersion, BootID string
	// LVMError says why LVM cannot be run on the node, or failed to report anything; empty when it did. Groups are those of the last good
	// report then, and none if there was none.
	LVMError string
	// Devices, ordered by kernel name.
	Devices []Device
	// Groups that carry our tag, of all owners, ordered by name.
	Groups []Group
	// OtherNodes are groups that carry our tag and are another node's by their LVM system ID, ordered by name. Nothing on them is used here.
	OtherNodes []Group
	// Unknown are the groups that may carry our tag and that LVM cannot report. Those that it reported before are among Groups too.
	Unknown []UnknownGroup
	// Hiding are the paths of devices that may carry a part of a group that is not among Groups, as the agent says. It is all that is known
	// of devices where Devices are not watched.
	Hiding []string
	// Session is when the session with the agent began to report everything that is watched; zero when none ever did.
	Session time.Time
}

// Up says whether the agent answers and its report is current.
func (n Node) Up() bool { return n.Agent == AgentUp }

// Device returns the device that a path means: its stable path, one of its links or its kernel name.
func (n Node) Device(path string) (Device, bool) {
	for _, d := range n.Devices {
		if d.Is(path) {
			return d, true
		}
	}
	return Device{}, false
}

// PathsBefore returns the devices that stand before a device in the list and are the same disk, over other paths. Its agent has told that
// they are.
func (n Node) PathsBefore(d Device) []Device {
	if !d.RefusedFor(v1alpha1.RefusalTwoPaths) {
		return nil
	}
	var out []Device
	for _, o := range n.Devices {
		if o.KernelName == d.KernelName {
			break
		}
		if o.WWN == d.WWN && o.RefusedFor(v1alpha1.RefusalTwoPaths) {
			out = append(out, o)
		}
	}
	return out
}

// Lists reports whether a device belongs to a group that is reported, of this node or of another.
func (n Node) Lists(d Device) bool {
	holds := func(g Group) bool { return g.Holds(d) }
	return slices.ContainsFunc(n.Groups, holds) || slices.ContainsFunc(n.OtherNodes, holds)
}

// GroupsOf returns the groups that carry the tag of an owner.
func (n Node) GroupsOf(ownerUID string) []Group {
	var own []Group
	for _, g := range n.Groups {
		if g.OwnerUID == ownerUID {
			own = append(own, g)
		}
	}
	return own
}

// UnknownOf returns the unknown groups that may be an owner's: those that carry its tag, and those of which nobody can tell whose they are.
func (n Node) UnknownOf(ownerUID string) []UnknownGroup {
	var own []UnknownGroup
	for _, u := range n.Unknown {
		if u.OwnerUID == ownerUID || u.OwnerUID == "" {
			own = append(own, u)
		}
	}
	return own
}

// UnknownGroup is a volume group that LVM cannot report. The metadata on its devices says what is known of it.
type UnknownGroup struct {
	// Name, UUID and OwnerUID are all empty when the metadata cannot be read: it may be any group then.
	Name, UUID, OwnerUID string
	// Devices that belong to it, by their stable paths.
	Devices []string
	// Reason says why LVM cannot report it.
	Reason string
}

// Unreported says which groups LVM cannot report, and why; empty when there are none.
func Unreported(groups []UnknownGroup) string {
	var parts []string
	for _, u := range groups {
		name := "a volume group whose metadata cannot be read"
		if u.Name != "" {
			name = "volume group " + u.Name
		}
		parts = append(parts, fmt.Sprintf("%s on %s (%s)", name, strings.Join(u.Devices, ", "), u.Reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return "LVM cannot report " + strings.Join(parts, "; ")
}

// Device is one block device.
type Device struct {
	// Path is the stable path.
	Path string
	// KernelName moves; it is for showing only.
	KernelName string
	// Type is "disk", "partition" or the kind of a virtual device.
	Type string
	// Links below /dev/disk that point to it.
	Links     []string
	SizeBytes int64
	// Rotational is true for a spinning disk.
	Rotational bool
	// LogicalSectorBytes is the size of a logical sector.
	LogicalSectorBytes            int32
	Model, Serial, WWN, Transport string
	// Digest of its identity and content; empty when a fact could not be read.
	Digest string
	// Refusals say why it is not clean; empty when it can be taken.
	Refusals []v1alpha1.Refusal
	// Wipeable is true when a wipe would make it clean: its agent says so.
	Wipeable bool
	// PVUUID, VolumeGroup and OwnerUID tell of the LVM physical volume on it.
	PVUUID, VolumeGroup, OwnerUID string
	// Since is when the device appeared on the node, on the controller's own clock; zero when its agent does not tell.
	Since time.Time
}

// Clean reports whether the device can be taken. Without a digest nothing is known for sure, so it cannot.
func (d Device) Clean() bool { return len(d.Refusals) == 0 && d.Digest != "" }

// Takeable reports whether the device is clean, or will be unless something happens to it: something did a moment ago, and nothing else
// speaks against it. Who takes it waits; a plan that left it out meanwhile would be another one twice within seconds.
func (d Device) Takeable() bool {
	return d.Clean() || len(d.Refusals) == 1 && d.RefusedFor(v1alpha1.RefusalSettling) && d.Digest != ""
}

// Is says whether a path means this device.
func (d Device) Is(path string) bool {
	if path == "" {
		return false
	}
	if path == d.Path || d.KernelName != "" && path == "/dev/"+d.KernelName {
		return true
	}
	for _, l := range d.Links {
		if l == path {
			return true
		}
	}
	return false
}

// Retired says whether an entry of spec.retire means this device: by its path and, if the entry has one, by its serial number.
func (d Device) Retired(by v1alpha1.RetiredDevice) bool {
	return d.Is(string(by.Path)) && (by.Serial == "" || by.Serial == d.Serial)
}

// RefusedFor says whether the device is refused for a reason.
func (d Device) RefusedFor(reason string) bool {
	for _, r := range d.Refusals {
		if r.Reason == reason {
			return true
		}
	}
	return false
}

// Stable says whether a path names the same device after every boot.
func Stable(path string) bool { return strings.HasPrefix(path, "/dev/disk/") }

// Group is one LVM volume group that carries our tag.
type Group struct {
	Name, UUID string
	// OwnerUID is the UID of the Cluster in the tag.
	OwnerUID string
	// SizeBytes and FreeBytes as LVM reports them.
	SizeBytes, FreeBytes int64
	// ExtentBytes is the size of one extent; sizes of volumes are multiples of it.
	ExtentBytes int64
	// PVs are its physical volumes, ordered by path.
	PVs []PV
	// Volumes are the names of its logical volumes, ordered.
	Volumes []string
	// Partial is true when a physical volume is missing.
	Partial bool
	// PartialVolumes are the logical volumes and thin pools that have extents on what is missing, ordered. Older agents name none.
	PartialVolumes []string
	// StaleVolumes are the active ones whose devices lead to a disk that dropped off, even if it is back, ordered. Older agents name none.
	StaleVolumes []string
	// OtherIDs are the ids of volumes by their names, where an id is not what the names of node, group and volume make now; empty for none. RemovingVolumes
	// are those whose removal has begun, ordered. Older agents tell of none.
	OtherIDs        map[string]string
	RemovingVolumes []string
	// Moving is the move of extents that is under way in it, or that was cut off; nil when there is none.
	Moving *Moving
	// Pools are its thin pools of ours, ordered by name.
	Pools []ThinPool
	// Zeroing are the volumes that are being zeroed, ordered by name.
	Zeroing []Zeroing
	// Unknown is true while LVM cannot report it: all of this is from the last report that had it.
	Unknown bool
	// Unstamped is true when the agent says that the group names no node. Agents before system IDs say nothing.
	Unstamped bool
	// SystemID is the LVM system ID that names the node that it belongs to; empty when it names none.
	SystemID string
}

// Moving is a move of extents from a device of a group to others.
type Moving struct {
	// Bytes that are moved at once, and the path of the device that they are moved off; zero and empty when that is not known.
	Bytes int64
	From  string
	// Left says why the agent leaves the move alone, and what a person does; empty when the agent ends it by itself.
	Left string
}

// PV is one physical volume of a group.
type PV struct {
	// Path of its device; empty when the device is missing.
	Path, UUID           string
	SizeBytes, FreeBytes int64
}

// Holds says whether a device is a physical volume of the group.
func (g Group) Holds(d Device) bool {
	for _, p := range g.PVs {
		if d.Is(p.Path) || d.PVUUID != "" && d.PVUUID == p.UUID {
			return true
		}
	}
	return false
}
