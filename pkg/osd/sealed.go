package osd

import (
	"errors"
	"fmt"
	"slices"
)

// judgeSealed says what a disk is that has at least one header of the wanted OSD. What stands behind 16 MiB is cipher text, which may look like any
// signature, so it does not count. A label of BlueStore does, wherever it stands: cipher text never looks like one.
//
// The first header is written first and removed last. A disk that has but the second one lost the first by somebody else's doing.
func judgeSealed(want Wanted, c Contents) Verdict {
	switch {
	case !want.Encrypted:
		return Verdict{Kind: Unknown, Message: "The disk carries the OSD encrypted, and is on record as one that is not."}
	case len(c.Labels) > 0:
		return Verdict{Kind: Unknown, Message: fmt.Sprintf("The disk carries the OSD encrypted, and a label in the clear at offset %d.", c.Labels[0].Offset)}
	case c.Headers[0].Offset > 0:
		return Verdict{Kind: Unknown, Message: "The first header of the encrypted OSD is gone, and the second one is there. The command \"cryptsetup repair\" can restore it."}
	}
	for _, m := range c.Others {
		if m.Offset < SealedBytes {
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The disk carries a header of the encrypted OSD, and %s where the OSD keeps nothing else.", m.Type)}
		}
	}
	for _, h := range c.Headers {
		if h.Err != nil && !errors.Is(h.Err, ErrCut) && !errors.Is(h.Err, ErrTorn) {
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The header at offset %d of the encrypted OSD is not as it was made: %v. The OSD may hold data.", h.Offset, h.Err)}
		}
	}
	whole := slices.DeleteFunc(slices.Clone(c.Headers), func(h Header) bool { return h.Err != nil })
	if len(whole) == 0 {
		return broken(c.Headers)
	}
	return agreed(whole, c.SizeBytes)
}

// agreed says what a disk of a size is by its headers that are whole, of which the younger one counts.
func agreed(whole []Header, sizeBytes int64) Verdict {
	young := whole[0]
	for _, h := range whole {
		if h.Sequence > young.Sequence {
			young = h
		}
	}
	for _, h := range whole {
		switch {
		case h.SizeBytes > sizeBytes:
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The encrypted OSD was made on %d bytes, and the disk has %d.", h.SizeBytes, sizeBytes)}
		case h.Ready && !young.Ready, h.SizeBytes != young.SizeBytes, h.Sequence == young.Sequence && h.Ready != young.Ready:
			return Verdict{Kind: Unknown, Message: "The two headers of the encrypted OSD contradict each other."}
		}
	}
	if young.Ready {
		return Verdict{Kind: Ready, Message: "The disk carries the OSD, encrypted."}
	}
	return Verdict{Kind: Unfinished, Message: "The making of the encrypted OSD did not end."}
}

// broken says what a disk is without a whole header. The second one is written once the first one is whole, so a making that was cut off leaves the first one alone, and cut.
func broken(headers []Header) Verdict {
	if len(headers) == 1 && errors.Is(headers[0].Err, ErrCut) {
		return Verdict{Kind: Unfinished, Message: "The making of the encrypted OSD did not end: its first header was not written to the end."}
	}
	return Verdict{Kind: Unknown, Message: fmt.Sprintf("No header of the encrypted OSD is whole, and the OSD may hold data: %v. Restore the headers from a backup of them, or clear the disk by hand once Ceph can do without the OSD.", headers[0].Err)}
}
