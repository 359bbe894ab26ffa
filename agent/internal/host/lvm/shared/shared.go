// Package shared makes, changes and reports the one volume group on a LUN that several nodes share, with the lvm command. The group carries a system
// ID that no host has: LVM changes it only for a process that names the ID, which is here. Its volumes are linear, on that one device, and never
// active in LVM. The package does not know who may change a group, and whether a change is wanted.
package shared

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Commands runs LVM commands that see only the given devices.
type Commands interface {
	Run(ctx context.Context, devices []string, command string, args ...string) (run.Result, error)
	// Read is Run for a command that changes nothing: it ends with its context, whatever the device does.
	Read(ctx context.Context, devices []string, command string, args ...string) (run.Result, error)
}

// LVM works on groups of LUNs. Commands on one group have to be serialised by the caller. A command is killed with its context, and
// gone when the call returns, except for a report that waits for a device that does not answer.
type LVM struct {
	commands Commands

	mu sync.Mutex
	// left are the reports that the kernel did not let go, by device.
	left map[string]*run.LeftError
}

// New makes an LVM.
func New(commands Commands) *LVM { return &LVM{commands: commands, left: map[string]*run.LeftError{}} }

const (
	mib = 1 << 20
	// metadataBytes is the room for metadata: there is no second device for more, and it cannot be changed later.
	metadataBytes = 64 * mib
	// metadataShare is how much of a small LUN at most is for metadata: one part in as many.
	metadataShare = 64
	// tail is left free at the end of the LUN. What a pod writes at the end of its volume never stands where others look for the marks of RAID and
	// of partition tables.
	tail = mib
)

// metadataOf is the room for metadata on a LUN, in bytes.
func metadataOf(lunBytes int64) int64 {
	return max(mib, min(metadataBytes, lunBytes/metadataShare/mib*mib))
}

// MakePV makes the LUN, which has that size, a physical volume with the given UUID. One that carries a signature is lvm.ErrSignature, and stays as it is.
// Every command that changes something names the owner: a later agent finds it by that.
func (l *LVM) MakePV(ctx context.Context, device, ownerUID, uuid string, lunBytes int64) error {
	err := firstError(sharedlun.CheckUUID("physical volume", uuid), lvm.CheckTag(sharedlun.TagOwner+ownerUID))
	if err == nil && lunBytes <= 8*mib {
		err = fmt.Errorf("%w: a LUN of %d bytes", sharedlun.ErrInvalid, lunBytes)
	}
	if err == nil {
		_, err = l.commands.Run(ctx, []string{device}, "pvcreate", append(asOwner(ownerUID), "--uuid", uuid, "--norestorefile",
			"--setphysicalvolumesize", size((lunBytes-tail)/512*512), "--metadatasize", size(metadataOf(lunBytes)), device)...)
	}
	if err != nil {
		return fmt.Errorf("create pv on %s: %w", device, err)
	}
	return nil
}

// MakeGroup makes the group on a physical volume, with its marks and its system ID in the same step: there is no moment at which it has none.
func (l *LVM) MakeGroup(ctx context.Context, device, name, ownerUID string, epoch uint64) error {
	owner, at := sharedlun.TagOwner+ownerUID, sharedlun.TagEpoch+strconv.FormatUint(epoch, 10)
	err := firstError(lvm.CheckName(name), lvm.CheckTag(owner))
	if err == nil {
		_, err = l.commands.Run(ctx, []string{device}, "vgcreate", "--systemid", sharedlun.SystemID(ownerUID), "--setautoactivation", "n",
			"--addtag", owner, "--addtag", at, name, device)
	}
	if err != nil {
		return fmt.Errorf("create vg %s: %w", name, err)
	}
	return nil
}

// SetEpoch replaces the epoch of the group, if it is still at the sequence number.
func (l *LVM) SetEpoch(ctx context.Context, device string, g sharedlun.Group, epoch uint64) error {
	return l.matched(ctx, device, g, "vgchange", "changed", picked(g, ""), g.Name,
		"--deltag", sharedlun.TagEpoch+strconv.FormatUint(g.Epoch, 10), "--addtag", sharedlun.TagEpoch+strconv.FormatUint(epoch, 10))
}

// RemoveGroup removes a group without volumes, if it is still at the sequence number. The LUN stays a physical volume.
func (l *LVM) RemoveGroup(ctx context.Context, device string, g sharedlun.Group) error {
	return l.matched(ctx, device, g, "vgremove", "removed", picked(g, ""), g.Name)
}

// CreateVolume makes a linear volume. Nothing is written into it, and it is not activated.
func (l *LVM) CreateVolume(ctx context.Context, device string, g sharedlun.Group, name string, bytes int64, tags []string) error {
	args := []string{"--type", "linear", "--zero", "n", "--wipesignatures", "n", "--activate", "n", "-n", name, "-L", size(bytes)}
	err := lvm.CheckName(name)
	for _, t := range tags {
		err = firstError(err, lvm.CheckTag(t))
		args = append(args, "--addtag", t)
	}
	if err != nil {
		return fmt.Errorf("create lv: %w", err)
	}
	_, err = l.run(ctx, device, g, "lvcreate", append(args, g.Name)...)
	return err
}

// Extend makes a volume as large as given.
func (l *LVM) Extend(ctx context.Context, device string, g sharedlun.Group, v sharedlun.Volume, bytes int64) error {
	if err := lvm.CheckName(v.Name); err != nil {
		return fmt.Errorf("extend lv: %w", err)
	}
	_, err := l.run(ctx, device, g, "lvextend", "-L", size(bytes), g.Name+"/"+v.Name)
	return err
}

// RemoveVolume removes a volume, if the group is still at the sequence number.
func (l *LVM) RemoveVolume(ctx context.Context, device string, g sharedlun.Group, v sharedlun.Volume) error {
	return l.matched(ctx, device, g, "lvremove", "removed", picked(g, v.UUID), g.Name+"/"+v.Name)
}

// Retag takes tags off a volume and adds some, if the group is still at the sequence number.
func (l *LVM) Retag(ctx context.Context, device string, g sharedlun.Group, v sharedlun.Volume, remove, add []string) error {
	var args []string
	var err error
	for _, change := range []struct {
		option string
		tags   []string
	}{{"--deltag", remove}, {"--addtag", add}} {
		for _, t := range change.tags {
			err = firstError(err, lvm.CheckTag(t))
			args = append(args, change.option, t)
		}
	}
	if err != nil {
		return fmt.Errorf("retag lv %s: %w", v.Name, err)
	}
	return l.matched(ctx, device, g, "lvchange", "changed", picked(g, v.UUID), g.Name+"/"+v.Name, args...)
}

// picked makes LVM pass over a group that is not the one that was reported, and over a volume of another UUID. LVM looks in the same process, and
// under the same lock, that makes the change.
func picked(g sharedlun.Group, volume string) string {
	terms := []string{
		fmt.Sprintf(`vg_uuid="%s"`, g.UUID), fmt.Sprintf("vg_seqno=%d", g.Sequence), fmt.Sprintf(`vg_tags={"%s%s"}`, sharedlun.TagOwner, g.OwnerUID),
	}
	if volume != "" {
		terms = append(terms, fmt.Sprintf(`lv_uuid="%s"`, volume))
	}
	return strings.Join(terms, " && ")
}

// matched runs a command with criteria, and wants LVM to say that it did something: what does not fit them is passed over in silence.
func (l *LVM) matched(ctx context.Context, device string, g sharedlun.Group, command, said, criteria, what string, args ...string) error {
	res, err := l.run(ctx, device, g, command, append(args, "-S", criteria, what)...)
	if err != nil {
		return err
	}
	if !bytes.Contains(res.Stdout, []byte(said)) {
		return fmt.Errorf("%s %s: %w: LVM finds it not as it was reported", command, what, sharedlun.ErrMoved)
	}
	return nil
}

// run runs a command that may change a group of the owner, and no other.
func (l *LVM) run(ctx context.Context, device string, g sharedlun.Group, command string, args ...string) (run.Result, error) {
	if err := firstError(lvm.CheckName(g.Name), sharedlun.CheckUUID("group", g.UUID), lvm.CheckTag(sharedlun.TagOwner+g.OwnerUID)); err != nil {
		return run.Result{}, fmt.Errorf("%s: %w", command, err)
	}
	res, err := l.commands.Run(ctx, []string{device}, command, append(asOwner(g.OwnerUID), args...)...)
	if err != nil {
		return res, fmt.Errorf("%s in vg %s: %w", command, g.Name, err)
	}
	return res, nil
}

// asOwner lets LVM change the groups that have the system ID of an owner.
func asOwner(ownerUID string) []string {
	return []string{"--config", fmt.Sprintf("local/extra_system_ids=[%q]", sharedlun.SystemID(ownerUID))}
}

func size(bytes int64) string { return strconv.FormatInt(bytes, 10) + "b" }

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
