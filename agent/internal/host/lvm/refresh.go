package lvm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/agent/internal/host/run"
)

// dmsetup is where distributions install it, with LVM.
const dmsetup = "/usr/sbin/dmsetup"

// parts are the devices of a volume, or of a thin pool, by what is appended to its name.
var parts = []string{"", "-tpool", "_tdata", "_tmeta"}

// RefreshLV makes the device of an active volume or pool with that tag what LVM's metadata says, and lets go of it if it is suspended. LVM
// passes over one without the tag.
//
// What a killed command has loaded is dropped first. LVM resumes a device before it compares its table with the metadata, and a loaded table
// would be live for a moment: larger than the volume, over extents that may be another one's, and for a thin pool a size that cannot be taken
// back. Killed in between, the device is still suspended, so it is seen and tried again.
func (l *LVM) RefreshLV(ctx context.Context, g Owned, name, tag string) error {
	if err := firstError(g.valid(), CheckName(name)); err != nil {
		return fmt.Errorf("refresh lv: %w", err)
	}
	for _, part := range parts {
		if err := l.dropLoaded(ctx, mapped(g.Name)+"-"+mapped(name)+part); err != nil {
			return fmt.Errorf("refresh lv %s/%s: %w", g.Name, name, err)
		}
	}
	_, err := l.changeLV(ctx, g, name, tag, "--refresh")
	return err
}

// dropLoaded drops the table that is loaded for a device and not live; nothing happens when there is none, or no device.
func (l *LVM) dropLoaded(ctx context.Context, device string) error {
	if _, err := os.Lstat(filepath.Join(l.dev, "mapper", device)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err := l.dmsetup(ctx, "clear", device)
	return err
}

// dmsetup runs a command of device-mapper that does not wait for udev, which may be busy with other disks.
func (l *LVM) dmsetup(ctx context.Context, args ...string) (run.Result, error) {
	return l.runner.Run(ctx, run.Command{Path: dmsetup, Args: args, Env: []string{"DM_DISABLE_UDEV=1"}})
}

// mapped is a name as device-mapper has it: hyphens are doubled there, for one stands between group and volume.
func mapped(name string) string { return strings.ReplaceAll(name, "-", "--") }
