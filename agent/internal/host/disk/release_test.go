package disk

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"quarry.storage/quarry/agent/internal/host/disk/format"
)

const (
	rawUUID = "RELEASaaaabbbbccccddddeeeeffffff"
	pvUUID  = "RELEAS-aaaa-bbbb-cccc-dddd-eeee-ffffff"
)

// putPV writes what pvcreate writes: the label in the second sector, one metadata area, and in it a group if wanted.
func putPV(t *testing.T, img string, inGroup bool) {
	t.Helper()
	b := make([]byte, 512)
	le := binary.LittleEndian
	copy(b, "LABELONE\x01")
	le.PutUint32(b[20:], 32)
	copy(b[24:], "LVM2 001")
	copy(b[32:], rawUUID)
	le.PutUint64(b[64:], uint64(testSize))
	le.PutUint64(b[72:], uint64(mib)) // data area, to the end
	le.PutUint64(b[104:], 4096)       // metadata area
	le.PutUint64(b[112:], uint64(mib)-4096)
	put(t, img, 512, string(b))
	area := make([]byte, 512)
	copy(area[4:], " LVM2 x[5A%r0N*>")
	if inGroup {
		le.PutUint64(area[40:], 512)
		le.PutUint64(area[48:], 100)
	}
	put(t, img, 4096, string(area))
	put(t, img, 9000, "metadata of former times")
}

func TestReadLabel(t *testing.T) {
	for _, inGroup := range []bool{true, false} {
		img := newImage(t, testSize)
		putPV(t, img, inGroup)
		got := facts(t, img)
		if got.PVUUID != pvUUID || got.PVInGroup != inGroup || got.ContentDigest != "" || !types(got)[format.LVM] {
			t.Errorf("in a group %v: %+v", inGroup, got)
		}
	}
}

func TestRelease_killedBeforeEveryWrite(t *testing.T) {
	for n := 0; ; n++ {
		img := newImage(t, testSize)
		putPV(t, img, false)
		put(t, img, -512, "EFI PART")
		put(t, img, 2*mib, "\x5e\xf1\xab\x2f")
		err := dying(n).Release(t.Context(), img, pvUUID, accept)
		if err == nil {
			if n < 6 {
				t.Fatalf("only %d writes", n)
			}
			break
		}
		if !errors.Is(err, errDied) {
			t.Fatalf("write %d: %v", n, err)
		}
		if got := facts(t, img); got.PVUUID != pvUUID {
			t.Fatalf("killed before write %d: %+v", n, got)
		}
		if err := New().Release(t.Context(), img, pvUUID, accept); err != nil {
			t.Fatalf("killed before write %d, repeated: %v", n, err)
		}
		if got := facts(t, img); !got.Clean() {
			t.Fatalf("killed before write %d, repeated: %+v", n, got)
		}
	}
}

func TestRelease_writesNothing(t *testing.T) {
	tests := map[string]struct {
		uuid    string
		inGroup bool
		empty   bool
		verify  func(*os.File) error
		want    error
	}{
		"a clean device":              {uuid: pvUUID, empty: true, verify: accept},
		"another physical volume":     {uuid: "BBBBBB-aaaa-bbbb-cccc-dddd-eeee-ffffff", verify: accept, want: ErrNotOurs},
		"no UUID":                     {verify: accept, want: ErrNotOurs},
		"one that belongs to a group": {uuid: pvUUID, inGroup: true, verify: accept, want: ErrBusy},
		"one that was not verified":   {uuid: pvUUID, verify: func(*os.File) error { return errMoved }, want: errMoved},
	}
	for name, tt := range tests {
		img := newImage(t, testSize)
		if !tt.empty {
			putPV(t, img, tt.inGroup)
		}
		if err := dying(0).Release(t.Context(), img, tt.uuid, tt.verify); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	img := newImage(t, testSize)
	put(t, img, 1080, "\x53\xef")
	if err := dying(0).Release(t.Context(), img, pvUUID, accept); !errors.Is(err, ErrNotOurs) {
		t.Errorf("a filesystem: %v", err)
	}
}
