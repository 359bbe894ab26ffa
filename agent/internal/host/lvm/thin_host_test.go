//go:build hostroot && amd64

package lvm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quarry.storage/quarry/agent/internal/host/lvm/thin"
)

// poolOnLoop makes a group on a loop device with a thin pool and a thin volume in it.
func poolOnLoop(t *testing.T) (*LVM, Owned) {
	t.Helper()
	if _, err := os.Stat("/sys/class/misc/device-mapper"); err != nil {
		t.Skip("this kernel has no device-mapper; make conformance runs it on one that has")
	}
	l, _ := realLVM(t)
	ctx, a := t.Context(), loop(t)
	g := Owned{Name: testGroup, Devices: []string{a}, Tag: tag}
	must(t, l.CreatePV(ctx, a, uuidA, testSize), l.CreateVG(ctx, testGroup, []string{tag}, []string{a}),
		l.CreatePool(ctx, g, NewPool{Name: "pool", Tags: []string{volumeTag}, SizeBytes: 32 << 20, MetadataBytes: 4 << 20, ChunkBytes: 64 << 10}),
		l.CreateLV(ctx, g, NewVolume{Name: "thin", Tags: []string{volumeTag}, Pool: "pool", SizeBytes: 8 << 20}))
	t.Cleanup(func() {
		for _, args := range [][]string{{"vgchange", "-an", testGroup}, {"vgremove", "-ff", "-y", testGroup}} {
			_, err := l.run(context.Background(), g.Devices, args[0], args[1:]...)
			must(t, err)
		}
	})
	return l, g
}

// hiddenSize is the size of a hidden volume of the group whose name ends like that; zero when there is none.
func hiddenSize(t *testing.T, l *LVM, g Owned, suffix string) int64 {
	t.Helper()
	res, err := l.run(t.Context(), g.Devices, "lvs", "-a", "--reportformat", "basic", "--noheadings", "--units", "b", "--nosuffix", "-o", "lv_size",
		"-S", `lv_name=~"`+suffix+`$"`, g.Name)
	must(t, err)
	size, _ := strconv.ParseInt(strings.TrimSpace(string(res.Stdout)), 10, 64)
	return size
}

// TestHost_spare: LVM keeps room back for a repair of a pool's metadata, as much as the metadata takes, and makes it grow with that.
func TestHost_spare(t *testing.T) {
	l, g := poolOnLoop(t)
	for _, meta := range []int64{4 << 20, 12 << 20} {
		must(t, l.ExtendLV(t.Context(), g, "pool", 32<<20, meta))
		if spare := hiddenSize(t, l, g, "_pmspare"); spare < meta || reported(t, l, g.Devices[0], "pool").MetadataBytes != meta {
			t.Errorf("%d bytes are kept back for %d bytes of metadata", spare, meta)
		}
	}
}

// TestHost_begunAnew: a pool whose metadata begins with zeroes is begun anew by whoever activates it with LVM alone. Then the kernel has an older
// transaction id than LVM, which reports tell.
func TestHost_begunAnew(t *testing.T) {
	l, g := poolOnLoop(t)
	kernel := func() int64 {
		t.Helper()
		thin := reported(t, l, g.Devices[0], "pool").Thin
		if thin.KernelTransactionID == nil || thin.TransactionID != 1 || thin.ChunkBytes != 64<<10 {
			t.Fatalf("%+v", thin)
		}
		return *thin.KernelTransactionID
	}
	if id := kernel(); id != 1 || reported(t, l, g.Devices[0], "thin").Thin.DeviceID != 1 {
		t.Errorf("before, the kernel has %d", id)
	}
	zeroFirstBlock(t, l, g)
	must(t, l.ActivateLV(t.Context(), g, "pool", volumeTag))
	if id := kernel(); id != 0 {
		t.Errorf("afterwards the kernel has %d", id)
	}
}

// TestHost_emptyMetadata: metadata that is empty, else in order, and of the right transaction passes LVM's check and the kernel's. The agent does not
// activate it, and reports tell it where somebody else did.
func TestHost_emptyMetadata(t *testing.T) {
	l, g := poolOnLoop(t)
	written(t)
	if p := reported(t, l, g.Devices[0], "pool"); p.Damage != "" || p.UsageUnknown || l.looked.whole[p.UUID].IsZero() {
		t.Errorf("at work: %+v", p)
	}
	restoreEmpty(t, l, g)
	const lacks = "its metadata lacks volumes that LVM recorded: 1 of transaction 0"
	if err := l.ActivatePool(t.Context(), g, "pool", volumeTag, true); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), lacks) {
		t.Errorf("activated: %v", err)
	}
	must(t, l.ActivateLV(t.Context(), g, "pool", volumeTag))
	if p := reported(t, l, g.Devices[0], "pool"); !p.Active || p.Damage != lacks || *p.Thin.KernelTransactionID != 1 {
		t.Errorf("activated by LVM alone: %+v", p)
	}
	must(t, l.DeactivateLV(t.Context(), g, "pool", volumeTag))
	if err := l.RepairPool(t.Context(), g, "pool", recordedPool); !errors.Is(err, ErrDamaged) {
		t.Errorf("repaired: %v", err)
	}
}

// restoreEmpty deactivates the group, and writes metadata of the same transaction over that of its pool, without a volume.
func restoreEmpty(t *testing.T, l *LVM, g Owned) {
	t.Helper()
	text, file := filepath.Join(t.TempDir(), "empty.xml"), filepath.Join(t.TempDir(), "empty")
	must(t, os.WriteFile(text, []byte(`<superblock uuid="" time="0" transaction="1" flags="0" version="2" data_block_size="128" nr_data_blocks="512"></superblock>`), 0o600),
		os.WriteFile(file, make([]byte, 4<<20), 0o600))
	if out, err := exec.Command("thin_restore", "-i", text, "-o", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(file)
	must(t, err)
	overwrite(t, l, g, 0, content)
}

// zeroFirstBlock deactivates the group and spoils the first block of its pool's metadata.
func zeroFirstBlock(t *testing.T, l *LVM, g Owned) { t.Helper(); spoil(t, l, g, 0, thin.BlockBytes) }

// metadataAt is where the metadata of the pool begins, which lies in one piece.
func metadataAt(t *testing.T, l *LVM, g Owned) (device string, at int64) {
	t.Helper()
	pieces, err := l.metadataPieces(t.Context(), g.Devices, `vg_name="`+g.Name+`"`, "pool")
	must(t, err)
	return pieces[0].Device, pieces[0].At
}

// spoil deactivates the group and writes zeroes over a part of its pool's metadata.
func spoil(t *testing.T, l *LVM, g Owned, from, bytes int64) {
	t.Helper()
	overwrite(t, l, g, from, make([]byte, bytes))
}

func overwrite(t *testing.T, l *LVM, g Owned, from int64, content []byte) {
	t.Helper()
	_, err := l.run(t.Context(), g.Devices, "vgchange", "-an", g.Name)
	must(t, err)
	device, at := metadataAt(t, l, g)
	f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(content, at+from)
	must(t, err)
}

// spoilSpaceMap spoils one bitmap of the space maps after the other until LVM finds the metadata damaged: others than those that count may be left
// there. A bitmap has a zero where a node of a btree has its flags, and then the number of the block.
func spoilSpaceMap(t *testing.T, l *LVM, g Owned) {
	t.Helper()
	spoil(t, l, g, 0, 0) // What the kernel has not written yet, it writes now.
	device, at := metadataAt(t, l, g)
	for block := int64(1); block < 64; block++ {
		content, err := thin.Block([]thin.Piece{{Device: device, At: at, Bytes: 4 << 20}}, block)
		must(t, err)
		if binary.LittleEndian.Uint32(content[4:]) != 0 || binary.LittleEndian.Uint64(content[8:]) != uint64(block) {
			continue
		}
		spoil(t, l, g, block*thin.BlockBytes, 4) // its checksum
		if err = l.ActivateLV(t.Context(), g, "pool", volumeTag); errors.Is(err, ErrDamaged) {
			return
		}
		must(t, err)
	}
	t.Fatal("no bitmap is in use")
}

// written fills the thin volume, and returns what it wrote.
func written(t *testing.T) []byte {
	t.Helper()
	text := bytes.Repeat([]byte("what a user wrote, "), 100_000)
	f, err := os.OpenFile("/dev/"+testGroup+"/thin", os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	defer f.Close()
	_, err = f.Write(text)
	must(t, err)
	return text
}

// works wants the pool of the group to be activated, and its volume to hold a text.
func works(t *testing.T, l *LVM, g Owned, text []byte) {
	t.Helper()
	must(t, l.ActivatePool(t.Context(), g, "pool", volumeTag, true), l.ActivateLV(t.Context(), g, "thin", volumeTag))
	f, err := os.Open("/dev/" + testGroup + "/thin")
	must(t, err)
	defer f.Close()
	got := make([]byte, len(text))
	if _, err := io.ReadFull(f, got); err != nil || !bytes.Equal(got, text) {
		t.Errorf("the volume does not hold what was written: %v", err)
	}
}
