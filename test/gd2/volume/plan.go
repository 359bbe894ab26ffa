package volume

import (
	"fmt"
	"slices"
	"sort"

	"quarry.storage/quarry/test/gd2/cluster"
)

// room is a device that a brick may go to.
type room struct {
	peer, zone, device, group string
	free                      uint64
	used                      bool
}

// rooms returns the devices that a choice allows: of peers that are online, the one with most space first.
func rooms(c *cluster.Call, provisioner string, by Choice) []*room {
	var out []*room
	for _, id := range c.C.PeerIDs() {
		zone := c.C.Peer(id).Zone()
		if !c.C.Alive(id) || !listed(by.LimitPeers, id) || !listed(by.LimitZones, zone) || slices.Contains(by.ExcludePeers, id) || slices.Contains(by.ExcludeZones, zone) {
			continue
		}
		for _, d := range c.C.DevicesOf(id) {
			if d.State != "disabled" && d.Provisioner == provisioner {
				out = append(out, &room{peer: id, zone: zone, device: d.Device, group: d.Group(), free: d.FreeSize})
			}
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].free > out[j].free })
	return out
}

func listed(limit []string, what string) bool { return len(limit) == 0 || slices.Contains(limit, what) }

// sectors rounds down to whole sectors.
func sectors(size uint64) uint64 { return size / 512 * 512 }

// poolMetadata is how much a thin pool's metadata take.
func poolMetadata(pool uint64) uint64 { return sectors(min(uint64(float64(pool)*0.005), 16<<30)) }

const (
	maxLoopBrick = 100 << 30
	brickRoot    = "/run/glusterd2/bricks"
)

// plan chooses the bricks of a volume by size.
func plan(c *cluster.Call, r *CreateRequest) *cluster.Failure {
	if f := c.Read(); f != nil {
		return f
	}
	free := rooms(c, r.Provisioner, r.Choice)
	if len(free) == 0 {
		return cluster.Fail(500, "no devices registered or available for allocating bricks")
	}
	if r.Replica > 3 {
		return cluster.Fail(500, "invalid Replica Count")
	}
	if r.Arbiter > 1 {
		return cluster.Fail(500, "invalid Arbiter Count")
	}
	kind, count := "distribute", 1
	if r.Replica >= 2 {
		kind, count = replicate, r.Replica+r.Arbiter
	}
	parts := max(1, r.Distribute)
	if r.Provisioner == "loop" && r.Size > maxLoopBrick {
		parts = int((r.Size + maxLoopBrick - 1) / maxLoopBrick)
	}
	zones := map[string]bool{}
	for i := range parts {
		if r.Overlap {
			zones = map[string]bool{}
		}
		s := SubvolRequest{Type: kind, Replica: r.Replica, Arbiter: r.Arbiter}
		for j := range count {
			b := BrickRequest{Path: fmt.Sprintf("%s/%s/subvol%d/brick%d/brick", brickRoot, r.Name, i+1, j+1), made: r.size(i+1, j+1, r.Size/uint64(parts))}
			b.Type = "brick"
			if r.Arbiter > 0 && j == count-1 {
				b.Type = arbiter
			}
			s.Bricks = append(s.Bricks, b)
		}
		if !fill(s.Bricks, free, zones, r.Provisioner) {
			return cluster.Fail(500, "no space available or all the devices are not registered")
		}
		r.Subvols = append(r.Subvols, s)
	}
	return nil
}

// size returns what a brick is made of but for the place.
func (r *CreateRequest) size(i, j int, size uint64) made {
	pool := uint64(float64(size) * r.Reserve)
	opts := "rw,noatime,nouuid,discard,inode64,logbufs=8,logbsize=32k,noquota"
	return made{
		mount: fmt.Sprintf("%s/%s/subvol%d/brick%d", brickRoot, r.Name, i, j), opts: opts, size: sectors(size), total: sectors(pool) + poolMetadata(pool),
		lv: fmt.Sprintf("brick_%s_s%d_b%d", r.Name, i, j), tp: fmt.Sprintf("tp_%s_s%d_b%d", r.Name, i, j),
	}
}

// fill gives each brick a device in a zone of its own: one without a brick of this volume first.
func fill(bricks []BrickRequest, free []*room, zones map[string]bool, provisioner string) bool {
	placed := 0
	for _, fresh := range []bool{true, false} {
		for i := range bricks {
			b := &bricks[i]
			for _, at := range free {
				if b.Peer != "" || zones[at.zone] || at.free < b.made.total || (fresh && at.used) {
					continue
				}
				b.put(at, provisioner)
				zones[at.zone], at.used = true, true
				at.free -= b.made.total
				placed++
			}
		}
	}
	return placed == len(bricks)
}

func (b *BrickRequest) put(at *room, provisioner string) {
	b.Peer, b.made.device = at.peer, at.device
	b.made.image = "/dev/" + at.group + "/" + b.made.lv
	if provisioner == "loop" {
		b.made.image = at.device + "/" + b.made.tp + "/" + b.made.lv + ".img"
	}
}
