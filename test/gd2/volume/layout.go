package volume

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/test/gd2/cluster"
)

// layout makes a volume of a request.
func layout(c *cluster.Call, r *CreateRequest) (*cluster.Volume, *cluster.Failure) {
	v := &cluster.Volume{
		ID: c.ID(), Name: r.Name, Type: typeOf(r.Subvols), Transport: r.Transport, DistributeCount: len(r.Subvols), Options: r.Options,
		State: cluster.Created, Metadata: map[string]string{}, SnapList: []string{}, Capacity: r.Size, Provisioner: r.Provisioner, Reserve: r.Reserve,
		Pending: map[string][]cluster.File{},
	}
	if v.Transport == "" {
		v.Transport = "tcp"
	}
	for k, value := range r.Metadata {
		v.Metadata[k] = value
	}
	v.Metadata[provisionKey] = ""
	if r.Size > 0 {
		v.Metadata[provisionKey] = auto
	}
	for i, s := range r.Subvols {
		sub, f := subvol(c, v, s, i)
		if f != nil {
			return nil, f
		}
		v.Subvols = append(v.Subvols, sub)
	}
	return v, nil
}

const (
	provisionKey = "_brick-provision-type"
	auto         = "auto"
	replicate    = "replicate"
	disperse     = "disperse"
	arbiter      = "arbiter"
)

func typeOf(subvols []SubvolRequest) string {
	spread := ""
	if len(subvols) > 1 {
		spread = "Distributed-"
	}
	switch subvols[0].Type {
	case replicate:
		return spread + "Replicate"
	case disperse:
		return spread + "Disperse"
	}
	return "Distribute"
}

// check refuses counts that do not fit the bricks.
func (s SubvolRequest) check() *cluster.Failure {
	arbiters := 0
	for _, b := range s.Bricks {
		if b.Type == arbiter {
			arbiters++
		}
	}
	switch {
	case s.Replica == 0 && s.Type == replicate:
		return cluster.Fail(500, "replica count not specified")
	case s.Replica > 0 && s.Replica+s.Arbiter != len(s.Bricks):
		return cluster.Fail(500, "invalid number of bricks specified. Number of bricks must be a multiple of replica (+arbiter) count")
	case s.Arbiter != 0 && (s.Replica != 2 || s.Arbiter != 1):
		return cluster.Fail(500, "for arbiter configuration, replica count must be 2 and arbiter count must be 1. The 3rd brick of the replica will be the arbiter")
	case s.Arbiter != 0 && arbiters != s.Arbiter:
		return cluster.Fail(500, "arbiter count doesn't match with number of arbiter bricks specified")
	}
	return nil
}

func subvol(c *cluster.Call, v *cluster.Volume, s SubvolRequest, i int) (cluster.Subvol, *cluster.Failure) {
	out := cluster.Subvol{Name: fmt.Sprintf("%s-%s-%d", v.Name, strings.ToLower(s.Type), i), Type: "Distribute", ReplicaCount: max(1, s.Replica), ArbiterCount: s.Arbiter}
	if f := s.check(); f != nil {
		return out, f
	}
	switch s.Type {
	case replicate:
		out.Type = "Replicate"
	case disperse:
		out.Type = "Disperse"
		out.DisperseCount, out.RedundancyCount = max(s.Disperse, s.Data+s.Redundancy), s.Redundancy
		out.DataCount = out.DisperseCount - out.RedundancyCount
		if out.DisperseCount != len(s.Bricks) || 2*out.RedundancyCount >= out.DisperseCount {
			return out, cluster.Fail(500, "invalid redundancy count")
		}
	}
	var f *cluster.Failure
	out.Bricks, f = bricks(c, v, s.Bricks)
	return out, f
}

// bricks makes the bricks of a volume of what was asked for.
func bricks(c *cluster.Call, v *cluster.Volume, asked []BrickRequest) ([]*cluster.Brick, *cluster.Failure) {
	var out []*cluster.Brick
	for _, r := range asked {
		p := c.C.Peer(r.Peer)
		if p == nil {
			return nil, cluster.Fail(404, "peer not found")
		}
		host, _, err := net.SplitHostPort(p.PeerAddresses[0])
		if err != nil {
			return nil, cluster.Fail(500, "%s", err)
		}
		kind := "Brick"
		switch r.Type {
		case arbiter:
			kind = "Arbiter"
		case "", "brick":
		default:
			return nil, cluster.Fail(500, "%s brick type is not supported", r.Type)
		}
		path := filepath.Clean(r.Path)
		if !filepath.IsAbs(path) {
			// Relative to where the server that was asked runs, whatever the peer.
			path = filepath.Join(c.N.StateDir, path)
		}
		out = append(out, &cluster.Brick{
			ID: c.ID(), Path: path, VolumeID: v.ID, VolumeName: v.Name, PeerID: r.Peer, Host: host, Type: kind,
			Device: r.made.device, Image: r.made.image, Mount: r.made.mount, Size: r.made.size, Total: r.made.total, Opts: r.made.opts, LV: r.made.lv, TP: r.made.tp,
		})
	}
	return out, nil
}
