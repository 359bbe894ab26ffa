package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/refusal"
)

// Sentinels of decisions, and of steps that find later what a decision would have found. Callers use errors.Is; the server maps each
// sentinel to one code.
var (
	// ErrInvalid: the request contradicts itself, whatever the state of the node.
	ErrInvalid = errors.New("invalid request")
	// ErrBusy: another call works on the same object.
	ErrBusy = errors.New("another call works on it")
	// ErrNotFound: the node has no such device or group.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: the name is taken by a group or a volume that is not the wanted one.
	ErrAlreadyExists = errors.New("already exists")
	// ErrNotOurs: the group or the device belongs to somebody else.
	ErrNotOurs = errors.New("belongs to another owner")
	// ErrOtherNode: the group carries the LVM system ID of another node.
	ErrOtherNode = errors.New("it belongs to another node")
	// ErrOtherGroup: the group of that name is not the one that is meant, by its UUID.
	ErrOtherGroup = errors.New("not the group that is meant")
	// ErrMismatch: the device is another one, or holds other data, than the decision was made on.
	ErrMismatch = errors.New("not the device that was described")
	// ErrNotClean: the device is refused; see NotCleanError.
	ErrNotClean = errors.New("device is not clean")
	// ErrTaken: the device could not be opened exclusively.
	ErrTaken = errors.New("device cannot be opened exclusively")
	// ErrHasVolumes: the group still holds logical volumes; see HasVolumesError.
	ErrHasVolumes = errors.New("group holds volumes")
	// ErrHoldsData: the physical volume holds extents of a logical volume.
	ErrHoldsData = errors.New("device holds extents of a logical volume")
	// ErrLastDevice: the group would be left without a device.
	ErrLastDevice = errors.New("last device of the group")
	// ErrNoRoom: the group has not enough room, or the pool's limit is reached.
	ErrNoRoom = errors.New("not enough room")
	// ErrOverLimit: a volume that exists cannot grow as far without passing the pool's limit.
	ErrOverLimit = errors.New("over the limit of the pool")
	// ErrNotThin: only thin volumes are copied.
	ErrNotThin = errors.New("not a thin volume")
	// ErrInUse: the volume is open, or was used.
	ErrInUse = errors.New("volume is in use")
	// ErrOpen: the volume is in use because somebody has it open.
	ErrOpen = fmt.Errorf("%w: it is mounted, or open as a device", ErrInUse)
	// ErrPartial: a physical volume of the group is missing.
	ErrPartial = errors.New("a device of the group is missing")
	// ErrStale: the device of the volume leads to a disk that dropped off, and every read and write of it fails.
	ErrStale = errors.New("its device leads to a disk that dropped off, and is mapped anew by itself once nobody has it open: end the pods that use it, " +
		"and those that use the other volumes of its thin pool if it is in one")
	// ErrUnsure: which groups the node has is not known at the moment. Unknown is never absent, so nothing is decided.
	ErrUnsure = errors.New("which volume groups the node has is not known")
	// ErrUntold: something else that a decision rests on cannot be told: what is on a volume, where it lies, or which of two copies is meant. That may pass, or a
	// person decides, as the message says. No group is unknown, and nothing is decided either.
	ErrUntold = errors.New("cannot be told")
	// ErrDamaged: the metadata of the thin pool is damaged. Nothing in it can be used until a person has it repaired.
	ErrDamaged = errors.New("the thin pool is damaged")
	// ErrUnseen: a group that lacks a device does not show the volume.
	ErrUnseen error = unseenError{}
	// ErrRestored: the volume of a claim carries the tags of one that nobody may have used yet. It is also ErrUntold: a person says what it holds.
	ErrRestored error = restoredError{}
	// ErrUsageUnknown: how full the thin pool is cannot be told at the moment, so nothing is put into it.
	ErrUsageUnknown = errors.New("how full the thin pool is is not known")
	// ErrUnzeroed: the volume, or what it grows by, has to be zeroed first. The work goes on by itself.
	ErrUnzeroed = errors.New("being zeroed, so that nobody reads what another wrote")
	// ErrUndiscarded: the volume is being discarded before it is removed. Whoever wants that repeats the call.
	ErrUndiscarded = errors.New("being discarded before it is removed")
	// ErrRemoving: the removal of the volume began with discards. It may be removed only, until a person takes TagRemoving off.
	ErrRemoving = errors.New("its removal began, and its disks may have discarded a part of what it held, so that it is not used any more. " +
		"Restore its data to a new volume; to look at what is left, take the tag " + TagRemoving + " off, as docs/troubleshooting.md says")
	// ErrFilesystemOnly: nobody zeroed the volume, so it is not shown raw.
	ErrFilesystemOnly = errors.New("was made for a filesystem, and holds what others wrote below it")
	// ErrSectorSizes: the devices of a group would differ in the size of a logical sector.
	ErrSectorSizes = errors.New("sectors differ in size")
	// ErrMoving: extents of the group are being moved, or a move was cut off. Group.Still says how that ends.
	ErrMoving = errors.New("extents of the group are being moved off a device")
	// ErrThinPool: LVM does not do it in a group with a thin pool.
	ErrThinPool = errors.New("the group has a thin pool")
	// ErrRefused: a tool found a device, group or volume in another state than the plan was made on, and left it alone.
	ErrRefused = errors.New("the node changed meanwhile")
)

// NotCleanError says which device is refused, and why.
type NotCleanError struct {
	Path     string
	Refusals []Refusal
}

// Error lists every refusal.
func (e *NotCleanError) Error() string {
	reasons := make([]string, 0, len(e.Refusals))
	for _, r := range e.Refusals {
		reasons = append(reasons, r.Reason+": "+r.Message)
	}
	return fmt.Sprintf("device %s is refused: %s", e.Path, strings.Join(reasons, "; "))
}

// Settling reports whether an error says of one or more devices that something happened to them a moment ago, and nothing else.
func Settling(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !Settling(err) })
	}
	var refused *NotCleanError
	if !errors.As(err, &refused) {
		return false
	}
	return !slices.ContainsFunc(refused.Refusals, func(r Refusal) bool { return r.Reason != refusal.Settling })
}

// Is makes errors.Is(err, ErrNotClean) true.
func (e *NotCleanError) Is(target error) bool { return target == ErrNotClean }

// MismatchError says what differs between the device that was described and the one that is there.
type MismatchError struct {
	Path string
	// Differences, one sentence part each: `serial is "B", not "A"`.
	Differences []string
}

// Error names every difference.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("device %s is not as described: %s", e.Path, strings.Join(e.Differences, "; "))
}

// Is makes errors.Is(err, ErrMismatch) true.
func (e *MismatchError) Is(target error) bool { return target == ErrMismatch }

// unseenError is also ErrPartial, and ErrUnsure: whether the group has what the caller asks for is not known at the moment.
type unseenError struct{}

func (unseenError) Error() string { return ErrPartial.Error() + ", and may know more" }

func (unseenError) Is(target error) bool { return target == ErrPartial || target == ErrUnsure }

// restoredError is also ErrUntold: nobody but a person can tell whether the volume holds data.
type restoredError struct{}

func (restoredError) Error() string {
	return "it has a claim, and carries the tags of a volume that nobody used yet, so that all of it would be zeroed: older metadata of LVM came back. " +
		"Nothing is done to it before a person takes these tags off, as docs/troubleshooting.md says under VolumeLost"
}

func (restoredError) Is(target error) bool { return target == ErrUntold }

// HasVolumesError names the volumes that keep a group.
type HasVolumesError struct {
	Group   string
	Volumes []string
}

// Error names the volumes, or says that only hidden ones are left.
func (e *HasVolumesError) Error() string {
	if len(e.Volumes) == 0 {
		return fmt.Sprintf("group %s holds allocated extents of hidden logical volumes", e.Group)
	}
	return fmt.Sprintf("group %s holds %d logical volumes: %s", e.Group, len(e.Volumes), strings.Join(e.Volumes, ", "))
}

// Is makes errors.Is(err, ErrHasVolumes) true.
func (e *HasVolumesError) Is(target error) bool { return target == ErrHasVolumes }
