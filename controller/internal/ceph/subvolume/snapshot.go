package subvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/pkg/cephname"
)

// Snapshot is one of a volume, which may be Retained.
type Snapshot struct {
	Of, Name string
	Created  time.Time
	// Copying is true while copies are being made of it. It cannot be removed then.
	Copying bool
}

// CreateSnapshot makes a snapshot. Ceph changes nothing of one that exists.
func (c *Client) CreateSnapshot(ctx context.Context, of, name string) error {
	return c.missing(ctx, of, c.run(ctx, inGroup("subvolume", "snapshot", "create", cephname.Filesystem, of, name)...))
}

// Snapshots returns the names of all snapshots of a volume, ordered. The error is ErrAbsent if the group has no such volume.
func (c *Client) Snapshots(ctx context.Context, of string) ([]string, error) {
	list, err := c.list(ctx, "subvolume", "snapshot", "ls", cephname.Filesystem, of)
	return list, c.missing(ctx, of, err)
}

// Snapshot returns a snapshot. The error is ErrAbsent if the volume, or the snapshot, does not exist.
func (c *Client) Snapshot(ctx context.Context, of, name string) (Snapshot, error) {
	var s struct {
		CreatedAt string `json:"created_at"`
		Pending   string `json:"has_pending_clones"`
	}
	if err := c.ask(ctx, &s, inGroup("subvolume", "snapshot", "info", cephname.Filesystem, of, name)...); err != nil {
		return Snapshot{}, c.missingSnapshot(ctx, Source{of, name}, err)
	}
	made, err := time.Parse(timeForm, s.CreatedAt)
	if err != nil || s.Pending != "yes" && s.Pending != "no" {
		return Snapshot{}, fmt.Errorf("snapshot %s of %s was made %q, and is being copied: %q", name, of, s.CreatedAt, s.Pending)
	}
	return Snapshot{Of: of, Name: name, Created: made, Copying: s.Pending == "yes"}, nil
}

// RemoveSnapshot removes a snapshot, and with the last one of a volume that is Retained what is left of the volume. One that does not exist is removed. One of
// which copies are being made is ErrBusy.
func (c *Client) RemoveSnapshot(ctx context.Context, of, name string) error {
	err := c.run(ctx, inGroup("subvolume", "snapshot", "rm", cephname.Filesystem, of, name)...)
	return gone(c.missingSnapshot(ctx, Source{of, name}, err))
}

// missingSnapshot makes ErrAbsent of a failure if the volume is not in the group, or does not have the snapshot.
func (c *Client) missingSnapshot(ctx context.Context, s Source, err error) error {
	if code(err) != enoent {
		return err
	}
	all, listErr := c.Snapshots(ctx, s.Volume)
	switch {
	case errors.Is(listErr, ErrAbsent):
		return listErr
	case listErr != nil:
		return fmt.Errorf("%w, after: %s", listErr, err.Error())
	case slices.Contains(all, s.Snapshot):
		return err
	}
	return fmt.Errorf("snapshot %s of %s: %w", s.Snapshot, s.Volume, ErrAbsent)
}
