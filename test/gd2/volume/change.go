package volume

import (
	"slices"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
)

// StartRequest is what a volume is started with.
type StartRequest struct {
	Force bool `json:"force-start-bricks"`
}

const notStarted = "volume not started"

// Start starts a volume.
func Start(c *cluster.Call, name string, r StartRequest) (cluster.Volume, *cluster.Failure) {
	v, unlock, f := locked(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	if v.State == cluster.Started && !r.Force {
		return cluster.Volume{}, cluster.Fail(400, "volume already started")
	}
	c.Settle()
	if f := together(c, v.Peers()); f != nil {
		return cluster.Volume{}, f
	}
	// A value of the cluster that makes no sense is noticed here, and not before.
	if value, set := c.C.Options["cluster.brick-multiplex"]; set {
		if _, ok := option.Bool(value); !ok {
			return cluster.Volume{}, cluster.Fail(500, "invalid Value")
		}
	}
	for _, b := range v.Bricks() {
		n := c.C.Node(b.PeerID)
		if n.FailBricks {
			c.Work(2 * time.Second)
			return cluster.Volume{}, cluster.Fail(500, "exit status 1")
		}
		n.StartBrick(b.ID)
		n.Disk.Mark(b.Path, cluster.GFID, "1")
	}
	v.State = cluster.Started
	event(c, "started", v)
	return show(v), nil
}

// Stop stops a volume.
func Stop(c *cluster.Call, name string) (cluster.Volume, *cluster.Failure) {
	v, unlock, f := locked(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	if v.State == cluster.Stopped {
		return cluster.Volume{}, cluster.Fail(400, "volume already stopped")
	}
	if v.State != cluster.Started {
		return cluster.Volume{}, cluster.Fail(400, notStarted)
	}
	c.Settle()
	if f := together(c, v.Peers()); f != nil {
		return cluster.Volume{}, f
	}
	stopBricks(c, v)
	v.State = cluster.Stopped
	event(c, "stopped", v)
	return show(v), nil
}

func stopBricks(c *cluster.Call, v *cluster.Volume) {
	for _, b := range v.Bricks() {
		if n := c.C.Node(b.PeerID); n != nil {
			n.StopBrick(b.ID)
		}
	}
}

// Delete deletes a volume that is not started. Directories that were given stay, with data and marks.
func Delete(c *cluster.Call, name string) *cluster.Failure {
	v, unlock, f := locked(c, name)
	if f != nil {
		return f
	}
	defer unlock()
	if v.State == cluster.Started {
		return cluster.Fail(400, "volume must be in stopped state before deleting")
	}
	if len(v.SnapList) > 0 {
		return cluster.Fail(424, "cannot delete Volume %s ,as it has %d snapshots", name, len(v.SnapList))
	}
	c.Settle()
	if f := together(c, v.Peers()); f != nil {
		return f
	}
	if v.Metadata[provisionKey] == auto {
		for _, b := range v.Bricks() {
			d := c.C.Node(b.PeerID).Disk
			d.RemoveImage(b.Image)
			d.Unmount(b.Mount)
			c.C.Space(b.PeerID, b.Device, func(free uint64) uint64 { return free + b.Total })
		}
	}
	delete(c.C.Volumes, name)
	event(c, "deleted", v)
	return nil
}

// ExpandRequest is what a volume is expanded with.
type ExpandRequest struct {
	Replica int             `json:"replica"`
	Bricks  []BrickRequest  `json:"bricks"`
	Force   bool            `json:"force"`
	Flags   map[string]bool `json:"flags"`
}

const expandStep = "vol-expand.ValidateAndPrepare"

// Expand adds bricks to a volume.
func Expand(c *cluster.Call, name string, r ExpandRequest) (cluster.Volume, *cluster.Failure) {
	if f := distinct(r.Bricks); f != nil {
		return cluster.Volume{}, f
	}
	if f := checkFlags(r.Flags); f != nil {
		return cluster.Volume{}, f
	}
	v, unlock, f := locked(c, name)
	if f != nil {
		f.Status = 500
		return cluster.Volume{}, f
	}
	defer unlock()
	peers, f := peersOf(r.Bricks)
	if f != nil {
		f.Status = 500
		return cluster.Volume{}, f
	}
	c.Settle()
	if f := eachUp(c, append(c.C.PeerIDs(), peers...)); f != nil {
		return cluster.Volume{}, f
	}
	first := v.Subvols[0]
	replica := first.ReplicaCount
	if r.Replica != 0 {
		replica = r.Replica
	}
	if (len(r.Bricks)+len(v.Bricks()))%(replica+first.ArbiterCount) != 0 {
		return cluster.Volume{}, cluster.FailStep(expandStep, "invalid number of bricks", c.N.ID())
	}
	added, f := bricks(c, v, r.Bricks)
	if f == nil {
		f = takeDirectories(c, added, checks(r.Force, r.Flags), true)
	}
	if f != nil {
		return cluster.Volume{}, cluster.FailStep(expandStep, f.Errors[0].Message, c.N.ID())
	}
	spread(c, v, added, replica)
	for _, b := range added {
		if v.State == cluster.Started {
			c.C.Node(b.PeerID).StartBrick(b.ID)
		}
	}
	return show(v), nil
}

// spread adds bricks to the subvolumes in turn, or as new subvolumes where these are replicated.
func spread(c *cluster.Call, v *cluster.Volume, added []*cluster.Brick, replica int) {
	first := v.Subvols[0]
	if first.Type == "Distribute" || (first.Type == "Replicate" && replica != first.ReplicaCount) {
		for i, b := range added {
			s := &v.Subvols[i%len(v.Subvols)]
			s.Bricks = append(slices.Clone(s.Bricks), b)
		}
		return
	}
	for size := replica + first.ArbiterCount; len(added) >= size; added = added[size:] {
		s := first
		s.Name, s.Bricks, s.ID = v.Name+"-replicate-"+string(rune('0'+len(v.Subvols))), added[:size:size], c.ID()
		v.Subvols = append(v.Subvols, s)
	}
}
