package tools

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Filesystems makes filesystems on the devices of volumes.
type Filesystems struct{ FS *fs.Tool }

// Content tells what is on a device. Formats that contradict each other are nobody's filesystem.
func (f Filesystems) Content(ctx context.Context, device string) (decide.VolumeContent, error) {
	have, err := f.FS.Describe(ctx, device)
	if errors.Is(err, fs.ErrSeveral) {
		return decide.VolumeContent{Unknown: true}, nil
	}
	return decide.VolumeContent{Type: have.Type, Unknown: have.Unknown, UUID: have.UUID, Unfinished: have.Unfinished}, err
}

// Make empties a device that nobody has open, and makes a filesystem on it.
func (f Filesystems) Make(ctx context.Context, device, fsType, uuid string) error {
	err := f.FS.Clear(ctx, device)
	if err == nil {
		err = f.FS.Format(ctx, device, fs.Make{Type: fsType, UUID: uuid})
	}
	if errors.Is(err, fs.ErrBusy) {
		return fmt.Errorf("%w: %w", sharedlun.ErrInUse, err)
	}
	return err
}
