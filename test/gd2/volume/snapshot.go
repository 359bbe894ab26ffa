package volume

import (
	"fmt"
	"maps"
	"slices"

	"quarry.storage/quarry/test/gd2/cluster"
)

// SnapshotList has the snapshots of one volume.
type SnapshotList struct {
	Parent string             `json:"parentname"`
	Snaps  []cluster.Snapshot `json:"snaps"`
}

// Snapshots returns the snapshots of a volume, or of all. No snapshot was ever recorded: this is as the source of glusterd2 has it.
func Snapshots(c *cluster.Call, volume string) ([]SnapshotList, *cluster.Failure) {
	if f := c.Read(); f != nil {
		return nil, f
	}
	if volume != "" && c.C.Volumes[volume] == nil {
		return nil, cluster.Fail(404, notFound)
	}
	by := map[string][]cluster.Snapshot{}
	for _, name := range slices.Sorted(maps.Keys(c.C.Snapshots)) {
		if s := c.C.Snapshots[name]; volume == "" || s.Parent == volume {
			by[s.Parent] = append(by[s.Parent], *s)
		}
	}
	out := []SnapshotList{}
	for _, parent := range slices.Sorted(maps.Keys(by)) {
		out = append(out, SnapshotList{Parent: parent, Snaps: by[parent]})
	}
	return out, nil
}

// SnapshotRequest is what a snapshot is made with.
type SnapshotRequest struct {
	Volume      string `json:"volname"`
	Name        string `json:"snapname"`
	Description string `json:"description"`
	Timestamp   bool   `json:"timestamp"`
	Force       bool   `json:"force"`
}

// Snap makes a snapshot of a volume.
func Snap(c *cluster.Call, r SnapshotRequest) (cluster.Snapshot, *cluster.Failure) {
	if !validName.MatchString(r.Name) {
		return cluster.Snapshot{}, cluster.Fail(400, "invalid snapshot name")
	}
	v, unlock, f := locked(c, r.Volume)
	if f != nil {
		return cluster.Snapshot{}, f
	}
	defer unlock()
	if c.C.Snapshots[r.Name] != nil {
		return cluster.Snapshot{}, cluster.Fail(500, "snapshot already exists")
	}
	if f := together(c, v.Peers()); f != nil {
		return cluster.Snapshot{}, f
	}
	s := cluster.Snapshot{Volume: show(v), Parent: v.Name, Description: r.Description, CreatedAt: c.Now().UTC()}
	s.Volume.ID, s.Volume.Name, s.Volume.State, s.Volume.SnapList = c.ID(), r.Name, cluster.Created, []string{}
	for i, sub := range s.Volume.Subvols {
		s.Volume.Subvols[i].Bricks = nil
		for j, b := range sub.Bricks {
			one := *b
			one.ID, one.VolumeID, one.VolumeName = c.ID(), s.Volume.ID, r.Name
			one.Path = fmt.Sprintf("/run/glusterd2/snaps/%s/subvol%d/brick%d/brick", r.Name, i+1, j+1)
			s.Volume.Subvols[i].Bricks = append(s.Volume.Subvols[i].Bricks, &one)
		}
	}
	c.C.Snapshots[r.Name] = &s
	v.SnapList = append(slices.Clone(v.SnapList), r.Name)
	return s, nil
}

// Unsnap deletes a snapshot.
func Unsnap(c *cluster.Call, name string) *cluster.Failure {
	if f := c.Read(); f != nil {
		return f
	}
	s := c.C.Snapshots[name]
	if s == nil {
		return cluster.Fail(404, "snapshot not found")
	}
	if v := c.C.Volumes[s.Parent]; v != nil {
		v.SnapList = slices.DeleteFunc(slices.Clone(v.SnapList), func(n string) bool { return n == name })
	}
	delete(c.C.Snapshots, name)
	return nil
}
