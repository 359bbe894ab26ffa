package plan

import (
	"fmt"
	"math"
	"math/big"
)

// CreateVolume plans how the volume comes to exist. A volume of that name with the same id, kind and size is what is wanted
// already; another one is refused.
func CreateVolume(s Snapshot, want VolumeSpec) (VolumePlan, error) {
	g, err := volumeGroup(s, want.Group, want.OwnerUID)
	if err != nil {
		return VolumePlan{}, err
	}
	if v, exists := g.Volume(want.Name); exists {
		return existing(g, v, want)
	}
	if _, exists := g.Pool(want.Name); exists {
		return VolumePlan{}, fmt.Errorf("%s in group %s is a thin pool: %w", want.Name, g.Name, ErrAlreadyExists)
	}
	if err := g.whole(); err != nil {
		return VolumePlan{}, err
	}
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return VolumePlan{}, err
	}
	v := Volume{Name: want.Name, ID: want.ID, SizeBytes: size, Snapshot: want.Snapshot, Active: !want.Snapshot, New: want.Source == ""}
	switch {
	case want.Source != "":
		return g.copyVolume(v, want)
	case want.Pool != "":
		return g.thinVolume(v, want)
	}
	if size > g.FreeBytes {
		return VolumePlan{}, fmt.Errorf("volume %s of %d bytes in group %s, which has %d of %d bytes free: %w",
			want.Name, size, g.Name, g.FreeBytes, g.SizeBytes, ErrNoRoom)
	}
	return g.create(v, fmt.Sprintf("volume %s does not exist in group %s", v.Name, g.Name)), nil
}

// existing compares a volume that has the name with the one that is wanted.
func existing(g Group, v Volume, want VolumeSpec) (VolumePlan, error) {
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return VolumePlan{}, err
	}
	differs := difference(v, want)
	fits := v.SizeBytes == size
	if want.Source != "" {
		// A copy may be larger than was asked for, and a snapshot never grows.
		fits = v.SizeBytes >= size || !v.Snapshot
	}
	if differs == "" && !fits {
		differs = fmt.Sprintf("has %d bytes, not %d", v.SizeBytes, size)
	}
	switch {
	case differs != "":
		return VolumePlan{}, fmt.Errorf("volume %s in group %s %s: %w", v.Name, g.Name, differs, ErrAlreadyExists)
	case v.SizeBytes >= size:
		return VolumePlan{Volume: v}, nil
	}
	// A copy is made in the size of its source and grown then; an interrupted call got as far as this.
	return g.grow(v, size, want.OverprovisionPercent, ErrNoRoom, "the copy was not grown to its size yet")
}

// difference says what makes a volume another one than is wanted, whatever its size; empty when nothing does.
func difference(v Volume, want VolumeSpec) string {
	pool := want.Pool
	if pool == "" && want.Source != "" {
		pool = v.Pool
	}
	switch {
	case v.ID == "":
		return "carries no id of ours"
	case v.ID != want.ID:
		return fmt.Sprintf("has the id %q", v.ID)
	case v.Snapshot != want.Snapshot:
		return fmt.Sprintf("is a snapshot: %t, not %t", v.Snapshot, want.Snapshot)
	case v.Pool != pool:
		return fmt.Sprintf("is in pool %q, not %q", v.Pool, pool)
	case v.Source != "" && v.Source != want.Source:
		return fmt.Sprintf("is a copy of %q, not of %q", v.Source, want.Source)
	}
	return ""
}

func (g Group) thinVolume(v Volume, want VolumeSpec) (VolumePlan, error) {
	v.Pool = want.Pool
	if err := g.mayGrowPool(v.Pool, v.Name, v.SizeBytes, want.OverprovisionPercent, ErrNoRoom); err != nil {
		return VolumePlan{}, err
	}
	return g.create(v, fmt.Sprintf("volume %s does not exist in group %s", v.Name, g.Name)), nil
}

func (g Group) copyVolume(v Volume, want VolumeSpec) (VolumePlan, error) {
	source, exists := g.Volume(want.Source)
	switch {
	case !exists:
		return VolumePlan{}, fmt.Errorf("source %s in group %s: %w", want.Source, g.Name, ErrNotFound)
	case source.ID == "":
		return VolumePlan{}, fmt.Errorf("source %s in group %s carries no id of ours: %w", want.Source, g.Name, ErrNotOurs)
	case source.Pool == "":
		return VolumePlan{}, fmt.Errorf("source %s in group %s: %w", want.Source, g.Name, ErrNotThin)
	case want.Pool != "" && want.Pool != source.Pool:
		return VolumePlan{}, fmt.Errorf("source %s is in pool %s, not %s: %w", source.Name, source.Pool, want.Pool, ErrInvalid)
	case want.Snapshot && v.SizeBytes > source.SizeBytes:
		return VolumePlan{}, fmt.Errorf("snapshot of %d bytes of %s, which has %d: %w", v.SizeBytes, source.Name, source.SizeBytes, ErrInvalid)
	}
	final := max(v.SizeBytes, source.SizeBytes)
	if err := g.mayGrowPool(source.Pool, v.Name, final, want.OverprovisionPercent, ErrNoRoom); err != nil {
		return VolumePlan{}, err
	}
	v.Pool, v.Source, v.SizeBytes = source.Pool, source.Name, source.SizeBytes
	out := g.create(v, fmt.Sprintf("%s does not exist in group %s", v.Name, g.Name))
	if final > v.SizeBytes {
		out.Volume.SizeBytes = final
		out.Steps = append(out.Steps, ExtendLV{
			Group: g.ref(), Name: v.Name, SizeBytes: final, Reason: "a copy has the size of its source at first, and more is wanted",
		})
	}
	return out, nil
}

func (g Group) create(v Volume, reason string) VolumePlan {
	step := CreateLV{
		Group: g.ref(), Name: v.Name, Tags: []string{TagVolume + v.ID}, SizeBytes: v.SizeBytes, Pool: v.Pool, Source: v.Source,
		Snapshot: v.Snapshot, Reason: reason,
	}
	if v.Snapshot {
		step.Tags = append(step.Tags, TagSnapshot)
	}
	// LVM writes the tags with the volume and wipes what stood in its place then. A power cut between the two leaves old content
	// below a new name: the tag says so until the first use.
	if v.New {
		step.Tags = append(step.Tags, TagNew)
	}
	return VolumePlan{Plan: Plan{Steps: []Step{step}}, Volume: v}
}

// grow plans a larger size of a volume that exists.
func (g Group) grow(v Volume, size int64, percent int32, over error, reason string) (VolumePlan, error) {
	if err := g.whole(); err != nil {
		return VolumePlan{}, err
	}
	more := size - v.SizeBytes
	if v.Pool == "" && more > g.FreeBytes {
		return VolumePlan{}, fmt.Errorf("%d bytes more for volume %s in group %s, which has %d of %d bytes free: %w",
			more, v.Name, g.Name, g.FreeBytes, g.SizeBytes, ErrNoRoom)
	}
	if v.Pool != "" {
		if err := g.mayGrowPool(v.Pool, v.Name, more, percent, over); err != nil {
			return VolumePlan{}, err
		}
	}
	v.SizeBytes = size
	return VolumePlan{Volume: v, Plan: Plan{Steps: []Step{ExtendLV{Group: g.ref(), Name: v.Name, SizeBytes: size, Reason: reason}}}}, nil
}

// mayGrowPool says whether the pool takes so many virtual bytes more. The given error means that its limit forbids it.
func (g Group) mayGrowPool(name, volume string, more int64, percent int32, over error) error {
	p, exists := g.Pool(name)
	switch {
	case !exists:
		return fmt.Errorf("thin pool %s in group %s: %w", name, g.Name, ErrNotFound)
	case !p.Ours:
		return fmt.Errorf("thin pool %s in group %s carries no tag of ours: %w", name, g.Name, ErrNotOurs)
	case p.full():
		return fmt.Errorf("volume %s in thin pool %s/%s, which is full (data %s, metadata %s, health %q): %w",
			volume, g.Name, name, percentText(p.DataPermyriad), percentText(p.MetadataPermyriad), p.Health, ErrNoRoom)
	case percent == 0:
		return nil
	}
	if limit := share(p.SizeBytes, percent); more > limit-p.VirtualBytes {
		return fmt.Errorf("%d bytes more for volume %s in thin pool %s/%s: its limit is %d bytes, which is %d %% of %d, and %d are given out: %w",
			more, volume, g.Name, name, limit, percent, p.SizeBytes, p.VirtualBytes, over)
	}
	return nil
}

// metadataReserve is the share of metadata, in hundredths of a percent, above which LVM makes no volume in a pool.
const metadataReserve = 9500

func (p Pool) full() bool {
	return p.DataPermyriad >= 10000 || p.MetadataPermyriad >= metadataReserve || p.Health != ""
}

func percentText(permyriad int32) string {
	return fmt.Sprintf("%d.%02d %%", permyriad/100, permyriad%100)
}

// share is that many percent of a size, as much as can be counted.
func share(size int64, percent int32) int64 {
	n := new(big.Int).Mul(big.NewInt(size), big.NewInt(int64(percent)))
	if n.Div(n, big.NewInt(100)); n.IsInt64() {
		return n.Int64()
	}
	return math.MaxInt64
}
