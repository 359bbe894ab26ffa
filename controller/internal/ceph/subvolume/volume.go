package subvolume

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/pkg/cephname"
)

// State is what a subvolume is.
type State string

// States. Only one that is Whole can be used.
const (
	Whole State = "whole"
	// Retained is a volume that was removed, of which the snapshots are left.
	Retained State = "retained"
	// Copying is a copy that becomes whole by itself.
	Copying State = "copying"
	// Failed is a copy that does not: Ceph gave up, or was told to.
	Failed State = "failed"
)

// Volume is a subvolume of the group.
type Volume struct {
	Name  string
	State State
	// Path from the root of the filesystem, Bytes of its quota, and when it was made. A volume that is not Whole has none. Bytes is 0 for a volume whose quota somebody took off.
	Path    string
	Bytes   int64
	Created time.Time
	// Used is how many bytes are in it, by Ceph's last count; -1 where Ceph does not tell.
	Used int64
	// Source of a copy; nil for what is none.
	Source *Source
	// Problem is what Ceph says of a copy that failed, and Full is set if it failed for want of room.
	Problem string
	Full    bool
}

// Source is what a copy is made of.
type Source struct{ Volume, Snapshot string }

// source as Ceph prints it.
type source struct {
	Volume    string `json:"volume"`
	Subvolume string `json:"subvolume"`
	Snapshot  string `json:"snapshot"`
	Group     string `json:"group"`
}

func (s *source) read() (*Source, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.Volume != cephname.Filesystem || s.Group != cephname.Group:
		return nil, fmt.Errorf("a copy is of %s/%s, not of the group", s.Volume, s.Group)
	}
	return &Source{Volume: s.Subvolume, Snapshot: s.Snapshot}, nil
}

// info is the answer to subvolume info.
type info struct {
	State      string  `json:"state"`
	Type       string  `json:"type"`
	Path       string  `json:"path"`
	BytesQuota any     `json:"bytes_quota"`
	BytesUsed  *int64  `json:"bytes_used"`
	CreatedAt  string  `json:"created_at"`
	Source     *source `json:"source"`
}

// infinite is what Ceph prints for the quota of a volume that has none.
const infinite = "infinite"

// quota returns how large a volume may be, 0 if nothing bounds it, and reports whether Ceph says so.
func (i info) quota() (bytes int64, known bool) {
	if i.BytesQuota == infinite {
		return 0, true
	}
	n, isNumber := i.BytesQuota.(float64)
	return int64(n), isNumber && n > 0
}

// timeForm is how Ceph writes times, in UTC.
const timeForm = "2006-01-02 15:04:05"

// Volume returns a volume. The error is ErrAbsent if the group has none of the name.
func (c *Client) Volume(ctx context.Context, name string) (Volume, error) {
	v, err := c.look(ctx, name)
	return v, c.missing(ctx, name, err)
}

// Find returns a volume, and whether Ceph finds it. Ceph says the same of a volume, a group and a filesystem that is missing: it is for whoever makes the volume then, which fails without the other two. It lists nothing.
func (c *Client) Find(ctx context.Context, name string) (v Volume, found bool, err error) {
	v, err = c.look(ctx, name)
	if code(err) == enoent {
		return Volume{}, false, nil
	}
	return v, err == nil, err
}

// look asks for a volume.
func (c *Client) look(ctx context.Context, name string) (Volume, error) {
	var i info
	err := c.ask(ctx, &i, inGroup("subvolume", "info", cephname.Filesystem, name)...)
	if errors.Is(err, ErrBusy) {
		return c.copied(ctx, name)
	}
	if err != nil {
		return Volume{}, err
	}
	v := Volume{Name: name, State: Whole, Path: i.Path, Used: -1}
	if i.State == "snapshot-retained" {
		return Volume{Name: name, State: Retained, Used: -1}, nil
	}
	if i.BytesUsed != nil {
		v.Used = *i.BytesUsed
	}
	quota, known := i.quota()
	made, timeErr := time.Parse(timeForm, i.CreatedAt)
	if i.State != "complete" || !known || i.Path == "" || timeErr != nil {
		return Volume{}, fmt.Errorf("volume %s: state %q, quota %v, path %q, made %q: %w", name, i.State, i.BytesQuota, i.Path, i.CreatedAt, ceph.ErrRefused)
	}
	v.Bytes, v.Created = quota, made
	if v.Source, err = i.Source.read(); err != nil {
		return Volume{}, fmt.Errorf("volume %s: %w", name, err)
	}
	if i.Type == "clone" && v.Source == nil {
		return Volume{}, fmt.Errorf("volume %s is a copy, and does not say of what", name)
	}
	return v, nil
}

// Create makes a volume with a quota. It is for a name that the group does not have: Ceph sets the quota of a volume that exists anew.
func (c *Client) Create(ctx context.Context, name string, bytes int64) error {
	return c.run(ctx, append(inGroup("subvolume", "create", cephname.Filesystem, name, "--size", strconv.FormatInt(bytes, 10)), "--mode", "0770")...)
}

// Grow makes the quota of a volume larger. It refuses to make it smaller, which Ceph would do.
func (c *Client) Grow(ctx context.Context, v Volume, bytes int64) error {
	if v.State != Whole || bytes <= v.Bytes {
		return fmt.Errorf("volume %s is %s, with %d bytes: not made %d: %w", v.Name, v.State, v.Bytes, bytes, ceph.ErrUnsafe)
	}
	err := c.run(ctx, inGroup("subvolume", "resize", cephname.Filesystem, v.Name, strconv.FormatInt(bytes, 10), "--no_shrink")...)
	return c.missing(ctx, v.Name, err)
}

// Remove removes a volume, and keeps its snapshots. A volume that the group does not have is removed. A copy that is not whole is ErrBusy.
func (c *Client) Remove(ctx context.Context, name string) error {
	err := c.run(ctx, append(inGroup("subvolume", "rm", cephname.Filesystem, name), "--retain-snapshots")...)
	return gone(c.missing(ctx, name, err))
}

// Discard removes a copy that never became whole.
func (c *Client) Discard(ctx context.Context, name string) error {
	err := c.run(ctx, append(inGroup("subvolume", "rm", cephname.Filesystem, name), "--force")...)
	return gone(c.missing(ctx, name, err))
}

func gone(err error) error {
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	return err
}
