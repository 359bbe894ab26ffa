package block

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// announcePatience is how long udev may take to look at devices again. Whoever announces a change does not depend on it.
const announcePatience = 5 * time.Second

// errIgnored means that udev has not looked at a device although it was asked to.
var errIgnored = errors.New("udev has not looked at the device again in time")

// Mark is a device, and its record in udev's database at one moment.
type Mark struct {
	// number of the device, as the kernel writes it.
	number string
	// version tells the record from those that udev writes later: udev writes a new file each time.
	version string
}

// Mark notes the record of the device behind a path. udev holds a shared lock on the node of a disk from before it probes the disk
// until after it has written the record. So a record that replaces one which was marked under the exclusive lock is made of a look
// that began after the lock was given back. That proves more than an event of udev's would: those are sent in the network namespace of
// the host, which is not the agent's.
func (h *Host) Mark(path string) (Mark, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return Mark{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return Mark{}, fmt.Errorf("%s is not a block device", path)
	}
	m := Mark{number: fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))}
	var err error
	m.version, err = h.version(m.number)
	return m, err
}

// version of a device's record; empty when it has none.
func (h *Host) version(number string) (string, error) {
	if h.withoutUdev {
		return "", nil
	}
	path := h.recordPath(number)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); errors.Is(err, unix.ENOENT) {
		return "", nil
	} else if err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprintf("%d.%d.%d", st.Ino, st.Mtim.Sec, st.Mtim.Nsec), nil
}

// recordPath is where udev keeps what it knows about a device.
func (h *Host) recordPath(number string) string { return filepath.Join(h.udev, "data", "b"+number) }

// Announce makes udev look at the devices again, and waits until its database has what udev saw there, but not for ever. udev sees
// by itself that a device was closed after writing, except while it handles an earlier event of the same device. On a host
// without a running udev nothing happens.
func (h *Host) Announce(ctx context.Context, marks ...Mark) error {
	if len(marks) == 0 || !h.udevRuns() {
		return nil
	}
	changes, err := watchDir(filepath.Join(h.udev, "data"))
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	defer changes.Close()
	var errs []error
	var waiting []Mark
	for _, m := range marks {
		switch err := h.Trigger(m.number); {
		case err == nil:
			waiting = append(waiting, m)
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, announcePatience)
	defer cancel()
	// Closing the file ends the pending read.
	defer context.AfterFunc(ctx, func() { changes.Close() })()
	return errors.Join(append(errs, h.await(ctx, changes, waiting))...)
}

// await returns when all records are other ones than those that were marked.
func (h *Host) await(ctx context.Context, changes *os.File, waiting []Mark) error {
	buf := make([]byte, 4096)
	for {
		var errs []error
		waiting = slices.DeleteFunc(waiting, func(m Mark) bool {
			now, err := h.version(m.number)
			errs = append(errs, err)
			return err == nil && now != m.version
		})
		if err := errors.Join(errs...); err != nil || len(waiting) == 0 {
			return err
		}
		if _, err := changes.Read(buf); err != nil {
			if ctx.Err() != nil {
				err = errIgnored
			}
			return fmt.Errorf("device %s: %w", waiting[0].number, err)
		}
	}
}

// Trigger makes the kernel tell udev of a change of the device with that number, "MAJOR:MINOR". The event carries an identifier,
// which tells it from those of the kernel itself. A device that is gone is fs.ErrNotExist.
func (h *Host) Trigger(number string) error {
	f, err := os.OpenFile(filepath.Join(h.sys, "dev", "block", number, "uevent"), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	defer f.Close()
	_, err = f.WriteString("change " + uuid.NewString())
	if errors.Is(err, unix.ENODEV) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return fmt.Errorf("announce %s: %w", number, err)
	}
	return nil
}

// udevRuns reports whether a udev is there to look at devices: it listens on a socket for as long as it runs.
func (h *Host) udevRuns() bool {
	if h.withoutUdev {
		return false
	}
	_, err := os.Stat(filepath.Join(h.udev, "control"))
	return err == nil
}

// Idle reports whether udev has no event left to handle.
func (h *Host) Idle() bool {
	if h.withoutUdev {
		return true
	}
	_, err := os.Stat(filepath.Join(h.udev, "queue"))
	return errors.Is(err, fs.ErrNotExist)
}
