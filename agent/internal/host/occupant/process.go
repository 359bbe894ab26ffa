package occupant

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that has disks open.
type process struct {
	pid   string
	disks []Device
}

// processes finds the device nodes that any process sees mounted, and the processes that have a disk open for longer than a moment. This
// process, and those that it started, do not count.
func (s *search) processes(ctx context.Context) {
	pids, err := s.pids()
	if err != nil {
		s.fail(fmt.Errorf("processes: %w", err))
		return
	}
	m := &mounts{read: map[string]bool{}, nodes: map[int]bool{}}
	for _, pid := range pids {
		if ctx.Err() != nil {
			return
		}
		s.mounted(m, pid)
	}
	var users []process
	for _, pid := range pids {
		if ctx.Err() != nil {
			return
		}
		if disks := s.open(m, pid); len(disks) > 0 && !s.own(pid) {
			users = append(users, process{pid, disks})
		}
	}
	if len(users) == 0 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(s.pause):
	}
	for _, u := range users {
		for _, d := range s.open(m, u.pid) {
			if slices.Contains(u.disks, d) {
				s.use(d, "process "+s.name(u.pid))
			}
		}
	}
}

// pids are the numbers of all processes, ordered.
func (s *search) pids() ([]string, error) {
	entries, err := os.ReadDir(s.proc)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return nil, fmt.Errorf("%s shows none", s.proc)
	}
	text := make([]string, 0, len(out))
	for _, n := range out {
		text = append(text, strconv.Itoa(n))
	}
	return text, nil
}

// place is the directory of a process below /proc that tells what it has: its own, or that of another thread when the first one has ended and
// the others go on.
func (s *search) place(pid string) string {
	own := filepath.Join(s.proc, pid)
	if _, err := os.Readlink(filepath.Join(own, "root")); !errors.Is(err, fs.ErrNotExist) {
		return own
	}
	threads, err := os.ReadDir(filepath.Join(own, "task"))
	if err != nil {
		return own
	}
	for _, t := range threads {
		dir := filepath.Join(own, "task", t.Name())
		if _, err := os.Readlink(filepath.Join(dir, "root")); err == nil {
			return dir
		}
	}
	return own
}

// open are the targets that a process has open.
func (s *search) open(m *mounts, pid string) []Device {
	dir := s.place(pid)
	f, err := os.Open(filepath.Join(dir, "fd"))
	if err != nil {
		s.failOf(pid, fmt.Errorf("process %s: %w", pid, err))
		return nil
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		s.failOf(pid, fmt.Errorf("process %s: %w", pid, err))
	}
	var out []Device
	for _, name := range names {
		d, ok, err := s.descriptor(m, dir, name)
		if err != nil {
			s.failOf(pid, fmt.Errorf("process %s: descriptor %s: %w", pid, name, err))
			continue
		}
		if _, wanted := s.targets[d]; ok && wanted {
			out = append(out, d)
		}
	}
	return out
}

// descriptor is the block device behind a descriptor of a process; false where there is none. The link is followed only when a device node
// can be at its end.
func (s *search) descriptor(m *mounts, dir, name string) (Device, bool, error) {
	link := filepath.Join(dir, "fd", name)
	target, err := os.Readlink(link)
	if err != nil || !strings.HasPrefix(target, "/") {
		// Sockets, pipes and the like have no path.
		return Device{}, false, err
	}
	flags, mount, err := info(filepath.Join(dir, "fdinfo", name))
	if err != nil {
		return Device{}, false, err
	}
	nodes, known := m.nodes[mount]
	if !known {
		nodes = s.named(target)
	}
	if flags&unix.O_PATH != 0 || !nodes {
		return Device{}, false, nil
	}
	s.at.Store(fmt.Sprintf("%s, which is open as %s,", target, link))
	return s.number(link, true)
}

// named reports whether a path is called like a block device. It decides for files on mounts that no process sees any more: such a
// mount may be that of a server that was given up on.
func (s *search) named(target string) bool {
	target = strings.TrimSuffix(target, " (deleted)")
	if strings.HasPrefix(target, "/dev/") {
		return true
	}
	_, err := os.Lstat(filepath.Join(s.sys, "class", "block", filepath.Base(target)))
	return !errors.Is(err, fs.ErrNotExist)
}

// info reads the flags of an open file, and the number of the mount that it is on.
func info(path string) (flags, mount int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, err
	}
	seen := 0
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		n, base := 0, 10
		switch key {
		case "flags":
			base = 8
		case "mnt_id":
		default:
			continue
		}
		parsed, err := strconv.ParseInt(strings.TrimSpace(value), base, 0)
		if err != nil {
			return 0, 0, fmt.Errorf("%s of an open file: %w", key, err)
		}
		if n = int(parsed); key == "flags" {
			flags = n
		} else {
			mount = n
		}
		seen++
	}
	if seen != 2 {
		return 0, 0, fmt.Errorf("the kernel does not tell flags and mount of an open file: %q", text)
	}
	return flags, mount, nil
}

// own reports whether a process is this one, or was started by it.
func (s *search) own(pid string) bool {
	self, err := os.Readlink(filepath.Join(s.proc, "self"))
	if err != nil {
		return false
	}
	for range 100 {
		switch pid {
		case self:
			return true
		case "", "0", "1":
			return false
		}
		pid = s.parent(pid)
	}
	return false
}

// parent is the process that started another one; empty when that is gone.
func (s *search) parent(pid string) string {
	text, err := os.ReadFile(filepath.Join(s.proc, pid, "stat"))
	if err != nil {
		return ""
	}
	// The second field is the name in brackets, which may hold anything.
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	if len(fields) < 2 {
		return ""
	}
	return fields[1]
}

// name is a process as a person knows it.
func (s *search) name(pid string) string {
	text, err := os.ReadFile(filepath.Join(s.proc, pid, "comm"))
	if err != nil {
		return pid
	}
	return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(text)), pid)
}
