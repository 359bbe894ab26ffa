//go:build hostroot && amd64

package lvm

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
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
func zeroFirstBlock(t *testing.T, l *LVM, g Owned) {
	t.Helper()
	_, err := l.run(t.Context(), g.Devices, "vgchange", "-an", g.Name)
	must(t, err)
	device, at, err := l.metadataAt(t.Context(), g, "pool")
	must(t, err)
	f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, metadataBlock), at)
	must(t, err)
}
