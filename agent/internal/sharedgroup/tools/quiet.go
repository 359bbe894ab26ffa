package tools

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/pkg/sharedlun"
)

// lookAgain is how often it is looked whether a command is gone; looks is how many times in a row it has to be.
const (
	lookAgain = 100 * time.Millisecond
	looks     = 2
)

// Quiet returns when no LVM command that names an owner runs on this node. One whose agent was killed may hang in the kernel, and write later: as long as it
// can, the kernel shows it with its arguments. Between its fork and its exec it shows those of the agent, and a process with a low number may begin
// while the others are read: so one look that finds nothing is not enough. After the second one a command that began before the first has its arguments.
func (g Groups) Quiet(ctx context.Context, ownerUID string) error {
	for clean := 0; ; {
		pid, err := g.command(ownerUID)
		if err != nil {
			return err
		}
		if clean++; pid != "" {
			clean = 0
		}
		if clean == looks {
			return nil
		}
		select {
		case <-ctx.Done():
			if pid == "" {
				return fmt.Errorf("%w: looking for commands of an agent of before: %w", sharedlun.ErrBusy, ctx.Err())
			}
			return fmt.Errorf("%w: an LVM command of an agent of before (process %s) still works on the group: %w", sharedlun.ErrBusy, pid, ctx.Err())
		case <-time.After(lookAgain):
		}
	}
}

// command returns the process of an LVM command that names an owner; empty when there is none.
func (g Groups) command(ownerUID string) (pid string, err error) {
	proc := cmp.Or(g.Proc, "/proc")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return "", fmt.Errorf("processes of the host: %w", err)
	}
	mark := []byte(sharedlun.SystemID(ownerUID))
	for _, e := range entries {
		if name := e.Name(); name[0] < '0' || name[0] > '9' {
			continue
		}
		line, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			// It ended between the listing and the reading.
			continue
		}
		if err != nil {
			return "", fmt.Errorf("process %s: %w", e.Name(), err)
		}
		program, _, _ := bytes.Cut(line, []byte{0})
		if filepath.Base(string(program)) == filepath.Base(lvm.DefaultBinary) && bytes.Contains(line, mark) {
			return e.Name(), nil
		}
	}
	return "", nil
}
