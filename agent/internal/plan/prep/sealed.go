package prep

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/osd"
)

// SealOSD makes a clean disk that of one encrypted OSD: it carries its headers, and a slot that the key opens. It is not repeated: a disk that it was killed on is cleared
// first.
type SealOSD struct {
	Want osd.Wanted
	// Tools is the container that has cryptsetup.
	Tools string
	// Key opens the disk afterwards.
	Key osd.Key
	plan.Reason
	token Token
	size  int64
}

// FinishOSD puts on an encrypted disk that the making of its OSD ended. It changes the headers alone.
type FinishOSD struct {
	Want osd.Wanted
	// Tools is the container that has cryptsetup.
	Tools string
	plan.Reason
	token Token
}

// CloseOSD takes the mapping of an encrypted OSD away, if there is one and nobody has it open.
type CloseOSD struct {
	UUID string
	// Major and Minor are the number of the disk.
	Major, Minor uint32
	plan.Reason
	device string
}

var (
	_ plan.Changer = SealOSD{}
	_ plan.Changer = FinishOSD{}
	_ plan.Step    = CloseOSD{}
)

// Token permits the step on one clean disk.
func (s SealOSD) Token() Token { return s.token }

// Token permits the step on the disk of the OSD.
func (s FinishOSD) Token() Token { return s.token }

// SizeBytes of the disk.
func (s SealOSD) SizeBytes() int64 { return s.size }

// Touches the disk.
func (s SealOSD) Touches() []string { return []string{s.token.device.Path} }

// Touches the disk.
func (s FinishOSD) Touches() []string { return []string{s.token.device.Path} }

// Touches the disk.
func (s CloseOSD) Touches() []string { return []string{s.device} }

// Changes what the disk carries.
func (s SealOSD) Changes() []string { return s.Touches() }

// Changes what the disk carries.
func (s FinishOSD) Changes() []string { return s.Touches() }

func (s SealOSD) String() string {
	return fmt.Sprintf("encrypt %s for OSD %s", s.token.device.Path, s.Want.UUID)
}

func (s FinishOSD) String() string {
	return fmt.Sprintf("finish the encrypted OSD %s on %s", s.Want.UUID, s.token.device.Path)
}

func (s CloseOSD) String() string {
	return fmt.Sprintf("close the encrypted OSD %s on %s", s.UUID, s.device)
}

// Made refuses a disk that does not carry the OSD, ready, once the step has been performed.
func (s FinishOSD) Made(d plan.Device) error {
	made := s.token
	made.kinds = []osd.Kind{osd.Ready}
	return made.Verify(d)
}

// closing closes the mapping of the OSD on a disk.
func closing(d plan.Device, uuid, why string) CloseOSD {
	return CloseOSD{UUID: uuid, Major: d.Major, Minor: d.Minor, device: d.Path, Reason: plan.Reason(why)}
}

// making are the steps that make a disk an OSD that is clean when they begin.
func making(d plan.Device, spec Spec, token Token, why string) []plan.Step {
	if !spec.Want.Encrypted {
		return []plan.Step{MakeOSD{Want: spec.Want, Tools: spec.Tools, token: token, Reason: plan.Reason(why)}}
	}
	sealed := token
	sealed.kinds = []osd.Kind{osd.Unfinished}
	return []plan.Step{
		SealOSD{Want: spec.Want, Tools: spec.Tools, Key: spec.Key, token: token, size: d.SizeBytes, Reason: plan.Reason(why)},
		MakeOSD{Want: spec.Want, Tools: spec.Tools, Key: spec.Key, token: sealed, Reason: "the disk is encrypted by the step before"},
		FinishOSD{Want: spec.Want, Tools: spec.Tools, token: sealed, Reason: "the OSD is made by the step before"},
	}
}

// unsealable says why a disk cannot be encrypted; nil if it can be.
func unsealable(d plan.Device, spec Spec) error {
	switch {
	case !spec.Want.Encrypted:
		return nil
	case spec.Key.IsZero():
		return fmt.Errorf("the key of the encrypted OSD %s is required: %w", spec.Want.UUID, plan.ErrInvalid)
	case d.SizeBytes%osd.SealedSector != 0:
		return &plan.MismatchError{Path: d.Path, Differences: []string{fmt.Sprintf("an encrypted OSD has sectors of %d bytes, and the size %d is no multiple of it", osd.SealedSector, d.SizeBytes)}}
	}
	return nil
}

// unmapped is the device without the mapping of the wanted OSD among its holders: that one is ours.
func unmapped(s plan.Snapshot, d plan.Device, want osd.Wanted) plan.Device {
	if !want.Encrypted {
		return d
	}
	d.Holders = slices.DeleteFunc(slices.Clone(d.Holders), func(name string) bool {
		return slices.ContainsFunc(s.Devices, func(h plan.Device) bool { return h.KernelName == name && h.Mapping == osd.MappingUUID(want.UUID) })
	})
	return d
}

// stale reports whether the wanted OSD is open as another device than its disk is now: the disk was away, and came back with another number. What cannot be read tells of no such thing.
func stale(s plan.Snapshot, path string, want osd.Wanted) bool {
	d, there := s.Find(path)
	if !there || !want.Encrypted || len(d.Unreadable) > 0 {
		return false
	}
	return slices.ContainsFunc(s.Devices, func(h plan.Device) bool {
		return h.Mapping == osd.MappingUUID(want.UUID) && !slices.Contains(d.Holders, h.KernelName)
	})
}

// hasMark reports whether a disk carries a mark of any OSD.
func hasMark(d plan.Device) bool { return len(d.Labels)+len(d.Headers) > 0 }

// isMark reports whether a signature is one of those marks.
func isMark(d plan.Device, s plan.Signature) bool {
	switch s.Type {
	case bluestore:
		return slices.ContainsFunc(d.Labels, func(f osd.Found) bool { return f.Offset == s.Offset })
	case luks:
		return slices.ContainsFunc(d.Headers, func(h osd.Header) bool { return h.Offset == s.Offset })
	}
	return false
}

// luks is the type of the signature that a header of LUKS is.
const luks = "crypto_LUKS"
