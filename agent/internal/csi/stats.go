package csi

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"quarry.storage/quarry/agent/internal/host/mount"
)

// NodeGetVolumeStats measures a volume where it is mounted, and tells what is wrong with it.
func (d *node) NodeGetVolumeStats(_ context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := present("volume_id", req.GetVolumeId(), "volume_path", req.GetVolumePath()); err != nil {
		return nil, err
	}
	id, err := d.volume(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	device, err := d.active(id)
	if err != nil {
		return nil, err
	}
	at, points, err := d.mountedAt(device, req.GetVolumePath())
	if err != nil {
		return nil, err
	}
	size := []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: device.SizeBytes}}
	if at.Node {
		return &csi.NodeGetVolumeStatsResponse{Usage: size, VolumeCondition: condition("")}, nil
	}
	usage, err := d.cfg.Filesystems.Usage(at.Path)
	if err != nil {
		// A filesystem that shut itself down answers nothing more. That is the news to tell.
		return &csi.NodeGetVolumeStatsResponse{Usage: size, VolumeCondition: condition("The filesystem cannot be read: " + err.Error())}, nil
	}
	answer := &csi.NodeGetVolumeStatsResponse{VolumeCondition: condition("")}
	answer.Usage = append(answer.Usage, &csi.VolumeUsage{
		Unit: csi.VolumeUsage_BYTES, Total: usage.TotalBytes, Used: usage.UsedBytes, Available: usage.FreeBytes,
	})
	if usage.TotalInodes > 0 {
		answer.Usage = append(answer.Usage, &csi.VolumeUsage{
			Unit: csi.VolumeUsage_INODES, Total: usage.TotalInodes, Used: usage.UsedInodes, Available: usage.FreeInodes,
		})
	}
	// One that was mounted read-only from the start says so in every mount of it.
	mountedForWriting := slices.ContainsFunc(points, func(p mount.Point) bool { return p.Device == at.Device && !p.Node && !p.ReadOnly })
	if at.Frozen && mountedForWriting {
		answer.VolumeCondition = condition("The filesystem turned read-only after an error.")
	}
	return answer, nil
}

// condition is a volume condition, a good one when nothing is wrong.
func condition(wrong string) *csi.VolumeCondition {
	if wrong == "" {
		return &csi.VolumeCondition{Message: "The volume is healthy."}
	}
	return &csi.VolumeCondition{Abnormal: true, Message: wrong}
}
