package csi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// errBusy means that another call works on the same volume.
var errBusy = errors.New("another call works on it")

// ofRefusal maps our own decisions to the codes of the CSI specification.
var ofRefusal = map[volume.Kind]codes.Code{
	volume.Invalid:      codes.InvalidArgument,
	volume.OutOfRange:   codes.OutOfRange,
	volume.NotFound:     codes.NotFound,
	volume.Conflict:     codes.AlreadyExists,
	volume.Exhausted:    codes.ResourceExhausted,
	volume.Precondition: codes.FailedPrecondition,
	volume.Unavailable:  codes.Unavailable,
}

// ofFault maps what agents answer.
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

// toStatus makes the error of a call. One without a known meaning is INTERNAL.
func toStatus(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codeOf(err), err.Error())
}

func codeOf(err error) codes.Code {
	var refusal *volume.Refusal
	var fault *decide.Fault
	known, code := false, codes.Internal
	switch {
	case errors.As(err, &refusal):
		code, known = ofRefusal[refusal.Kind]
	case errors.As(err, &fault):
		code, known = ofFault[fault.Kind]
	case errors.Is(err, volumeid.ErrNotOurs):
		return codes.NotFound
	case errors.Is(err, errBusy):
		return codes.Aborted
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	if !known {
		return codes.Internal
	}
	return code
}

// isFault says whether an agent refused for that reason.
func isFault(err error, kind decide.FaultKind) bool {
	var f *decide.Fault
	return errors.As(err, &f) && f.Kind == kind
}

// refuse makes a refusal with a message of its own.
func refuse(kind volume.Kind, message string) error {
	return &volume.Refusal{Kind: kind, Message: message}
}
