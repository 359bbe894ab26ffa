package debian

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFiles are the locks that apt-get takes: those of dpkg, of the package
// lists and of the downloaded packages.
var lockFiles = []string{
	"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock",
}

// holder is a process that holds a lock file.
type holder struct {
	path string
	// pid is not positive where the kernel does not name the process: it lives
	// in another process namespace, say.
	pid int
}

// String names the process by its number and its program, and the lock.
func (h holder) String() string {
	if h.pid <= 0 {
		return "another program, which holds " + h.path
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", h.pid))
	if err != nil {
		name = []byte("it has just ended")
	}
	return fmt.Sprintf("process %d (%s), which holds %s", h.pid, strings.TrimSpace(string(name)), h.path)
}

// findHolder reports which process holds one of the lock files, and whether
// there is one. It takes no lock itself.
func findHolder(paths []string) (holder, bool, error) {
	for _, path := range paths {
		pid, held, err := lockOwner(path)
		if err != nil {
			return holder{}, false, err
		}
		if held {
			return holder{path: path, pid: pid}, true, nil
		}
	}
	return holder{}, false, nil
}

func lockOwner(path string) (pid int, held bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	// The kernel answers which lock would be in the way of this one.
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil {
		return 0, false, fmt.Errorf("look at the lock %s: %w", path, err)
	}
	return int(lock.Pid), lock.Type != unix.F_UNLCK, nil
}
