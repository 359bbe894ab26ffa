package format

import "slices"

// BlueStore is the type of a label of Ceph's BlueStore.
const BlueStore = "ceph_bluestore"

// BlueStoreBlock is how many bytes a label of BlueStore has for itself, at each of its places.
const BlueStoreBlock = 4 * kib

// bluestoreLabels are where Ceph writes the label and its copies: bdev_label_positions in its BlueStore.cc, and one place more, for who counts
// otherwise. A copy stands only where the device has room for all of it.
var bluestoreLabels = []int64{0, gib, 10 * gib, 100 * gib, 1000 * gib, 1024 * gib}

// FarLabels returns, one after the other, the blocks of the labels of BlueStore among the signatures found that stand in neither end of the device.
// It is empty where there is none. An error means that one could not be read.
func (im *Image) FarLabels(found []Signature) ([]byte, error) {
	var out []byte
	for _, off := range bluestoreLabels {
		inEnd := off < int64(len(im.Head)) || off >= im.TailOff
		if inEnd || !slices.ContainsFunc(found, func(s Signature) bool { return s.Type == BlueStore && s.Offset == off }) {
			continue
		}
		block, err := readAt(im.r, im.Size, off, int(BlueStoreBlock))
		if err != nil {
			return nil, err
		}
		out = append(out, block...)
	}
	return out, nil
}
