package lvm

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Step is one change of the disks of one host.
type Step struct {
	// Node is the host that it happens on.
	Node string
	// Does is one of the constants v1alpha1.ActionXxx.
	Does string
	// Group that is changed; empty for a wipe.
	Group string
	// UUID of the group; empty while it does not exist. From is the LVM system ID that it carries, only for a step that changes that.
	UUID, From string
	// FromOwner is the UID of the Cluster that the group is of now, and that does not exist any more; empty unless it becomes the Owner's.
	FromOwner string
	// Owner is the UID of the Cluster.
	Owner string
	// Devices that it is about.
	Devices []decide.Device
	// Missing are the physical volumes that the group is to forget, by UUID, Lost the logical volumes that it loses with them. Shown is how
	// a person calls them.
	Missing, Lost []string
	Shown         Shown
	// Vanished are volumes that have to be in the group that forgets devices, and of which no logical volume exists, as Shown calls them.
	Vanished []string
	// Avoid are the paths of devices of the group that nothing is moved to.
	Avoid []string
	// Harmless is true for a step that forgets devices which hold nothing, and which have been missing for long.
	Harmless bool
	// ThinPool that is made or grown; nil for any other step. Its group and owner are those of the step.
	ThinPool *decide.ThinPoolSpec
	// Damaged is the thin pool that is repaired; empty for any other step.
	Damaged Damaged
	// Adoption is the change of the record; nil unless the step begins with one.
	Adoption *Adoption
	// Reason for it, one sentence.
	Reason string
}

// Damaged is a thin pool to repair, and what its agent condensed it to.
type Damaged struct {
	Name   string `json:",omitempty"`
	Digest string `json:",omitempty"`
	// SizeBytes of the pool.
	SizeBytes int64 `json:"-"`
}

// Adoption is how the record of a Member changes: it names Step.UUID from then on.
type Adoption struct {
	// Member and UID are the name and the UID of the Member, Node its node.
	Member string `json:"-"`
	Node   string `json:"-"`
	UID    string
	// Replaces are the UUIDs of the recorded groups that are given up, Lost the handles of the volumes that are recorded in them; ordered.
	Replaces, Lost []string
}

// Shown says how devices and volumes are called that are given up.
type Shown struct{ Devices, Volumes []string }

var _ backend.Step = Step{}

// Host returns the host that the step happens on.
func (s Step) Host() string { return s.Node }

// Via returns nothing: every step is one of a host.
func (s Step) Via() string { return "" }

// Action returns the action of the step.
func (s Step) Action() string { return s.Does }

// Destroys reports whether the step destroys what somebody else wrote, takes a group away from its node, or gives up what a repair does not
// find or a recorded group that is not there. That a device never comes back is for a person to say, unless nothing is on it and it has been
// missing for long.
func (s Step) Destroys() bool {
	switch s.Does {
	case v1alpha1.ActionWipeDevice, v1alpha1.ActionImportVolumeGroup, v1alpha1.ActionRepairThinPool, v1alpha1.ActionAdoptVolumeGroup:
		return true
	}
	return s.Does == v1alpha1.ActionForgetMissingDevice && !s.Harmless
}

// Takes returns the devices of a wipe, and those that a group is made of or grows by.
func (s Step) Takes() []decide.Device {
	if s.Does != v1alpha1.ActionWipeDevice && s.Does != v1alpha1.ActionEnsureVolumeGroup {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Devices), func(d decide.Device) bool { return s.Owner != "" && d.OwnerUID == s.Owner })
}

// Vouches returns false: each step is about devices and groups that its digest names, whenever it is taken.
func (s Step) Vouches() bool { return false }

// Later returns false: only steps that can run now are decided.
func (s Step) Later() bool { return false }

// Ref says which group is changed.
func (s Step) Ref() decide.GroupRef {
	return decide.GroupRef{Name: s.Group, Owner: s.Owner, UUID: s.UUID}
}

// Digest identifies the step by what it does to which devices. For a wipe the content that was seen counts too, so that a disk that was
// exchanged or written to since is another step. Removing an empty group is the same step whatever is left of its devices. Steps that make
// or grow a group are the same ones before it exists and afterwards, so its UUID does not count for them; their agent is told it all the same.
func (s Step) Digest() string {
	type device struct {
		Path, WWN, Serial string
		Size              int64
		Content           string `json:",omitempty"`
	}
	devices := make([]device, 0, len(s.Devices))
	for _, d := range s.Devices {
		if s.Does == v1alpha1.ActionRemoveVolumeGroup {
			break
		}
		v := device{Path: d.Path, WWN: d.WWN, Serial: d.Serial, Size: d.SizeBytes}
		if s.Does == v1alpha1.ActionWipeDevice {
			v.Content = d.Digest
		}
		devices = append(devices, v)
	}
	slices.SortFunc(devices, func(a, b device) int { return strings.Compare(a.Path, b.Path) })
	return backend.Digest(struct {
		Owner, Host, Action, Group string
		Devices                    []device
		ThinPool                   *decide.ThinPoolSpec `json:",omitempty"`
		Missing, Lost              []string             `json:",omitempty"`
		UUID, From                 string               `json:",omitempty"`
		Vanished                   []string             `json:",omitempty"`
		Damaged                    *Damaged             `json:",omitempty"`
		Adoption                   *Adoption            `json:",omitempty"`
		FromOwner                  string               `json:",omitempty"`
	}{s.Owner, s.Node, s.Does, s.Group, devices, s.ThinPool, s.Missing, s.Lost, s.meant(), s.From, s.Vanished, s.damaged(), s.Adoption, s.FromOwner})
}

// meant is the UUID by which a person approves the step: that of a group that was there.
func (s Step) meant() string {
	switch s.Does {
	case v1alpha1.ActionEnsureVolumeGroup, v1alpha1.ActionEnsureThinPool:
		return ""
	}
	return s.UUID
}

// damaged is the pool to repair; nil when there is none.
func (s Step) damaged() *Damaged {
	if s.Damaged == (Damaged{}) {
		return nil
	}
	return &s.Damaged
}

// API returns the step as a status shows it.
func (s Step) API() v1alpha1.PlanStep {
	p := v1alpha1.PlanStep{Host: s.Node, Action: s.Does, VolumeGroup: s.Group, Reason: s.Reason, Digest: s.Digest()}
	if s.ThinPool != nil {
		p.ThinPool = describePool(*s.ThinPool)
	}
	if s.Damaged.Name != "" {
		p.ThinPool = fmt.Sprintf("%s (%s)", s.Damaged.Name, decide.Bytes(s.Damaged.SizeBytes))
	}
	if s.Does == v1alpha1.ActionAdoptVolumeGroup && s.Adoption != nil {
		p.GroupUUID, p.Replaces = s.UUID, s.Adoption.Replaces
	}
	for _, d := range s.Devices {
		p.Devices = append(p.Devices, disk.Describe(d))
	}
	p.Devices, p.Volumes = append(p.Devices, s.Shown.Devices...), s.Shown.Volumes
	return p
}

// FailureReason returns the reason of a condition for a step that failed.
func FailureReason(action string, kind decide.FaultKind) string {
	removes := action == v1alpha1.ActionRemoveVolumeGroup || action == v1alpha1.ActionReduceVolumeGroup
	switch own := ownReason(action, kind); {
	case kind == decide.FaultUnavailable:
		return v1alpha1.ReasonAgentUnreachable
	case own != "":
		return own
	case kind == decide.FaultNoRoom:
		return v1alpha1.ReasonNoRoom
	case kind == decide.FaultConflict:
		return v1alpha1.ReasonVolumeGroupConflict
	case kind == decide.FaultPrecondition && removes:
		return v1alpha1.ReasonVolumesExist
	case kind == decide.FaultPrecondition:
		return v1alpha1.ReasonDeviceRefused
	case kind == decide.FaultNotFound:
		return v1alpha1.ReasonDeviceNotFound
	}
	return v1alpha1.ReasonStepFailed
}

// ownReason is the reason that an action has for itself; empty when it has none.
func ownReason(action string, kind decide.FaultKind) string {
	switch action {
	case v1alpha1.ActionForgetMissingDevice:
		return v1alpha1.ReasonPartial
	case v1alpha1.ActionAdoptVolumeGroup:
		return v1alpha1.ReasonVolumeGroupLost
	case v1alpha1.ActionRepairThinPool:
		return v1alpha1.ReasonThinPoolDamaged
	case v1alpha1.ActionEnsureThinPool:
		switch kind {
		case decide.FaultNoRoom:
			return v1alpha1.ReasonNoRoom
		case decide.FaultConflict:
			return v1alpha1.ReasonThinPoolConflict
		}
		return v1alpha1.ReasonStepFailed
	}
	return ""
}

// Passing reports whether the next look takes in why a step failed: the world moved under the decision, or an agent was busy or away.
func Passing(kind decide.FaultKind) bool {
	return slices.Contains([]decide.FaultKind{
		decide.FaultPrecondition, decide.FaultNotFound, decide.FaultBusy, decide.FaultUnavailable,
	}, kind)
}
