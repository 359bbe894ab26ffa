package volume

import (
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
)

// Size is of a filesystem, in bytes.
type Size struct {
	Capacity uint64 `json:"capacity"`
	Used     uint64 `json:"used"`
	Free     uint64 `json:"free"`
}

// BrickStatus is a brick with what its peer sees of it.
type BrickStatus struct {
	Info    cluster.Brick `json:"info"`
	Online  bool          `json:"online"`
	PID     int           `json:"pid"`
	Port    int           `json:"port"`
	FS      string        `json:"fs-type"`
	Options string        `json:"mount-opts"`
	Device  string        `json:"device"`
	Size    Size          `json:"size"`
}

// Bricks returns the bricks of a volume. A peer that died is passed over at once, one that hangs after twenty seconds.
func Bricks(c *cluster.Call, name string) ([]BrickStatus, *cluster.Failure) {
	v, f := find(c, name)
	if f != nil {
		return nil, f
	}
	all := v.Bricks()
	c.Wait(20*time.Second, func() bool {
		for _, b := range all {
			if n := c.C.Node(b.PeerID); n.Runs() && !n.Answers() {
				return false
			}
		}
		return true
	})
	out := []BrickStatus{}
	for _, b := range all {
		out = append(out, status(c.C.Node(b.PeerID), b))
	}
	return out, nil
}

func status(n *cluster.Node, b *cluster.Brick) BrickStatus {
	out := BrickStatus{Info: *b}
	if !n.Answers() {
		return out
	}
	p, online := n.Brick(b.ID)
	out.Online, out.PID, out.Port = online, p.PID, p.Port
	if fs := n.Disk.At(b.Path); fs != nil {
		out.FS, out.Options, out.Device = fs.Type, fs.Options, fs.Device
		out.Size = Size{Capacity: fs.Total, Used: fs.Total - fs.Free, Free: fs.Free}
	}
	return out
}

// Status is a volume with its size.
type Status struct {
	Info   cluster.Volume `json:"info"`
	Online bool           `json:"online"`
	Size   Size           `json:"size"`
}

// Look mounts a volume to find its size. That it is online says only that the mount worked.
func Look(c *cluster.Call, name string) (Status, *cluster.Failure) {
	v, f := find(c, name)
	if f != nil {
		return Status{}, f
	}
	if v.State != cluster.Started {
		return Status{}, cluster.Fail(400, notStarted)
	}
	out := Status{Info: show(v)}
	for _, s := range v.Subvols {
		for _, b := range s.Bricks {
			st := status(c.C.Node(b.PeerID), b)
			if !st.Online {
				continue
			}
			out.Online = true
			// A replica is as large as one brick.
			out.Size.Capacity += st.Size.Capacity
			out.Size.Used += st.Size.Used
			out.Size.Free += st.Size.Free
			if s.Type == "Replicate" {
				break
			}
		}
	}
	if !out.Online {
		return Status{}, cluster.Fail(500, "Failed to get Volume size info")
	}
	return out, nil
}
