package format

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"regexp"
	"slices"
	"strings"
)

// Group is what LVM's metadata on a device says of the volume group.
type Group struct {
	Name, UUID string
	// Tags of the group, ordered.
	Tags []string
	// SystemID says which host the group is of; empty for one of any host.
	SystemID string
}

const (
	// areaText is where the ring of texts begins in a metadata area.
	areaText = 512
	// maxText is the longest text that is read: LVM's own takes about 300 bytes for each volume.
	maxText = 16 << 20
	// textSeed is what LVM begins its checksums with.
	textSeed = 0xf597a6cf
)

// readGroup reads the group that a metadata area names. It is empty when there is none, and when the text is not what its checksum says:
// LVM believes such a text no more than we do.
func readGroup(im *Image, area int64) Group {
	text := currentText(im, area)
	if text == nil {
		return Group{}
	}
	return parseGroup(text)
}

// currentText is the text that the header of a metadata area points to; nil when it is not whole.
func currentText(im *Image, area int64) []byte {
	b := im.at(area, areaHeader)
	if b == nil || string(b[4:20]) != mdaMagic {
		return nil
	}
	size, at, length := binary.LittleEndian.Uint64(b[32:]), binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])
	sum := binary.LittleEndian.Uint32(b[56:])
	if size > uint64(im.Size) || length == 0 || length > maxText || length > size || at < areaText || at >= size {
		return nil
	}
	first := min(length, size-at)
	text := slices.Clone(im.at(area+int64(at), int(first)))
	if rest := length - first; rest > 0 {
		// The text goes on at the begin of the ring.
		text = append(text, im.at(area+areaText, int(rest))...)
	}
	if uint64(len(text)) != length || ^crc32.Update(^uint32(textSeed), crc32.IEEETable, text) != sum {
		return nil
	}
	return text
}

var (
	groupLine = regexp.MustCompile(`^([A-Za-z0-9+_.-]+) \{$`)
	idLine    = regexp.MustCompile(`^id = "([A-Za-z0-9-]+)"$`)
	hostLine  = regexp.MustCompile(`^system_id = "([A-Za-z0-9+_.-]+)"$`)
	tagsLine  = regexp.MustCompile(`^tags = \[(.*)\]$`)
)

// parseGroup reads the begin of the text, which is about the group itself; its first section is about its devices.
func parseGroup(text []byte) Group {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	name := groupLine.FindSubmatch(first)
	if name == nil {
		return Group{}
	}
	g := Group{Name: string(name[1])}
	for line := range bytes.Lines(rest) {
		line = bytes.TrimSpace(line)
		if bytes.HasSuffix(line, []byte("{")) {
			break
		}
		if m := idLine.FindSubmatch(line); m != nil {
			g.UUID = string(m[1])
		}
		if m := hostLine.FindSubmatch(line); m != nil {
			g.SystemID = string(m[1])
		}
		if m := tagsLine.FindSubmatch(line); m != nil {
			g.Tags = quoted(string(m[1]))
		}
	}
	if g.UUID == "" {
		return Group{}
	}
	return g
}

// quoted are the texts of a list: "a", "b". A tag holds no character that LVM would have to escape.
func quoted(list string) []string {
	var out []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.Trim(strings.TrimSpace(item), `"`); item != "" {
			out = append(out, item)
		}
	}
	slices.Sort(out)
	return out
}
