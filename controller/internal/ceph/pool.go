package ceph

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/ceph"
)

// pool returns a pool of the map.
func (c *Client) pool(ctx context.Context, name string) (p ceph.Pool, there bool, err error) {
	m, err := c.dump(ctx)
	if err != nil {
		return p, false, err
	}
	for _, p := range m.Pools {
		if p.Name == name {
			return p, true, nil
		}
	}
	return p, false, nil
}

// rule is one by which Ceph chooses the OSDs of placement groups.
type rule struct {
	ID    *int `json:"rule_id"`
	Steps []struct {
		Op   string `json:"op"`
		Type string `json:"type"`
	} `json:"steps"`
}

// domain is what copies never share by the rule; empty for a rule that chooses more than once, whose meaning nobody works out here.
func (r rule) domain() string {
	out, times := "", 0
	for _, s := range r.Steps {
		if strings.HasPrefix(s.Op, "choose") {
			out, times = s.Type, times+1
		}
	}
	if times != 1 {
		return ""
	}
	return out
}

// domains reads what copies of each pool never share.
func (c *Client) domains(ctx context.Context, d osdDump, m *ceph.Map) error {
	var rules []rule
	if err := c.ask(ctx, &rules, "osd", "crush", "rule", "dump"); err != nil {
		return err
	}
	for _, p := range d.Pools {
		for _, r := range rules {
			if domain := r.domain(); domain != "" && p.Rule != nil && r.ID != nil && *p.Rule == *r.ID {
				m.Domains[p.PoolName] = domain
			}
		}
	}
	return nil
}

// createPool makes a replicated pool. One that is there is left as it is.
func (c *Client) createPool(ctx context.Context, s ceph.Step) error {
	if _, there, err := c.pool(ctx, s.Name); err != nil || there {
		return err
	}
	args := []string{"osd", "pool", "create", s.Name, "--size=" + strconv.Itoa(s.Value)}
	if s.Bulk {
		args = append(args, "--bulk")
	}
	_, err := c.run(ctx, append(args, sure(s)...)...)
	return err
}

// sure is what Ceph wants to hear with one copy of everything.
func sure(s ceph.Step) []string {
	if s.Value == 1 {
		return []string{"--yes-i-really-mean-it"}
	}
	return nil
}

// setPool sets how many copies a pool has, or needs.
func (c *Client) setPool(ctx context.Context, s ceph.Step) error {
	p, there, err := c.pool(ctx, s.Name)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%w: there is no such pool", ErrUnsafe)
	}
	if s.Do == ceph.SetMinSize {
		return c.set(ctx, s.Name, "min_size", p.MinSize, s.Value)
	}
	if p.Size == s.Value {
		return nil
	}
	if s.Value < p.Size {
		// What this was decided on may be of minutes ago. The copy that is given up may be the only one that serves by now.
		groups, err := c.groups(ctx)
		if err != nil {
			return err
		}
		if !groups.Still() || groups.Inactive > 0 {
			return fmt.Errorf("%w: placement groups make or move copies by now, or serve nothing", ErrUnsafe)
		}
	}
	if s.Value == 1 {
		if _, err := c.run(ctx, "config", "set", "global", "mon_allow_pool_size_one", "true"); err != nil {
			return err
		}
	}
	if err := c.set(ctx, s.Name, "size", p.Size, s.Value, sure(s)...); err != nil {
		return err
	}
	// Ceph sets min_size with the size. Where the pool grows the copies are not there yet, and placement groups would serve nothing until they are.
	now, there, err := c.pool(ctx, s.Name)
	if err != nil || !there || p.Size >= s.Value {
		return err
	}
	return c.set(ctx, s.Name, "min_size", now.MinSize, p.MinSize)
}

// setGroups sets how many placement groups a pool has, or who chooses that.
func (c *Client) setGroups(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil {
		return err
	}
	have, there := m.Groups[s.Name]
	switch {
	case !there:
		return fmt.Errorf("%w: there is no such pool, or Ceph does not say how many placement groups it has", ErrUnsafe)
	case s.Do == ceph.SetGroups && have.Scale != ceph.ScaleOff:
		return fmt.Errorf("%w: Ceph chooses how many placement groups the pool has", ErrUnsafe)
	case s.Do == ceph.SetGroups:
		return c.set(ctx, s.Name, "pg_num", have.Count, s.Value)
	case have.Scale == s.Mode:
		return nil
	}
	_, err = c.run(ctx, "osd", "pool", "set", s.Name, "pg_autoscale_mode", s.Mode)
	return err
}

// unsetBulk has a pool be none of those that hold most of the data.
func (c *Client) unsetBulk(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil || !slices.Contains(m.Bulk, s.Name) {
		return err
	}
	_, err = c.run(ctx, "osd", "pool", "set", s.Name, "bulk", "false")
	return err
}

// set sets a number of a pool, unless that is what it is.
func (c *Client) set(ctx context.Context, pool, name string, now, want int, sure ...string) error {
	if now == want {
		return nil
	}
	_, err := c.run(ctx, append([]string{"osd", "pool", "set", pool, name, strconv.Itoa(want)}, sure...)...)
	return err
}
