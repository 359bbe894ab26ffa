package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/network"
)

// KillAll ends every recorded process and then every other process in the
// lab's network namespace, which is the lab's own: a node's kernel has a host
// process per address space of its guests, and one started just before a crash
// of the lab command has no record.
func (t Table) KillAll() error {
	records, err := t.All()
	errs := []error{err}
	for _, r := range records {
		errs = append(errs, t.Kill(r.Name))
	}
	if inode := network.Inode(t.Namespace); inode != 0 {
		errs = append(errs, sweep(inode, anySession))
	}
	return errors.Join(errs...)
}

// anySession makes sweep take the whole namespace.
const anySession = 0

// sweep kills the processes of one session, or of all, in a network namespace.
// It goes on until a whole pass finds nothing, because a process may start
// another between being listed and being killed.
func sweep(inode uint64, session int) error {
	deadline := time.Now().Add(killPatience)
	for {
		left, err := members(inode, session)
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

// members lists the processes of a session in a network namespace, without
// this one.
func members(inode uint64, session int) ([]Record, error) {
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
		if s, err := readStat(pid); err == nil && (session == anySession || s.session == session) {
			found = append(found, Record{Name: "namespace member", PID: pid, Start: s.start})
		}
	}
	return found, nil
}
