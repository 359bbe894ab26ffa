package ceph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/osd"
)

// Config is what a Client works with.
type Config struct {
	Runner Runner
	// FSID of the Cluster. Monitors that have another one are not listened to.
	FSID string
	// Timeout of one command. Zero means 20 seconds.
	Timeout time.Duration
}

// Client asks the monitors, and has them make changes. It keeps nothing between two calls, and is safe for concurrent use as its Runner is.
type Client struct{ cfg Config }

// New makes a Client. It returns an error for an FSID that is no UUID.
func New(cfg Config) (*Client, error) {
	if !osd.ValidUUID(cfg.FSID) {
		return nil, fmt.Errorf("FSID %q is no UUID", cfg.FSID)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	return &Client{cfg}, nil
}

// run runs a command, and returns what it prints.
func (c *Client) run(ctx context.Context, args ...string) ([]byte, error) {
	return c.feed(ctx, nil, args...)
}

// feed runs a command that reads something, and returns what it prints.
func (c *Client) feed(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	r, err := c.cfg.Runner.Run(ctx, Command{Args: args, Input: input})
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		return nil, fmt.Errorf("ceph %s: %w", args, err)
	}
	return r.Stdout, failure(args, r)
}

// ask runs a command, and reads the JSON that it prints. A field that is missing is the reader's to find; one that nobody knows is passed over.
func (c *Client) ask(ctx context.Context, into any, args ...string) error {
	out, err := c.run(ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("ceph %s: %w", args, err)
	}
	return nil
}

// check returns an error unless the monitors that answer are those of the Cluster.
func (c *Client) check(fsid string) error {
	if fsid != c.cfg.FSID {
		return fmt.Errorf("%w: FSID %q, not %s", ErrForeign, fsid, c.cfg.FSID)
	}
	return nil
}

// Facts returns what the monitors and the manager say. A part that could not be read is nil in the facts, or Unknown, and the error says why; facts
// without an error are whole. Only OSDs in stopping are asked whether they may be stopped: Ceph has no one answer for all. Images and hosts of daemons are
// not known to Ceph.
func (c *Client) Facts(ctx context.Context, stopping ...int) (ceph.Facts, error) {
	f := ceph.Facts{}
	q, err := c.quorum(ctx)
	if err != nil {
		return f, err
	}
	f.Quorum = &q
	dumped, err := c.dumped(ctx)
	if err != nil {
		return f, err
	}
	m, err := dumped.parse()
	if err != nil {
		return f, err
	}
	if err := c.tree(ctx, &m); err != nil {
		return f, err
	}
	f.Map = &m
	domainsErr := c.domains(ctx, dumped, &m)
	mgr, err := c.managers(ctx)
	if err != nil {
		return f, err
	}
	f.Dashboard, f.Modules = mgr.dashboard, mgr.modules
	daemons, err := c.daemons(ctx, q, m, mgr)
	f.Daemons = daemons
	if len(mgr.active) == 0 {
		// What managers are asked waits for ever without one, and what the last one said is what the monitors repeat.
		return f, errors.Join(err, domainsErr, fmt.Errorf("no manager is active: %w", ErrUnreachable))
	}
	err = errors.Join(err, domainsErr, c.usage(ctx, &m), c.safety(ctx, &m, stopping))
	if daemons != nil {
		okToStop(*daemons, m)
	}
	groups, groupsErr := c.groups(ctx)
	f.Groups = groups
	return f, errors.Join(err, groupsErr)
}
