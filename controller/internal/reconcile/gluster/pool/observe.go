// Package pool asks a pool of glusterd2 servers. It makes of what they answer the facts that decide/gluster decides on, and sends the requests that empty a node.
package pool

import (
	"context"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	client "quarry.storage/quarry/controller/internal/gluster"
)

const (
	// observeLimit is how long all questions of a pass may take. A list of volumes hangs without an answer while etcd is away (k013).
	observeLimit = time.Minute
	// questionLimit is how long one may take: a server needs 20 s to say that a peer does not answer.
	questionLimit = 25 * time.Second
	// sideBySide is how many volumes are asked about at once.
	sideBySide = 8
)

// Observe asks one server about its pool. What could not be read is missing in what it returns, and the first error says why. What is asked of the whole pool
// comes first: a peer that hangs delays questions about its volumes, and nothing else.
func Observe(ctx context.Context, api client.API) (gluster.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, observeLimit)
	defer cancel()
	o := observer{api: api}
	peers, err := question(ctx, &o, api.Peers)
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
	p.Snapshots = o.snapshots(ctx)
	volumes, err := question(ctx, &o, api.Volumes)
	p.Devices = o.devices(ctx, peers)
	if err == nil {
		p.Volumes = o.volumes(ctx, volumes, p)
	}
	return p, o.err
}

// observer keeps the first error.
type observer struct {
	api client.API
	mu  sync.Mutex
	err error
}

// question asks one, within its time, and keeps the error if it is the first one.
func question[T any](ctx context.Context, o *observer, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	out, err := ask(ctx)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return out, err
}

// devices are those of all members. Those of peers that left are not asked for.
func (o *observer) devices(ctx context.Context, peers []client.Peer) *[]gluster.Device {
	all := []gluster.Device{}
	for _, p := range peers {
		devices, err := question(ctx, o, func(ctx context.Context) ([]client.Device, error) { return o.api.Devices(ctx, p.ID) })
		if err != nil {
			return nil
		}
		for _, d := range devices {
			all = append(all, gluster.Device{Peer: d.Peer, Path: d.Path, Enabled: d.Enabled, Free: d.Free, Total: d.Total})
		}
	}
	return &all
}

// snapshots are volumes of their own. Which of their bricks belong together does not matter: none is moved.
func (o *observer) snapshots(ctx context.Context) *[]gluster.Volume {
	snapshots, err := question(ctx, o, o.api.Snapshots)
	if err != nil {
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
