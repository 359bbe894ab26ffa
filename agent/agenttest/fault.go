package agenttest

import (
	"context"
	"errors"
	"slices"

	"quarry.storage/quarry/agent/internal/plan"
	volumeplan "quarry.storage/quarry/agent/internal/plan/volume"
)

// errDied is what a call gets from a host whose agent died under it.
var errDied = errors.New("agenttest: the agent died")

// faults says what goes wrong, and when. Steps are counted from 1, over all changes to the host that agents make.
type faults struct {
	steps      int
	at         int
	after, die bool
	err        error
	gate       chan struct{} // closed while changes may go on
	held       int           // changes that wait for the gate
	life       int           // grows with every start of the agent; changes of an earlier life are refused
	kill       func()
}

func closedGate() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Steps is the number of changes that the agent made to the host so far.
func (h *Host) Steps() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults.steps
}

// FailAt makes the n-th change from now fail with the error, once, without an effect.
func (h *Host) FailAt(n int, err error) { h.arm(faults{at: n, err: err}) }

// CrashBefore lets the agent die when it is about to make the n-th change from now. Restart brings it back.
func (h *Host) CrashBefore(n int) { h.arm(faults{at: n, die: true, err: errDied}) }

// CrashAfter lets the agent die right after the n-th change from now.
func (h *Host) CrashAfter(n int) { h.arm(faults{at: n, after: true, die: true, err: errDied}) }

// Disarm takes a fault back that has not happened yet.
func (h *Host) Disarm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.at = 0
}

func (h *Host) arm(f faults) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.at = h.faults.steps + f.at
	h.faults.after, h.faults.die, h.faults.err = f.after, f.die, f.err
}

// Pause holds every change back until Resume: calls that change something hang, as with a slow disk.
func (h *Host) Pause() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults.gate = make(chan struct{})
}

// Held is the number of changes that Pause holds back now.
func (h *Host) Held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.faults.held
}

// Resume lets changes go on.
func (h *Host) Resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.faults.gate:
	default:
		close(h.faults.gate)
	}
}

// session is the host as one life of the agent sees it. A call of an agent that died meanwhile has no effect any more.
type session struct {
	*Host
	life int
}

// change makes one change to the host, unless a fault is due.
func (s session) change(ctx context.Context, effect func() error) error {
	s.mu.Lock()
	gate := s.faults.gate
	s.faults.held++
	s.mu.Unlock()
	var gone error
	select {
	case <-ctx.Done():
		gone = ctx.Err()
	case <-gate:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.faults
	f.held--
	if gone != nil {
		return gone
	}
	if f.life != s.life {
		return errDied
	}
	due := f.at == f.steps+1
	if due && !f.after {
		f.at = 0
		return s.fail()
	}
	if err := effect(); err != nil {
		return err
	}
	f.steps++
	s.changed()
	if due {
		f.at = 0
		return s.fail()
	}
	return nil
}

// fail ends the life of the agent when the fault asks for it.
func (s session) fail() error {
	if s.faults.die {
		s.faults.life++
		s.faults.kill()
	}
	return s.faults.err
}

// BreakReport makes LVM fail to report any group, with the error, until it is called with nil.
func (h *Host) BreakReport(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mute = err
	h.changed()
}

// BreakGroup makes LVM fail to report one group, with the error, until it is called with nil: so does a lock that is held.
func (h *Host) BreakGroup(name string, err error) {
	h.onGroup(name, func(g *group) { g.mute, g.damaged = err, false })
}

// DamageGroup damages the metadata on the disks of a group, until BreakGroup is called with nil: nobody can tell which group it is.
func (h *Host) DamageGroup(name string) {
	h.onGroup(name, func(g *group) { g.mute, g.damaged = errDamaged, true })
}

// errDamaged is what LVM says of disks with damaged metadata.
var errDamaged = errors.New("the device belongs to a volume group, and LVM finds no metadata of it")

// failure says why LVM does not report a group; nil when it does.
func (h *Host) failure(g *group) error {
	if h.mute != nil {
		return h.mute
	}
	return g.mute
}

// unreported shows a group that LVM fails to report: its disks cannot be read, and their metadata names it.
func (h *Host) unreported(s *plan.Snapshot, g *group, why error) {
	u := plan.UnknownGroup{Name: g.name, UUID: g.uuid, OwnerUID: g.owner(), Reason: why.Error()}
	if g.damaged {
		u.Name, u.UUID, u.OwnerUID = "", "", ""
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.PVUUID == "" || !slices.Contains(g.pvs, d.PVUUID) {
			continue
		}
		d.Group, d.OwnerUID = u.Name, u.OwnerUID
		d.Unreadable = append(d.Unreadable, "volume group: "+why.Error())
		u.Devices = append(u.Devices, d.Path)
	}
	switch {
	case len(u.Devices) == 0:
	case g.owner() == "" && !g.damaged:
		s.ForeignGroups = append(s.ForeignGroups, g.name)
	default:
		s.UnknownGroups = append(s.UnknownGroups, u)
	}
}

// Reboot closes, unmounts and deactivates everything, as the start of a node does. The agent goes on, with the mount table that it
// had; Restart or Kill end it.
func (h *Host) Reboot() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unmount()
	for _, g := range h.groups {
		g.deactivate()
	}
	h.activateAll()
	h.changed()
}

// ActivateAll activates what the host activates at a boot.
func (h *Host) ActivateAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.activateAll()
	h.changed()
}

func (h *Host) activateAll() {
	for _, g := range h.groups {
		if !g.autoactivated || h.accessible(g) != nil {
			continue
		}
		for i := range g.volumes {
			g.volumes[i].Active = true
		}
		for i := range g.pools {
			g.pools[i].active = true
		}
	}
}

// Deactivate takes the devices of a group away, as an administrator would.
func (h *Host) Deactivate(groupName string) { h.onGroup(groupName, (*group).deactivate) }

// CutOffMove leaves a move of so many bytes off a disk behind, as a person's pvmove that was killed; none ends it.
func (h *Host) CutOffMove(groupName, disk string, bytes int64) {
	h.onGroup(groupName, func(g *group) {
		if g.moving = nil; bytes > 0 {
			g.moving = &moving{from: h.disks[disk].pv, bytes: bytes}
		}
	})
}

func (g *group) deactivate() {
	for i := range g.volumes {
		g.volumes[i].Active, g.volumes[i].Open, g.volumes[i].Suspended = false, false, false
		g.volumes[i].stale = false
	}
	for i := range g.pools {
		g.pools[i].active, g.pools[i].suspended, g.pools[i].stale = false, false, false
	}
}

// strand leaves what is active on a disk with a device that leads nowhere. When the disk comes back it is another device to the kernel.
func (h *Host) strand(d *disk) {
	on := func(list []extents) bool {
		return slices.ContainsFunc(list, func(e extents) bool { return h.carrier(e.pv) == d })
	}
	for _, g := range h.groups {
		for i := range g.volumes {
			v := &g.volumes[i]
			v.stale = v.stale || v.Active && on(v.on)
		}
		for i := range g.pools {
			p := &g.pools[i]
			p.stale = p.stale || p.active && on(p.on)
		}
	}
}

// stale reports whether the device of a volume leads nowhere, even if LVM finds all of it.
func (h *Host) stale(g *group, v volume) bool {
	p := g.pool(v.Pool)
	return v.Active && h.health(g, v) != plan.HealthPartial && (v.stale || v.Pool != "" && p != nil && p.stale)
}

// deactivateLV refuses what is open, passes over what is not ours, and leaves a pool alone of which a volume is active.
func (s session) deactivateLV(ctx context.Context, step volumeplan.DeactivateLV) error {
	return s.lenient(ctx, "lvchange", step.Group, func(g *group) error {
		if v := g.tagged(step.Name, step.Tag); v != nil {
			if s.open(*v) {
				return plan.ErrInUse
			}
			v.Active, v.stale = false, false
		}
		used := slices.ContainsFunc(g.volumes, func(v volume) bool { return v.Pool == step.Name && v.Active })
		if p := g.pool(step.Name); p != nil && p.ours && step.Tag == plan.TagPool && !used {
			p.active, p.stale = false, false
		}
		return nil
	})
}

// deactivatePool passes over a pool that is not ours.
func (s session) deactivatePool(ctx context.Context, step plan.DeactivatePool) error {
	return s.lenient(ctx, "lvchange", step.Group, func(g *group) error {
		if p := g.pool(step.Name); p != nil && p.ours && step.Tag == plan.TagPool {
			p.active = false
		}
		return nil
	})
}
