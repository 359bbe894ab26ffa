package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/cephname"
)

// Overview is how a Ceph cluster is, in its own words.
type Overview struct {
	// Health is HEALTH_OK, HEALTH_WARN or HEALTH_ERR; Checks say why, each with its name, ordered.
	Health string
	Checks []string
	// TotalBytes and AvailableBytes are what the users of the data pool see; both are 0 where that pool does not exist, and while nobody can tell.
	TotalBytes, AvailableBytes int64
	// Filesystem says whether the one of the volumes exists.
	Filesystem ceph.Answer
}

// Overview asks how the cluster is. A part that could not be read has its zero value, and the error says why.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	var s struct {
		FSID   string `json:"fsid"`
		Health *struct {
			Status string `json:"status"`
			Checks map[string]struct {
				Summary struct {
					Message string `json:"message"`
				} `json:"summary"`
				Muted bool `json:"muted"`
			} `json:"checks"`
		} `json:"health"`
	}
	if err := c.ask(ctx, &s, "status"); err != nil {
		return o, err
	}
	if err := c.check(s.FSID); err != nil {
		return o, err
	}
	if s.Health == nil || s.Health.Status == "" {
		return o, fmt.Errorf("status has no health")
	}
	o.Health = s.Health.Status
	for name, check := range s.Health.Checks {
		if !check.Muted {
			o.Checks = append(o.Checks, name+": "+check.Summary.Message)
		}
	}
	slices.Sort(o.Checks)
	if err := c.filesystem(ctx, &o); err != nil || o.Filesystem != ceph.Yes {
		return o, err
	}
	return o, c.room(ctx, &o)
}

// filesystem finds out whether the filesystem of the volumes exists.
func (c *Client) filesystem(ctx context.Context, o *Overview) error {
	var list *[]struct {
		Name string `json:"name"`
	}
	if err := c.ask(ctx, &list, "fs", "ls"); err != nil {
		return err
	}
	if list == nil {
		return fmt.Errorf("fs ls prints no list")
	}
	o.Filesystem = ceph.No
	for _, f := range *list {
		if f.Name == cephname.Filesystem {
			o.Filesystem = ceph.Yes
		}
	}
	return nil
}

// room reads what is stored in the data pool, and what can be.
func (c *Client) room(ctx context.Context, o *Overview) error {
	var d struct {
		Pools []struct {
			Name  string `json:"name"`
			Stats struct {
				Stored   *int64 `json:"stored"`
				MaxAvail *int64 `json:"max_avail"`
			} `json:"stats"`
		} `json:"pools"`
	}
	if err := c.ask(ctx, &d, "df"); err != nil {
		return err
	}
	for _, p := range d.Pools {
		if p.Name == cephname.PoolData && p.Stats.Stored != nil && p.Stats.MaxAvail != nil {
			o.AvailableBytes = max(0, *p.Stats.MaxAvail)
			o.TotalBytes = o.AvailableBytes + max(0, *p.Stats.Stored)
		}
	}
	return nil
}

// MakeFilesystem makes the filesystem of the volumes over its two pools, if it is not there. Ceph refuses pools that have data in them.
func (c *Client) MakeFilesystem(ctx context.Context) error {
	var o Overview
	if err := c.Verify(ctx); err != nil {
		return err
	}
	if err := c.filesystem(ctx, &o); err != nil || o.Filesystem == ceph.Yes {
		return err
	}
	_, err := c.run(ctx, "fs", "new", cephname.Filesystem, cephname.PoolMetadata, cephname.PoolData)
	return err
}

// SetOption has Ceph take an option for a kind of daemons, or for all (global). What it refuses is ErrRefused.
func (c *Client) SetOption(ctx context.Context, who, name, value string) error {
	_, err := c.run(ctx, "config", "set", who, name, value)
	return err
}

// ResetOption gives an option its default again. One that was never set is no error.
func (c *Client) ResetOption(ctx context.Context, who, name string) error {
	_, err := c.run(ctx, "config", "rm", who, name)
	return err
}

// EnableModule has the managers run a module, DisableModule has them run it no more. Either is no error where it is so already. A module that no manager has is ErrRefused.
func (c *Client) EnableModule(ctx context.Context, name string) error {
	return c.module(ctx, "enable", name)
}

// DisableModule is the opposite of EnableModule.
func (c *Client) DisableModule(ctx context.Context, name string) error {
	return c.module(ctx, "disable", name)
}

func (c *Client) module(ctx context.Context, word, name string) error {
	_, err := c.run(ctx, "mgr", "module", word, name)
	if said, is := errors.AsType[*Error](err); is && code(err) == syscall.ENOENT {
		said.kind = ErrRefused
	}
	return err
}

// HasGroup reports whether the group of the volumes exists. Without a metadata server Ceph waits for ever.
func (c *Client) HasGroup(ctx context.Context) (bool, error) {
	var list *[]struct {
		Name string `json:"name"`
	}
	if err := c.ask(ctx, &list, "fs", "subvolumegroup", "ls", cephname.Filesystem); err != nil {
		return false, err
	}
	if list == nil {
		return false, fmt.Errorf("fs subvolumegroup ls prints no list")
	}
	for _, g := range *list {
		if g.Name == cephname.Group {
			return true, nil
		}
	}
	return false, nil
}

// Serves reports whether a metadata server serves the filesystem.
func (c *Client) Serves(ctx context.Context) (bool, error) {
	s, err := c.metadataServers(ctx)
	return len(s.active) > 0, err
}
