package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// KillAll ends every recorded process and then every other process in the
// lab's network namespace, which is the lab's own: a node's kernel has a host
// process per address space of its guests, and one started just before a crash
// of the lab command has no record.
func (t Table) KillAll(namespaceInode uint64) error {
	records, err := t.All()
	errs := []error{err}
	for _, r := range records {
		errs = append(errs, t.Kill(r.Name))
	}
	if namespaceInode != 0 {
		errs = append(errs, sweep(namespaceInode))
	}
	return errors.Join(errs...)
}

// sweep kills until a whole pass finds nothing, because a process may start
// another between being listed and being killed.
func sweep(inode uint64) error {
	deadline := time.Now().Add(killPatience)
	for {
		left, err := members(inode)
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes are still in the lab's network namespace, the first is pid %d", len(left), left[0].PID)
		}
		for _, r := range left {
			if r.Alive() {
				_ = unix.Kill(r.PID, unix.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// members lists the processes in a network namespace, without this one.
func members(inode uint64) ([]Record, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []Record
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/ns/net", pid), &st) != nil || st.Ino != inode {
			continue
		}
		if start, err := startTime(pid); err == nil {
			found = append(found, Record{Name: "namespace member", PID: pid, Start: start})
		}
	}
	return found, nil
}
