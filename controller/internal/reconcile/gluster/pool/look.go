package pool

import (
	"context"

	"quarry.storage/quarry/controller/internal/decide/gluster/removal"
	client "quarry.storage/quarry/controller/internal/gluster"
)

// LookFor asks a member of the pool for one peer. What it does not say for sure is unclear: an outage of etcd is told in the same way as a peer that is gone.
func LookFor(ctx context.Context, member client.API, id string) (removal.Look, error) {
	gone, err := member.PeerGone(ctx, id)
	switch {
	case err != nil:
		return removal.Unclear, err
	case gone:
		return removal.NotFound, nil
	}
	return removal.Found, nil
}
