package lvm

import (
	"context"
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/plan"
)

// shows is a device, and what is on it.
type shows struct {
	have       fs.Content
	find, read error
}

func (s shows) Find(string, string) (dm.Device, error)               { return dm.Device{Path: "/dev/dm-0"}, s.find }
func (s shows) Describe(context.Context, string) (fs.Content, error) { return s.have, s.read }
func (s shows) Clear(context.Context, string) error                  { return errors.New("clears") }
func (s shows) Format(context.Context, string, fs.Make) error        { return errors.New("formats") }

// TestContents_Unused: the mark of a new volume comes back with older metadata. What first use would keep or refuse is not called unused, and
// neither is what cannot be read.
func TestContents_Unused(t *testing.T) {
	const made = 1700000000
	linear := plan.Volume{Name: "v", UUID: "u", New: true, FilesystemOnly: true, CreatedUnix: made}
	thin, raw, zeroing := linear, linear, linear
	thin.Pool, raw.FilesystemOnly = "pool", false
	zeroing.FilesystemOnly, zeroing.Unzeroed = false, true
	failed := errors.New("I/O error")
	for name, c := range map[string]struct {
		v    plan.Volume
		on   shows
		want error
	}{
		"nothing":                              {v: linear},
		"nothing, thin":                        {v: thin},
		"what the disk held before":            {v: linear, on: shows{have: fs.Content{Unknown: true}}},
		"the same where zeroing is under way":  {v: zeroing, on: shows{have: fs.Content{Unknown: true}}},
		"a filesystem older than the volume":   {v: linear, on: shows{have: fs.Content{Type: fs.Ext4, UUID: "x", MadeUnix: made - 1}}},
		"a younger one":                        {linear, shows{have: fs.Content{Type: fs.Ext4, UUID: "x", MadeUnix: made + 1}}, plan.ErrInUse},
		"one of no known age":                  {linear, shows{have: fs.Content{Type: fs.Btrfs, UUID: "x"}}, plan.ErrInUse},
		"its own":                              {linear, shows{have: fs.Content{Type: fs.Ext4, UUID: filesystemUUID("u")}}, plan.ErrInUse},
		"a filesystem on a thin volume":        {thin, shows{have: fs.Content{Type: fs.Ext4, MadeUnix: made - 1}}, plan.ErrInUse},
		"anything on a thin volume":            {thin, shows{have: fs.Content{Unknown: true}}, plan.ErrInUse},
		"anything on a volume that was zeroed": {raw, shows{have: fs.Content{Unknown: true}}, plan.ErrInUse},
		"it cannot be read":                    {linear, shows{read: failed}, plan.ErrUntold},
		"it has no device":                     {linear, shows{find: dm.ErrNotFound}, plan.ErrUntold},
	} {
		if err := (Contents{Devices: c.on, Filesystems: c.on}).Unused(t.Context(), "vg", c.v); !errors.Is(err, c.want) || (err != nil) != (c.want != nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
