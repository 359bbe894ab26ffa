//go:build hostroot && amd64

package lvm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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

// zeroFirstBlock deactivates the group and spoils the first block of its pool's metadata.
func zeroFirstBlock(t *testing.T, l *LVM, g Owned) { t.Helper(); spoil(t, l, g, 0, metadataBlock) }

// spoil deactivates the group and writes zeroes over a part of its pool's metadata.
func spoil(t *testing.T, l *LVM, g Owned, from, bytes int64) {
	t.Helper()
	_, err := l.run(t.Context(), g.Devices, "vgchange", "-an", g.Name)
	must(t, err)
	device, at, err := l.metadataAt(t.Context(), g, "pool")
	must(t, err)
	f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, bytes), at+from)
	must(t, err)
}

// spoilSpaceMap spoils one bitmap of the space maps after the other until LVM finds the metadata damaged: others than those that count may be left
// there. A bitmap has a zero where a node of a btree has its flags, and then the number of the block.
func spoilSpaceMap(t *testing.T, l *LVM, g Owned) {
	t.Helper()
	spoil(t, l, g, 0, 0) // What the kernel has not written yet, it writes now.
	device, at, err := l.metadataAt(t.Context(), g, "pool")
	must(t, err)
	for block := int64(1); block < 64; block++ {
		content, err := readBlock(device, at+block*metadataBlock)
		must(t, err)
		if binary.LittleEndian.Uint32(content[4:]) != 0 || binary.LittleEndian.Uint64(content[8:]) != uint64(block) {
			continue
		}
		spoil(t, l, g, block*metadataBlock, 4) // its checksum
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

var recordedPool = PoolMetadata{TransactionID: 1, SizeBytes: 32 << 20, ChunkBytes: 64 << 10, Devices: []PoolDevice{{ID: 1}}}

// TestHost_repair: what is damaged comes back, also in a group that is full otherwise, and the old metadata is kept. A second repair needs room:
// the first one used up what is kept back.
func TestHost_repair(t *testing.T) {
	for name, damage := range map[string]func(*testing.T, *LVM, Owned){"the first block": zeroFirstBlock, "a block of the space maps": spoilSpaceMap} {
		t.Run(name, func(t *testing.T) {
			l, g := poolOnLoop(t)
			ctx, text := t.Context(), written(t)
			vgs, _, err := l.Report(ctx, g.Devices)
			must(t, err, l.CreateLV(ctx, g, NewVolume{Name: "fill", Tags: []string{volumeTag}, SizeBytes: vgs[0].FreeBytes}))
			damage(t, l, g)
			if err := l.ActivatePool(ctx, g, "pool", volumeTag, true); !errors.Is(err, ErrDamaged) || reported(t, l, g.Devices[0], "pool").Damage == "" {
				t.Fatalf("the pool is not damaged: %v", err)
			}
			must(t, l.RepairPool(ctx, g, "pool", recordedPool))
			if p := reported(t, l, g.Devices[0], "pool"); p.Damage != "" || p.Active {
				t.Errorf("after the repair: %+v", p)
			}
			works(t, l, g, text)
			if kept := reported(t, l, g.Devices[0], "pool_meta0"); kept.SizeBytes != 4<<20 || kept.Pool != "" || kept.ThinPool {
				t.Errorf("kept: %+v", kept)
			}
			spoil(t, l, g, 0, metadataBlock)
			if err := l.RepairPool(ctx, g, "pool", recordedPool); !errors.Is(err, ErrNoSpace) {
				t.Errorf("a second repair without room: %v", err)
			}
			_, err = l.run(ctx, g.Devices, "lvremove", "-y", testGroup+"/pool_meta0")
			must(t, err, l.RepairPool(ctx, g, "pool", recordedPool))
			works(t, l, g, text)
		})
	}
}

// TestHost_repairFindsTooLittle: a repair that finds another transaction, or other volumes, than LVM recorded changes nothing.
func TestHost_repairFindsTooLittle(t *testing.T) {
	l, g := poolOnLoop(t)
	ctx, text := t.Context(), written(t)
	zeroFirstBlock(t, l, g)
	more := recordedPool
	more.Devices = []PoolDevice{{ID: 1}, {ID: 2}}
	if err := l.RepairPool(ctx, g, "pool", more); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `found "t1 1:0 " (transaction, volumes), not "t1 1:0 2:0 "`) {
		t.Errorf("one of two volumes: %v", err)
	}
	must(t, l.RepairPool(ctx, g, "pool", recordedPool))
	works(t, l, g, text)
	spoil(t, l, g, 0, 2<<20)
	if err := l.RepairPool(ctx, g, "pool", recordedPool); !errors.Is(err, ErrDamaged) || hiddenSize(t, l, g, "_meta1") != 0 {
		t.Errorf("nothing is left: %v", err)
	}
	if held, err := filepath.Glob("/dev/mapper/" + mapped(testGroup) + "-*"); err != nil || len(held) > 0 {
		t.Errorf("left behind: %v, %v", held, err)
	}
}

// TestHost_repairReusedNumber: LVM gives the number of a removed volume to the next one, and records the transaction in which the kernel made it. The
// metadata of a pool comes back only with the volume of that transaction.
func TestHost_repairReusedNumber(t *testing.T) {
	l, g := poolOnLoop(t)
	ctx := t.Context()
	must(t, l.RemoveLV(ctx, g, "thin", volumeTag), l.CreateLV(ctx, g, NewVolume{Name: "thin", Tags: []string{volumeTag}, Pool: "pool", SizeBytes: 8 << 20}))
	text, thin, pool := written(t), reported(t, l, g.Devices[0], "thin").Thin, reported(t, l, g.Devices[0], "pool").Thin
	if thin.DeviceID != 1 || thin.TransactionID != 2 || pool.TransactionID != 3 {
		t.Fatalf("LVM recorded %+v in %+v", thin, pool)
	}
	spoilSpaceMap(t, l, g)
	earlier, now := recordedPool, recordedPool
	earlier.TransactionID, now.TransactionID, now.Devices = 3, 3, []PoolDevice{{ID: 1, TransactionID: 2}}
	if err := l.RepairPool(ctx, g, "pool", earlier); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), `found "t3 1:2 " (transaction, volumes), not "t3 1:0 "`) {
		t.Errorf("a volume of another transaction: %v", err)
	}
	must(t, l.RepairPool(ctx, g, "pool", now))
	works(t, l, g, text)
}

// TestHost_repairKilled: a repair that was killed and is repeated ends as one that was not. Until then the pool is not activated.
func TestHost_repairKilled(t *testing.T) {
	kills := map[string]func(t *testing.T, l LVM, g Owned) error{"while it repairs": func(t *testing.T, l LVM, g Owned) error {
		l.dir = t.TempDir()
		must(t, os.WriteFile(repairScript(l.dir), []byte("sleep 60"), 0o600))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return l.RepairPool(ctx, g, "pool", recordedPool)
	}}
	for pass := range 3 {
		kills[fmt.Sprintf("at device %d", pass)] = func(t *testing.T, l LVM, g Owned) error {
			l.runner = killing{after: true, pass: pass}
			_ = l.RepairPool(t.Context(), g, "pool", recordedPool)
			return errors.New("killed")
		}
	}
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			l, g := poolOnLoop(t)
			text := written(t)
			zeroFirstBlock(t, l, g)
			if err := kill(t, *l, g); err == nil {
				t.Fatal("it was not killed")
			}
			if reported(t, l, g.Devices[0], "pool").Active {
				t.Error("the pool is active")
			}
			if name == "while it repairs" {
				if err := l.ActivateLV(t.Context(), g, "pool", volumeTag); !errors.Is(err, ErrDamaged) {
					t.Errorf("activated beside the metadata: %v", err)
				}
			}
			if hiddenSize(t, l, g, "pool_meta0") == 0 {
				must(t, l.RepairPool(t.Context(), g, "pool", recordedPool))
			}
			works(t, l, g, text)
		})
	}
}
