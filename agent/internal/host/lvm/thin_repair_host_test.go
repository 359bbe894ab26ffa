//go:build hostroot && amd64

package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/lvm/thin"
)

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
			spoil(t, l, g, 0, thin.BlockBytes)
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

// TestHost_repairNeverRemoved: where the first block is gone, the search may find a removed volume of the same number, of which more was written. Then
// nothing is repaired; what is repaired holds what was written into the volume that is there.
func TestHost_repairNeverRemoved(t *testing.T) {
	l, g := poolOnLoop(t)
	ctx := t.Context()
	written(t)
	must(t, l.RemoveLV(ctx, g, "thin", volumeTag), l.CreateLV(ctx, g, NewVolume{Name: "thin", Tags: []string{volumeTag}, Pool: "pool", SizeBytes: 8 << 20}))
	text := bytes.Repeat([]byte("other"), 40_000)
	f, err := os.OpenFile("/dev/"+testGroup+"/thin", os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	_, err = f.Write(text)
	must(t, err, f.Close())
	zeroFirstBlock(t, l, g)
	want := recordedPool
	want.TransactionID, want.Devices = 3, []PoolDevice{{ID: 1, TransactionID: 2}}
	switch err := l.RepairPool(ctx, g, "pool", want); {
	case err == nil:
		works(t, l, g, text)
	case !errors.Is(err, ErrDamaged):
		t.Error(err)
	default:
		t.Logf("refused: %v", err)
	}
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
