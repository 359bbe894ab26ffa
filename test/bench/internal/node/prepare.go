package node

import (
	"context"
	"fmt"
	"path/filepath"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// prepareGroup is the group that is made again and again.
const prepareGroup = "benchprepare"

// Prepare measures how long disks take to become a group: one disk, and all of them.
func (b *Bench) Prepare(ctx context.Context) (measure.Report, error) {
	a, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "agent"), lvmBinary)
	if err != nil {
		return measure.Report{}, err
	}
	defer a.stop()
	if err := quiet(ctx, a.process); err != nil {
		return measure.Report{}, err
	}
	a.rest()
	var turns []turn
	for _, disks := range [][]string{b.cfg.Disks[:1], b.cfg.Disks} {
		operation := measure.Prepare(len(disks))
		for _, dir := range []string{a.lvmDir, ""} {
			turns = append(turns, b.prepareBare(operation, dir, disks))
		}
		turns = append(turns, b.prepareAgent(operation, a, disks))
	}
	if err := b.rounds(ctx, turns); err != nil {
		return measure.Report{}, fmt.Errorf("%w: %s", err, a.said())
	}
	return b.finish()
}

// prepareBare is what an administrator types. With the agent's configuration the commands see the same devices as the agent's.
func (b *Bench) prepareBare(operation, dir string, disks []string) turn {
	c, l := measure.Contender{Who: measure.Bare, Config: measure.Debian}, lvm{}
	if dir != "" {
		c.Config, l = measure.Private, lvm{dir: dir, devices: disks}
	}
	return turn{c, func(ctx context.Context, round int) error {
		if err := b.clean(b.cfg.Disks); err != nil {
			return err
		}
		if err := quiet(ctx, nil); err != nil {
			return err
		}
		return b.time(c, operation, round, 1, func() error {
			if err := l.run(ctx, "pvcreate", disks...); err != nil {
				return err
			}
			return l.run(ctx, "vgcreate", append([]string{prepareGroup}, disks...)...)
		})
	}}
}

// prepareAgent is one call. What the devices are was asked before, as the controller does.
func (b *Bench) prepareAgent(operation string, a *agent, disks []string) turn {
	c := measure.Contender{Who: measure.Quarry, Config: measure.Private}
	return turn{c, func(ctx context.Context, round int) error {
		if err := b.clean(b.cfg.Disks); err != nil {
			return err
		}
		a.wake()
		defer a.rest()
		if err := quiet(ctx, a.process); err != nil {
			return err
		}
		devices, err := a.identities(ctx, disks)
		if err != nil {
			return err
		}
		if err := b.time(c, operation, round, 1, func() error { return a.ensure(ctx, prepareGroup, devices) }); err != nil {
			return err
		}
		return quiet(ctx, a.process)
	}}
}
