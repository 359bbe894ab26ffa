// Package subvolume is the part of the seam to Ceph that volumes need: subvolumes of the one group, their snapshots and copies, the room that is left, the key
// of the clients, and the blocklist. It chooses nothing, and keeps nothing. What does not exist is told apart from what could not be asked: Ceph itself uses
// one number for a volume, a group and a filesystem that are missing.
package subvolume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/pkg/cephname"
)

// Kinds of failures, for errors.Is, beside those of package ceph.
var (
	// ErrAbsent means that a volume, or a snapshot, does not exist. It is returned only where the group that it would be in was seen.
	ErrAbsent = errors.New("it does not exist")
	// ErrBusy means that Ceph refuses for now: a copy is not whole, or something is being copied.
	ErrBusy = errors.New("a copy is being made")
	// ErrExists means that the name is taken.
	ErrExists = errors.New("the name is taken")
	// ErrHasSnapshots means that a volume has snapshots, and they were not to be kept.
	ErrHasSnapshots = errors.New("it has snapshots")
)

// errnos that are the exit codes of the commands.
const (
	enoent   = 2
	eagain   = 11
	eexist   = 17
	enoempty = 39
)

// Client works on the volumes of one Ceph cluster.
type Client struct{ ceph *ceph.Client }

// Open makes a Client, once the monitors answered and have the FSID that the Client of package ceph was made with.
func Open(ctx context.Context, c *ceph.Client) (*Client, error) {
	if err := c.Verify(ctx); err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// inGroup is what all commands end in.
func inGroup(args ...string) []string { return append(args, "--group_name", cephname.Group) }

// run runs a command of the filesystem.
func (c *Client) run(ctx context.Context, args ...string) error {
	_, err := c.ceph.Run(ctx, append([]string{"fs"}, args...)...)
	return meant(err)
}

// ask runs a command of the filesystem, and reads what it prints.
func (c *Client) ask(ctx context.Context, into any, args ...string) error {
	return meant(c.ceph.Ask(ctx, into, append([]string{"fs"}, args...)...))
}

// code returns the exit code of a command that failed; 0 for any other error.
func code(err error) int {
	if e, is := errors.AsType[*ceph.Error](err); is {
		return e.ExitCode
	}
	return 0
}

// meant gives a failure its kind. That something is missing has none here: what is missing is not known.
func meant(err error) error {
	kind := map[int]error{eagain: ErrBusy, eexist: ErrExists, enoempty: ErrHasSnapshots}[code(err)]
	if kind == nil {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// EnsureGroup makes the group of the volumes. It changes nothing of one that exists.
func (c *Client) EnsureGroup(ctx context.Context) error {
	return c.run(ctx, "subvolumegroup", "create", cephname.Filesystem, cephname.Group)
}

// named is an entry of the lists that Ceph prints.
type named struct {
	Name string `json:"name"`
}

// list runs a command that prints a list, and returns the names in it, ordered. What prints none does not say that there is nothing.
func (c *Client) list(ctx context.Context, args ...string) ([]string, error) {
	var list *[]named
	if err := c.ask(ctx, &list, inGroup(args...)...); err != nil {
		return nil, err
	}
	if list == nil {
		return nil, fmt.Errorf("fs %s prints no list", args)
	}
	out := make([]string, 0, len(*list))
	for _, n := range *list {
		if n.Name == "" {
			return nil, errors.New("a list has an entry without a name")
		}
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out, nil
}

// Names returns the names of all subvolumes of the group, ordered: those being made, and those of which only snapshots are left, too. It fails where the
// filesystem or the group is missing.
func (c *Client) Names(ctx context.Context) ([]string, error) {
	return c.list(ctx, "subvolume", "ls", cephname.Filesystem)
}

// missing makes ErrAbsent of a failure if the volume is not in the group. Any other reason stays what it is.
func (c *Client) missing(ctx context.Context, name string, err error) error {
	if code(err) != enoent {
		return err
	}
	all, listErr := c.Names(ctx)
	switch {
	case listErr != nil:
		return fmt.Errorf("%w, after: %s", listErr, err.Error())
	case slices.Contains(all, name):
		return err
	}
	return fmt.Errorf("volume %s: %w", name, ErrAbsent)
}
