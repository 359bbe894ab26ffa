package thin

import (
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// metadata are recorded: "two" the kernel wrote (7.2), the others thin_restore 0.9.0. "many" has 300 volumes, which need more than one leaf.
func metadata(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// scattered puts the metadata on two devices, the first block alone, behind something else.
func scattered(t *testing.T, content []byte) []Piece {
	t.Helper()
	var out []Piece
	for i, part := range [][]byte{content[:BlockBytes], content[BlockBytes:]} {
		device, before := filepath.Join(t.TempDir(), "disk"), (i+1)*BlockBytes
		if err := os.WriteFile(device, append(make([]byte, before), part...), 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, Piece{Device: device, At: int64(before), Bytes: int64(len(part))})
	}
	return out
}

func TestRead(t *testing.T) {
	many := Pool{TransactionID: 400}
	for id := range int64(300) {
		many.Devices = append(many.Devices, Device{ID: id + 1, TransactionID: id + 51})
	}
	for name, want := range map[string]Pool{
		"two":  {TransactionID: 2, Devices: []Device{{1, 0}, {2, 1}}},
		"none": {TransactionID: 2},
		"four": {TransactionID: 4, Devices: []Device{{1, 0}, {2, 1}, {3, 2}, {4, 3}}},
		"many": many,
	} {
		if got, err := Read(scattered(t, metadata(t, name))); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// signed gives a block that was changed its checksum again.
func signed(block []byte, xor uint32) {
	binary.LittleEndian.PutUint32(block, ^crc32.Checksum(block[4:BlockBytes], castagnoli)^xor)
}

// TestRead_damaged: what cannot be read in full is an error, and never a pool with fewer volumes.
func TestRead_damaged(t *testing.T) {
	root := func(b []byte) []byte { return b[binary.LittleEndian.Uint64(b[detailsAt:])*BlockBytes:][:BlockBytes] }
	for name, c := range map[string]struct {
		edit func(b []byte)
		want string
	}{
		"the first block is zero":   {func(b []byte) { clear(b[:BlockBytes]) }, "block 0 of the metadata has a wrong checksum"},
		"no thin pool":              {func(b []byte) { b[magicAt]++; signed(b[:BlockBytes], superblockXOR) }, "magic number"},
		"a bit of the root flipped": {func(b []byte) { root(b)[100]++ }, "wrong checksum"},
		"a leaf is lost": {func(b []byte) {
			clear(b[binary.LittleEndian.Uint64(root(b)[headerBytes+8*nodeRoom(root(b)):])*BlockBytes:][:BlockBytes])
		}, "wrong checksum"},
		"the root is elsewhere": {func(b []byte) {
			binary.LittleEndian.PutUint64(b[detailsAt:], 1<<40)
			signed(b[:BlockBytes], superblockXOR)
		}, "outside"},
		"the root is no such node":  {func(b []byte) { root(b)[24] = 16; signed(root(b), nodeXOR) }, "no node of the tree"},
		"neither leaf nor internal": {func(b []byte) { root(b)[4] = 7; signed(root(b), nodeXOR) }, "neither"},
		"more entries than room":    {func(b []byte) { root(b)[17] = 1; signed(root(b), nodeXOR) }, "no node of the tree"},
		"a loop": {func(b []byte) {
			r := root(b)
			copy(r[headerBytes+8*nodeRoom(r):], b[detailsAt:detailsAt+8])
			signed(r, nodeXOR)
		}, "loop"},
	} {
		content := metadata(t, "many")
		c.edit(content)
		if p, err := Read(scattered(t, content)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d volumes, %v", name, len(p.Devices), err)
		}
	}
	if _, err := Read([]Piece{{Device: filepath.Join(t.TempDir(), "gone"), Bytes: BlockBytes}}); err == nil {
		t.Error("a device that is gone was read")
	}
}

func nodeRoom(node []byte) int { return int(binary.LittleEndian.Uint32(node[20:])) }

// TestPool_Lacks: of the volumes that LVM recorded each has to be in the metadata, of the same transaction; only that of a change which LVM did not end
// may be missing.
func TestPool_Lacks(t *testing.T) {
	two := []Device{{1, 0}, {3, 4}}
	for name, c := range map[string]struct {
		recorded, kernel Pool
		want             string
	}{
		"the same":                          {Pool{5, two}, Pool{5, two}, ""},
		"nothing is left":                   {Pool{5, two}, Pool{TransactionID: 5}, "its metadata lacks volumes that LVM recorded: 1 of transaction 0, 3 of transaction 4"},
		"one is lost":                       {Pool{5, two}, Pool{5, two[:1]}, "its metadata lacks volumes that LVM recorded: 3 of transaction 4"},
		"another one of that number":        {Pool{5, two}, Pool{5, []Device{{1, 0}, {3, 2}}}, "its metadata lacks volumes that LVM recorded: 3 of transaction 4"},
		"LVM does not know one":             {Pool{5, two[:1]}, Pool{5, two}, ""},
		"killed before one was made":        {Pool{5, two}, Pool{4, two[:1]}, ""},
		"killed before, and one is lost":    {Pool{5, two}, Pool{4, two[1:]}, "its metadata lacks volumes that LVM recorded: 1 of transaction 0"},
		"begun anew, which is told by that": {Pool{5, two}, Pool{}, ""},
		"newer than LVM's, as that is":      {Pool{5, two}, Pool{TransactionID: 6}, ""},
	} {
		if got := c.recorded.Lacks(c.kernel); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	var many []Device
	for id := range int64(7) {
		many = append(many, Device{ID: id + 1})
	}
	if got := (Pool{TransactionID: 9, Devices: many}).Lacks(Pool{TransactionID: 9}); !strings.HasSuffix(got, "5 of transaction 0 and 2 more") {
		t.Errorf("many: %q", got)
	}
}
