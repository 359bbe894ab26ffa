package plan

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/pvuuid"
	"quarry.storage/quarry/pkg/refusal"
)

// Plan is what to do, in this order. An empty plan means that the node is in the desired state already.
type Plan struct {
	Steps []Step
	// Notes are sentences for a person about what is left alone, and why.
	Notes []string
}

// Touches are the paths of the devices that the steps work on, ordered, each once.
func (p Plan) Touches() []string {
	var out []string
	for _, s := range p.Steps {
		if s != nil {
			out = append(out, s.Touches()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Step is one change on the node. Each is safe to repeat after a crash, because the next plan is made from what is seen then.
type Step interface {
	// Why says why the step is in the plan.
	Why() string
	// Touches are the paths of the devices that the step works on.
	Touches() []string
	// String says what it does, on one line.
	String() string
}

// Reason says why a step is in a plan. Every step embeds it.
type Reason string

// Why says why the step is in the plan.
func (r Reason) Why() string { return string(r) }

// Destructive is a step after which something that stood on a device is gone. It carries a Token, which only this package can make. A
// step whose token permits nothing is not performed.
type Destructive interface {
	Step
	Token() Token
}

// Ground is what permits a destructive step.
type Ground int

// Grounds of destructive steps; the zero value permits nothing.
const (
	// Clean: the device carries nothing, and is the one that was described.
	Clean Ground = iota + 1
	// Ownership: our mark is written on the device.
	Ownership
	// Consent: the caller described this very device with its content, and asks for its wipe.
	Consent
)

// Guarded is a step on several devices of which each has a Token. It is performed only while all of them permit it.
type Guarded interface {
	Step
	Tokens() []Token
}

// Token binds a step to one device and to the ground it stands on. The zero Token permits nothing.
type Token struct {
	device Identity
	// pvUUID is the physical volume that the device carries, or how its UUID begins if it is made by a step before.
	pvUUID string
	ground Ground
}

// Device is the one device that the step may change.
func (t Token) Device() Identity { return t.device }

// Ground is what permits the step; zero when nothing does.
func (t Token) Ground() Ground { return t.ground }

// path is the device of the token, for a step that touches no other one.
func (t Token) path() []string { return []string{t.device.Path} }

// Verify compares the token with the device as it is seen at the moment of the step, under an exclusive open. Neither that a device is
// clean nor the consent to its wipe permits anything while somebody uses it.
func (t Token) Verify(d Device) error {
	switch t.ground {
	case Clean, Consent:
		if message := busy(d, Policy{}); message != "" {
			return &NotCleanError{Path: d.Path, Refusals: []Refusal{{refusal.Busy, message}}}
		}
		return Match(d, t.device)
	case Ownership:
		return t.verifyOwnership(d)
	default:
		return &MismatchError{Path: d.Path, Differences: []string{"nothing permits this step"}}
	}
}

// verifyOwnership accepts the device only while it carries the physical volume that the token names, in no group.
func (t Token) verifyOwnership(d Device) error {
	if err := MatchHardware(d, t.device); err != nil {
		return err
	}
	switch {
	case !pvuuid.Fits(d.PVUUID, t.pvUUID):
		diff := fmt.Sprintf("physical volume is %q, not %q", d.PVUUID, t.pvUUID)
		return &MismatchError{Path: d.Path, Differences: []string{diff}}
	case d.Group != "":
		diff := fmt.Sprintf("physical volume belongs to group %q", d.Group)
		return &MismatchError{Path: d.Path, Differences: []string{diff}}
	}
	return nil
}

// CreatePV makes a clean device a physical volume.
type CreatePV struct {
	// Stem is how its UUID begins; see pvuuid.Complete.
	Stem string
	Reason
	token Token
}

// CreateVG makes a group of physical volumes that are ours.
type CreateVG struct {
	Name          string
	Tags, Devices []string
	Reason
	tokens []Token
}

// ExtendVG adds physical volumes that are ours to a group.
type ExtendVG struct {
	Name string
	// GroupDevices are in the group already.
	GroupDevices, Devices []string
	Reason
	tokens []Token
}

// ReduceVG takes unallocated physical volumes out of a group.
type ReduceVG struct {
	Name string
	// GroupDevices are all devices of the group, those to take out included.
	GroupDevices, Devices []string
	Reason
}

// RemoveVG removes a group without volumes.
type RemoveVG struct {
	Name, UUID   string
	GroupDevices []string
	Reason
}

// GroupRef says in which group a step on a volume works. Its tag is looked at again by the tool that performs the step.
type GroupRef struct {
	Name, Tag string
	Devices   []string
}

// DeactivatePool takes the device node of a thin pool with that tag away, unless it is open.
type DeactivatePool struct {
	Group     GroupRef
	Name, Tag string
	Reason
}

// RemovePool removes an inactive thin pool with that tag that holds no volume.
type RemovePool struct {
	Group     GroupRef
	Name, Tag string
	Reason
}

// ReleasePV makes a physical volume of ours that is in no group any more a clean device.
type ReleasePV struct {
	Reason
	token Token
}

// WipeDevice makes a device clean, on the caller's consent.
type WipeDevice struct {
	Reason
	token Token
}

// Touches the device that becomes a physical volume.
func (s CreatePV) Touches() []string { return s.token.path() }

// Touches the devices of the new group.
func (s CreateVG) Touches() []string { return s.Devices }

// Touches the devices of the group and those that join it.
func (s ExtendVG) Touches() []string { return slices.Concat(s.GroupDevices, s.Devices) }

// Touches the devices of the group, those that leave it included.
func (s ReduceVG) Touches() []string { return s.GroupDevices }

// Touches the devices of the group.
func (s RemoveVG) Touches() []string { return s.GroupDevices }

// Touches the devices of the group.
func (s DeactivatePool) Touches() []string { return s.Group.Devices }

// Touches the devices of the group.
func (s RemovePool) Touches() []string { return s.Group.Devices }

// Touches the device that is released.
func (s ReleasePV) Touches() []string { return s.token.path() }

// Touches the device that is wiped.
func (s WipeDevice) Touches() []string { return s.token.path() }

// Token permits the step on one clean device.
func (s CreatePV) Token() Token { return s.token }

// Token permits the step on one device of ours.
func (s ReleasePV) Token() Token { return s.token }

// Token permits the step on the device that was described.
func (s WipeDevice) Token() Token { return s.token }

// Tokens permit the step while each device carries the physical volume that was made for it, in no group. LVM makes a physical volume of a
// device that carries none, without a question.
func (s CreateVG) Tokens() []Token { return s.tokens }

// Tokens permit the step as those of CreateVG do.
func (s ExtendVG) Tokens() []Token { return s.tokens }

// PVUUID is the physical volume that the device carries.
func (s ReleasePV) PVUUID() string { return s.token.pvUUID }

func (s CreatePV) String() string {
	return fmt.Sprintf("create physical volume %s… on %s", s.Stem, s.token.device.Path)
}

func (s CreateVG) String() string {
	return fmt.Sprintf("create group %s on %s", s.Name, strings.Join(s.Devices, " "))
}

func (s ExtendVG) String() string {
	return fmt.Sprintf("extend group %s by %s", s.Name, strings.Join(s.Devices, " "))
}

func (s ReduceVG) String() string {
	return fmt.Sprintf("reduce group %s by %s", s.Name, strings.Join(s.Devices, " "))
}

func (s RemoveVG) String() string { return "remove group " + s.Name }

func (s DeactivatePool) String() string { return fmt.Sprintf("deactivate %s/%s", s.Group.Name, s.Name) }

func (s RemovePool) String() string {
	return fmt.Sprintf("remove thin pool %s/%s", s.Group.Name, s.Name)
}

func (s ReleasePV) String() string {
	return fmt.Sprintf("release physical volume %s on %s", s.token.pvUUID, s.token.device.Path)
}

func (s WipeDevice) String() string { return "wipe " + s.token.device.Path }

// Changer is a step of another package that changes what the devices carry that it touches.
type Changer interface {
	Step
	// Changes are the paths of these devices.
	Changes() []string
}

// Changes are the paths of the devices of which the plan changes what they carry, ordered, each once: those that become or cease to be
// a physical volume, join or leave a group, or are wiped. The others that it touches carry the same as before to whoever looks.
func (p Plan) Changes() []string {
	var out []string
	for _, step := range p.Steps {
		switch s := step.(type) {
		case Destructive:
			out = append(out, s.Token().Device().Path)
		case Changer:
			out = append(out, s.Changes()...)
		case CreateVG:
			out = append(out, s.Devices...)
		case ExtendVG:
			out = append(out, s.Devices...)
		case ReduceVG:
			out = append(out, s.Devices...)
		case RemoveVG:
			out = append(out, s.GroupDevices...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
