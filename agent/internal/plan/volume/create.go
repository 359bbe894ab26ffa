package volume

import (
	"fmt"

	"quarry.storage/quarry/agent/internal/plan"
)

// create is Create where nothing is suspended.
func create(s plan.Snapshot, want Spec) (Plan, error) {
	g, err := holder(s, want)
	if err != nil {
		return Plan{}, err
	}
	if v, exists := g.Volume(want.Name); exists {
		return existing(g, v, want)
	}
	if _, exists := g.Pool(want.Name); exists {
		return Plan{}, fmt.Errorf("%s in group %s is a thin pool: %w", want.Name, g.Name, plan.ErrAlreadyExists)
	}
	if err := g.whole(); err != nil {
		return Plan{}, err
	}
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return Plan{}, err
	}
	v := plan.Volume{Name: want.Name, ID: want.ID, SizeBytes: size, Snapshot: want.Snapshot, Active: !want.Snapshot, New: want.Source == ""}
	switch {
	case want.Source != "":
		return g.copyVolume(v, want)
	case want.Pool != "":
		return g.thinVolume(v, want)
	}
	if size > g.FreeBytes {
		return Plan{}, fmt.Errorf("volume %s of %d bytes in group %s, which has %d of %d bytes free: %w",
			want.Name, size, g.Name, g.FreeBytes, g.SizeBytes, plan.ErrNoRoom)
	}
	v.Unzeroed, v.FilesystemOnly = want.Zero == ZeroAll, want.Zero == ZeroRaw
	out := g.create(v, fmt.Sprintf("volume %s does not exist in group %s", v.Name, g.Name))
	out.Unfinished = progress(v)
	return out, nil
}

// existing compares the volume that has the name with the wanted one.
func existing(g group, v plan.Volume, want Spec) (Plan, error) {
	size, err := g.roundUp(want.SizeBytes)
	if err != nil {
		return Plan{}, err
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
		return Plan{}, fmt.Errorf("volume %s in group %s %s: %w", v.Name, g.Name, differs, plan.ErrAlreadyExists)
	case v.Removing:
		return Plan{}, removing(v)
	case v.SizeBytes >= size:
		return Plan{Volume: v, Unfinished: progress(v)}, nil
	}
	// A copy is made in the size of its source and grown then; an interrupted call got as far as this.
	return g.grow(v, size, want.OverprovisionPercent, plan.ErrNoRoom, "the copy was not grown to its size yet")
}

// difference says in what a volume differs from the wanted one, size apart. It is empty when nothing differs.
func difference(v plan.Volume, want Spec) string {
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

// thinVolume makes a volume in a pool.
func (g group) thinVolume(v plan.Volume, want Spec) (Plan, error) {
	v.Pool = want.Pool
	if err := g.mayGrowPool(v.Pool, v.Name, v.SizeBytes, want.OverprovisionPercent, plan.ErrNoRoom); err != nil {
		return Plan{}, err
	}
	return g.create(v, fmt.Sprintf("volume %s does not exist in group %s", v.Name, g.Name)), nil
}

// copyVolume makes a copy of a thin volume, as large as its source at least.
func (g group) copyVolume(v plan.Volume, want Spec) (Plan, error) {
	source, exists := g.Volume(want.Source)
	switch {
	case !exists:
		return Plan{}, fmt.Errorf("source %s in group %s: %w", want.Source, g.Name, plan.ErrNotFound)
	case source.ID == "":
		return Plan{}, fmt.Errorf("source %s in group %s carries no id of ours: %w", want.Source, g.Name, plan.ErrNotOurs)
	case source.Pool == "":
		return Plan{}, fmt.Errorf("source %s in group %s: %w", want.Source, g.Name, plan.ErrNotThin)
	case source.Removing:
		return Plan{}, fmt.Errorf("source of a copy: %w", removing(source))
	case want.Pool != "" && want.Pool != source.Pool:
		return Plan{}, fmt.Errorf("source %s is in pool %s, not %s: %w", source.Name, source.Pool, want.Pool, plan.ErrInvalid)
	case want.Snapshot && v.SizeBytes > source.SizeBytes:
		return Plan{}, fmt.Errorf("snapshot of %d bytes of %s, which has %d: %w", v.SizeBytes, source.Name, source.SizeBytes, plan.ErrInvalid)
	}
	final := max(v.SizeBytes, source.SizeBytes)
	if err := g.mayGrowPool(source.Pool, v.Name, final, want.OverprovisionPercent, plan.ErrNoRoom); err != nil {
		return Plan{}, err
	}
	// A copy of what nobody used yet is as new: there is nothing on it.
	v.Pool, v.Source, v.SizeBytes, v.New = source.Pool, source.Name, source.SizeBytes, source.New
	out := g.create(v, fmt.Sprintf("%s does not exist in group %s", v.Name, g.Name))
	if final > v.SizeBytes {
		out.Volume.SizeBytes = final
		out.Steps = append(out.Steps, ExtendLV{
			Group: g.Ref(), Name: v.Name, SizeBytes: final, Reason: "a copy has the size of its source at first, and more is wanted",
		})
	}
	return out, nil
}

// create is the plan that makes the volume, with the tags that say what it is.
func (g group) create(v plan.Volume, reason string) Plan {
	step := CreateLV{
		Group: g.Ref(), Name: v.Name, Tags: []string{plan.TagVolume + v.ID}, SizeBytes: v.SizeBytes, Pool: v.Pool, Source: v.Source,
		Snapshot: v.Snapshot, Reason: plan.Reason(reason),
	}
	if v.Snapshot {
		step.Tags = append(step.Tags, plan.TagSnapshot, plan.TagSource+v.Source)
	}
	// LVM writes the tags with the volume and wipes what stood in its place then. A power cut between the two leaves old content
	// below a new name: the tag says so until the first use.
	if v.New {
		step.Tags = append(step.Tags, plan.TagNew)
	}
	if v.Unzeroed {
		step.Tags = append(step.Tags, unzeroedTag(v))
	}
	if v.FilesystemOnly {
		step.Tags = append(step.Tags, plan.TagFilesystemOnly)
	}
	return Plan{Plan: does(step), Volume: v}
}

// grow plans a larger size of a volume that exists. The given error says that the limit of its pool forbids the size.
func (g group) grow(v plan.Volume, size int64, percent int32, over error, reason string) (Plan, error) {
	if err := g.whole(); err != nil {
		return Plan{}, err
	}
	more := size - v.SizeBytes
	if v.Pool == "" && more > g.FreeBytes {
		return Plan{}, fmt.Errorf("%d bytes more for volume %s in group %s, which has %d of %d bytes free: %w",
			more, v.Name, g.Name, g.FreeBytes, g.SizeBytes, plan.ErrNoRoom)
	}
	if v.Pool != "" {
		if err := g.mayGrowPool(v.Pool, v.Name, more, percent, over); err != nil {
			return Plan{}, err
		}
	}
	v.SizeBytes = size
	return Plan{Volume: v, Plan: does(ExtendLV{Group: g.Ref(), Name: v.Name, SizeBytes: size, Reason: plan.Reason(reason)})}, nil
}
