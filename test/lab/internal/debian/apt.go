package debian

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

const (
	// lockPatience is how long apt's locks may be held by others: an upgrade
	// of the whole machine fits in.
	lockPatience = 10 * time.Minute
	// lockPoll is the time between two looks at the locks.
	lockPoll = 500 * time.Millisecond
	// lockReminder is the time between two lines about the same holder.
	lockReminder = 15 * time.Second
)

// apt runs apt-get when nobody else holds its locks.
type apt struct {
	locks    []string
	patience time.Duration
	// say tells a person what is waited for.
	say func(format string, args ...any)
	// run runs apt-get once and writes what it prints.
	run func(ctx context.Context, out io.Writer, args ...string) error
}

// get runs apt-get. The program itself waits for dpkg's lock only, and without
// a word, so this function waits for all locks first. Another program may take
// a lock in between: then it waits again.
func (a apt) get(ctx context.Context, log io.Writer, args ...string) error {
	deadline := time.Now().Add(a.patience)
	for {
		if err := a.waitForLocks(ctx, deadline); err != nil {
			return err
		}
		var out bytes.Buffer
		err := a.run(ctx, io.MultiWriter(log, &out), args...)
		if err == nil || !lockWasTaken(out.Bytes()) {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("another program took apt's lock again and again for %s: %w", a.patience, err)
		}
		if err := pause(ctx, lockPoll); err != nil {
			return err
		}
	}
}

// waitForLocks waits until nobody holds apt's locks, and says for whom.
func (a apt) waitForLocks(ctx context.Context, deadline time.Time) error {
	var told holder
	var toldAt time.Time
	for {
		h, held, err := findHolder(a.locks)
		if err != nil || !held {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("apt is still locked after %s by %s: run this again when it has finished", a.patience, h)
		}
		if h != told || time.Since(toldAt) >= lockReminder {
			a.say("waiting for %s (for %s more at most)", h, time.Until(deadline).Round(time.Second))
			told, toldAt = h, time.Now()
		}
		if err := pause(ctx, lockPoll); err != nil {
			return err
		}
	}
}

// lockWasTaken reports whether apt-get or dpkg gave up because another program
// held a lock.
func lockWasTaken(output []byte) bool {
	for _, text := range []string{"Could not get lock", "was locked by another process", "is locked by another process"} {
		if bytes.Contains(output, []byte(text)) {
			return true
		}
	}
	return false
}

// runAptGet runs the real program. Its messages are read by lockWasTaken, so
// they have to be in English.
func runAptGet(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
