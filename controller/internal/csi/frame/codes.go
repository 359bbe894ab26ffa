package frame

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/csirpc"
)

// ofRefusal maps our own decisions to the codes of the CSI specification.
var ofRefusal = map[volume.Kind]codes.Code{
	volume.Invalid:      codes.InvalidArgument,
	volume.OutOfRange:   codes.OutOfRange,
	volume.NotFound:     codes.NotFound,
	volume.Conflict:     codes.AlreadyExists,
	volume.Exhausted:    codes.ResourceExhausted,
	volume.Precondition: codes.FailedPrecondition,
	volume.Unavailable:  codes.Unavailable,
	volume.Unfinished:   codes.Aborted,
}

// ofFault maps what agents return.
var ofFault = map[decide.FaultKind]codes.Code{
	decide.FaultInvalid:      codes.InvalidArgument,
	decide.FaultNotFound:     codes.NotFound,
	decide.FaultConflict:     codes.AlreadyExists,
	decide.FaultPrecondition: codes.FailedPrecondition,
	decide.FaultDenied:       codes.PermissionDenied,
	decide.FaultBusy:         codes.Aborted,
	decide.FaultUnavailable:  codes.Unavailable,
	decide.FaultNoRoom:       codes.ResourceExhausted,
	decide.FaultRange:        codes.OutOfRange,
}

// meanings are the codes of the other errors that a backend knows.
var meanings = csirpc.Table{{Err: volume.ErrNotOurs, Code: codes.NotFound}}

// codeOf returns the code of an error. An error without a known meaning is INTERNAL.
func codeOf(err error) codes.Code {
	var refusal *volume.Refusal
	var fault *decide.Fault
	known, code := false, codes.Internal
	switch {
	case errors.As(err, &refusal):
		code, known = ofRefusal[refusal.Kind]
	case errors.As(err, &fault):
		code, known = ofFault[fault.Kind]
	default:
		return meanings.Code(err)
	}
	if !known {
		return codes.Internal
	}
	return code
}

// isNotOurs reports whether a handle never was one of the driver.
func isNotOurs(err error) bool { return errors.Is(err, volume.ErrNotOurs) }

// unimplemented is the error of a call that the driver does not offer.
func unimplemented(what string) error {
	return status.Error(codes.Unimplemented, "the driver does not offer "+what)
}
