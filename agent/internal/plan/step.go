package plan

import (
	"fmt"
	"strings"
)

// Plan is what to do, in this order. An empty plan means that the desired state holds already.
type Plan struct {
	Steps []Step
	// Notes are sentences about what was left alone, and why; they are for a person.
	Notes []string
}

// Step is one change on the node. Each is safe to repeat after a crash, because the next plan is made from what is seen then.
type Step interface {
	// Why says why the step is in the plan.
	Why() string
	// String says what it does, on one line.
	String() string
}

// Destructive is a step after which something that stood on a device is gone. It carries a Token, which only this package
// can make; a step whose token permits nothing is not performed.
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

// Token binds a destructive step to one device and to the ground it stands on. The zero Token permits nothing.
type Token struct {
	device Identity
	pvUUID string
	ground Ground
}

// Device is the one device that the step may change.
func (t Token) Device() Identity { return t.device }

// Ground is what permits the step; zero when nothing does.
func (t Token) Ground() Ground { return t.ground }

// Verify compares the token with the device as it is seen at the moment of the step, under an exclusive open.
func (t Token) Verify(d Device) error {
	switch t.ground {
	case Clean, Consent:
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
	case d.PVUUID != t.pvUUID:
		diff := fmt.Sprintf("physical volume is %q, not %q", d.PVUUID, t.pvUUID)
		return &MismatchError{Path: d.Path, Differences: []string{diff}}
	case d.Group != "":
		diff := fmt.Sprintf("physical volume belongs to group %q", d.Group)
		return &MismatchError{Path: d.Path, Differences: []string{diff}}
	}
	return nil
}

// CreatePV makes a clean device a physical volume with the given UUID.
type CreatePV struct {
	UUID   string
	Reason string
	token  Token
}

// CreateVG makes a group of physical volumes.
type CreateVG struct {
	Name          string
	Tags, Devices []string
	Reason        string
}

// ExtendVG adds physical volumes to a group.
type ExtendVG struct {
	Name string
	// GroupDevices are in the group already.
	GroupDevices, Devices []string
	Reason                string
}

// ReduceVG takes unallocated physical volumes out of a group.
type ReduceVG struct {
	Name string
	// GroupDevices are all devices of the group, those to take out included.
	GroupDevices, Devices []string
	Reason                string
}

// RemoveVG removes a group without volumes.
type RemoveVG struct {
	Name         string
	GroupDevices []string
	Reason       string
}

// ReleasePV makes a physical volume of ours, that is in no group any more, a clean device.
type ReleasePV struct {
	Reason string
	token  Token
}

// WipeDevice makes a device clean, on the caller's consent.
type WipeDevice struct {
	Reason string
	token  Token
}

// Why a device becomes a physical volume.
func (s CreatePV) Why() string { return s.Reason }

// Why the group is made.
func (s CreateVG) Why() string { return s.Reason }

// Why the group grows.
func (s ExtendVG) Why() string { return s.Reason }

// Why the group shrinks.
func (s ReduceVG) Why() string { return s.Reason }

// Why the group goes.
func (s RemoveVG) Why() string { return s.Reason }

// Why the device is released.
func (s ReleasePV) Why() string { return s.Reason }

// Why the device is wiped.
func (s WipeDevice) Why() string { return s.Reason }

// Token permits the step on one clean device.
func (s CreatePV) Token() Token { return s.token }

// Token permits the step on one device of ours.
func (s ReleasePV) Token() Token { return s.token }

// Token permits the step on the device that was described.
func (s WipeDevice) Token() Token { return s.token }

// PVUUID is the physical volume that the device carries.
func (s ReleasePV) PVUUID() string { return s.token.pvUUID }

func (s CreatePV) String() string {
	return fmt.Sprintf("create physical volume %s on %s", s.UUID, s.token.device.Path)
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

func (s ReleasePV) String() string {
	return fmt.Sprintf("release physical volume %s on %s", s.token.pvUUID, s.token.device.Path)
}

func (s WipeDevice) String() string { return "wipe " + s.token.device.Path }
