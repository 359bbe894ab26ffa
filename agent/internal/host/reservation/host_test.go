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
	if err != nil || !slices.Equal(r.Keys, []uint64{0x71}) || r.Type != sharedlun.WriteExclusiveRegistrantsOnly {
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
