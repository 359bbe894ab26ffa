package lvm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// metadataBytes is the room for metadata on a device of a GiB or more: LVM's default of less than one MiB is full after some thousand
	// volumes, and cannot be changed later.
	metadataBytes = 32 * mib
	// metadataCopies is on how many devices of a group LVM keeps its metadata: on all that a group of fewer has. Every change of a group
	// writes all copies, so that a group of many disks would be slow.
	metadataCopies = 4
	// tail is left free at the end of a device. What a pod writes at the end of its volume never stands where udev and others look for the
	// marks of RAID and of partition tables.
	tail = mib
)

// CreatePV makes the device, which has that size, a physical volume with the given UUID. It fails with ErrSignature, and changes nothing,
// when LVM finds a signature on the device. It fails for a physical volume too: LVM asks whether to make it anew with another size.
func (l *LVM) CreatePV(ctx context.Context, device, uuid string, sizeBytes int64) error {
	if !uuidForm.MatchString(uuid) {
		return fmt.Errorf("create pv %s: %w: uuid %q", device, ErrInvalid, uuid)
	}
	if sizeBytes <= 2*tail {
		return fmt.Errorf("create pv %s: %w: size %d", device, ErrInvalid, sizeBytes)
	}
	args := []string{"--uuid", uuid, "--norestorefile", "--setphysicalvolumesize", size((sizeBytes - tail) / 512 * 512)}
	if sizeBytes >= gib {
		args = append(args, "--metadatasize", size(metadataBytes))
	}
	if _, err := l.run(ctx, []string{device}, "pvcreate", append(args, device)...); err != nil {
		return fmt.Errorf("create pv %s: %w", device, err)
	}
	return nil
}

// optionAutoactivation says whether commands that activate whatever they see at a boot activate the volumes of a group, too.
const optionAutoactivation = "--setautoactivation"

// CreateVG makes a group of physical volumes, with its tags in the same step: there is no moment at which it has none. Nothing in it is activated
// but by name, where LVM knows how to say that. What a group of that name left below /dev when it went is taken away.
func (l *LVM) CreateVG(ctx context.Context, name string, tags, devices []string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("create vg: %w", err)
	}
	var args []string
	for _, t := range tags {
		if err := CheckTag(t); err != nil {
			return fmt.Errorf("create vg %q: %w", name, err)
		}
		args = append(args, "--addtag", t)
	}
	if err := l.freeName(name); err != nil {
		return fmt.Errorf("create vg %q: %w", name, err)
	}
	args = append(append(args, "--vgmetadatacopies", strconv.Itoa(metadataCopies), name), devices...)
	_, err := l.modern(func(modern bool) (run.Result, error) {
		if modern {
			return l.run(ctx, devices, "vgcreate", append([]string{optionAutoactivation, "n"}, args...)...)
		}
		return l.run(ctx, devices, "vgcreate", args...)
	})
	if err != nil {
		return fmt.Errorf("create vg %q: %w", name, err)
	}
	return nil
}

// StopAutoactivation makes sure that nothing in the group, which stands on groupDevices now, is activated but by name. What is active stays active. A
// group that lacks a device is ErrPartial. It is for groups of which a report says that they are Autoactivated.
func (l *LVM) StopAutoactivation(ctx context.Context, name string, groupDevices []string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("stop the autoactivation of vg: %w", err)
	}
	// Somebody may have done it since the report.
	if _, err := l.run(ctx, groupDevices, "vgchange", optionAutoactivation, "n", name); err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("stop the autoactivation of vg %q: %w", name, err)
	}
	return nil
}

// ExtendVG adds physical volumes to the group, which stands on groupDevices now.
func (l *LVM) ExtendVG(ctx context.Context, name string, groupDevices, newDevices []string) error {
	return l.change(ctx, "extend", "vgextend", name, union(groupDevices, newDevices), newDevices)
}

// ReduceVG takes physical volumes out of the group, which stands on groupDevices now. They stay physical volumes without a
// group. One that holds extents is not taken out: ErrInUse.
func (l *LVM) ReduceVG(ctx context.Context, name string, groupDevices, remove []string) error {
	return l.change(ctx, "reduce", "vgreduce", name, union(groupDevices, remove), remove)
}

// ReduceMissing makes the group, which stands on groupDevices now, forget its physical volumes that are missing. When one of them
// holds extents of a volume it fails with ErrInUse and keeps that one: the option that would drop the volume too is not given.
func (l *LVM) ReduceMissing(ctx context.Context, name string, groupDevices []string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("reduce vg: %w", err)
	}
	if _, err := l.run(ctx, groupDevices, "vgreduce", "--removemissing", name); err != nil {
		return fmt.Errorf("reduce vg %q by what is missing: %w", name, err)
	}
	return nil
}

// RestorePV makes the group, which stands on groupDevices now, take a physical volume back that was missing when the group was changed. LVM
// looks whether the device carries it.
func (l *LVM) RestorePV(ctx context.Context, name string, groupDevices []string, device string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("restore pv: %w", err)
	}
	if _, err := l.run(ctx, union(groupDevices, []string{device}), "vgextend", "--restoremissing", name, device); err != nil {
		return fmt.Errorf("restore pv %s in vg %q: %w", device, name, err)
	}
	return nil
}

// RemoveVG removes the group. One that holds a logical volume is not removed: ErrInUse.
func (l *LVM) RemoveVG(ctx context.Context, name string, groupDevices []string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("remove vg: %w", err)
	}
	if _, err := l.run(ctx, groupDevices, "vgremove", name); err != nil {
		return fmt.Errorf("remove vg %q: %w", name, err)
	}
	return nil
}

// change runs a command that takes a group and some devices.
func (l *LVM) change(ctx context.Context, verb, command, name string, visible, devices []string) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("%s vg: %w", verb, err)
	}
	if len(devices) == 0 {
		return fmt.Errorf("%s vg %q: %w: no devices", verb, name, ErrInvalid)
	}
	if _, err := l.run(ctx, visible, command, append([]string{name}, devices...)...); err != nil {
		return fmt.Errorf("%s vg %q: %w", verb, name, err)
	}
	return nil
}

// union keeps the order and drops what is there already.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// freeName makes sure that nothing below /dev has the name of a group that is about to be made: LVM refuses the name otherwise. A host that
// removes a group without udev leaves its directory there, with links to devices that are gone. Exactly that is taken away; anything else is
// somebody's, and is an error that says what it is.
func (l *LVM) freeName(group string) error {
	path := filepath.Join(l.dev, group)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return l.taken("%s is no directory of a group (%s)", path, info.Mode().Type())
	}
	if err := l.inactive(group); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := l.dangles(filepath.Join(path, e.Name())); err != nil {
			return err
		}
	}
	// All of it was looked at before the first link goes.
	for _, e := range entries {
		link := filepath.Join(path, e.Name())
		if err := l.dangles(link); err != nil {
			return err
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// A directory that somebody uses since is not empty, and stays.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l.taken("%s was left by a group that is gone, and cannot be removed: %v", path, err)
	}
	return nil
}

// dangles refuses what is not a symbolic link to a device that is gone.
func (l *LVM) dangles(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSymlink:
		return l.taken("%s is no link to a volume (%s)", path, info.Mode().Type())
	}
	_, err = os.Stat(path)
	switch {
	case err == nil:
		return l.taken("%s leads to a device that exists", path)
	case !errors.Is(err, fs.ErrNotExist):
		return l.taken("it is not known where %s leads: %v", path, err)
	}
	return nil
}

// inactive refuses a name for which device-mapper has devices: a volume of such a group is active. Hyphens in a name are doubled there,
// and one stands between group and volume.
func (l *LVM) inactive(group string) error {
	entries, err := os.ReadDir(filepath.Join(l.dev, "mapper"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	prefix := mapped(group) + "-"
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), prefix); ok && !strings.HasPrefix(rest, "-") {
			return l.taken("device-mapper has %s of a group of that name, which LVM does not report", e.Name())
		}
	}
	return nil
}

func (l *LVM) taken(format string, args ...any) error {
	return &Error{Kind: ErrExists, Err: fmt.Errorf("the name cannot be used: "+format, args...)}
}
