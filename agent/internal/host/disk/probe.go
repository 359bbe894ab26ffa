package disk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/host/disk/format"
	"quarry.storage/quarry/pkg/osd"
)

// ProbeFile reads the facts through an open file, for a check under the exclusive open of Wipe and Release as well.
//
// Three readers look for signatures: the table of this package, go-blockdevice and go-diskfs. What any of them finds is a
// signature; where one of the latter two cannot make sense of what it sees, that is an error, unless something was found.
func ProbeFile(f *os.File) (Facts, error) {
	facts, im, err := probeOwn(f)
	if err != nil {
		return Facts{}, fmt.Errorf("probe %s: %w", f.Name(), err)
	}
	defer im.Free()
	others, err := otherReaders(f, im, facts.Signatures)
	facts.merge(others)
	if err != nil && len(facts.Signatures) == 0 && facts.Wipe == nil {
		return Facts{}, fmt.Errorf("probe %s: %w", f.Name(), err)
	}
	return facts, nil
}

// probeOwn reads with this package's own means only.
func probeOwn(f *os.File) (Facts, *format.Image, error) {
	size, sector, err := geometry(f)
	if err != nil {
		return Facts{}, nil, err
	}
	im, err := format.Load(f, size)
	if err != nil {
		return Facts{}, nil, err
	}
	facts := Facts{SizeBytes: size, SectorBytes: sector, HeadTailZero: im.Zero(), Unlabelled: im.Unlabelled()}
	if facts.Wipe = decodeMark(im.Head); facts.Wipe != nil {
		facts.Signatures = append(facts.Signatures, format.Signature{Type: markType})
	}
	found, label, err := format.Find(im)
	if err != nil {
		return Facts{}, nil, err
	}
	if label != nil {
		facts.PVUUID, facts.PVInGroup, facts.label = label.UUID, label.InGroup, label
		facts.PVAreas, facts.PVGroup = label.Areas, label.Group
	}
	facts.merge(found)
	if facts.PVUUID == "" {
		facts.ContentDigest = contentDigest(im, facts.HeadTailZero)
		facts.Headers = osd.ParseHeaders(im.Head)
		if err := facts.labels(im); err != nil {
			return Facts{}, nil, err
		}
	}
	return facts, im, nil
}

// labels reads the labels of BlueStore. It reads more than Find did only where one was found.
func (f *Facts) labels(im *format.Image) error {
	blocks, err := im.LabelBlocks(f.Signatures)
	if err != nil {
		return err
	}
	var far []byte
	for _, b := range blocks {
		if b.Far {
			far = append(far, b.Bytes...)
		}
		label, err := osd.ParseLabel(b.Bytes)
		f.Labels = append(f.Labels, osd.Found{Offset: b.Offset, Label: label, Err: err})
	}
	if len(far) > 0 {
		f.LabelDigest = digestOf(far, nil)
	}
	return nil
}

// zeroDigest is the digest of two ends of full length that hold only zeroes: that of every empty disk. Computing it again for each of
// them at each look was most of the work of a look.
var zeroDigest = sync.OnceValue(func() string { return digestOf(make([]byte, format.Edge), make([]byte, format.Edge)) })

func contentDigest(im *format.Image, zero bool) string {
	if zero && len(im.Head) == format.Edge && len(im.Tail) == format.Edge {
		return zeroDigest()
	}
	return digestOf(im.Head, im.Tail)
}

func digestOf(head, tail []byte) string {
	h := sha256.New()
	h.Write(head)
	h.Write(tail)
	return hex.EncodeToString(h.Sum(nil))
}

// merge adds signatures; the same one from two readers stays one.
func (f *Facts) merge(found []format.Signature) {
	for _, s := range found {
		same := func(o format.Signature) bool { return o.Type == s.Type && o.Offset == s.Offset }
		if !slices.ContainsFunc(f.Signatures, same) {
			f.Signatures = append(f.Signatures, s)
		}
	}
	slices.SortFunc(f.Signatures, func(a, b format.Signature) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Type, b.Type))
	})
}
