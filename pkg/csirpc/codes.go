package csirpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Errors that both sides know.
var (
	// ErrInvalid is a request that is wrong, whatever the state of the volume.
	ErrInvalid = errors.New("invalid request")
	// ErrBusy means that another call works on the same volume.
	ErrBusy = errors.New("another call works on it")
	// ErrToken is a starting token that no list returned.
	ErrToken = errors.New("the starting token is none that a list returned")
)

// Meaning is an error and its code.
type Meaning struct {
	Err  error
	Code codes.Code
}

// Table maps errors to the codes of the CSI specification. The first meaning that fits wins.
type Table []Meaning

// base are the meanings that every service has.
var base = Table{
	{ErrInvalid, codes.InvalidArgument},
	{ErrBusy, codes.Aborted},
	{ErrToken, codes.Aborted},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

// Code returns the code of an error: its meaning in the table, else in this package. An error without a meaning is INTERNAL.
func (t Table) Code(err error) codes.Code {
	for _, table := range []Table{t, base} {
		for _, m := range table {
			if errors.Is(err, m.Err) {
				return m.Code
			}
		}
	}
	return codes.Internal
}

// Code returns the code of an error of this package, and INTERNAL for every other one.
func Code(err error) codes.Code { return Table(nil).Code(err) }

// Status makes the error of a call. An error that carries a status keeps it; code maps the others, or Code when it is nil.
func Status(err error, code func(error) codes.Code) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if code == nil {
		code = Code
	}
	return status.Error(code(err), err.Error())
}

// Invalid makes an error about a request.
func Invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrInvalid, fmt.Errorf(format, args...))
}

// Present refuses a request that lacks a required field. Fields come as name and value.
func Present(fields ...string) error {
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == "" {
			return Invalid("%s is missing", fields[i])
		}
	}
	return nil
}
