package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	utilexec "k8s.io/utils/exec"

	"quarry.storage/quarry/agent/internal/host/run"
)

// binaries is where the programs are that the library calls by name. Others are not started.
var binaries = map[string]string{
	"blkid":      "/usr/sbin/blkid",
	"blockdev":   "/usr/sbin/blockdev",
	"resize2fs":  "/usr/sbin/resize2fs",
	"xfs_growfs": "/usr/sbin/xfs_growfs",
	"btrfs":      "/usr/bin/btrfs",
}

// errStream means that the library wanted to talk to a running program, which a Runner does not do.
var errStream = errors.New("only whole runs of programs are supported")

// executor lets the library start programs through a Runner, for as long as its context lasts.
type executor struct {
	ctx    context.Context
	runner run.Runner
}

var _ utilexec.Interface = executor{}

// Command prepares a program.
func (e executor) Command(name string, args ...string) utilexec.Cmd {
	return e.CommandContext(e.ctx, name, args...)
}

// CommandContext prepares a program that ends with a context.
func (e executor) CommandContext(ctx context.Context, name string, args ...string) utilexec.Cmd {
	return &command{ctx: ctx, runner: e.runner, name: name, args: args}
}

// LookPath finds a program.
func (e executor) LookPath(name string) (string, error) {
	if path, ok := binaries[filepath.Base(name)]; ok {
		return path, nil
	}
	return "", fmt.Errorf("program %q: %w", name, utilexec.ErrExecutableNotFound)
}

// command is one program to run.
type command struct {
	ctx            context.Context
	runner         run.Runner
	name           string
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string
}

var _ utilexec.Cmd = (*command)(nil)

func (c *command) run() (run.Result, error) {
	path, err := executor{}.LookPath(c.name)
	if err != nil {
		return run.Result{}, err
	}
	cmd := run.Command{Path: path, Args: c.args, Env: c.env}
	if c.stdin != nil {
		if cmd.Stdin, err = io.ReadAll(c.stdin); err != nil {
			return run.Result{}, err
		}
	}
	res, err := c.runner.Run(c.ctx, cmd)
	var exit *run.Error
	if errors.As(err, &exit) {
		return res, utilexec.CodeExitError{Err: err, Code: exit.ExitCode}
	}
	return res, err
}

// CombinedOutput runs the program; what it wrote to standard error comes last.
func (c *command) CombinedOutput() ([]byte, error) {
	res, err := c.run()
	return append(bytes.Clone(res.Stdout), res.Stderr...), err
}

// Output runs the program.
func (c *command) Output() ([]byte, error) {
	res, err := c.run()
	return res.Stdout, err
}

// Run runs the program.
func (c *command) Run() error {
	res, err := c.run()
	return errors.Join(err, write(c.stdout, res.Stdout), write(c.stderr, res.Stderr))
}

func write(w io.Writer, b []byte) error {
	if w == nil {
		return nil
	}
	_, err := w.Write(b)
	return err
}

// SetDir does nothing: programs run in the root directory.
func (c *command) SetDir(string) {}

// SetStdin is what the program will read.
func (c *command) SetStdin(in io.Reader) { c.stdin = in }

// SetStdout takes what Run reads from the program.
func (c *command) SetStdout(out io.Writer) { c.stdout = out }

// SetStderr takes what Run reads from the program.
func (c *command) SetStderr(out io.Writer) { c.stderr = out }

// SetEnv adds to the environment.
func (c *command) SetEnv(env []string) { c.env = env }

// StdoutPipe is not supported.
func (c *command) StdoutPipe() (io.ReadCloser, error) { return nil, errStream }

// StderrPipe is not supported.
func (c *command) StderrPipe() (io.ReadCloser, error) { return nil, errStream }

// Start is not supported.
func (c *command) Start() error { return errStream }

// Wait is not supported.
func (c *command) Wait() error { return errStream }

// Stop does nothing: the context ends a program.
func (c *command) Stop() {}
