package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"quarry.storage/quarry/test/bench/internal/measure"
)

const (
	volumeBytes = 64 << 20
	volumeName  = "volume"
	// inARow is how many volumes are made, and then removed, one right after the other.
	inARow = 8
	// volumeDisks is how many disks the contenders need.
	volumeDisks = 4
)

// Groups of the contenders, each on a disk of its own. TopoLVM and the bare commands keep nothing about theirs, so both
// configurations of each share one; each agent remembers what it made.
const (
	bareGroup   = "benchbare"
	topoGroup   = "benchtopo"
	agentGroup  = "benchagent"
	debianGroup = "benchdebian"
)

// lane makes and removes volumes in one way.
type lane struct {
	measure.Contender
	create, remove func(ctx context.Context, name string) error
	// process is an agent; it rests while others work. A real node has one agent only.
	process *process
}

// Volumes measures single creations and deletions, with the machine at rest before each.
func (b *Bench) Volumes(ctx context.Context) (measure.Report, error) {
	return b.onLanes(ctx, func(ctx context.Context, l lane, round int) error {
		if err := b.time(l.Contender, measure.Create, round, 1, func() error { return l.create(ctx, volumeName) }); err != nil {
			return err
		}
		if err := quiet(ctx, l.process); err != nil {
			return err
		}
		return b.time(l.Contender, measure.Delete, round, 1, func() error { return l.remove(ctx, volumeName) })
	})
}

// Rows measures creations and deletions that follow each other at once, so that what an agent notices of its own changes counts too.
func (b *Bench) Rows(ctx context.Context) (measure.Report, error) {
	return b.onLanes(ctx, func(ctx context.Context, l lane, round int) error {
		if err := b.time(l.Contender, measure.CreateRow, round, inARow, func() error { return inRow(ctx, l.create) }); err != nil {
			return err
		}
		if err := quiet(ctx, l.process); err != nil {
			return err
		}
		return b.time(l.Contender, measure.DeleteRow, round, inARow, func() error { return inRow(ctx, l.remove) })
	})
}

func inRow(ctx context.Context, one func(context.Context, string) error) error {
	for i := range inARow {
		if err := one(ctx, volumeName+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// onLanes sets everything up and lets the lanes take turns.
func (b *Bench) onLanes(ctx context.Context, work func(context.Context, lane, int) error) (measure.Report, error) {
	if len(b.cfg.Disks) < volumeDisks {
		return measure.Report{}, fmt.Errorf("measuring volumes needs %d disks, not %d", volumeDisks, len(b.cfg.Disks))
	}
	if err := b.clean(b.cfg.Disks); err != nil {
		return measure.Report{}, err
	}
	defer b.release(bareGroup, topoGroup, agentGroup, debianGroup)
	lanes, stop, err := b.lanes(ctx)
	defer stop()
	if err != nil {
		return measure.Report{}, err
	}
	var turns []turn
	for _, l := range lanes {
		turns = append(turns, turn{l.Contender, func(ctx context.Context, round int) error {
			if l.process != nil {
				l.process.wake()
				defer l.process.rest()
			}
			if err := quiet(ctx, l.process); err != nil {
				return err
			}
			if err := work(ctx, l, round); err != nil {
				return err
			}
			return quiet(ctx, l.process)
		}})
	}
	if err := b.rounds(ctx, turns); err != nil {
		return measure.Report{}, err
	}
	return b.finish()
}

// lanes starts the servers. The function ends them; it is there also when something failed.
func (b *Bench) lanes(ctx context.Context) (lanes []lane, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	private, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "agent"), lvmBinary)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, private.stop)
	if err := b.groups(ctx, private); err != nil {
		return nil, stop, err
	}
	debian, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "debian"), lvmBinary)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, debian.stop)
	topoDir := filepath.Join(b.cfg.Dir, "topolvm")
	if err := errors.Join(useDebian(debian.lvmDir), copyPrivate(private.lvmDir, topoDir, b.cfg.Disks[1])); err != nil {
		return nil, stop, err
	}
	for config, l := range map[string]lvm{measure.Private: {dir: topoDir}, measure.Debian: {}} {
		d, err := startLVMd(ctx, b.cfg.LVMd, filepath.Join(b.cfg.Dir, "lvmd-"+config), topoGroup, lvmBinary, l.env())
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, d.stop)
		lanes = append(lanes, lane{
			Contender: measure.Contender{Who: measure.TopoLVM, Config: config}, remove: d.remove,
			create: func(ctx context.Context, name string) error { return d.create(ctx, name, volumeBytes) },
		})
	}
	for _, a := range []*agent{private, debian} {
		if err := quiet(ctx, a.process); err != nil {
			return nil, stop, err
		}
		a.rest()
	}
	return append(
		lanes, agentLane(measure.Private, private, agentGroup), agentLane(measure.Debian, debian, debianGroup),
		bareLane(measure.Private, lvm{dir: private.lvmDir, devices: b.cfg.Disks[:1]}), bareLane(measure.Debian, lvm{}),
	), stop, nil
}

// groups makes one group on each disk.
func (b *Bench) groups(ctx context.Context, a *agent) error {
	bare := lvm{}
	if err := bare.run(ctx, "vgcreate", bareGroup, b.cfg.Disks[0]); err != nil {
		return err
	}
	if err := bare.run(ctx, "vgcreate", topoGroup, b.cfg.Disks[1]); err != nil {
		return err
	}
	for i, group := range []string{agentGroup, debianGroup} {
		if err := quiet(ctx, a.process); err != nil {
			return err
		}
		devices, err := a.identities(ctx, b.cfg.Disks[2+i:3+i])
		if err != nil {
			return err
		}
		if err := a.ensure(ctx, group, devices); err != nil {
			return err
		}
	}
	return nil
}

func agentLane(config string, a *agent, group string) lane {
	return lane{
		Contender: measure.Contender{Who: measure.Quarry, Config: config}, process: a.process,
		create: func(ctx context.Context, name string) error { return a.create(ctx, group, name, volumeBytes) },
		remove: func(ctx context.Context, name string) error { return a.remove(ctx, group, name) },
	}
}

// bareLane is one command each, with the options of the agent's that say what becomes of old signatures.
func bareLane(config string, l lvm) lane {
	return lane{
		Contender: measure.Contender{Who: measure.Bare, Config: config},
		create: func(ctx context.Context, name string) error {
			return l.run(ctx, "lvcreate", "-Wy", "-Zy", "--yes", "-L", strconv.Itoa(volumeBytes)+"b", "-n", name, bareGroup)
		},
		remove: func(ctx context.Context, name string) error {
			return l.run(ctx, "lvremove", "--yes", bareGroup+"/"+name)
		},
	}
}
