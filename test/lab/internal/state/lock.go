package state

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock waits for the right to change the lab and returns the function that
// gives it back. The kernel gives it back too when the process dies.
func (d Dir) Lock() (unlock func(), err error) {
	// The lock lies beside the state directory because Clear empties that.
	return LockFile(d.path + ".lock")
}

// LockFile takes an exclusive lock on a file, creating it when needed.
func LockFile(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
