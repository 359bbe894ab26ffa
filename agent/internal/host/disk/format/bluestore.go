package format

import (
	"bytes"
	"slices"

	"quarry.storage/quarry/pkg/osd"
)

// BlueStore is the type of a label of Ceph's BlueStore.
const BlueStore = "ceph_bluestore"

// bluestoreLabels are where Ceph writes the label and its copies, and one place more, for who counts otherwise.
var bluestoreLabels = append(osd.Places(1<<62), 1024*gib)

// Block is a block of a device.
type Block struct {
	// Offset of the block, in bytes.
	Offset int64
	Bytes  []byte
	// Far: it stands in neither end of the device.
	Far bool
}

// LabelBlocks returns the blocks of the labels of BlueStore among the signatures found, ordered by place. One at the end of the device may be
// shorter than a label. An error means that one could not be read.
func (im *Image) LabelBlocks(found []Signature) ([]Block, error) {
	var out []Block
	for _, off := range bluestoreLabels {
		if !slices.ContainsFunc(found, func(s Signature) bool { return s.Type == BlueStore && s.Offset == off }) {
			continue
		}
		b := Block{Offset: off, Far: off >= int64(len(im.Head)) && off < im.TailOff}
		if held := im.at(off, osd.BlockBytes); held != nil {
			b.Bytes = bytes.Clone(held)
		} else {
			var err error
			if b.Bytes, err = readAt(im.r, im.Size, off, osd.BlockBytes); err != nil {
				return nil, err
			}
		}
		out = append(out, b)
	}
	return out, im.err
}
