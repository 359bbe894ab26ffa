package nfs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/nfs/kernel"
	"quarry.storage/quarry/agent/internal/host/nfs/share"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// source checks a share and says how it is mounted.
func source(s sharedvolume.Share, purpose kernel.Purpose) (child.Mount, error) {
	host, err := sharedvolume.Host(s.Server)
	if err != nil {
		return child.Mount{}, err
	}
	if err := sharedvolume.CheckPath(s.Path); err != nil {
		return child.Mount{}, err
	}
	options, err := sharedvolume.ParseOptions(s.MountOptions)
	if err != nil {
		return child.Mount{}, err
	}
	return child.Mount{Source: kernel.Source{Host: host, Path: s.Path, Options: options, Purpose: purpose}}, nil
}

// do runs one operation on a share, and mounts it where that is not done yet. It calls unlock when nobody works on the operation any more.
func (c *Client) do(
	ctx context.Context, s sharedvolume.Share, r child.Request, limit time.Duration, unlock func(),
) (child.Response, *mounted, error) {
	m, err := source(s, kernel.Manage)
	if err != nil {
		unlock()
		return child.Response{}, nil, err
	}
	on, err := c.share(ctx, m)
	if err != nil {
		unlock()
		return child.Response{}, on, c.explain(err)
	}
	r.Target = share.Target{Owner: s.Owner, ShareID: s.ID, HasVolumes: s.HasVolumes}
	out, err := on.call(ctx, r, limit, unlock)
	return out, on, c.explain(err)
}

// explain adds to a problem with a share which node has it.
func (c *Client) explain(err error) error {
	var p *sharedvolume.Problem
	if !errors.As(err, &p) {
		return err
	}
	return sharedvolume.NewProblem(p.Reason, "%s Tried from node %s.", p.Message, c.cfg.NodeName)
}

// GetShare looks whether a share can be used. A problem with the share is an answer, not an error.
func (c *Client) GetShare(ctx context.Context, s sharedvolume.Share, prepare bool) (sharedvolume.Seen, error) {
	if err := s.Check(); err != nil {
		return sharedvolume.Seen{}, err
	}
	unlock, err := c.lock("look at " + s.String() + " for " + s.Owner)
	if err != nil {
		return sharedvolume.Seen{}, err
	}
	// A look that is late does no harm beside the next one, which is not refused for it.
	defer unlock()
	limit := c.cfg.Limits.Look
	ctx, cancel := context.WithTimeoutCause(ctx, limit, sharedvolume.NewProblem(sharedvolume.ReasonUnreachable, "The server of %s did not answer within %s.", s, limit))
	defer cancel()
	r := child.Request{Operation: child.Look}
	if prepare {
		r.Operation = child.Prepare
	}
	out, on, err := c.do(ctx, s, r, c.cfg.Limits.Call, func() {})
	seen := sharedvolume.Seen{ID: out.ShareID, Usage: out.Usage}
	if on != nil && on.err == nil {
		seen.Address = on.address
		seen.Version = on.version
	}
	if errors.As(err, &seen.Problem) {
		return seen, nil
	}
	return seen, err
}

// EnsureDirectory makes the directory of a volume.
func (c *Client) EnsureDirectory(ctx context.Context, s sharedvolume.Share, w sharedvolume.Wish) (sharedvolume.Directory, error) {
	if err := w.Check(); err != nil {
		return sharedvolume.Directory{}, err
	}
	unlock, err := c.volume(s, w.Name)
	if err != nil {
		return sharedvolume.Directory{}, err
	}
	r := child.Request{Operation: child.Ensure, Volume: w.Name, Directory: w.Directory, OnDelete: w.OnDelete, Bytes: w.Bytes}
	out, _, err := c.do(ctx, s, r, c.cfg.Limits.Call, unlock)
	return out.Directory, err
}

// RemoveDirectory deletes, archives or leaves the directory of a volume. It returns after a while even if it is not done.
func (c *Client) RemoveDirectory(ctx context.Context, s sharedvolume.Share, name, directory string, policy sharedvolume.Policy) (sharedvolume.Removal, error) {
	unlock, err := c.volume(s, name)
	if err != nil {
		return sharedvolume.Removal{}, err
	}
	limits := c.cfg.Limits
	r := child.Request{Operation: child.Remove, Volume: name, Directory: directory, OnDelete: policy, Budget: limits.Slice}
	out, _, err := c.do(ctx, s, r, limits.Slice+limits.Call, unlock)
	return out.Removal, err
}

// AbandonDirectory removes what is left of a volume that was never made, and refuses one that was.
func (c *Client) AbandonDirectory(ctx context.Context, s sharedvolume.Share, name string) error {
	unlock, err := c.volume(s, name)
	if err != nil {
		return err
	}
	_, _, err = c.do(ctx, s, child.Request{Operation: child.Abandon, Volume: name}, c.cfg.Limits.Call, unlock)
	return err
}

// checkTime is how long a page of records is whose directories are looked for: well below the limit of a call, whatever a lookup takes.
const checkTime = 5 * time.Second

// ListDirectories reads the records of an owner's volumes, in the order of names, from the one behind after on. With check it looks for their
// directories, too.
func (c *Client) ListDirectories(ctx context.Context, s sharedvolume.Share, after string, limit int, check bool) ([]sharedvolume.Directory, string, error) {
	if err := s.Check(); err != nil {
		return nil, "", err
	}
	r := child.Request{Operation: child.List, After: after, Limit: limit}
	if check {
		r.Budget = checkTime
	}
	out, _, err := c.do(ctx, s, r, c.cfg.Limits.Call, func() {})
	return out.List, out.Next, err
}

// volume locks one volume for one call.
func (c *Client) volume(s sharedvolume.Share, name string) (unlock func(), err error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	id, err := sharedvolume.New(s.Owner, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sharedvolume.ErrInvalid, err)
	}
	return c.lock("volume " + id.String())
}
