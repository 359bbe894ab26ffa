package prep

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
	"quarry.storage/quarry/pkg/refusal"
)

// MakeOSD makes a clean disk an OSD, or what is in an encrypted one. It is killed and repeated safely: from the first write on the disk carries the label of the OSD, or its header.
type MakeOSD struct {
	Want osd.Wanted
	// Tools is the container that has Ceph's programs.
	Tools string
	// Key opens the disk of an encrypted OSD.
	Key osd.Key
	plan.Reason
	token Token
}

// FindTools looks for the container that has Ceph's programs. It changes nothing, and goes before a step after which they are needed.
type FindTools struct {
	// Tools is the container.
	Tools string
	// Encryption: cryptsetup has to be there as well, and dm-crypt in the kernel.
	Encryption bool
	plan.Reason
	device string
}

// ClearOSD removes one OSD from its disk, which is clean then.
type ClearOSD struct {
	plan.Reason
	token Token
}

var (
	_ plan.Step    = FindTools{}
	_ plan.Changer = MakeOSD{}
	_ plan.Changer = ClearOSD{}
)

// Token permits the step on one disk, which is clean, or encrypted for the OSD.
func (s MakeOSD) Token() Token { return s.token }

// Token permits the step on the disk with the OSD.
func (s ClearOSD) Token() Token { return s.token }

// Touches the disk that is to be made an OSD afterwards.
func (s FindTools) Touches() []string { return []string{s.device} }

// Touches the disk.
func (s MakeOSD) Touches() []string { return []string{s.token.device.Path} }

// Touches the disk.
func (s ClearOSD) Touches() []string { return []string{s.token.device.Path} }

// Changes what the disk carries.
func (s MakeOSD) Changes() []string { return s.Touches() }

// Changes what the disk carries.
func (s ClearOSD) Changes() []string { return s.Touches() }

func (s FindTools) String() string {
	if s.Encryption {
		return "find the programs of Ceph, and cryptsetup, in container " + s.Tools
	}
	return "find the programs of Ceph in container " + s.Tools
}

func (s MakeOSD) String() string {
	return fmt.Sprintf("make osd.%d (UUID %s) on %s", s.Want.ID, s.Want.UUID, s.token.device.Path)
}

func (s ClearOSD) String() string {
	return fmt.Sprintf("clear OSD %s on %s", s.token.want.UUID, s.token.device.Path)
}

// UUID is that of the OSD that the disk carries.
func (s ClearOSD) UUID() string { return s.token.want.UUID }

// Made refuses a disk that does not carry the OSD, ready, once the step has been performed. Whether an encrypted one does is told by a step of its own.
func (s MakeOSD) Made(d plan.Device) error {
	made := s.token
	if s.Want.Encrypted {
		return made.Verify(d)
	}
	made.kinds = []osd.Kind{osd.Ready}
	if err := made.Verify(d); err != nil {
		return err
	}
	if !whole(d) {
		return &plan.MismatchError{Path: d.Path, Differences: []string{headless}}
	}
	return nil
}

// Token binds a step to one disk and to what has to be on it. The zero Token permits nothing.
type Token struct {
	device plan.Identity
	want   osd.Wanted
	policy plan.Policy
	// kinds are what the disk may be to the Cluster.
	kinds []osd.Kind
	// making is the one that the disk has to carry; empty if the kind alone matters.
	making string
}

// Device is the one device that the step may change.
func (t Token) Device() plan.Identity { return t.device }

// Verify compares the token with the device as it is seen at the moment of the step, under an exclusive open. A disk that somebody uses permits
// nothing, whatever it carries.
func (t Token) Verify(d plan.Device) error {
	if d.Use == plan.Used {
		return &plan.NotCleanError{Path: d.Path, Refusals: []plan.Refusal{{Reason: refusal.Busy, Message: "The device is in use."}}}
	}
	if err := plan.MatchHardware(d, t.device); err != nil {
		return err
	}
	v := Look(d, t.want, t.policy)
	if !slices.Contains(t.kinds, v.Kind) {
		return &plan.MismatchError{Path: d.Path, Differences: []string{fmt.Sprintf("it is %s: %s", v.Kind, v.Message)}}
	}
	if v.Kind == osd.Empty {
		if refusals := plan.Judge(d, t.policy); len(refusals) > 0 {
			return &plan.NotCleanError{Path: d.Path, Refusals: refusals}
		}
		// After a ClearOSD the digest is another one than that which the caller described.
		if t.device.Digest == "" {
			return nil
		}
		return plan.Match(d, t.device)
	}
	if stay := obstacles(d, t.policy); len(stay) > 0 {
		return &plan.NotCleanError{Path: d.Path, Refusals: stay}
	}
	if t.making == "" {
		return nil
	}
	return madeAnew(d, v, t.making)
}
