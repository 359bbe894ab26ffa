//go:build hostroot

package reservation

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

// TestHost goes through the life of a reservation on a target of the kernel, with two initiators of two paths each.
func TestHost(t *testing.T) {
	target := lio.New(t, "iqn.2026-01.storage.quarry.lab:reservation")
	lio.Iface(t, "quarry-a")
	lio.Iface(t, "quarry-b")
	a, b := target.Login("quarry-a"), target.Login("quarry-b")
	journey(t, New(), a, b, writeTo)
}

// TestHost_conversion begins with a reservation that an earlier version left on a target of the kernel.
func TestHost_conversion(t *testing.T) {
	target := lio.New(t, "iqn.2026-01.storage.quarry.lab:conversion")
	lio.Iface(t, "quarry-a")
	lio.Iface(t, "quarry-b")
	a, b := target.Login("quarry-a"), target.Login("quarry-b")
	conversion(t, New(), a, b, func(device string, key uint64) { lio.Reserve(t, device, key, sharedlun.WriteExclusiveRegistrantsOnly) })
}

// TestHost_none: a target that keeps no reservations says so, and one that gets them back has them.
func TestHost_none(t *testing.T) {
	target := lio.New(t, "iqn.2026-01.storage.quarry.lab:none")
	lio.Iface(t, "quarry-a")
	a := target.Login("quarry-a")
	target.Reservations(false)
	if r, err := New().Read(t.Context(), a[0]); err != nil || r.Supported {
		t.Errorf("%+v, %v", r, err)
	}
	want(t, New().Register(t.Context(), a[0], 0x71, 0), sharedlun.ErrNoReservations)
	target.Reservations(true)
	must(t, New().Register(t.Context(), a[0], 0x71, 0))
}

// TestHost_without asks a disk that is no SCSI device.
func TestHost_without(t *testing.T) {
	if _, err := New().Read(t.Context(), "/dev/ubdb"); !errors.Is(err, ErrPath) {
		t.Errorf("%v", err)
	}
	if _, err := New().Read(t.Context(), "/dev/nothing"); !errors.Is(err, ErrPath) {
		t.Errorf("%v", err)
	}
}

// TestHost_kept: a target that was stopped keeps the keys, as it was asked to.
func TestHost_kept(t *testing.T) {
	target := lio.New(t, "iqn.2026-01.storage.quarry.lab:kept")
	lio.Iface(t, "quarry-a")
	a := target.Login("quarry-a")
	tool := New()
	must(t, tool.Register(t.Context(), a[0], 0x71, 0))
	must(t, tool.Reserve(t.Context(), a[0], 0x71))
	target.Stop()
	target.Start()
	r, err := tool.Read(t.Context(), a[0])
	if err != nil || !slices.Equal(r.Keys, []uint64{0x71}) || r.Type != allHold {
		t.Errorf("%+v, %v", r, err)
	}
}

func writeTo(device string) error {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	// Written through the page cache, every failure is EIO.
	fd, err := unix.Open(device, unix.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, page)
	return errors.Join(err, unix.Munmap(page))
}
