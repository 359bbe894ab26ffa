package nfs

import (
	"context"
	"fmt"
	"time"

	"quarry.storage/quarry/controller/internal/decide/nfs"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Bounds of one call: how many agents it asks, and how long one of them may take. An agent tells within seconds that it cannot reach a
// server, and returns from a removal after half a minute.
const (
	maxTries   = 5
	tryTimeout = 40 * time.Second
)

// through lets one agent after the other work on a share until one reaches it, and remembers that one.
func (b *Backend) through(ctx context.Context, s sharedvolume.Share, hint string, work func(ctx context.Context, node string) error) error {
	online := b.Agents.Online()
	if len(online) == 0 {
		return volume.Refuse(volume.Unavailable, "no agent is connected: one is needed to reach %s on server %s", s.Path, s.Server)
	}
	nodes := b.order(s.Owner, hint, online)
	var first error
	for tried, node := range nodes {
		err := try(ctx, node, work)
		switch {
		case err == nil:
			b.remember(s.Owner, node)
			return nil
		case ctx.Err() != nil || !nfs.OtherNode(err):
			return err
		case first == nil:
			first = err
		}
		if tried == len(nodes)-1 && tried > 0 {
			return fmt.Errorf("%w (and %d other nodes failed, too)", first, tried)
		}
	}
	return first
}

func try(ctx context.Context, node string, work func(ctx context.Context, node string) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return work(ctx, node)
}

// order returns the nodes to try: the one that reached the share last, the one that the Nfs was checked from, then others.
func (b *Backend) order(owner, hint string, online []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	return nfs.Order(online, []string{b.reached[owner], hint}, b.turn, maxTries)
}

func (b *Backend) remember(owner, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reached[owner] = node
}
