package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// defaultMaxOutput caps each of the two output streams.
const defaultMaxOutput = 16 << 20

// killDelay is how long the pipes of a killed process group may stay open before they are closed on it.
const killDelay = 5 * time.Second

// ErrOutputTooLarge means that a process wrote more than the cap; what it wrote is not used.
var ErrOutputTooLarge = errors.New("output too large")

// Real runs commands on this machine. Its zero value is ready for use.
type Real struct {
	// MaxOutput caps standard output and standard error, each, in bytes; zero means 16 MiB.
	MaxOutput int
}

var _ Runner = Real{}

// Run starts the process in its own process group, which is killed as a whole when the context ends. It returns when the process is gone, or left behind.
func (r Real) Run(ctx context.Context, cmd Command) (Result, error) {
	if !filepath.IsAbs(cmd.Path) {
		return Result{}, fmt.Errorf("run %q: not an absolute path", cmd.Path)
	}
	if cmd.Root != "" && !filepath.IsAbs(cmd.Root) {
		return Result{}, fmt.Errorf("run %q: root %q is not an absolute path", cmd.Path, cmd.Root)
	}
	if err := noNUL(cmd); err != nil {
		return Result{}, err
	}
	limit := r.MaxOutput
	if limit <= 0 {
		limit = defaultMaxOutput
	}
	stdout, stderr := &capped{limit: limit}, &capped{limit: limit}
	c := exec.CommandContext(ctx, cmd.Path, cmd.Args...)
	c.Env = append([]string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}, cmd.Env...)
	c.Dir = "/"
	c.Stdin = bytes.NewReader(cmd.Stdin)
	c.Stdout, c.Stderr = stdout, stderr
	if cmd.Stdout != nil {
		c.Stdout = cmd.Stdout
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: cmd.Root}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = killDelay

	err := wait(ctx, c, cmd)
	if left := (*LeftError)(nil); errors.As(err, &left) {
		return Result{}, err // The process still writes to the buffers.
	}
	res := Result{Stdout: stdout.buf.Bytes(), Stderr: stderr.buf.Bytes()}
	if c.ProcessState != nil {
		res.ExitCode = c.ProcessState.ExitCode()
	}
	if ctx.Err() != nil && err != nil {
		return res, fmt.Errorf("run %s: %w", strings.Join(cmd.Argv(), " "), context.Cause(ctx))
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return res, exitError(cmd, res)
	case err != nil:
		return res, fmt.Errorf("run %s: %w", strings.Join(cmd.Argv(), " "), err)
	case stdout.over || stderr.over:
		return res, fmt.Errorf("run %s: %w", strings.Join(cmd.Argv(), " "), ErrOutputTooLarge)
	}
	return res, nil
}

// wait starts the process and waits until it is gone, or leaves it behind with a *LeftError.
func wait(ctx context.Context, c *exec.Cmd, cmd Command) error {
	if !cmd.ReadsOnly {
		return c.Run()
	}
	if err := c.Start(); err != nil {
		return err
	}
	var err error
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		err = c.Wait()
	}()
	select {
	case <-gone:
		return err
	case <-ctx.Done():
	}
	select {
	case <-gone:
		return err
	case <-time.After(2 * killDelay):
		return &LeftError{Argv: cmd.Argv(), Gone: gone, Cause: context.Cause(ctx)}
	}
}

// noNUL refuses what the kernel would cut off.
func noNUL(cmd Command) error {
	for _, s := range append(append(cmd.Argv(), cmd.Root), cmd.Env...) {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("run %q: argument holds a NUL byte", cmd.Path)
		}
	}
	return nil
}

// capped keeps the first bytes and drops the rest, so that a process that talks for ever neither blocks nor fills memory.
type capped struct {
	buf   bytes.Buffer
	limit int
	over  bool
}

// Write never fails.
func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.buf.Len()
	if room < len(p) {
		c.over = true
		c.buf.Write(p[:max(room, 0)])
		return len(p), nil
	}
	c.buf.Write(p)
	return len(p), nil
}
