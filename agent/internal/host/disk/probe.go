package disk

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"sync"
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
	defer im.free()
	others, err := otherReaders(f, im, facts.Signatures)
	facts.merge(others)
	if err != nil && len(facts.Signatures) == 0 && facts.Wipe == nil {
		return Facts{}, fmt.Errorf("probe %s: %w", f.Name(), err)
	}
	return facts, nil
}

// probeOwn reads with this package's own means only.
func probeOwn(f *os.File) (Facts, *image, error) {
	size, sector, err := geometry(f)
	if err != nil {
		return Facts{}, nil, err
	}
	im, err := load(f, size, sector)
	if err != nil {
		return Facts{}, nil, err
	}
	facts := Facts{SizeBytes: size, SectorBytes: sector, HeadTailZero: im.zero()}
	if facts.Wipe = decodeMark(im.head); facts.Wipe != nil {
		facts.Signatures = append(facts.Signatures, Signature{Type: markType})
	}
	found := scan(im)
	if label := readLabel(im); label != nil {
		facts.PVUUID, facts.PVInGroup = label.uuid, label.inGroup
		found = append(found, Signature{Type: lvmType, Offset: label.off + 24, UUID: label.uuid})
	}
	facts.merge(found)
	if im.err != nil {
		return Facts{}, nil, im.err
	}
	if facts.PVUUID == "" {
		facts.ContentDigest = contentDigest(im, facts.HeadTailZero)
	}
	return facts, im, nil
}

// zeroDigest is the digest of two ends of full length that hold only zeroes: that of every empty disk. Computing it again for each of
// them at each look was most of the work of a look.
var zeroDigest = sync.OnceValue(func() string { return digestOf(make([]byte, edge), make([]byte, edge)) })

func contentDigest(im *image, zero bool) string {
	if zero && len(im.head) == edge && len(im.tail) == edge {
		return zeroDigest()
	}
	return digestOf(im.head, im.tail)
}

func digestOf(head, tail []byte) string {
	h := sha256.New()
	h.Write(head)
	h.Write(tail)
	return hex.EncodeToString(h.Sum(nil))
}

// merge adds signatures; the same one from two readers stays one.
func (f *Facts) merge(found []Signature) {
	for _, s := range found {
		same := func(o Signature) bool { return o.Type == s.Type && o.Offset == s.Offset }
		if !slices.ContainsFunc(f.Signatures, same) {
			f.Signatures = append(f.Signatures, s)
		}
	}
	slices.SortFunc(f.Signatures, func(a, b Signature) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Type, b.Type))
	})
}

// scan applies the table, the parsers and the partition table readers.
func scan(im *image) []Signature {
	var out []Signature
	for _, m := range magics {
		for _, off := range m.at {
			if off < 0 {
				off += im.size
			}
			if s, ok := m.match(im, off); ok {
				out = append(out, s)
			}
		}
	}
	for _, parse := range parsers {
		out = append(out, parse(im)...)
	}
	return append(out, partitionTables(im, out)...)
}
