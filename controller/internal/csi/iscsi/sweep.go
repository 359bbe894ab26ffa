package iscsi

import (
	"context"
	"errors"
)

// Sweep gives back the turns that an earlier process of this driver took and died with: the controller would wait for minutes until it takes such a record for
// one that nobody keeps any more. It removes no volumes. What is remembered of Iscsis that are gone is dropped.
func (b *Backend) Sweep(ctx context.Context) (removed []string, err error) {
	all, err := b.storages(ctx)
	if err != nil {
		return nil, err
	}
	b.SAN.Drop(func(owner string) bool {
		_, there := all[owner]
		return !there
	})
	seen := map[string]string{}
	var failed []error
	for uid, s := range all {
		if s.ref.UUID == "" || s.problem != nil {
			continue
		}
		record, version, err := b.Leases.Load(ctx, uid)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if record.Taken == "" {
			continue
		}
		seen[uid] = version
		if b.swept(uid) != version {
			// It may be at work. The next time tells.
			continue
		}
		failed = append(failed, b.giveBack(ctx, s))
	}
	b.remember(seen)
	return nil, errors.Join(failed...)
}

// giveBack takes the turn, and gives it back. One that another role has is left to it for as long as it counts as alive.
func (b *Backend) giveBack(ctx context.Context, s storage) error {
	ctx, cancel := context.WithTimeout(ctx, reserve)
	defer cancel()
	return b.turn(ctx, s, func(context.Context, turn) error { return nil })
}

// swept is the version of a record that was taken when the driver swept last.
func (b *Backend) swept(uid string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken[uid]
}

func (b *Backend) remember(taken map[string]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = taken
}
