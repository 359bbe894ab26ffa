package lvm

import (
	"errors"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
)

// Kinds of failures, for errors.Is. The *run.Error with argv, exit code and standard error stays in the chain.
var (
	// ErrInvalid means that an argument was refused before any command ran.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound means that the group or the device does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists means that the name or the UUID is taken.
	ErrExists = errors.New("exists already")
	// ErrInUse means that a device or a group is in use: extents are allocated, volumes exist, or another holds it open.
	ErrInUse = errors.New("in use")
	// ErrSignature means that LVM found a signature on the device and left it alone.
	ErrSignature = errors.New("device carries a signature")
	// ErrNoSpace means that the group has not enough room.
	ErrNoSpace = errors.New("no space")
	// ErrForeign means that the group carries the system ID of another host.
	ErrForeign = errors.New("group of another host")
	// ErrSystemID means that LVM does not know this host by its system ID. No other command is run.
	ErrSystemID = errors.New("wrong system ID")
	// ErrMoving means that extents of the volume are being moved, or that a move was cut off.
	ErrMoving = errors.New("extents are being moved")
	// ErrDamaged means that the metadata of a thin pool is damaged: LVM does not activate the pool, or must not.
	ErrDamaged = errors.New("metadata of the thin pool is damaged")
	// ErrPartial means that the group lacks a physical volume.
	ErrPartial = errors.New("physical volume missing")
)

// phrases are what LVM says, in the C locale, by kind. LVM has one exit code for all of them. The first that fits wins.
var phrases = []struct {
	text string
	kind error
}{
	{"Cannot access VG", ErrForeign},
	{"Manual repair required", ErrDamaged},
	{") transaction_id is ", ErrDamaged},
	{"is prohibited while logical volume", ErrDamaged},
	{"system ID is already", ErrExists},
	{"autoactivation is already", ErrExists},
	{"locked logical volume", ErrMoving},
	{"existing signature", ErrSignature},
	{"signature detected on", ErrSignature},
	{"already exists", ErrExists},
	{"already in use on", ErrExists},
	{"nsufficient free space", ErrNoSpace},
	{"nsufficient free extents", ErrNoSpace},
	{"nsufficient suitable", ErrNoSpace},
	{"still in use", ErrInUse},
	{"There are still partial LVs", ErrInUse},
	{"Do you really want to remove", ErrInUse},
	{"not removed", ErrInUse},
	{"is used by another device", ErrInUse},
	{" in use.", ErrInUse},
	{"is already in volume group", ErrInUse},
	{"exclusively.", ErrInUse},
	{"Device or resource busy", ErrInUse},
	{"contains a filesystem in use", ErrInUse},
	{"while PVs are missing", ErrPartial},
	{"is missing PV", ErrPartial},
	{"Couldn't find device with uuid", ErrPartial},
	{"(volume_list activation filter?)", ErrNotFound},
	{"Device not found for", ErrNotFound},
	{"No device found for", ErrNotFound},
	{"not in volume group", ErrNotFound},
	{"not found", ErrNotFound},
	{"Failed to find logical volume", ErrNotFound},
	{"Failed to find physical volume", ErrNotFound},
}

// Error is a failed command with its kind.
type Error struct {
	// Kind is one of the sentinels of this package, or nil.
	Kind error
	// Err is the failure itself.
	Err error
}

// Error is the text of the failure.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap makes errors.Is find the kind, and errors.As the command error.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// classify adds the kind to a command error; other errors pass.
func classify(err error) error {
	var exit *run.Error
	if !errors.As(err, &exit) {
		return err
	}
	for _, p := range phrases {
		if strings.Contains(exit.Stderr, p.text) {
			return &Error{Kind: p.kind, Err: err}
		}
	}
	return &Error{Err: err}
}
