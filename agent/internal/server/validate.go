package server

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/volume"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// maxDevices bounds the devices of one request, maxField the length of a path or serial number.
	maxDevices = 512
	maxField   = 512
	// maxOverprovision, in percent, is a thousandfold.
	maxOverprovision = 100_000
	// minChunkBytes and maxChunkBytes are LVM's bounds for the chunks of a thin pool.
	minChunkBytes = 64 << 10
	maxChunkBytes = 1 << 30
)

var (
	// ownerUID are the UIDs of Kubernetes objects; they go into an LVM tag.
	ownerUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,62}$`)
	// volumeID goes into an LVM tag, and between quotes into LVM's selection criteria.
	volumeID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_+./:-]{0,510}$`)
)

// validGroup checks the name and the owner of a group.
func validGroup(name, owner string) error {
	if err := plan.CheckGroupName(name); err != nil {
		return err
	}
	if !ownerUID.MatchString(owner) {
		return fmt.Errorf("owner uid %q: %w", owner, plan.ErrInvalid)
	}
	return nil
}

// validIdentities converts the devices of a request.
func validIdentities(in []*agentv1.DeviceIdentity, digestRequired bool) ([]plan.Identity, error) {
	if len(in) > maxDevices {
		return nil, fmt.Errorf("%d devices, at most %d are taken: %w", len(in), maxDevices, plan.ErrInvalid)
	}
	out := make([]plan.Identity, 0, len(in))
	for _, d := range in {
		id := plan.Identity{
			Path: d.GetPath(), WWN: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest(),
		}
		if err := validIdentity(id, digestRequired); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	return out, nil
}

func validIdentity(id plan.Identity, digestRequired bool) error {
	if err := validPath(id.Path); err != nil {
		return err
	}
	if id.SizeBytes <= 0 {
		return fmt.Errorf("device %s: size_bytes is %d: %w", id.Path, id.SizeBytes, plan.ErrInvalid)
	}
	if digestRequired && id.Digest == "" {
		return fmt.Errorf("device %s: digest is required: %w", id.Path, plan.ErrInvalid)
	}
	for _, field := range []string{id.WWN, id.Serial, id.Digest} {
		if len(field) > maxField || strings.ContainsFunc(field, unicode.IsControl) {
			return fmt.Errorf("device %s: wwn, serial or digest is too long or holds control characters: %w", id.Path, plan.ErrInvalid)
		}
	}
	return nil
}

// validPath takes a clean absolute path below /dev that no command can read as an option.
func validPath(path string) error {
	ok := strings.HasPrefix(path, "/dev/") && path == filepath.Clean(path) && len(path) <= maxField &&
		!strings.ContainsFunc(path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) })
	for _, element := range strings.Split(path, "/") {
		ok = ok && element != ".." && !strings.HasPrefix(element, "-")
	}
	if !ok {
		return fmt.Errorf("device path %q: %w", path, plan.ErrInvalid)
	}
	return nil
}

// volumeRequest is what the requests on one volume have in common.
type volumeRequest interface {
	GetGroup() string
	GetOwnerUid() string
	GetGroupUuid() string
	GetName() string
	GetId() string
}

// validVolume checks which volume is meant.
func validVolume(req volumeRequest) (volume.Spec, error) {
	if err := validGroup(req.GetGroup(), req.GetOwnerUid()); err != nil {
		return volume.Spec{}, err
	}
	if err := volume.CheckName(req.GetGroup(), req.GetName()); err != nil {
		return volume.Spec{}, err
	}
	if !volumeID.MatchString(req.GetId()) {
		return volume.Spec{}, fmt.Errorf("volume id %q: %w", req.GetId(), plan.ErrInvalid)
	}
	return volume.Spec{
		Group: req.GetGroup(), OwnerUID: req.GetOwnerUid(), GroupUUID: req.GetGroupUuid(), Name: req.GetName(), ID: req.GetId(),
	}, nil
}

func validCreate(req *agentv1.CreateLogicalVolumeRequest) (volume.Spec, error) {
	want, err := validVolume(req)
	if err != nil {
		return volume.Spec{}, err
	}
	want.SizeBytes, want.OverprovisionPercent = req.GetSizeBytes(), req.GetOverprovisionPercent()
	want.Pool, want.Source, want.Snapshot = req.GetThinPool(), req.GetSource(), req.GetSnapshot()
	if want.Zero, err = validZeroing(req.GetZeroing()); err != nil {
		return volume.Spec{}, err
	}
	for _, name := range []string{want.Pool, want.Source} {
		if name == "" {
			continue
		}
		if err := volume.CheckName(want.Group, name); err != nil {
			return volume.Spec{}, err
		}
	}
	switch {
	case want.Snapshot && want.Source == "":
		return volume.Spec{}, fmt.Errorf("a snapshot needs a source: %w", plan.ErrInvalid)
	case want.Source == want.Name, want.Pool == want.Name:
		return volume.Spec{}, fmt.Errorf("volume %s cannot be its own source or pool: %w", want.Name, plan.ErrInvalid)
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
	if want.Zero, err = validZeroing(req.GetZeroing()); err != nil {
		return volume.Spec{}, err
	}
	return want, validSize(want.SizeBytes, want.OverprovisionPercent)
}

// validZeroing reads what is to be zeroed. A word of a later version is refused: it may ask for more than this one does.
func validZeroing(z agentv1.Zeroing) (volume.Zero, error) {
	switch z {
	case agentv1.Zeroing_ZEROING_UNSPECIFIED, agentv1.Zeroing_ZEROING_NOTHING:
		return volume.ZeroNothing, nil
	case agentv1.Zeroing_ZEROING_ALL:
		return volume.ZeroAll, nil
	case agentv1.Zeroing_ZEROING_RAW:
		return volume.ZeroRaw, nil
	}
	return volume.ZeroNothing, fmt.Errorf("zeroing is %d: %w", z, plan.ErrInvalid)
}

func validSize(bytes int64, overprovision int32) error {
	if bytes <= 0 {
		return fmt.Errorf("size_bytes is %d: %w", bytes, plan.ErrInvalid)
	}
	return validPercent(overprovision)
}

func validPercent(overprovision int32) error {
	if overprovision < 0 || overprovision > maxOverprovision {
		return fmt.Errorf("overprovision_percent is %d: %w", overprovision, plan.ErrInvalid)
	}
	return nil
}

func validPool(req *agentv1.EnsureThinPoolRequest) (volume.PoolSpec, error) {
	want := volume.PoolSpec{
		Group: req.GetGroup(), OwnerUID: req.GetOwnerUid(), GroupUUID: req.GetGroupUuid(), Name: req.GetName(),
		SizeBytes: req.GetSizeBytes(), Percent: req.GetPercent(), ChunkBytes: req.GetChunkBytes(),
	}
	if err := validGroup(want.Group, want.OwnerUID); err != nil {
		return volume.PoolSpec{}, err
	}
	if err := volume.CheckName(want.Group, want.Name); err != nil {
		return volume.PoolSpec{}, err
	}
	switch chunk := want.ChunkBytes; {
	case want.SizeBytes < 0 || want.Percent < 0 || want.Percent > 100 || (want.SizeBytes == 0) == (want.Percent == 0):
		return volume.PoolSpec{}, fmt.Errorf("size_bytes is %d and percent %d, exactly one of them is needed: %w", want.SizeBytes, want.Percent, plan.ErrInvalid)
	case chunk != 0 && (chunk < minChunkBytes || chunk > maxChunkBytes || chunk%minChunkBytes != 0):
		return volume.PoolSpec{}, fmt.Errorf("chunk_bytes is %d, not a multiple of %d up to %d: %w", chunk, minChunkBytes, maxChunkBytes, plan.ErrInvalid)
	}
	return want, nil
}
