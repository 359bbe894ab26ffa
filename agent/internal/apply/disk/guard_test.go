package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/block"
	hostdisk "quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/plan"
)

// udev notes whether others could have had the device at the moment of each call.
type udev struct {
	t    *testing.T
	free []bool
}

func (u *udev) Mark(path string) (block.Mark, error) {
	u.free = append(u.free, lockable(u.t, path))
	return block.Mark{}, nil
}

func (u *udev) Announce(_ context.Context, marks ...block.Mark) error {
	u.free = append(u.free, len(marks) == 1)
	return errors.New("udev is slow")
}

// lockable reports whether another program gets the lock on a device.
func lockable(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil
}

// wiping is a plan that touches one device, and changes it.
func wiping(path string) plan.Plan {
	return plan.Plan{Steps: []plan.Step{plan.RemoveVG{GroupDevices: []string{path}}}}
}

func TestHold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	u := &udev{t: t}
	h := Adapter{Tool: hostdisk.New(), Udev: u}
	release, err := h.Hold(t.Context(), wiping(path))
	if err != nil {
		t.Fatal(err)
	}
	if lockable(t, path) {
		t.Error("another program gets the lock of a device that is held")
	}
	release(t.Context())
	if !lockable(t, path) {
		t.Error("still locked after the release")
	}
	// The record is marked under the lock, and udev looks after it.
	if want := []bool{false, true}; !slices.Equal(u.free, want) {
		t.Errorf("others had the device: %v, want %v", u.free, want)
	}

	u.free = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if release, err = h.Hold(t.Context(), wiping(path)); err != nil {
		t.Fatal(err)
	}
	release(ctx)
	if len(u.free) != 1 || !lockable(t, path) {
		t.Errorf("an agent that dies told udev: %v", u.free)
	}

	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Hold(t.Context(), wiping(path)); !errors.Is(err, plan.ErrRefused) {
		t.Errorf("another program has the lock: %v", err)
	}
}
