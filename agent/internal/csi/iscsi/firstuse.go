package iscsi

import (
	"cmp"
	"context"

	"github.com/google/uuid"

	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/pkg/sharedlun"
)

// filesystems is the space of the UUIDs of filesystems on our volumes.
var filesystems = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("filesystem.iscsi.quarry.storage"))

// filesystemUUID is the UUID of the filesystem on a volume. It follows from the UUID that LVM gave the volume: a filesystem that has it was made on
// this very volume.
func filesystemUUID(volumeUUID string) string {
	return uuid.NewSHA1(filesystems, []byte(volumeUUID)).String()
}

// FirstUse makes a filesystem where one is wanted and nothing is. A volume begins with zeroes when it is made, so whatever is on it was written since, and stays:
// but for a filesystem of this volume that a call left which died while it made it. That is recorded on this node before it begins.
func (s *Source) FirstUse(ctx context.Context, v csi.Volume, from csi.From, want csi.Access) (fsType string, err error) {
	id, err := sharedlun.Parse(v.Handle)
	if err != nil {
		return "", err
	}
	a, err := attached(id, v)
	if err != nil {
		return "", err
	}
	r, err := s.cfg.Records.Load(id)
	if err != nil {
		return "", err
	}
	have, err := s.cfg.Filesystems.Describe(ctx, from.Path)
	if err != nil {
		return "", err
	}
	if r.UUID != a.UUID {
		r = Record{UUID: a.UUID}
	}
	if !unfinished(have, from, r) {
		if have.Type != "" && !r.Made {
			return "", s.cfg.Records.Save(id, Record{UUID: a.UUID, Made: true})
		}
		return "", nil
	}
	if err := s.cfg.Records.Save(id, Record{UUID: a.UUID, Making: true}); err != nil {
		return "", err
	}
	if err := s.cfg.Filesystems.Clear(ctx, from.Path); err != nil {
		return "", err
	}
	m := fs.Make{Type: cmp.Or(want.FSType, fs.Ext4), UUID: from.UUID}
	if err := s.cfg.Filesystems.Format(ctx, from.Path, m); err != nil {
		return "", err
	}
	return m.Type, s.cfg.Records.Save(id, Record{UUID: a.UUID, Made: true})
}

// unfinished reports whether a filesystem is to be made, for the first time or once more: nothing is there, or only what a call left that died while it
// made it. A filesystem that is whole stays, whoever made it. Where one was, and nothing is now, none is made: the frame says so.
func unfinished(have fs.Content, from csi.From, r Record) bool {
	switch {
	case have.Unknown:
		return r.Making
	case have.Type == "":
		return !r.Made
	case have.UUID == from.UUID:
		return have.Unfinished
	}
	return false
}
