// Package volume is a model of what glusterd2 does with volumes: how they are made, started, healed, and how their bricks are replaced.
package volume

import (
	"maps"
	"regexp"
	"slices"

	"quarry.storage/quarry/test/gd2/cluster"
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

const notFound = "volume not found"

// find reads a volume from the store.
func find(c *cluster.Call, name string) (*cluster.Volume, *cluster.Failure) {
	if f := c.Read(); f != nil {
		return nil, f
	}
	v := c.C.Volumes[name]
	if v == nil {
		return nil, cluster.Fail(404, notFound)
	}
	return v, nil
}

// locked takes a volume's lock and reads it.
func locked(c *cluster.Call, name string) (*cluster.Volume, func(), *cluster.Failure) {
	unlock, f := c.Lock(name)
	if f != nil {
		return nil, nil, f
	}
	v, f := find(c, name)
	if f != nil {
		unlock()
		return nil, nil, f
	}
	return v, unlock, nil
}

// Get returns a volume.
func Get(c *cluster.Call, name string) (cluster.Volume, *cluster.Failure) {
	v, f := find(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	return show(v), nil
}

// List returns the volumes whose metadata pass a filter. It waits for the store however long.
func List(c *cluster.Call, key, value string) []cluster.Volume {
	c.ReadForever()
	out := []cluster.Volume{}
	for _, name := range slices.Sorted(maps.Keys(c.C.Volumes)) {
		if v := c.C.Volumes[name]; cluster.Matches(v.Metadata, key, value) {
			out = append(out, show(v))
		}
	}
	return out
}

// show returns a copy of a volume as it is told.
func show(v *cluster.Volume) cluster.Volume {
	out := *v
	out.Options, out.Metadata, out.SnapList = maps.Clone(v.Options), maps.Clone(v.Metadata), slices.Clone(v.SnapList)
	out.Subvols = slices.Clone(v.Subvols)
	for i, s := range v.Subvols {
		out.Subvols[i].Bricks = slices.Clone(s.Bricks)
	}
	first := v.Subvols[0]
	out.ReplicaCount, out.ArbiterCount = first.ReplicaCount, first.ArbiterCount
	out.DisperseCount, out.DataCount, out.RedundancyCount = first.DisperseCount, first.DataCount, first.RedundancyCount
	return out
}

// EditRequest is what metadata are edited with.
type EditRequest struct {
	Metadata map[string]string `json:"metadata"`
	Delete   bool              `json:"delete-metadata"`
}

// Edit changes a volume's metadata, in the store alone.
func Edit(c *cluster.Call, name string, r EditRequest) (cluster.Volume, *cluster.Failure) {
	v, unlock, f := locked(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	if cluster.TooLarge(r.Metadata) {
		return cluster.Volume{}, cluster.Fail(400, tooLarge)
	}
	if f := cluster.Restricted(r.Metadata); f != nil {
		return cluster.Volume{}, f
	}
	merged := maps.Clone(v.Metadata)
	for k, value := range r.Metadata {
		if r.Delete {
			delete(merged, k)
		} else {
			merged[k] = value
		}
	}
	if cluster.TooLarge(merged) {
		return cluster.Volume{}, cluster.Fail(400, tooLarge)
	}
	v.Metadata = merged
	return show(v), nil
}

const tooLarge = "metadata size exceeds max allowed size of 4KB"

func event(c *cluster.Call, what string, v *cluster.Volume) {
	c.Event("volume."+what, map[string]string{"volume.id": v.ID, "volume.name": v.Name})
}

// together waits until all peers of a transaction answer. It refuses if one is offline. One that died a moment ago, or hangs, still counts as
// online: the transaction then waits for it, however long, and takes effect when it is back.
func together(c *cluster.Call, peers []string) *cluster.Failure {
	for _, p := range peers {
		if !c.C.Alive(p) {
			return cluster.Fail(500, "probably some of the nodes are down")
		}
	}
	c.Wait(cluster.Forever, func() bool {
		for _, p := range peers {
			// A peer that left meanwhile is not waited for.
			if n := c.C.Node(p); n != nil && !n.Answers() {
				return false
			}
		}
		return true
	})
	return nil
}

// eachUp refuses if one of the peers is offline, in the words of transactions of the first kind.
func eachUp(c *cluster.Call, peers []string) *cluster.Failure {
	for _, p := range peers {
		if !c.C.Alive(p) {
			return cluster.Fail(500, "node %s is probably down", p)
		}
	}
	return nil
}
