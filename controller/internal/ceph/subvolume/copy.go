package subvolume

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/cephname"
)

// cloneStatus is the answer to clone status.
type cloneStatus struct {
	Status struct {
		State   string  `json:"state"`
		Source  *source `json:"source"`
		Failure *struct {
			Errno   string `json:"errno"`
			Message string `json:"error_msg"`
		} `json:"failure"`
	} `json:"status"`
}

// noRoom are the numbers of ENOSPC and EDQUOT, as Ceph prints why a copy failed.
var noRoom = []string{"28", "122", "-28", "-122"}

// states of copies. One that is complete is looked at again: it became whole between two commands.
var states = map[string]State{"pending": Copying, "in-progress": Copying, "complete": Copying, "failed": Failed, "canceled": Failed}

// copied returns a copy that is not whole.
func (c *Client) copied(ctx context.Context, name string) (Volume, error) {
	var s cloneStatus
	if err := c.ask(ctx, &s, inGroup("clone", "status", cephname.Filesystem, name)...); err != nil {
		return Volume{}, err
	}
	v := Volume{Name: name, State: states[s.Status.State], Used: -1}
	if v.State == "" {
		return Volume{}, fmt.Errorf("copy %s is in the state %q", name, s.Status.State)
	}
	if f := s.Status.Failure; f != nil && v.State == Failed {
		v.Problem, v.Full = f.Message, slices.Contains(noRoom, f.Errno)
	}
	var err error
	v.Source, err = s.Status.Source.read()
	return v, err
}

// Copy begins to make a volume with the content, and the quota, of a snapshot. It goes on by itself. A name that is taken is ErrExists.
func (c *Client) Copy(ctx context.Context, of Source, target string) error {
	args := inGroup("subvolume", "snapshot", "clone", cephname.Filesystem, of.Volume, of.Snapshot, target)
	err := c.run(ctx, append(args, "--target_group_name", cephname.Group)...)
	return c.missingSnapshot(ctx, of, err)
}

// Cancel stops a copy that is being made. What there is of it is left.
func (c *Client) Cancel(ctx context.Context, name string) error {
	return c.missing(ctx, name, c.run(ctx, inGroup("clone", "cancel", cephname.Filesystem, name)...))
}
