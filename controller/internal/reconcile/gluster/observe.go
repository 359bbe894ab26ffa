// Package gluster will reconcile GlusterClusters and GlusterNodes. So far it observes: it makes of what the servers answer the facts that decide/gluster decides
// on. Nothing calls it yet (decision 0080).
package gluster

import (
	"context"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	client "quarry.storage/quarry/controller/internal/gluster"
)

// observeLimit is how long all questions of a pass may take. A list of volumes hangs without an answer while etcd is away (k013).
const observeLimit = time.Minute

// Observe asks one server about its pool. What could not be read is missing in what it returns, and the first error says why.
func Observe(ctx context.Context, api client.API) (gluster.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	o := observer{api: api}
	peers, err := api.Peers(ctx)
	if err != nil {
		// Nobody else can be asked about anything then, and each question would take its whole time.
		return gluster.Pool{}, err
	}
	var p gluster.Pool
	all := make([]gluster.Peer, 0, len(peers))
	for _, one := range peers {
		all = append(all, gluster.Peer{ID: one.ID, Addresses: one.PeerAddresses, Zone: one.Zone, Online: one.Online})
	}
	p.Peers = &all
	p.Devices = o.devices(ctx, peers)
	p.Volumes = o.volumes(ctx)
	p.Snapshots = o.snapshots(ctx)
	return p, o.err
}

// observer keeps the first error.
type observer struct {
	api client.API
	err error
}

// failed reports whether a question had no answer.
func (o *observer) failed(err error) bool {
	if err != nil && o.err == nil {
		o.err = err
	}
	return err != nil
}

// devices are those of all members. Those of peers that left are not asked for.
func (o *observer) devices(ctx context.Context, peers []client.Peer) *[]gluster.Device {
	all := []gluster.Device{}
	for _, p := range peers {
		devices, err := o.api.Devices(ctx, p.ID)
		if o.failed(err) {
			return nil
		}
		for _, d := range devices {
			all = append(all, gluster.Device{Peer: d.Peer, Path: d.Path, Enabled: d.Enabled, Free: d.Free})
		}
	}
	return &all
}

// kinds are the types of subvolumes that we know.
var kinds = map[string]gluster.Kind{"Distribute": gluster.Distribute, "Replicate": gluster.Replicate, "Disperse": gluster.Disperse}

// volumes are all of them with how their bricks are. A question about one volume that had no answer leaves that unknown, and not the others.
func (o *observer) volumes(ctx context.Context) *[]gluster.Volume {
	volumes, err := o.api.Volumes(ctx)
	if o.failed(err) {
		return nil
	}
	all := []gluster.Volume{}
	for _, v := range volumes {
		all = append(all, o.volume(ctx, v))
	}
	return &all
}

func (o *observer) volume(ctx context.Context, v client.Volume) gluster.Volume {
	out := gluster.Volume{Name: v.Name, ID: v.ID, Started: v.State == "Started"}
	status := map[string]client.BrickStatus{}
	if bricks, err := o.api.Bricks(ctx, v.Name); !o.failed(err) {
		for _, b := range bricks {
			status[b.ID] = b
		}
	}
	heals := false
	for _, s := range v.Subvolumes {
		sub := gluster.Subvolume{Kind: kinds[s.Type]}
		heals = heals || sub.Kind == gluster.Replicate
		for _, b := range s.Bricks {
			sub.Bricks = append(sub.Bricks, brick(b, status))
		}
		out.Subvolumes = append(out.Subvolumes, sub)
	}
	if heals && out.Started {
		out.SelfHeal, out.Heal = o.selfHeal(ctx, v.Name), o.heal(ctx, v)
	}
	return out
}

// brick is one with its state, as far as its server told it.
func brick(b client.Brick, status map[string]client.BrickStatus) gluster.Brick {
	out := gluster.Brick{ID: b.ID, Peer: b.Peer, Path: b.Path}
	if s, told := status[b.ID]; told {
		out.Online = gluster.Of(s.Online)
		if s.Capacity > 0 {
			out.Size = &gluster.Size{Capacity: s.Capacity, Used: s.Used}
		}
	}
	return out
}

func (o *observer) selfHeal(ctx context.Context, volume string) gluster.Answer {
	value, err := o.api.VolumeOption(ctx, volume, client.SelfHeal)
	switch {
	case o.failed(err):
		return gluster.Unknown
	case value == "on":
		return gluster.Yes
	case value == "off":
		return gluster.No
	}
	return gluster.Unknown
}

// heal is what is left to be healed, if every brick told it.
func (o *observer) heal(ctx context.Context, v client.Volume) *gluster.Heal {
	told, err := o.api.Heal(ctx, v.Name)
	if o.failed(err) {
		return nil
	}
	bricks := 0
	for _, s := range v.Subvolumes {
		bricks += len(s.Bricks)
	}
	if len(told) != bricks {
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

// snapshots are volumes of their own. Which of their bricks belong together does not matter: none is moved.
func (o *observer) snapshots(ctx context.Context) *[]gluster.Volume {
	snapshots, err := o.api.Snapshots(ctx)
	if o.failed(err) {
		return nil
	}
	all := []gluster.Volume{}
	for _, s := range snapshots {
		v := gluster.Volume{Name: s.Name, Subvolumes: []gluster.Subvolume{{}}}
		for _, b := range s.Bricks {
			v.Subvolumes[0].Bricks = append(v.Subvolumes[0].Bricks, brick(b, nil))
		}
		all = append(all, v)
	}
	return &all
}
