package volume

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"quarry.storage/quarry/test/gd2/cluster"
)

// ReplaceRequest is what a brick is replaced with.
type ReplaceRequest struct {
	Peer    string          `json:"src-peerid"`
	Path    string          `json:"src-brickpath"`
	Flags   map[string]bool `json:"flags"`
	Force   bool            `json:"force"`
	Overlap bool            `json:"subvolume-zones-overlap"`
	Choice
}

const replaceStep = "brick-replace.PrepareBricks"

// Replace replaces a brick by a new one somewhere else. What it returns has the old one still.
func Replace(c *cluster.Call, name string, r ReplaceRequest) (cluster.Volume, *cluster.Failure) {
	if !validName.MatchString(name) {
		return cluster.Volume{}, cluster.Fail(400, "invalid volume name")
	}
	if uuid.Validate(r.Peer) != nil {
		return cluster.Volume{}, cluster.Fail(400, "invalid peerID passed in url")
	}
	if f := checkFlags(r.Flags); f != nil {
		return cluster.Volume{}, f
	}
	v, f := find(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	sub, at, old := position(v, r)
	r.excludeZones(c, v, sub)
	free := rooms(c, v.Provisioner, r.Choice)
	if len(free) == 0 {
		return cluster.Volume{}, cluster.Fail(500, "No volume groups are available")
	}
	fresh := newBrick(c, v, r, old, sub, at, free)
	if fresh.Peer == "" {
		return cluster.Volume{}, cluster.Fail(500, "peer id of new brick could not be parsed")
	}
	unlock, f := c.Lock(name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	c.Settle()
	if f := eachUp(c, append(v.Peers(), fresh.Peer)); f != nil {
		return cluster.Volume{}, f
	}
	c.Wait(cluster.Forever, func() bool { return c.C.Node(fresh.Peer).Answers() })
	if old == nil {
		// A brick that is not in the volume is noticed here, with the image begun.
		return cluster.Volume{}, cluster.FailStep(replaceStep, "mkdir : no such file or directory", fresh.Peer)
	}
	if text := makeBrick(c, fresh); text != "" {
		return cluster.Volume{}, cluster.FailStep(replaceStep, text, fresh.Peer)
	}
	answer := show(v)
	made, f := bricks(c, v, []BrickRequest{fresh})
	if f != nil {
		return cluster.Volume{}, f
	}
	put(c, v, sub, at, made[0])
	return answer, nil
}

// position finds the brick in the volume. The first one's is taken for that of a brick that is not there.
func position(v *cluster.Volume, r ReplaceRequest) (sub, at int, old *cluster.Brick) {
	for i, s := range v.Subvols {
		for j, b := range s.Bricks {
			if b.PeerID == r.Peer && b.Path == r.Path {
				return i, j, b
			}
		}
	}
	return 0, 0, nil
}

func (r *ReplaceRequest) excludeZones(c *cluster.Call, v *cluster.Volume, sub int) {
	for i, s := range v.Subvols {
		if r.Overlap && i != sub {
			continue
		}
		for _, b := range s.Bricks {
			if p := c.C.Peer(b.PeerID); p != nil {
				r.ExcludeZones = append(r.ExcludeZones, p.Zone())
			}
		}
	}
}

// newBrick is as large as the filesystem of the old one, which only the brick's own server can see.
func newBrick(c *cluster.Call, v *cluster.Volume, r ReplaceRequest, old *cluster.Brick, sub, at int, free []*room) BrickRequest {
	var size uint64
	if old != nil && old.PeerID == c.N.ID() {
		if fs := c.N.Disk.At(old.Path); fs != nil {
			size = fs.Total
		}
	}
	pool := sectors(uint64(float64(size) * max(1, v.Reserve)))
	b := BrickRequest{Type: "brick", Path: r.Path}
	b.made = made{
		opts: "rw,noatime,nouuid,inode64,logbufs=8,logbsize=32k,noquota", size: size, total: pool + poolMetadata(pool),
		lv: fmt.Sprintf("brick_%s_s%d_b%d", v.Name, sub, at), tp: fmt.Sprintf("tp_%s_s%d_b%d", v.Name, sub, at),
	}
	if old != nil {
		b.made.mount = old.Mount
	}
	for _, one := range free {
		if one.free >= pool {
			b.put(one, v.Provisioner)
			break
		}
	}
	return b
}

// put has the new brick take the place of the old one, whose process, mount and space stay.
func put(c *cluster.Call, v *cluster.Volume, sub, at int, b *cluster.Brick) {
	s := &v.Subvols[sub]
	next := append([]*cluster.Brick{}, s.Bricks...)
	next[at] = b
	s.Bricks = next
	c.C.Node(b.PeerID).Disk.Mark(b.Path, cluster.VolumeID, v.ID)
	if v.State == cluster.Started {
		c.C.Node(b.PeerID).StartBrick(b.ID)
	}
	if s.Type == "Distribute" || len(v.Files) == 0 {
		return
	}
	if c.W.NewUnmarked() {
		if v.Unmarked == nil {
			v.Unmarked = map[string][]cluster.File{}
		}
		v.Unmarked[b.ID] = append([]cluster.File{}, v.Files...)
		return
	}
	mark(v, s, at, v.Files)
}

// mark has the other bricks of a subvolume know what one lacks.
func mark(v *cluster.Volume, s *cluster.Subvol, at int, files []cluster.File) {
	for i, other := range s.Bricks {
		if i != at {
			v.Pending[other.ID] = append([]cluster.File{}, files...)
		}
	}
	v.Healed = time.Time{}
}

// crawl has all files of a volume looked at, which marks what was not marked.
func crawl(v *cluster.Volume) {
	for i := range v.Subvols {
		s := &v.Subvols[i]
		for at, b := range s.Bricks {
			if files := v.Unmarked[b.ID]; len(files) > 0 {
				mark(v, s, at, files)
			}
		}
	}
	v.Unmarked = nil
}
