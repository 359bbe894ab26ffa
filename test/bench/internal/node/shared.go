package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"quarry.storage/quarry/test/bench/internal/measure"
	"quarry.storage/quarry/test/bench/internal/san"
)

const (
	// sharedLuns is how many LUNs the target has: the agent's, and one for each of the others.
	sharedLuns = 3
	// counting is how often the commands of each operation are counted.
	counting = 3
)

// site is an agent that is logged in, has its key on the first LUN, and made the group there.
type site struct {
	*agent
	*san.Client
}

// onSAN does some work with an agent on the target, of which nothing is left afterwards.
func (b *Bench) onSAN(ctx context.Context, lvmPath string, work func(context.Context, site) error) (err error) {
	if b.cfg.Target.IQN == "" || len(b.cfg.Target.Portals) == 0 {
		return errors.New("measuring a shared LUN needs a target with its portals")
	}
	a, err := startAgent(ctx, b.cfg.Agent, filepath.Join(b.cfg.Dir, "agent"), lvmPath)
	if err != nil {
		return err
	}
	defer a.stop()
	target := b.cfg.Target
	target.Luns = sharedLuns
	s := site{a, san.New(san.Config{Conn: a.conn, Node: nodeName, OwnerUID: ownerUID, Target: target})}
	defer func() {
		a.wake()
		if err = errors.Join(err, s.Leave(context.WithoutCancel(ctx))); err != nil {
			err = fmt.Errorf("%w: %s", err, a.said())
		}
	}()
	if err := s.Login(ctx); err != nil {
		return err
	}
	if err := b.clean(s.Devices()); err != nil {
		return err
	}
	if err := s.Register(ctx); err != nil {
		return err
	}
	if err := s.MakeGroup(ctx); err != nil {
		return err
	}
	return work(ctx, s)
}

// sharedLane makes and removes volumes in one way, with devices and without.
type sharedLane struct {
	measure.Contender
	// works are pairs that make and remove the same volume.
	works   []sharedWork
	process *process
}

// sharedWork makes a volume, and removes it.
type sharedWork struct {
	create, remove   string
	creating, ending func(ctx context.Context, name string) error
}

// Shared measures volumes of a group on a shared LUN: creations and deletions alone, and with the device on this node.
func (b *Bench) Shared(ctx context.Context) (measure.Report, error) {
	// An agent takes no disk that was written to just now.
	if err := b.clean(b.cfg.Disks); err != nil {
		return measure.Report{}, err
	}
	if err := b.countShared(ctx); err != nil {
		return measure.Report{}, err
	}
	if err := b.onSAN(ctx, lvmBinary, b.sharedRounds); err != nil {
		return measure.Report{}, err
	}
	return b.finish()
}

// countShared counts the LVM commands of the agent's calls.
func (b *Bench) countShared(ctx context.Context) error {
	path, err := b.counted("shared")
	if err != nil {
		return err
	}
	return b.onSAN(ctx, path, func(ctx context.Context, s site) error {
		l := s.lane()
		for range counting {
			for _, w := range l.works {
				creating := func() error { return w.creating(ctx, volumeName) }
				if err := b.count(ctx, l.Contender, w.create, path, s.process, creating); err != nil {
					return err
				}
				ending := func() error { return w.ending(ctx, volumeName) }
				if err := b.count(ctx, l.Contender, w.remove, path, s.process, ending); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// lane is the agent's part.
func (s site) lane() sharedLane {
	return sharedLane{
		Contender: measure.Contender{Who: measure.Quarry, Config: measure.Private}, process: s.process,
		works: []sharedWork{
			{
				measure.SharedCreate, measure.SharedDelete,
				func(ctx context.Context, name string) error { return s.Client.Create(ctx, name, volumeBytes) }, s.Client.Remove,
			},
			{
				measure.SharedMapped, measure.SharedUnmapped,
				func(ctx context.Context, name string) error {
					_, err := s.CreateMapped(ctx, name, volumeBytes)
					return err
				}, s.RemoveMapped,
			},
		},
	}
}

// sharedRounds lets the agent, bare commands and lvmd take turns, each on a LUN of its own.
func (b *Bench) sharedRounds(ctx context.Context, s site) error {
	bare := lvm{}
	for i, group := range []string{bareGroup, topoGroup} {
		if err := bare.run(ctx, "vgcreate", group, s.Devices()[1+i]); err != nil {
			return err
		}
	}
	defer b.release(bareGroup, topoGroup, agentGroup)
	locals, err := b.sharedLocal(ctx, s)
	if err != nil {
		return err
	}
	topo := lvm{dir: filepath.Join(b.cfg.Dir, "topolvm")}
	if err := copyPrivate(s.lvmDir, topo.dir, s.Devices()[2]); err != nil {
		return err
	}
	d, err := startLVMd(ctx, b.cfg.LVMd, filepath.Join(b.cfg.Dir, "lvmd"), topoGroup, lvmBinary, topo.env())
	if err != nil {
		return err
	}
	defer d.stop()
	if err := quiet(ctx, s.process); err != nil {
		return err
	}
	s.rest()
	var turns []turn
	for _, l := range append(locals, s.lane(), sharedBare(lvm{dir: s.lvmDir, devices: s.Devices()[1:2]}), sharedLVMd(d)) {
		turns = append(turns, turn{l.Contender, func(ctx context.Context, round int) error { return b.sharedTurn(ctx, l, round) }})
	}
	return b.rounds(ctx, turns)
}

func (b *Bench) sharedTurn(ctx context.Context, l sharedLane, round int) error {
	if l.process != nil {
		l.process.wake()
		defer l.process.rest()
	}
	for _, w := range l.works {
		if err := quiet(ctx, l.process); err != nil {
			return err
		}
		if err := b.time(l.Contender, w.create, round, 1, func() error { return w.creating(ctx, volumeName) }); err != nil {
			return err
		}
		if err := quiet(ctx, l.process); err != nil {
			return err
		}
		if err := b.time(l.Contender, w.remove, round, 1, func() error { return w.ending(ctx, volumeName) }); err != nil {
			return err
		}
	}
	return quiet(ctx, l.process)
}

// sharedLocal is the same agent with a local group on a spare disk, if there is one. A volume there always has a device.
func (b *Bench) sharedLocal(ctx context.Context, s site) ([]sharedLane, error) {
	if len(b.cfg.Disks) == 0 {
		return nil, nil
	}
	if err := quiet(ctx, s.process); err != nil {
		return nil, err
	}
	devices, err := s.identities(ctx, b.cfg.Disks[:1])
	if err != nil {
		return nil, err
	}
	if err := s.ensure(ctx, agentGroup, devices); err != nil {
		return nil, err
	}
	creating := func(ctx context.Context, name string) error { return s.create(ctx, agentGroup, name, volumeBytes) }
	ending := func(ctx context.Context, name string) error { return s.remove(ctx, agentGroup, name) }
	return []sharedLane{{
		Contender: measure.Contender{Who: measure.Local, Config: measure.Private}, process: s.process,
		works: []sharedWork{{measure.SharedCreate, measure.SharedDelete, creating, ending}, {measure.SharedMapped, measure.SharedUnmapped, creating, ending}},
	}}, nil
}

// sharedBare are the very commands that the agent runs in its calls, and those of an administrator, who has a device at once.
func sharedBare(l lvm) sharedLane {
	remove := func(ctx context.Context, name string) error {
		return l.run(ctx, "lvremove", "--yes", bareGroup+"/"+name)
	}
	size := strconv.Itoa(volumeBytes) + "b"
	return sharedLane{
		Contender: measure.Contender{Who: measure.Bare, Config: measure.Private},
		works: []sharedWork{
			{measure.SharedCreate, measure.SharedDelete, func(ctx context.Context, name string) error {
				return l.run(ctx, "lvcreate", "--type", "linear", "--zero", "n", "--wipesignatures", "n", "--activate", "n", "-n", name, "-L", size, bareGroup)
			}, remove},
			{measure.SharedMapped, measure.SharedUnmapped, func(ctx context.Context, name string) error {
				return l.run(ctx, "lvcreate", "-Wy", "-Zy", "--yes", "-L", size, "-n", name, bareGroup)
			}, remove},
		},
	}
}

// sharedLVMd is TopoLVM's daemon. Its volumes always have a device.
func sharedLVMd(d *lvmd) sharedLane {
	return sharedLane{
		Contender: measure.Contender{Who: measure.TopoLVM, Config: measure.Private},
		works: []sharedWork{{measure.SharedMapped, measure.SharedUnmapped, func(ctx context.Context, name string) error {
			return d.create(ctx, name, volumeBytes)
		}, d.remove}},
	}
}
