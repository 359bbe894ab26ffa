package volume

import (
	"cmp"
	"math"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/filesystem"
)

// DefaultSize of a volume for which no size was asked for.
const DefaultSize = 1 << 30

// maxSize is far above what LVM can address, and far enough from the end of the numbers to count on.
const maxSize = math.MaxInt64 / 4

// Range is a wish for a size in bytes; zero means that a bound is not given.
type Range struct {
	// Given is false when there is no wish at all.
	Given           bool
	Required, Limit int64
	// Filesystem that the volume will hold; empty for a raw device.
	Filesystem string
}

// Filesystem returns the filesystem that needs the most room of those that a volume may have to hold; empty if it holds none.
func Filesystem(all []Capability) string {
	var need string
	for _, c := range all {
		if !c.Mount {
			continue
		}
		if fs := cmp.Or(c.FSType, filesystem.Default); need == "" || filesystem.Least(fs) > filesystem.Least(need) {
			need = fs
		}
	}
	return need
}

// Check refuses a range that no host can fulfil.
func (r Range) Check() error {
	switch {
	case !r.Given:
		return nil
	case r.Required < 0 || r.Limit < 0:
		return Refuse(Invalid, "capacity range is from %d to %d bytes: sizes are positive", r.Required, r.Limit)
	case r.Required == 0 && r.Limit == 0:
		return Refuse(Invalid, "capacity range has neither required_bytes nor limit_bytes")
	case r.Limit > 0 && r.Limit < r.Required:
		return Refuse(OutOfRange, "limit of %d bytes is below the %d bytes that are required", r.Limit, r.Required)
	case r.Limit > 0 && r.Limit < filesystem.Least(r.Filesystem):
		return Refuse(OutOfRange, "limit of %d bytes is below the %s that a filesystem of type %s needs at least",
			r.Limit, decide.Bytes(filesystem.Least(r.Filesystem)), r.Filesystem)
	case r.Required > maxSize:
		return Refuse(OutOfRange, "%d bytes are more than any volume can have", r.Required)
	}
	return nil
}

// Size returns the size to ask for in a group: a multiple of the extent, within the range, and enough for the filesystem. At least
// that much is made, whatever the range says: a copy is not smaller than its source.
func (r Range) Size(extent int64) (int64, error) {
	if err := r.Check(); err != nil {
		return 0, err
	}
	extent = max(extent, 1)
	wish := r.Required
	if wish == 0 {
		wish = DefaultSize
		if r.Limit > 0 {
			wish = min(wish, r.Limit/extent*extent)
		}
	}
	wish = max(wish, filesystem.Least(r.Filesystem))
	size := (wish + extent - 1) / extent * extent
	if size == 0 || r.Limit > 0 && size > r.Limit {
		return 0, Refuse(OutOfRange, "no multiple of the extent size of %s is within %d and %d bytes",
			decide.Bytes(extent), max(r.Required, filesystem.Least(r.Filesystem)), r.Limit)
	}
	return size, nil
}

// Holds refuses the size of a volume that is above the limit.
func (r Range) Holds(size int64) error {
	if r.Limit > 0 && size > r.Limit {
		return Refuse(OutOfRange, "the volume has %d bytes, above the limit of %d", size, r.Limit)
	}
	return nil
}
