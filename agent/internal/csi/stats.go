package csi

import (
	"context"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
)

// NodeGetVolumeStats measures a volume where it is mounted, and says what is wrong with it.
func (d *node) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "volume_path", req.GetVolumePath()); err != nil {
		return nil, err
	}
	if err := d.cfg.Source.Check(req.GetVolumeId()); err != nil {
		return nil, err
	}
	from, err := d.cfg.Source.Find(ctx, Volume{Handle: req.GetVolumeId()})
	if err != nil {
		return nil, err
	}
	at, points, err := d.mountedAt(from, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	if d.trees != nil {
		usage, err := d.trees.Measure(ctx, at)
		if err != nil {
			return &csi.NodeGetVolumeStatsResponse{VolumeCondition: condition("The volume cannot be reached: " + err.Error())}, nil
		}
		return &csi.NodeGetVolumeStatsResponse{Usage: usages(usage), VolumeCondition: condition("")}, nil
	}
	return d.deviceStats(from, at, points), nil
}

// mountedAt finds the mount of the volume at a path. A path where it is not mounted is one where the volume is not found.
func (d *node) mountedAt(from From, path string) (mount.Point, []mount.Point, error) {
	clean, err := d.cfg.Places.Check(path)
	if err != nil {
		return mount.Point{}, nil, fmt.Errorf("%w: %s", ErrNotThere, err.Error())
	}
	points, err := d.cfg.Mounter.Points()
	if err != nil {
		return mount.Point{}, nil, err
	}
	p, ok := mount.Top(points, clean)
	if !ok || !from.Shows(p) {
		return mount.Point{}, nil, fmt.Errorf("path %.300s: %w", path, ErrNotThere)
	}
	return p, points, nil
}

func (d *node) deviceStats(from From, at mount.Point, points []mount.Point) *csi.NodeGetVolumeStatsResponse {
	size := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: from.SizeBytes}}
	if at.Node {
		return &csi.NodeGetVolumeStatsResponse{Usage: size, VolumeCondition: condition("")}
	}
	usage, err := d.cfg.Filesystems.Usage(at.Path)
	if err != nil {
		// A filesystem that shut itself down says nothing more. That is the news to tell.
		return &csi.NodeGetVolumeStatsResponse{Usage: size, VolumeCondition: condition("The filesystem cannot be read: " + err.Error())}
	}
	resp := &csi.NodeGetVolumeStatsResponse{Usage: usages(usage), VolumeCondition: condition("")}
	// One that was mounted read-only from the start says so in every mount of it.
	mountedForWriting := slices.ContainsFunc(points, func(p mount.Point) bool { return p.Device == at.Device && !p.Node && !p.ReadOnly })
	if at.Frozen && mountedForWriting {
		resp.VolumeCondition = condition("The filesystem turned read-only after an error.")
	}
	return resp
}

func usages(u fs.Usage) []*csi.VolumeUsage {
	out := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: u.TotalBytes, Used: u.UsedBytes, Available: u.FreeBytes}}
	// Where nothing limits their number, only those in use are known.
	if u.TotalInodes > 0 || u.UsedInodes > 0 {
		out = append(out, &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Total: u.TotalInodes, Used: u.UsedInodes, Available: u.FreeInodes})
	}
	return out
}

// condition is a volume condition, a good one when nothing is wrong.
func condition(wrong string) *csi.VolumeCondition {
	if wrong == "" {
		return &csi.VolumeCondition{Message: "The volume is healthy."}
	}
	return &csi.VolumeCondition{Abnormal: true, Message: wrong}
}
