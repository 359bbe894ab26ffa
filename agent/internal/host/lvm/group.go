package lvm

import (
	"context"
	"fmt"
	"slices"
)

// CreatePV makes the device a physical volume with the given UUID. It fails with ErrSignature, and changes nothing, when LVM
// finds a signature on the device. A physical volume that belongs to no group is made anew without a question, so the caller
// has to have looked what is on the device.
func (l *LVM) CreatePV(ctx context.Context, device, uuid string) error {
	if !uuidForm.MatchString(uuid) {
		return fmt.Errorf("create pv %s: %w: uuid %q", device, ErrInvalid, uuid)
	}
	if _, err := l.run(ctx, []string{device}, "pvcreate", "--uuid", uuid, "--norestorefile", device); err != nil {
		return fmt.Errorf("create pv %s: %w", device, err)
	}
	return nil
}

// CreateVG makes a group of physical volumes, with its tags in the same step: there is no moment at which it has none. What a group of that
// name left below /dev when it went is taken away.
func (l *LVM) CreateVG(ctx context.Context, name string, tags, devices []string) error {
	if err := validName(name); err != nil {
		return fmt.Errorf("create vg: %w", err)
	}
	var args []string
	for _, t := range tags {
		if err := validTag(t); err != nil {
			return fmt.Errorf("create vg %q: %w", name, err)
		}
		args = append(args, "--addtag", t)
	}
	if err := l.freeName(name); err != nil {
		return fmt.Errorf("create vg %q: %w", name, err)
	}
	args = append(append(args, name), devices...)
	if _, err := l.run(ctx, devices, "vgcreate", args...); err != nil {
		return fmt.Errorf("create vg %q: %w", name, err)
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
	if err := validName(name); err != nil {
		return fmt.Errorf("reduce vg: %w", err)
	}
	if _, err := l.run(ctx, groupDevices, "vgreduce", "--removemissing", name); err != nil {
		return fmt.Errorf("reduce vg %q by what is missing: %w", name, err)
	}
	return nil
}

// RemoveVG removes the group. One that holds a logical volume is not removed: ErrInUse.
func (l *LVM) RemoveVG(ctx context.Context, name string, groupDevices []string) error {
	if err := validName(name); err != nil {
		return fmt.Errorf("remove vg: %w", err)
	}
	if _, err := l.run(ctx, groupDevices, "vgremove", name); err != nil {
		return fmt.Errorf("remove vg %q: %w", name, err)
	}
	return nil
}

// change runs a command that takes a group and some devices.
func (l *LVM) change(ctx context.Context, verb, command, name string, visible, devices []string) error {
	if err := validName(name); err != nil {
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
