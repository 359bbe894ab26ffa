// Package ceph talks to the monitors of a Ceph cluster. It asks in the words of Ceph's command line, reads JSON, and makes facts of it; it performs the steps
// that the monitors perform, each after a look of its own, which refuses what has become unsafe. It chooses no step, and knows neither Kubernetes nor where
// its commands run.
package ceph

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Command is one command of Ceph, that prints JSON.
type Command struct {
	// Args are its words, as the program ceph takes them. No key and no password is among them.
	Args []string
	// Input is what the program ceph would read from the file that -i names: a password has its place here. Nothing logs it, and no error has it.
	Input []byte
}

// Result is what a command left, as the program ceph prints it.
type Result struct {
	Stdout, Stderr []byte
	// ExitCode is 0, or an errno of the monitors.
	ExitCode int
}

// Runner has a command performed once, to its end or to that of the context. An error means that it is not known whether the command was performed; an exit
// code other than zero is no error.
type Runner interface {
	Run(ctx context.Context, cmd Command) (Result, error)
}

// Kinds of failures, for errors.Is. A failure of no kind is one that nobody expected.
var (
	// ErrUnreachable means that no quorum of the monitors, or no manager, answered. Whether a change was made is not known.
	ErrUnreachable = errors.New("the monitors do not answer")
	// ErrUnsafe means that Ceph, or a look before a change, says that it is not safe now. Nothing was changed.
	ErrUnsafe = errors.New("not safe now")
	// ErrKept means that an OSD was not forgotten: the monitors know it, and were not asked to forget it now.
	ErrKept = errors.New("the monitors keep the OSD")
	// ErrForeign means that the monitors are those of another cluster. Nothing was changed.
	ErrForeign = errors.New("another Ceph cluster")
	// ErrRefused means that the monitors refuse the command for good.
	ErrRefused = errors.New("refused by Ceph")
)

// Error is a command that failed.
type Error struct {
	// Args of the command.
	Args []string
	// ExitCode of it, and what it said last.
	ExitCode int
	Said     string
	kind     error
}

// Error names the command, its exit code and what it said.
func (e *Error) Error() string {
	return fmt.Sprintf("ceph %s: exit code %d: %s", strings.Join(e.Args, " "), e.ExitCode, e.Said)
}

// Unwrap returns the kind of the failure.
func (e *Error) Unwrap() error { return e.kind }

// kinds of failures by the errno that is the exit code: EPERM, ENXIO, EBUSY, EINVAL, ENOTEMPTY, ETIMEDOUT.
var kinds = map[int]error{1: ErrRefused, 6: ErrUnreachable, 16: ErrUnsafe, 22: ErrRefused, 39: ErrUnsafe, 110: ErrUnreachable}

// failure makes the error of a result; nil for exit code zero.
func failure(args []string, r Result) error {
	if r.ExitCode == 0 {
		return nil
	}
	said := strings.TrimSpace(string(r.Stderr))
	return &Error{Args: args, ExitCode: r.ExitCode, Said: said[strings.LastIndexByte(said, '\n')+1:], kind: kinds[r.ExitCode]}
}
