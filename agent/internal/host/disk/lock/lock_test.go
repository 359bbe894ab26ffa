package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// image makes a file that stands for a device.
func image(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// other locks the device as another program does.
func other(t *testing.T, path string, how int) (release func()) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

// free reports whether another program gets the lock now.
func free(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err == nil
}

func exclusive(t *testing.T, table *Table, path string) bool {
	t.Helper()
	ok, err := table.Exclusive(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

func TestReserve_keepsExclusiveTestsAway(t *testing.T) {
	path, table := image(t), New()
	if !exclusive(t, table, path) {
		t.Error("not exclusive without a reservation")
	}
	first, err := table.Reserve(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := table.Reserve(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	first()
	first()
	if exclusive(t, table, path) {
		t.Error("exclusive while reserved")
	}
	second()
	if !exclusive(t, table, path) {
		t.Error("not exclusive after the reservation")
	}
	if _, err := table.Reserve(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// TestOpenExclusive: no other test of this process, and no work, falls into the time in which a device is open.
func TestOpenExclusive(t *testing.T) {
	path, table := image(t), New()
	release, err := table.Reserve(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := table.OpenExclusive(t.Context(), path); !errors.Is(err, ErrBusy) {
		t.Errorf("a device that this process works on: %v", err)
	}
	release()
	f, closes, err := table.OpenExclusive(t.Context(), path)
	if err != nil || f.Name() != path {
		t.Fatal(err)
	}
	work := make(chan error, 1)
	go func() {
		release, err := table.Reserve(t.Context(), path)
		if err == nil {
			release()
		}
		work <- err
	}()
	select {
	case err := <-work:
		t.Fatalf("work began while the device was open: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := closes(); err != nil {
		t.Fatal(err)
	}
	if err := <-work; err != nil || !exclusive(t, table, path) {
		t.Errorf("after it was closed: %v", err)
	}
	if _, _, err := table.OpenExclusive(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
}

func TestExclusive_respectsTheLockOfOthers(t *testing.T) {
	path, table := image(t), New()
	release := other(t, path, unix.LOCK_EX)
	if exclusive(t, table, path) {
		t.Error("exclusive while another program has the lock")
	}
	release()
	defer other(t, path, unix.LOCK_SH)()
	if !exclusive(t, table, path) {
		t.Error("udev's own probing makes a device look used")
	}
	if _, err := table.Exclusive(t.Context(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
}

func TestLock_keepsOthersAway(t *testing.T) {
	a, b, table := image(t), image(t), New()
	release, err := table.Lock(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := table.Lock(t.Context(), a)
	if err != nil {
		t.Fatalf("by the same process: %v", err)
	}
	if free(t, a) || free(t, b) || exclusive(t, table, a) {
		t.Error("a locked device is free to others")
	}
	again()
	again()
	if free(t, a) {
		t.Error("free while the first still works on it")
	}
	release()
	release()
	if !free(t, a) || !free(t, b) || !exclusive(t, table, a) {
		t.Error("still locked after the release")
	}
}

func TestLock_waitsForOthers(t *testing.T) {
	path, table := image(t), New()
	theirs := other(t, path, unix.LOCK_SH)
	time.AfterFunc(50*time.Millisecond, theirs)
	release, err := table.Lock(t.Context(), path)
	if err != nil {
		t.Fatalf("after udev has probed the device: %v", err)
	}
	release()
}

func TestLock_failsWhole(t *testing.T) {
	a, b, table := image(t), image(t), New()
	defer other(t, b, unix.LOCK_EX)()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := table.Lock(ctx, a, b); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while another program has one: %v", err)
	}
	if !free(t, a) || !exclusive(t, table, a) {
		t.Error("a call that failed keeps a lock")
	}
	if _, err := table.Lock(t.Context(), a, filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a device that is not there: %v", err)
	}
}

// TestReserve_waitsNoLongerThanItMay: a read through an exclusive open may hang for ever. Whoever waits for its end waits no longer than it was told to, and is in nobody's way then.
func TestReserve_waitsNoLongerThanItMay(t *testing.T) {
	path, table := image(t), New()
	_, closes, err := table.OpenExclusive(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := table.Reserve(short, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("work: %v", err)
	}
	if _, _, err := table.OpenExclusive(short, path); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrBusy) {
		t.Errorf("another test: %v", err)
	}
	if err := closes(); err != nil {
		t.Fatal(err)
	}
	if !exclusive(t, table, path) {
		t.Error("work that never began is in the way of tests")
	}
}
