package pool

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	client "quarry.storage/quarry/controller/internal/gluster"
)

// kinds are the types of subvolumes that we know.
var kinds = map[string]gluster.Kind{"Distribute": gluster.Distribute, "Replicate": gluster.Replicate, "Disperse": gluster.Disperse}

// volumes are all of them with how their bricks are. A question about one volume that had no answer leaves that unknown, and not the others. Volumes with a
// brick on a peer that is not online come last, as questions about them may hang.
func (o *observer) volumes(ctx context.Context, volumes []client.Volume, p gluster.Pool) *[]gluster.Volume {
	all := make([]gluster.Volume, len(volumes))
	var first, last []int
	for i, v := range volumes {
		if all[i] = told(v); slices.ContainsFunc(all[i].Bricks(), func(b gluster.Brick) bool { return p.Online(b.Peer) != gluster.Yes }) {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	var asked errgroup.Group
	asked.SetLimit(sideBySide)
	for _, i := range slices.Concat(first, last) {
		asked.Go(func() error {
			o.look(ctx, &all[i])
			return nil
		})
	}
	_ = asked.Wait()
	return &all
}

// told is what a list tells of a volume.
func told(v client.Volume) gluster.Volume {
	out := gluster.Volume{Name: v.Name, ID: v.ID, Started: v.State == "Started"}
	for _, s := range v.Subvolumes {
		sub := gluster.Subvolume{Kind: kinds[s.Type]}
		for _, b := range s.Bricks {
			sub.Bricks = append(sub.Bricks, brick(b, nil))
		}
		out.Subvolumes = append(out.Subvolumes, sub)
	}
	return out
}

// look asks how a volume is. What is left to heal is known only if all of its bricks run (w004, w005), so otherwise nobody is asked.
func (o *observer) look(ctx context.Context, v *gluster.Volume) {
	bricks, err := question(ctx, o, func(ctx context.Context) ([]client.BrickStatus, error) { return o.api.Bricks(ctx, v.Name) })
	if err != nil {
		return
	}
	status := map[string]client.BrickStatus{}
	for _, b := range bricks {
		status[b.ID] = b
	}
	heals, run := false, true
	for _, s := range v.Subvolumes {
		heals = heals || s.Kind == gluster.Replicate
		for i, b := range s.Bricks {
			s.Bricks[i] = brick(client.Brick{ID: b.ID, Peer: b.Peer, Path: b.Path, Arbiter: b.Arbiter}, status)
			run = run && s.Bricks[i].Online == gluster.Yes
		}
	}
	if !heals || !v.Started {
		return
	}
	v.SelfHeal = o.selfHeal(ctx, v.Name)
	if run {
		v.Heal = o.heal(ctx, v)
	}
}

// brick is one with its state, as far as its server told it.
func brick(b client.Brick, status map[string]client.BrickStatus) gluster.Brick {
	out := gluster.Brick{ID: b.ID, Peer: b.Peer, Path: b.Path, Arbiter: b.Arbiter}
	if s, told := status[b.ID]; told {
		out.Online = gluster.Of(s.Online)
		if s.Capacity > 0 {
			out.Size = &gluster.Size{Capacity: s.Capacity, Used: s.Used}
		}
	}
	return out
}

func (o *observer) selfHeal(ctx context.Context, volume string) gluster.Answer {
	value, err := question(ctx, o, func(ctx context.Context) (string, error) { return o.api.VolumeOption(ctx, volume, client.SelfHeal) })
	switch {
	case err != nil:
		return gluster.Unknown
	case value == "on":
		return gluster.Yes
	case value == "off":
		return gluster.No
	}
	return gluster.Unknown
}

// heal is what is left to be healed, if every brick told it.
func (o *observer) heal(ctx context.Context, v *gluster.Volume) *gluster.Heal {
	told, err := question(ctx, o, func(ctx context.Context) ([]client.BrickHeal, error) { return o.api.Heal(ctx, v.Name) })
	if err != nil || len(told) != len(v.Bricks()) {
		return nil
	}
	var sum gluster.Heal
	for _, b := range told {
		if !b.Known {
			return nil
		}
		sum.Pending += b.Pending + b.Healing
		sum.SplitBrain += b.SplitBrain
	}
	return &sum
}
