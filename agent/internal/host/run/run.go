// Package run starts processes: it is the only place of the agent that does. Every tool package takes a Runner, so that its
// tests can play recorded outputs. It knows nothing about the tools that it runs.
package run

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Command is one process to start. There is no shell: the arguments reach the process as they are.
type Command struct {
	// Path is the absolute path of the executable.
	Path string
	// Args are the arguments, without the name of the program.
	Args []string
	// Stdin is what the process reads; empty means end of file at once.
	Stdin []byte
	// Stdout, if set, gets standard output as it comes. The Result has none of it then.
	Stdout io.Writer
	// ReadsOnly says that the process changes nothing. One that the kernel does not let go, because a device does not answer, is left behind when the
	// context ends, with a *LeftError. A process that may change something is always waited for.
	ReadsOnly bool
	// Root, if set, is the absolute path of the directory that the process has for its root, and that Path is below. The process has the rights of
	// this one all the same.
	Root string
	// Env is added to the small fixed environment, as "KEY=value".
	Env []string
}

// Argv is the path followed by the arguments.
func (c Command) Argv() []string {
	return append([]string{c.Path}, c.Args...)
}

// Result is what a finished process left.
type Result struct {
	Stdout, Stderr []byte
	ExitCode       int
}

// Runner runs one command to its end. An exit code other than zero is an *Error; the Result is filled nevertheless.
type Runner interface {
	Run(ctx context.Context, cmd Command) (Result, error)
}

// Error is a process that ended with an exit code other than zero.
type Error struct {
	// Argv is the executable and its arguments.
	Argv []string
	// ExitCode of the process.
	ExitCode int
	// Stderr as the process wrote it, trimmed.
	Stderr string
}

// Error tells the command, its exit code and what it said.
func (e *Error) Error() string {
	if e.Stderr == "" {
		return fmt.Sprintf("%s: exit code %d", strings.Join(e.Argv, " "), e.ExitCode)
	}
	return fmt.Sprintf("%s: exit code %d: %s", strings.Join(e.Argv, " "), e.ExitCode, e.Stderr)
}

// LeftError is a process that only reads, and that the kernel does not let go although it was killed.
type LeftError struct {
	// Argv is the executable and its arguments.
	Argv []string
	// Gone is closed when the process is gone.
	Gone <-chan struct{}
	// Cause is why it was killed.
	Cause error
}

// Error tells the command, and what holds it.
func (e *LeftError) Error() string {
	return fmt.Sprintf("run %s: it was killed (%v), and waits in the kernel for a device that does not answer", strings.Join(e.Argv, " "), e.Cause)
}

// Unwrap returns why the process was killed.
func (e *LeftError) Unwrap() error { return e.Cause }

// exitError makes the error of a finished process, nil for exit code zero.
func exitError(cmd Command, res Result) error {
	if res.ExitCode == 0 {
		return nil
	}
	return &Error{Argv: cmd.Argv(), ExitCode: res.ExitCode, Stderr: strings.TrimSpace(string(res.Stderr))}
}
