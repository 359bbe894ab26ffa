// Package format tells from the bytes of a device which formats are on it. It reads only, and knows formats by bytes at fixed places (table.go), by
// rules (parsers.go), and as partition tables (partition.go).
package format

// Signature is one mark found on a device.
type Signature struct {
	// Type as libblkid names it where it knows it.
	Type string
	// Offset of the mark in bytes.
	Offset int64
	// UUID and Label that the format carries, if any.
	UUID, Label string
}

// Find returns every signature on a device, and the label of LVM, nil when there is none. An error means that a part of the device could not be read:
// nothing is known about it.
func Find(im *Image) ([]Signature, *Label, error) {
	var out []Signature
	for _, m := range magics {
		for _, off := range m.at {
			if off < 0 {
				off += im.Size
			}
			if s, ok := m.match(im, off); ok {
				out = append(out, s)
			}
		}
	}
	for _, parse := range parsers {
		out = append(out, parse(im)...)
	}
	out = append(out, partitionTables(im, out)...)
	label := readLabel(im)
	if label != nil {
		out = append(out, label.signature())
	}
	if im.err != nil {
		return nil, nil, im.err
	}
	return out, label, nil
}
