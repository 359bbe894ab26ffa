package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/cephname"
)

// ErrNotTheirs means that the step is none that monitors perform.
var ErrNotTheirs = errors.New("no step of the monitors")

// Do has the monitors make the change of a step. It can be repeated after an error of any kind. Before a change that cannot be taken back Ceph is asked
// once more, right then: what the step was decided on is older.
func (c *Client) Do(ctx context.Context, s ceph.Step) error {
	perform, known := map[ceph.Action]func(context.Context, ceph.Step) error{
		ceph.RemoveMonitor: c.removeMonitor, ceph.RegisterOSD: c.register, ceph.OutOSD: c.place, ceph.InOSD: c.place, ceph.PurgeOSD: c.purge,
		ceph.RemoveHost: c.removeHost, ceph.CreatePool: c.createPool, ceph.SetSize: c.setPool, ceph.SetMinSize: c.setPool, ceph.SetScale: c.setGroups, ceph.SetGroups: c.setGroups, ceph.UnsetBulk: c.unsetBulk,
		ceph.SetNoOut: c.hostFlag, ceph.UnsetNoOut: c.hostFlag, ceph.RequireRelease: c.require, ceph.FailOver: c.failOver,
	}[s.Do]
	if !known {
		return fmt.Errorf("%s: %w", s, ErrNotTheirs)
	}
	if err := perform(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	return nil
}

// removeMonitor takes a monitor out of the map, if the others are a quorum without it and Ceph thinks so too.
func (c *Client) removeMonitor(ctx context.Context, s ceph.Step) error {
	q, err := c.quorum(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(q.Monitors, func(m ceph.Monitor) bool { return m.Name == s.Name })
	if i < 0 {
		return nil
	}
	in := 0
	for _, m := range q.Monitors {
		if m.In && m.Name != s.Name {
			in++
		}
	}
	if left := len(q.Monitors) - 1; in <= left/2 {
		return fmt.Errorf("%w: %d of %d monitors would be in the quorum", ErrUnsafe, in, left)
	}
	if _, err := c.run(ctx, "mon", "ok-to-rm", s.Name); err != nil {
		return err
	}
	_, err = c.run(ctx, "mon", "rm", s.Name)
	return err
}

// register has the monitors give an OSD a number. A repeated call gets the same one.
func (c *Client) register(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil || slices.ContainsFunc(m.OSDs, func(o ceph.OSD) bool { return o.UUID == s.UUID }) {
		return err
	}
	_, err = c.run(ctx, "osd", "new", s.UUID)
	return err
}

// find returns the OSD of a step. Numbers are used again, so the UUID has to be the step's, too.
func (c *Client) find(ctx context.Context, s ceph.Step) (o ceph.OSD, there bool, err error) {
	m, err := c.dump(ctx)
	if err != nil {
		return o, false, err
	}
	for _, o := range m.OSDs {
		switch {
		case o.UUID == s.UUID && o.ID == s.ID:
			return o, true, nil
		case o.UUID == s.UUID:
			return o, false, fmt.Errorf("%w: %w: osd.%d has the UUID %s", ErrUnsafe, ErrKept, o.ID, o.UUID)
		case o.ID == s.ID:
			err = fmt.Errorf("%w: osd.%d has the UUID %s", ErrUnsafe, o.ID, o.UUID)
		}
	}
	return o, false, err
}

// place marks an OSD out or in.
func (c *Client) place(ctx context.Context, s ceph.Step) error {
	o, there, err := c.find(ctx, s)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("%w: the OSD is not in the map", ErrUnsafe)
	}
	word := map[bool]string{true: "in", false: "out"}[s.Do == ceph.InOSD]
	if o.In == (s.Do == ceph.InOSD) {
		return nil
	}
	_, err = c.run(ctx, "osd", word, strconv.Itoa(s.ID))
	return err
}

// purge has the monitors forget an OSD. The command itself asks only whether the OSD is down: it forgets one with the last copy of something as well.
func (c *Client) purge(ctx context.Context, s ceph.Step) error {
	o, there, err := c.find(ctx, s)
	if err != nil || !there {
		return err
	}
	switch {
	case o.Up:
		return fmt.Errorf("%w: %w: it is up", ErrUnsafe, ErrKept)
	case o.New:
	case o.In:
		return fmt.Errorf("%w: %w: it is in", ErrUnsafe, ErrKept)
	default:
		answer, err := c.safeToDestroy(ctx, o.ID)
		if err != nil {
			// The monitors know it, and were not asked to forget it.
			return fmt.Errorf("%w: %w", ErrKept, err)
		}
		if answer != ceph.Yes {
			return fmt.Errorf("%w: %w: safe to destroy: %s", ErrUnsafe, ErrKept, answer)
		}
	}
	_, err = c.run(ctx, "osd", "purge", strconv.Itoa(s.ID), "--yes-i-really-mean-it")
	return err
}

// MayStop returns an error unless an OSD does not run, or Ceph says that it may be stopped now.
func (c *Client) MayStop(ctx context.Context, id int, uuid string) error {
	o, there, err := c.find(ctx, ceph.Step{ID: id, UUID: uuid})
	if err != nil || !there || !o.Up {
		return err
	}
	answer, err := c.okToStop(ctx, id)
	if err == nil && answer != ceph.Yes {
		err = fmt.Errorf("%w: ok to stop: %s", ErrUnsafe, answer)
	}
	return err
}

// removeHost takes a host without OSDs out of the CRUSH map. Ceph refuses one with OSDs.
func (c *Client) removeHost(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil {
		return err
	}
	if err := c.tree(ctx, &m); err != nil || !slices.Contains(m.Hosts, s.Host) {
		return err
	}
	_, err = c.run(ctx, "osd", "crush", "rm", s.Host)
	return err
}

// hostFlag sets or unsets noout for the OSDs of a host.
func (c *Client) hostFlag(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil {
		return err
	}
	set := slices.Contains(m.HostFlags[s.Host], ceph.NoOut)
	if set == (s.Do == ceph.SetNoOut) {
		return nil
	}
	word := map[bool]string{true: "set-group", false: "unset-group"}[s.Do == ceph.SetNoOut]
	_, err = c.run(ctx, "osd", word, ceph.NoOut, s.Host)
	return err
}

// failOver has another metadata server serve in place of one, if one stands by. Ceph may refuse that, as while the cache of the one is too large: then it goes on.
func (c *Client) failOver(ctx context.Context, s ceph.Step) error {
	if _, err := c.quorum(ctx); err != nil {
		return err
	}
	now, err := c.metadataServers(ctx)
	if err != nil || !slices.Contains(now.active, s.Name) {
		return err
	}
	if !slices.ContainsFunc(now.running, func(name string) bool { return !slices.Contains(now.active, name) }) {
		return fmt.Errorf("%w: no other metadata server stands by", ErrUnsafe)
	}
	if _, err = c.run(ctx, "mds", "fail", s.Name); errors.Is(err, ErrRefused) {
		return nil
	}
	return err
}

// require raises the floor of the OSDs. Its name is what they call the version themselves.
func (c *Client) require(ctx context.Context, s ceph.Step) error {
	m, err := c.dump(ctx)
	if err != nil || m.RequireRelease >= s.Value {
		return err
	}
	var told []metadata
	if err := c.ask(ctx, &told, cephname.DaemonOSD, "metadata"); err != nil {
		return err
	}
	release := ""
	for _, t := range told {
		if t.ID != nil && slices.ContainsFunc(m.OSDs, func(o ceph.OSD) bool { return o.ID == *t.ID && o.New }) {
			continue
		}
		v, err := ceph.ParseVersion(t.Version)
		if err != nil || v.Major < s.Value {
			return fmt.Errorf("%w: an OSD has version %q", ErrUnsafe, t.Version)
		}
		if v.Major == s.Value {
			release = t.Release
		}
	}
	if release == "" {
		return fmt.Errorf("%w: no OSD names the release of version %d", ErrUnsafe, s.Value)
	}
	_, err = c.run(ctx, "osd", "require-osd-release", release)
	return err
}
