package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"quarry.storage/quarry/test/bench/internal/measure"
)

// stopTimeout is how long a server may take to end by itself.
const stopTimeout = 10 * time.Second

// process is a server under test.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{}
}

// start runs a program, with its output in a file.
func start(log string, env []string, argv ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), log: log, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Env = append([]string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}, env...)
	p.cmd.Dir = "/"
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	go func() {
		p.cmd.Wait() //nolint:errcheck // why it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// alive is the context until the process ends, at most for the timeout.
func (p *process) alive(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	go func() {
		defer cancel()
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// stop ends the process.
func (p *process) stop() {
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.signal(syscall.SIGKILL)
		<-p.done
	}
}

// signal fails only when the process has ended, which the next call of it shows.
func (p *process) signal(s syscall.Signal) {
	p.cmd.Process.Signal(s) //nolint:errcheck // see above
}

// wake lets the process go on; rest halts it, so that it takes nothing from the others.
func (p *process) wake() { p.signal(syscall.SIGCONT) }
func (p *process) rest() { p.signal(syscall.SIGSTOP) }

// said is the end of what the process wrote, for an error.
func (p *process) said() string {
	const most = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// used is the processor time of the process and of its children that ended, in ticks of the kernel.
func (p *process) used() (int, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name of the program, in parentheses, may hold spaces. After it utime, stime, cutime and cstime are fields 11 to 14.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, fmt.Errorf("process %d: %d fields in stat", p.cmd.Process.Pid, len(fields))
	}
	sum := 0
	for _, f := range fields[11:15] {
		n, err := strconv.Atoi(f)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// quietTime is how long a process must have used no time to count as done with what it noticed.
const quietTime = 300 * time.Millisecond

// quiet waits until udev has handled what happened and the process is done with it.
func quiet(ctx context.Context, p *process) error {
	if err := exec.CommandContext(ctx, "/usr/bin/udevadm", "settle", "--timeout=20").Run(); err != nil {
		return fmt.Errorf("udevadm settle: %w", err)
	}
	for range 20 {
		before, err := usedBy(p)
		if err != nil {
			return err
		}
		time.Sleep(quietTime)
		after, err := usedBy(p)
		if err != nil {
			return err
		}
		if before == after {
			return ctx.Err()
		}
	}
	return errors.New("the agent does not come to rest")
}

func usedBy(p *process) (int, error) {
	if p == nil {
		return 0, nil
	}
	return p.used()
}

// memory reads what the process with that id holds.
func memory(pid int) (measure.Memory, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return measure.Memory{}, err
	}
	m := measure.Memory{Samples: 1}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if err != nil {
			continue // a line of another kind
		}
		switch name {
		case "VmRSS":
			m.ResidentKiB = n
		case "RssAnon":
			m.AnonymousKiB = n
		}
	}
	if m.ResidentKiB == 0 {
		return measure.Memory{}, fmt.Errorf("process %d: no resident memory in its status", pid)
	}
	return m, nil
}
