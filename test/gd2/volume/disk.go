package volume

import (
	_ "embed"
	"path"
	"strings"

	"quarry.storage/quarry/test/gd2/cluster"
)

// checking is which checks a brick's directory has to pass.
type checking struct{ used, mount, root, create bool }

func checks(force bool, flags map[string]bool) checking {
	if force {
		return checking{create: true}
	}
	return checking{
		used: !flags["reuse-bricks"], mount: !flags["allow-mount-as-brick"], root: !flags["allow-root-dir"], create: flags["create-brick-dir"],
	}
}

// takeDirectories checks the directories of bricks on their peers, and marks them as the volume's. Nothing is undone if one fails but the marks.
func takeDirectories(c *cluster.Call, bricks []*cluster.Brick, by checking, inUse bool) *cluster.Failure {
	for _, b := range bricks {
		d := c.C.Node(b.PeerID).Disk
		if f := checkDirectory(d, b.Path, by); f != nil {
			return f
		}
		if inUse {
			if f := checkInUse(c, d, b); f != nil {
				return f
			}
		}
	}
	for _, b := range bricks {
		c.C.Node(b.PeerID).Disk.Mark(b.Path, cluster.VolumeID, b.VolumeID)
	}
	return nil
}

func checkDirectory(d *cluster.Disk, at string, by checking) *cluster.Failure {
	if !d.Exists(at) {
		if !by.create {
			return cluster.Fail(500, "stat %s: no such file or directory", at)
		}
		d.MakeDir(at)
	}
	if by.mount && d.IsMount(at) {
		return cluster.Fail(500, "brick path is already a mount point")
	}
	if by.root && d.At(at) == nil {
		return cluster.Fail(500, "brick path is under root partition")
	}
	if !by.used {
		return nil
	}
	for p := at; p != "/"; p = path.Dir(p) {
		for _, a := range []cluster.Attribute{cluster.GFID, cluster.VolumeID} {
			if _, ok := d.Attribute(p, a); ok {
				return cluster.Fail(500, "xattr %s already present on %s", a, p)
			}
		}
	}
	return nil
}

// checkInUse is the check that nothing skips. It looks only at directories that were a brick once.
func checkInUse(c *cluster.Call, d *cluster.Disk, b *cluster.Brick) *cluster.Failure {
	id, ok := d.Attribute(b.Path, cluster.VolumeID)
	if !ok {
		return nil
	}
	for _, v := range c.C.Volumes {
		for _, other := range v.Bricks() {
			if other.PeerID != b.PeerID {
				continue
			}
			if other.VolumeID == id {
				return cluster.Fail(500, "Brick path %s is already in use by a volume (name=%s;id=%s)", b.Path, v.Name, v.ID)
			}
			if strings.HasPrefix(b.Path, other.Path) {
				return cluster.Fail(500, "path %s is a subdirectory of another existing brick with path %s belonging to volume (name=%s;id=%s)", b.Path, other.Path, v.Name, v.ID)
			}
		}
	}
	return nil
}

//go:embed mkfs.txt
var mkfsUsage string

//go:embed lvcreate.txt
var noDeviceMapper string

const (
	// minXFS is the least that mkfs.xfs of today takes.
	minXFS = 300 << 20
	// xfsLog is what the log of a small xfs takes away.
	xfsLog = 64 << 20
)

// makeBricks makes the bricks that glusterd2 chose, on their peers. Those before one that fails are removed.
func makeBricks(c *cluster.Call, bricks []BrickRequest) *cluster.Failure {
	for i, b := range bricks {
		if b.made.mount == "" {
			continue
		}
		if text := makeBrick(c, b); text != "" {
			dropBricks(c, bricks[:i])
			dropImage(c, b)
			return cluster.Fail(500, "%s", text)
		}
	}
	return nil
}

// makeBrick makes one, and returns why it could not. The image stays then.
func makeBrick(c *cluster.Call, b BrickRequest) string {
	d := c.C.Node(b.Peer).Disk
	if !strings.HasSuffix(b.made.image, ".img") && d.NoDeviceMapper {
		return noDeviceMapper
	}
	d.AddImage(b.made.image, b.made.size)
	if b.made.size == 0 {
		return "exit status 1; size 0 of data subvolume is too small, minimum 4096 blocks\n" + mkfsUsage
	}
	if b.made.size < minXFS {
		return "exit status 1; Filesystem must be larger than 300MB.\n" + mkfsUsage
	}
	d.MountBrick(b.made.mount, b.made.opts, b.made.size-xfsLog, "")
	d.MakeDir(b.Path)
	c.C.Space(b.Peer, b.made.device, func(free uint64) uint64 { return free - b.made.total })
	return ""
}

func dropImage(c *cluster.Call, b BrickRequest) {
	if n := c.C.Node(b.Peer); n != nil {
		n.Disk.RemoveImage(b.made.image)
	}
}

// dropBricks undoes makeBricks.
func dropBricks(c *cluster.Call, bricks []BrickRequest) {
	for _, b := range bricks {
		if b.made.mount == "" {
			continue
		}
		dropImage(c, b)
		if n := c.C.Node(b.Peer); n != nil {
			n.Disk.Unmount(b.made.mount)
		}
		c.C.Space(b.Peer, b.made.device, func(free uint64) uint64 { return free + b.made.total })
	}
}
