package run

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Process is a process that runs beside this one: it is talked to while it runs, and may be killed at any time.
type Process struct {
	// Stdin and Stdout are its pipes. Closing Stdin asks it to end.
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	cmd    *exec.Cmd
	stderr *capped
	done   chan struct{}
}

// maxStderr is how much of a process's last words is kept.
const maxStderr = 16 << 10

// Start starts a process in its own process group. The files are open in it as 3, 4 and so on; they stay the caller's.
func (r Real) Start(cmd Command, files ...*os.File) (*Process, error) {
	if !filepath.IsAbs(cmd.Path) {
		return nil, fmt.Errorf("start %q: not an absolute path", cmd.Path)
	}
	if cmd.Root != "" {
		return nil, fmt.Errorf("start %q: a root of its own is for commands that run to their end", cmd.Path)
	}
	if err := noNUL(cmd); err != nil {
		return nil, err
	}
	inRead, inWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		inRead.Close()
		inWrite.Close()
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	p := &Process{Stdin: inWrite, Stdout: outRead, stderr: &capped{limit: maxStderr}, done: make(chan struct{})}
	p.cmd = exec.Command(cmd.Path, cmd.Args...)
	p.cmd.Env = append([]string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}, cmd.Env...)
	p.cmd.Dir = "/"
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inRead, outWrite, p.stderr
	p.cmd.ExtraFiles = files
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = killDelay
	err = p.cmd.Start()
	inRead.Close()
	outWrite.Close()
	if err != nil {
		inWrite.Close()
		outRead.Close()
		return nil, fmt.Errorf("start %s: %w", strings.Join(cmd.Argv(), " "), err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // How it ended is told by what it said.
		inWrite.Close()
	}()
	return p, nil
}

// Kill ends the process and what it started, as soon as the kernel lets it go.
func (p *Process) Kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // It may be gone already.
}

// Done is closed when the process is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// LastWords are what a process that is gone wrote to standard error.
func (p *Process) LastWords() string {
	select {
	case <-p.done:
		return strings.TrimSpace(p.stderr.buf.String())
	default:
		return ""
	}
}
