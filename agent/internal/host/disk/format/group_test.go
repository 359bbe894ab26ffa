package format

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pvImage is a device with an LVM label and, at 4096, a metadata area that LVM 2.03.16 wrote.
func pvImage(t *testing.T, edit func(area []byte)) *Label {
	t.Helper()
	area, err := os.ReadFile("testdata/lvm-area.bin")
	if err != nil {
		t.Fatal(err)
	}
	device := make([]byte, 4*mib)
	label := device[512:]
	copy(label, "LABELONE")
	binary.LittleEndian.PutUint32(label[20:], 32)
	copy(label[24:], "LVM2 001RrXfQ71cTCfHZHmG2pocx4wsVTtKIrgF")
	binary.LittleEndian.PutUint64(label[72:], mibBytes)
	binary.LittleEndian.PutUint64(label[104:], 4096)
	if edit != nil {
		edit(area)
	}
	copy(device[4096:], area)
	im, err := Load(bytes.NewReader(device), int64(len(device)))
	if err != nil {
		t.Fatal(err)
	}
	_, found, err := Find(im)
	if err != nil || found == nil {
		t.Fatalf("%+v, %v", found, err)
	}
	return found
}

const mibBytes = uint64(mib)

// text is where the text begins in the recorded area, and how long it is.
func text(area []byte) (at, length uint64) {
	return binary.LittleEndian.Uint64(area[40:]), binary.LittleEndian.Uint64(area[48:])
}

func TestLabel_group(t *testing.T) {
	recorded := Group{
		Name: "recorded", UUID: "5h1j9E-nkta-0anD-ME4d-osH6-kglY-3p3OR9",
		Tags: []string{"b=1", "quarry.storage/cluster=7a1c6d1e-0000-4000-8000-000000000001"},
	}
	for name, c := range map[string]struct {
		edit    func(area []byte)
		inGroup bool
		want    Group
	}{
		"as LVM wrote it": {nil, true, recorded},
		"the text goes on at the begin of the ring": {func(area []byte) {
			at, length := text(area)
			whole := bytes.Clone(area[at : at+length])
			const split = 100
			binary.LittleEndian.PutUint64(area[32:], uint64(len(area)))
			binary.LittleEndian.PutUint64(area[40:], uint64(len(area)-split))
			copy(area[len(area)-split:], whole[:split])
			copy(area[areaText:], whole[split:])
		}, true, recorded},
		"one letter of the text is another": {func(area []byte) {
			at, _ := text(area)
			area[at] ^= 1
		}, true, Group{}},
		"one letter at its end is another": {func(area []byte) {
			at, length := text(area)
			area[at+length-2] ^= 1
		}, true, Group{}},
		"the text would be behind the end of the area": {func(area []byte) { binary.LittleEndian.PutUint64(area[40:], mibBytes) }, true, Group{}},
		"the text would be huge":                       {func(area []byte) { binary.LittleEndian.PutUint64(area[48:], 1<<60) }, true, Group{}},
		"the area would be larger than the device":     {func(area []byte) { binary.LittleEndian.PutUint64(area[32:], 1<<40) }, true, Group{}},
		"the header is another":                        {func(area []byte) { area[5] ^= 1 }, true, Group{}},
		"the header is gone":                           {func(area []byte) { clear(area[:512]) }, false, Group{}},
		"no text":                                      {func(area []byte) { clear(area[40:60]) }, false, Group{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := pvImage(t, c.edit)
			if got.InGroup != c.inGroup || got.Areas != 1 {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(c.want, got.Group); diff != "" {
				t.Errorf("group (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseGroup(t *testing.T) {
	const id = "id = \"5h1j9E-nkta-0anD-ME4d-osH6-kglY-3p3OR9\"\n"
	for name, c := range map[string]struct {
		text string
		want Group
	}{
		"without tags":                  {"g-1 {\n" + id + "flags = []\n", Group{Name: "g-1", UUID: "5h1j9E-nkta-0anD-ME4d-osH6-kglY-3p3OR9"}},
		"what follows is of the others": {"g {\nphysical_volumes {\npv0 {\n" + id + "tags = [\"x\"]\n", Group{}},
		"no group":                      {"# nothing\n" + id, Group{}},
		"nothing":                       {"", Group{}},
	} {
		if diff := cmp.Diff(c.want, parseGroup([]byte(c.text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseGroup_systemID(t *testing.T) {
	const owner = "6d1f8f3e-0000-4000-8000-000000000014"
	text := "quarry-" + owner + ` {
id = "5h1j9E-nkta-0anD-ME4d-osH6-kglY-3p3OR9"
seqno = 12
format = "lvm2"
status = ["RESIZEABLE", "READ", "WRITE"]
flags = []
tags = ["quarry.storage/iscsi=` + owner + `", "quarry.storage/epoch=3"]
system_id = "quarry-` + owner + `"
extent_size = 8192

physical_volumes {
system_id = "another"
`
	want := Group{
		Name: "quarry-" + owner, UUID: "5h1j9E-nkta-0anD-ME4d-osH6-kglY-3p3OR9", SystemID: "quarry-" + owner,
		Tags: []string{"quarry.storage/epoch=3", "quarry.storage/iscsi=" + owner},
	}
	if diff := cmp.Diff(want, parseGroup([]byte(text))); diff != "" {
		t.Error(diff)
	}
}
