package format

import "slices"

// Range is a range of bytes on a device.
type Range struct{ Offset, Bytes int64 }

func (r Range) contains(off int64) bool { return off >= r.Offset && off < r.Offset+r.Bytes }

// Without returns what is left of the range without another one.
func (r Range) Without(o Range) []Range {
	var out []Range
	end, from, to := r.Offset+r.Bytes, max(o.Offset, r.Offset), min(o.Offset+o.Bytes, r.Offset+r.Bytes)
	if from >= to {
		return []Range{r}
	}
	if from > r.Offset {
		out = append(out, Range{r.Offset, from - r.Offset})
	}
	if end > to {
		out = append(out, Range{to, end - to})
	}
	return out
}

// farBytes is how much is cleared around a place away from the ends.
const farBytes = 64 << 10

// KnownFar returns the places away from both ends at which Find looks, for a device of this size in bytes.
func KnownFar(size int64) []Range {
	places := []int64{mib, 2 * mib, 4 * mib, 64 * mib, 256 * gib}
	places = append(places, bluestoreLabels[1:]...)
	var out []Range
	for _, off := range places {
		if off < size {
			out = append(out, Range{off, min(farBytes, size-off)})
		}
	}
	return out
}

// FoundFar returns the places away from both ends, and from those of KnownFar, where something was found: only a header that is destroyed first tells
// of some of them. It returns no more than limit.
func (im *Image) FoundFar(found []Signature, limit int) []Range {
	known := KnownFar(im.Size)
	var out []Range
	for _, s := range found {
		atEnd := s.Offset < int64(len(im.Head)) || s.Offset >= im.TailOff
		if atEnd || slices.ContainsFunc(known, func(k Range) bool { return k.contains(s.Offset) }) || len(out) >= limit {
			continue
		}
		off := s.Offset &^ (farBytes - 1)
		out = append(out, Range{off, min(farBytes, im.Size-off)})
	}
	return out
}
