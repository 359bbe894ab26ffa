package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
)

// checkPasses is how many passes a whole check of an ext4 has.
const checkPasses = 5

// Check makes a filesystem that was not unmounted cleanly consistent, as far as that needs no decision. Only ext4 has a program for it: the
// others do it while they are mounted. tell gets how far it is, from another goroutine; a check of a big filesystem takes hours. ErrBusy says
// that something has the device for itself, such as a check that an earlier agent began: the kernel lets no two have it, and nobody mount it
// meanwhile.
func (t *Tool) Check(ctx context.Context, device, fsType string, tell func(string)) error {
	if fsType != Ext4 {
		return nil
	}
	if err := idle(device); err != nil {
		return err
	}
	_, err := t.runner.Run(ctx, run.Command{
		Path: "/usr/sbin/e2fsck", Args: []string{"-p", "-C", "1", device}, Stdout: &progress{tell: tell},
	})
	var exit *run.Error
	if !errors.As(err, &exit) {
		return err
	}
	const corrected, uncorrected = 0x3, 0x4
	switch {
	case exit.ExitCode&^corrected == 0:
		return nil
	case exit.ExitCode&uncorrected != 0:
		return fmt.Errorf("check: %w: %w", ErrDamaged, err)
	}
	if busy := idle(device); busy != nil {
		return busy
	}
	return fmt.Errorf("check: %w", err)
}

// idle is an error when something has the device for itself.
func idle(device string) error {
	fd, err := unix.Open(device, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("check %s: %w: a check that began earlier may not have ended yet", device, ErrBusy)
	}
	if err != nil {
		return fmt.Errorf("check: %w", &os.PathError{Op: "open", Path: device, Err: err})
	}
	return unix.Close(fd)
}

// progress reads what e2fsck says of how far it is: the pass, and how much of how much of it is done.
type progress struct {
	tell func(string)
	rest []byte
}

// Write never fails. Lines that are no progress are passed over.
func (p *progress) Write(b []byte) (int, error) {
	const longest = 4 << 10
	p.rest = append(p.rest, b...)
	for {
		line, rest, whole := bytes.Cut(p.rest, []byte("\n"))
		if !whole {
			break
		}
		p.rest = rest
		var pass, done, all uint64
		if n, _ := fmt.Sscanf(string(line), "%d %d %d", &pass, &done, &all); n == 3 && all > 0 && p.tell != nil {
			p.tell(fmt.Sprintf("pass %d of %d, %d %%", pass, checkPasses, 100*min(done, all)/all))
		}
	}
	if len(p.rest) > longest {
		p.rest = nil
	}
	return len(b), nil
}
