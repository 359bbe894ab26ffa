package lvm

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/quarry"
)

// filesystems is the space of the UUIDs of filesystems on our volumes.
var filesystems = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("filesystem.lvm.quarry.storage"))

// filesystemUUID is the UUID of the filesystem on a logical volume. It follows from the UUID that LVM gave the volume: a filesystem that has it
// was made on this very volume, and a copy, which is another volume, has another one.
func filesystemUUID(volumeUUID string) string {
	if volumeUUID == "" {
		return ""
	}
	return uuid.NewSHA1(filesystems, []byte(volumeUUID)).String()
}

// FirstUse empties a new volume, makes a filesystem where one is wanted, and lets the volume count as used then. The mark of a new volume alone
// allows none of this: it comes back with older metadata, and so may a mapping to what is another volume's by now.
func (s *Source) FirstUse(ctx context.Context, v csi.Volume, from csi.From, want csi.Access) (fsType string, err error) {
	id, err := s.volume(v.Handle)
	if err != nil {
		return "", err
	}
	wanted := fs.Make{
		Type: cmp.Or(want.FSType, fs.Ext4), UUID: from.UUID, Zeroed: from.Zeroed,
		Options: filesystem.SplitOptions(v.Context[quarry.AttributeMkfsOptions]),
	}
	if _, err := filesystem.ParseMkfsOptions(wanted.Type, wanted.Options); err != nil && !want.Block {
		return "", err
	}
	have, err := s.cfg.Filesystems.Describe(ctx, from.Path)
	if err != nil {
		return "", err
	}
	keep, err := used(from, have, want.Block)
	if err != nil {
		return "", fmt.Errorf("volume %s: %w", id, err)
	}
	if !keep {
		if fsType, err = s.prepare(ctx, from, want, wanted); err != nil {
			return "", err
		}
	}
	_, err = s.cfg.Volumes.SettleVolume(ctx, where(v, id))
	return fsType, err
}

// prepare empties a volume and makes the filesystem that is wanted, if one is.
func (s *Source) prepare(ctx context.Context, from csi.From, want csi.Access, m fs.Make) (fsType string, err error) {
	if err := s.cfg.Filesystems.Clear(ctx, from.Path); err != nil || want.Block {
		return "", err
	}
	return m.Type, s.cfg.Filesystems.Format(ctx, from.Path, m)
}

// used reports whether a volume with the mark of a new one holds what is its own, so that nothing on it is written over: the filesystem that was
// made on it, or anything at all that is no remainder of its making where it showed only zeroes at first. What may be another volume's is an
// error. What is older than the volume was left over by an earlier one, or came with an image that somebody wrote on a raw device.
func used(from csi.From, have fs.Content, block bool) (bool, error) {
	written := block && from.RawZeroed
	switch {
	case have.Type == "" && !have.Unknown:
		return false, nil
	case have.Unknown:
		// So does a call look that died while it made the filesystem.
		return from.Zeroed && block || written, nil
	case from.UUID != "" && have.UUID == from.UUID:
		return !have.Unfinished, nil
	case from.Zeroed:
		return true, nil
	case have.MadeUnix != 0 && from.MadeUnix != 0 && have.MadeUnix < from.MadeUnix:
		return written, nil
	}
	return false, fmt.Errorf("it is marked as never used, and holds %s that is not known to be older than the volume: %w. "+
		"docs/troubleshooting.md says what to do", have.Type, fs.ErrNotEmpty)
}
