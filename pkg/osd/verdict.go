package osd

import (
	"fmt"
	"slices"
	"strconv"
)

// Found is a block that begins like a label, at one of the places of a disk.
type Found struct {
	// Offset of the block, in bytes.
	Offset int64
	// Label that stands there. With Err, only its UUID may be known.
	Label Label
	// Err says why the label counts as damaged; nil if it can be read.
	Err error
}

// Contents is what is seen on a disk.
type Contents struct {
	// SizeBytes of the disk.
	SizeBytes int64
	// Clean: every check of a disk that is taken passes.
	Clean bool
	// Blank: its first and its last MiB read as zero.
	Blank bool
	// Labels of BlueStore on it, ordered by place.
	Labels []Found
	// Headers of LUKS2 with our label on it, ordered by place.
	Headers []Header
	// Others are the other signatures on it.
	Others []Mark
}

// Mark is a signature of another format.
type Mark struct {
	// Type of the format, and Offset of the signature in bytes.
	Type   string
	Offset int64
}

// reservedBytes is how much at the start of a disk BlueStore keeps for its label and its superblock. Data of an OSD may look like any signature, but
// they never stand there.
const reservedBytes = 8192

// Wanted is the OSD that a Cluster has on the disk.
type Wanted struct {
	// UUID of the OSD, FSID of the Ceph cluster.
	UUID, FSID string
	// ID is the number that Ceph gave the OSD; negative when it is not known.
	ID int
	// Encrypted: the disk is to be encrypted, and the OSD in it.
	Encrypted bool
}

// Kind is what a disk is to a Cluster.
type Kind int

// Kinds of disks. The zero value is one that nothing is known of.
const (
	// Unknown: a label of it is damaged, or its labels contradict each other. It is neither prepared nor cleared.
	Unknown Kind = iota
	// Empty: nothing is on it, and it can be prepared.
	Empty
	// Unfinished: it carries the label of the wanted OSD, whose making did not end. No daemon ever ran on it.
	Unfinished
	// Ready: it carries the wanted OSD. It may hold data.
	Ready
	// Other: it carries another OSD, or something else.
	Other
)

// String is the kind as one word.
func (k Kind) String() string {
	switch k {
	case Empty:
		return "Empty"
	case Unfinished:
		return "Unfinished"
	case Ready:
		return "Ready"
	case Other:
		return "Other"
	}
	return "Unknown"
}

// Verdict is what a disk is to a Cluster.
type Verdict struct {
	Kind Kind
	// Message says why, in one sentence for a person.
	Message string
	// Making names which making of the wanted OSD the disk carries: no two have the same one, even if they have the same UUID. It is empty for a disk that is neither Ready nor Unfinished.
	Making string
	// Carries is the UUID of an OSD of the wanted one's Ceph cluster which a label or a header on the disk names, be it the wanted one or another. It is empty if none does.
	Carries string
	// FSIDs are those of all Ceph clusters whose OSDs labels or headers on the disk name, in order and each once.
	FSIDs []string
	// Blind: the agent is of an earlier version, and does not tell what Carries and FSIDs are.
	Blind bool
	// Stale: the encrypted OSD is open as another device than its disk is now. The disk was away, and who has the OSD open reads and writes nothing.
	Stale bool
}

// Judge says what a disk is to the Cluster that wants the OSD. What is there counts, wherever it stands: each label has to be the wanted one, one that
// says that the OSD is ready outranks all that do not, and one that cannot be read leaves the disk unknown.
//
// On the disk of an encrypted OSD the headers of LUKS2 say what the labels say elsewhere, see judgeSealed.
func Judge(want Wanted, c Contents) Verdict {
	v := judge(want, c)
	if v.Kind == Ready || v.Kind == Unfinished {
		v.Making = making(c)
	}
	v.Carries, v.FSIDs = carries(want.FSID, c), fsids(c)
	return v
}

// carries is the UUID of the first OSD of a Ceph cluster that is named on a disk. A label has the FSID once the making of its OSD is nearly done.
func carries(fsid string, c Contents) string {
	for _, f := range c.Labels {
		if f.Label.FSID == fsid && f.Label.UUID != "" {
			return f.Label.UUID
		}
	}
	for _, h := range c.Headers {
		if h.FSID == fsid && h.UUID != "" {
			return h.UUID
		}
	}
	return ""
}

// fsids are those of all Ceph clusters that are named on a disk with an OSD of theirs.
func fsids(c Contents) []string {
	var out []string
	for _, f := range c.Labels {
		if f.Label.FSID != "" && f.Label.UUID != "" {
			out = append(out, f.Label.FSID)
		}
	}
	for _, h := range c.Headers {
		if h.FSID != "" && h.UUID != "" {
			out = append(out, h.FSID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func judge(want Wanted, c Contents) Verdict {
	if v, foreign := foreign(want, c); foreign {
		return v
	}
	if len(c.Headers) > 0 {
		return judgeSealed(want, c)
	}
	if len(c.Labels) == 0 {
		if c.Clean {
			return Verdict{Kind: Empty, Message: "The disk is clean."}
		}
		return Verdict{Kind: Other, Message: "The disk carries no OSD, and is not clean."}
	}
	for _, f := range c.Labels {
		switch {
		case f.Err != nil:
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The label at offset %d cannot be read: %v.", f.Offset, f.Err)}
		case f.Label.UUID == "":
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The label at offset %d names no OSD.", f.Offset)}
		}
	}
	for _, f := range c.Labels {
		if v, differs := contradicts(want, f, c.SizeBytes); differs {
			return v
		}
	}
	if v, reused := reusedSince(c); reused {
		return v
	}
	if want.Encrypted {
		return Verdict{Kind: Unknown, Message: "The disk carries the OSD without encryption, and is on record as one that is encrypted."}
	}
	if slices.ContainsFunc(c.Labels, func(f Found) bool { return f.Label.Ready }) {
		if c.Labels[0].Offset > 0 {
			return Verdict{Kind: Ready, Message: "The disk carries a copy of the OSD's label, but the label at its start is gone."}
		}
		return Verdict{Kind: Ready, Message: "The disk carries the OSD."}
	}
	if len(c.Others) > 0 {
		return Verdict{Kind: Unknown, Message: fmt.Sprintf("The making of the OSD did not end, and the disk carries %s too.", c.Others[0].Type)}
	}
	return Verdict{Kind: Unfinished, Message: "The making of the OSD did not end."}
}

// foreign reports whether a label or a header of another OSD is on the disk.
func foreign(want Wanted, c Contents) (Verdict, bool) {
	for _, f := range c.Labels {
		if f.Label.UUID != "" && f.Label.UUID != want.UUID {
			return Verdict{Kind: Other, Message: fmt.Sprintf("The disk carries OSD %s at offset %d, not %s.", f.Label.UUID, f.Offset, want.UUID)}, true
		}
	}
	for _, h := range c.Headers {
		switch {
		case h.UUID != want.UUID:
			return Verdict{Kind: Other, Message: fmt.Sprintf("The disk carries the encrypted OSD %s, by its header at offset %d, not %s.", h.UUID, h.Offset, want.UUID)}, true
		case h.FSID != want.FSID:
			return Verdict{Kind: Other, Message: fmt.Sprintf("The encrypted OSD on the disk is of the Ceph cluster %s, not %s.", h.FSID, want.FSID)}, true
		}
	}
	return Verdict{}, false
}

// reusedSince reports whether somebody may have made something else of a disk that still has labels of the wanted OSD.
func reusedSince(c Contents) (Verdict, bool) {
	for _, m := range c.Others {
		if m.Offset >= 0 && m.Offset < reservedBytes {
			return Verdict{Kind: Unknown, Message: fmt.Sprintf("The disk carries labels of the OSD, and %s where the OSD keeps nothing else.", m.Type)}, true
		}
	}
	if c.Labels[0].Offset > 0 && (!c.Blank || len(c.Others) > 0) {
		return Verdict{Kind: Unknown, Message: "The disk carries a copy of the OSD's label, and something else at its start or end."}, true
	}
	return Verdict{}, false
}

// contradicts compares a label of the wanted OSD with what else is known of that.
func contradicts(want Wanted, f Found, sizeBytes int64) (Verdict, bool) {
	l := f.Label
	switch {
	case l.FSID != "" && l.FSID != want.FSID:
		return Verdict{Kind: Other, Message: fmt.Sprintf("The OSD on the disk is of the Ceph cluster %s, not %s.", l.FSID, want.FSID)}, true
	case l.ID != "" && want.ID >= 0 && l.ID != strconv.Itoa(want.ID):
		return Verdict{Kind: Other, Message: fmt.Sprintf("The disk carries osd.%s of the Cluster, not osd.%d.", l.ID, want.ID)}, true
	case l.Description != "main":
		return Verdict{Kind: Unknown, Message: fmt.Sprintf("The label at offset %d is of a device for %q, not of a disk of its own.", f.Offset, l.Description)}, true
	case l.SizeBytes > sizeBytes:
		return Verdict{Kind: Unknown, Message: fmt.Sprintf("The OSD was made on %d bytes, and the disk has %d.", l.SizeBytes, sizeBytes)}, true
	case l.Ready && (l.FSID == "" || l.ID == ""):
		return Verdict{Kind: Unknown, Message: fmt.Sprintf("The label at offset %d says that the OSD is ready, and not which one it is.", f.Offset)}, true
	}
	return Verdict{}, false
}
