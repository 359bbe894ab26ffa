package server

import (
	"fmt"
	"regexp"
	"strings"

	"quarry.storage/quarry/agent/internal/plan/volume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// maxMapperName is the longest name that device-mapper takes, in which a dash of either name is written twice.
	maxMapperName = 127
	// maxOverprovision, in percent, is a thousandfold.
	maxOverprovision = 100_000
	// minChunkBytes and maxChunkBytes are LVM's bounds for the chunks of a thin pool.
	minChunkBytes = 64 << 10
	maxChunkBytes = 1 << 30
)

var (
	// volumeName are the names that LVM takes, without those that could be read as an option or a path.
	volumeName = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,126}$`)
	// volumeID goes into an LVM tag, and between quotes into LVM's selection criteria.
	volumeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_+./:-]{0,510}$`)
)

// reservedPrefixes and reservedParts are what LVM keeps for names of its own.
var (
	reservedPrefixes = []string{"pvmove", "snapshot"}
	reservedParts    = []string{
		"_cdata", "_cmeta", "_corig", "_cvol", "_imeta", "_iorig", "_mimage", "_mlog", "_pmspare", "_rimage", "_rmeta", "_tdata", "_tmeta",
		"_vdata", "_vorigin", "_wcorig",
	}
)

// volumeRequest is what the requests on one volume have in common.
type volumeRequest interface {
	GetGroup() string
	GetOwnerUid() string
	GetName() string
	GetId() string
}

// validVolume checks which volume is meant.
func validVolume(req volumeRequest) (volume.Spec, error) {
	if err := validGroup(req.GetGroup(), req.GetOwnerUid()); err != nil {
		return volume.Spec{}, err
	}
	if err := validName(req.GetGroup(), req.GetName()); err != nil {
		return volume.Spec{}, err
	}
	if !volumeID.MatchString(req.GetId()) {
		return volume.Spec{}, fmt.Errorf("volume id %q: %w", req.GetId(), errInvalid)
	}
	return volume.Spec{Group: req.GetGroup(), OwnerUID: req.GetOwnerUid(), Name: req.GetName(), ID: req.GetId()}, nil
}

// validNames checks both names.
func validNames(group, name string) error {
	if !groupName.MatchString(group) {
		return fmt.Errorf("group name %q: %w", group, errInvalid)
	}
	return validName(group, name)
}

// validName checks the name of a volume or pool in a group.
func validName(group, name string) error {
	ok := volumeName.MatchString(name)
	for _, p := range reservedPrefixes {
		ok = ok && !strings.HasPrefix(name, p)
	}
	for _, p := range reservedParts {
		ok = ok && !strings.Contains(name, p)
	}
	if !ok {
		return fmt.Errorf("volume name %q: %w", name, errInvalid)
	}
	if n := len(group) + len(name) + strings.Count(group+name, "-") + len("-"); n > maxMapperName {
		return fmt.Errorf("volume name %q makes a device name of %d characters, at most %d are taken: %w", name, n, maxMapperName, errInvalid)
	}
	return nil
}

func validCreate(req *agentv1.CreateLogicalVolumeRequest) (volume.Spec, error) {
	want, err := validVolume(req)
	if err != nil {
		return volume.Spec{}, err
	}
	want.SizeBytes, want.OverprovisionPercent = req.GetSizeBytes(), req.GetOverprovisionPercent()
	want.Pool, want.Source, want.Snapshot = req.GetThinPool(), req.GetSource(), req.GetSnapshot()
	for _, name := range []string{want.Pool, want.Source} {
		if name == "" {
			continue
		}
		if err := validName(want.Group, name); err != nil {
			return volume.Spec{}, err
		}
	}
	switch {
	case want.Snapshot && want.Source == "":
		return volume.Spec{}, fmt.Errorf("a snapshot needs a source: %w", errInvalid)
	case want.Source == want.Name, want.Pool == want.Name:
		return volume.Spec{}, fmt.Errorf("volume %s cannot be its own source or pool: %w", want.Name, errInvalid)
	case want.Source != "" && want.SizeBytes == 0:
		return want, validPercent(want.OverprovisionPercent)
	}
	return want, validSize(want.SizeBytes, want.OverprovisionPercent)
}

func validResize(req *agentv1.ResizeLogicalVolumeRequest) (volume.Spec, error) {
	want, err := validVolume(req)
	if err != nil {
		return volume.Spec{}, err
	}
	want.SizeBytes, want.OverprovisionPercent = req.GetSizeBytes(), req.GetOverprovisionPercent()
	return want, validSize(want.SizeBytes, want.OverprovisionPercent)
}

func validSize(bytes int64, overprovision int32) error {
	if bytes <= 0 {
		return fmt.Errorf("size_bytes is %d: %w", bytes, errInvalid)
	}
	return validPercent(overprovision)
}

func validPercent(overprovision int32) error {
	if overprovision < 0 || overprovision > maxOverprovision {
		return fmt.Errorf("overprovision_percent is %d: %w", overprovision, errInvalid)
	}
	return nil
}

func validPool(req *agentv1.EnsureThinPoolRequest) (volume.PoolSpec, error) {
	want := volume.PoolSpec{
		Group: req.GetGroup(), OwnerUID: req.GetOwnerUid(), Name: req.GetName(), SizeBytes: req.GetSizeBytes(), Percent: req.GetPercent(),
		ChunkBytes: req.GetChunkBytes(),
	}
	if err := validGroup(want.Group, want.OwnerUID); err != nil {
		return volume.PoolSpec{}, err
	}
	if err := validName(want.Group, want.Name); err != nil {
		return volume.PoolSpec{}, err
	}
	switch chunk := want.ChunkBytes; {
	case want.SizeBytes < 0 || want.Percent < 0 || want.Percent > 100 || (want.SizeBytes == 0) == (want.Percent == 0):
		return volume.PoolSpec{}, fmt.Errorf("size_bytes is %d and percent %d, exactly one of them is needed: %w", want.SizeBytes, want.Percent, errInvalid)
	case chunk != 0 && (chunk < minChunkBytes || chunk > maxChunkBytes || chunk%minChunkBytes != 0):
		return volume.PoolSpec{}, fmt.Errorf("chunk_bytes is %d, not a multiple of %d up to %d: %w", chunk, minChunkBytes, maxChunkBytes, errInvalid)
	}
	return want, nil
}
