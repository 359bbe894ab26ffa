package pool

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	client "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Ask sends the request of a decision to the server that owns the brick, and returns the record to write after it. The record of the decision has to be written
// before: when this process ends in between, the request counts as one without an answer.
func Ask(ctx context.Context, owner client.API, d drain.Decision, peers []gluster.Peer) (v1alpha1.GlusterMove, error) {
	m := *d.Move
	var err error
	switch m.Request {
	case v1alpha1.GlusterEnableSelfHeal:
		err = owner.SetVolumeOptions(ctx, m.Volume, map[string]string{client.SelfHeal: "on"})
	case v1alpha1.GlusterReplaceBrick:
		if len(d.Limit) == 0 || d.Peer == "" || d.Action != drain.Ask {
			return m, fmt.Errorf("move the brick %s of volume %s: no peer is named that has it, or none that may get it", m.Path, m.Volume)
		}
		// The client makes sure that the server is this peer, and that it has this very brick.
		r := client.Replacement{Volume: m.Volume, Brick: m.Brick, Peer: d.Peer, Path: m.Path}
		for _, p := range peers {
			if !slices.Contains(d.Limit, p.ID) {
				r.ExcludePeers = append(r.ExcludePeers, p.ID)
			}
		}
		err = owner.ReplaceBrick(ctx, r)
	case v1alpha1.GlusterHealVolume:
		err = owner.StartHeal(ctx, m.Volume)
	default:
		return m, fmt.Errorf("the request %q is not known", m.Request)
	}
	// What was said is on record with the request: nobody says it again.
	m.Failure = client.Said(err)
	if client.IsPending(err) {
		return m, err
	}
	return drain.Answered(m, err == nil), err
}
