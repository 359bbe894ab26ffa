package iscsi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/pkg/sharedlun"
)

// targets are the targets behind the paths of a node, as SPC-4 wants them.
type targets struct{ *Node }

var _ lun.Reservations = targets{}

// at finds the path behind a device node. A path that is down does not answer.
func (t targets) at(ctx context.Context, device string) (*path, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(t.paths, func(p *path) bool { return "/dev/"+p.device == device })
	if i < 0 || !t.up(t.paths[i]) {
		return nil, fmt.Errorf("%s: %w", device, reservation.ErrPath)
	}
	return t.paths[i], nil
}

// on does something with the LUN behind a path that keeps reservations.
func (t targets) on(ctx context.Context, device string, do func(l *Lun, own nexus) error) error {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	p, err := t.at(ctx, device)
	if err != nil {
		return err
	}
	if p.lun.unsupported {
		return fmt.Errorf("%s: %w", device, sharedlun.ErrNoReservations)
	}
	return do(p.lun, p.nexus)
}

// Identify implements lun.Reservations.
func (t targets) Identify(ctx context.Context, device string) (reservation.Identity, error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	p, err := t.at(ctx, device)
	if err != nil {
		return reservation.Identity{}, err
	}
	if p.lun.deaf[p.portal] {
		return reservation.Identity{}, fmt.Errorf("%s: %w", device, reservation.ErrPath)
	}
	i, leads := p.lun.leads[p.portal]
	if !leads {
		i = p.lun.identity
	}
	return reservation.Identity{WWIDs: []string{"t10.MODEL", i.WWID}, Serial: i.Serial, SizeBytes: i.SizeBytes}, nil
}

// kept is what the target keeps.
func (l *Lun) kept() sharedlun.Reservation {
	keys := slices.Sorted(maps.Values(l.keys))
	return sharedlun.Reservation{Supported: true, Keys: slices.Compact(keys), Type: l.kind, Holder: l.keys[l.holder]}
}

// Read implements lun.Reservations.
func (t targets) Read(ctx context.Context, device string) (sharedlun.Reservation, error) {
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	p, err := t.at(ctx, device)
	if err != nil || p.lun.unsupported {
		return sharedlun.Reservation{}, err
	}
	if before, lags := p.lun.lagging[p.portal]; lags {
		return before, nil
	}
	return p.lun.kept(), nil
}

// Registrations implements lun.Reservations.
func (t targets) Registrations(ctx context.Context, device string, key uint64) (count int, err error) {
	err = t.on(ctx, device, func(l *Lun, _ nexus) error {
		for _, k := range l.keys {
			if k == key {
				count++
			}
		}
		return nil
	})
	return count, err
}

// Confirm implements lun.Reservations.
func (t targets) Confirm(ctx context.Context, device string, key uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if key == 0 || l.keys[own] != key {
			return reservation.ErrConflict
		}
		return nil
	})
}

// Register implements lun.Reservations.
func (t targets) Register(ctx context.Context, device string, key uint64, old ...uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if victim := l.fences[own.portal]; victim != 0 {
			delete(l.fences, own.portal)
			l.preempt(own, victim)
		}
		if was := l.keys[own]; key == 0 || was != 0 && was != key && !slices.Contains(old, was) {
			return reservation.ErrConflict
		}
		l.keys[own] = key
		return nil
	})
}

// Unregister implements lun.Reservations.
func (t targets) Unregister(ctx context.Context, device string, key uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if l.keys[own] != key {
			return nil
		}
		if delete(l.keys, own); l.holder == own || len(l.keys) == 0 {
			l.holder, l.kind = nexus{}, 0
		}
		return nil
	})
}

const allHold = sharedlun.WriteExclusiveAllRegistrants

// Reserve implements lun.Reservations.
func (t targets) Reserve(ctx context.Context, device string, key uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if l.keys[own] != key || l.kind != 0 && l.kind != allHold {
			return reservation.ErrConflict
		}
		l.holder, l.kind = nexus{}, allHold
		return nil
	})
}

// preempt takes a key off all paths but the one that says so. What it held alone is held by all then.
func (l *Lun) preempt(own nexus, victim uint64) {
	if l.kind != 0 && l.keys[l.holder] == victim {
		l.holder, l.kind = nexus{}, allHold
	}
	maps.DeleteFunc(l.keys, func(n nexus, k uint64) bool { return k == victim && n != own })
}

// Convert implements lun.Reservations.
func (t targets) Convert(ctx context.Context, device string, key uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if key == 0 || l.keys[own] != key {
			return reservation.ErrConflict
		}
		l.preempt(own, key)
		return nil
	})
}

// Preempt implements lun.Reservations.
func (t targets) Preempt(ctx context.Context, device string, key, victim uint64) error {
	return t.on(ctx, device, func(l *Lun, own nexus) error {
		if l.keys[own] != key || !slices.Contains(slices.Collect(maps.Values(l.keys)), victim) {
			return reservation.ErrConflict
		}
		l.preempt(own, victim)
		return nil
	})
}

// VolumePrefix begins the names of devices of volumes; the UUID follows.
const VolumePrefix = "dm-volume-"

// uses are those of a node's LUNs.
type uses struct{ *Node }

var _ lun.Uses = uses{}

// Of implements lun.Uses.
func (u uses) Of(_ context.Context, l sharedlun.Lun) ([]string, error) {
	u.f.mu.Lock()
	defer u.f.mu.Unlock()
	users := slices.Clone(u.users[l.WWID])
	for _, h := range u.holders[l.WWID] {
		users = append(users, lun.UsedByDevice+h)
	}
	return users, nil
}

// VolumeGroup is the UUID of the group that all volumes of the model are of.
const VolumeGroup = "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"

// Volume implements lun.Uses: a device that is named for a volume is that volume's.
func (u uses) Volume(device string) (group, uuid string, err error) {
	uuid, named := strings.CutPrefix(device, VolumePrefix)
	if !named {
		return "", "", nil
	}
	return VolumeGroup, uuid, nil
}

// On implements lun.Uses. What is built on a LUN of several paths is built on its map.
func (u uses) On(device string) ([]string, error) {
	u.f.mu.Lock()
	defer u.f.mu.Unlock()
	for _, p := range u.paths {
		joined := slices.ContainsFunc(u.paths, func(o *path) bool { return o != p && o.seen == p.seen })
		if device == p.device && !joined || device == "dm-"+p.seen.WWID && joined {
			return u.holders[p.seen.WWID], nil
		}
	}
	return nil, nil
}

// Holders implements lun.Uses.
func (u uses) Holders(l sharedlun.Lun) ([]string, error) {
	u.f.mu.Lock()
	defer u.f.mu.Unlock()
	return u.holders[l.WWID], nil
}

// Claim implements lun.Uses.
func (u uses) Claim(l sharedlun.Lun) (func(), error) {
	if holders, err := u.Holders(l); err != nil || len(holders) > 0 {
		return nil, sharedlun.ErrInUse
	}
	return func() {}, nil
}
