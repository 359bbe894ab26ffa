// Package sharedstatus is the one table from errors of package sharedlun to gRPC codes, for all services about shared LUNs. What each code asks of a
// caller is told in their protocols.
package sharedstatus

import (
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// codeOf are the codes of errors, in the order in which they are looked for: an error of two kinds has the code of what asks more of its caller. Each kind
// of package sharedlun is there. problemCodes are the codes of reasons; that of all others is FAILED_PRECONDITION.
var (
	codeOf = []struct {
		err  error
		code codes.Code
	}{
		{sharedlun.ErrInvalid, codes.InvalidArgument},
		{sharedlun.ErrBusy, codes.Aborted},
		{sharedlun.ErrTargetBusy, codes.Aborted},
		{sharedlun.ErrMoved, codes.Aborted},
		{sharedlun.ErrUnknown, codes.Unavailable},
		{sharedlun.ErrUnread, codes.Aborted},
		{sharedlun.ErrNoSpace, codes.ResourceExhausted},
		{sharedlun.ErrExists, codes.AlreadyExists},
		{sharedlun.ErrOtherLun, codes.FailedPrecondition},
		{sharedlun.ErrOldEpoch, codes.FailedPrecondition},
		{sharedlun.ErrNoKey, codes.FailedPrecondition},
		{sharedlun.ErrNotReserved, codes.FailedPrecondition},
		{sharedlun.ErrNoReservations, codes.FailedPrecondition},
		{sharedlun.ErrRebooted, codes.FailedPrecondition},
		{sharedlun.ErrInitiator, codes.FailedPrecondition},
		{sharedlun.ErrLast, codes.FailedPrecondition},
		{sharedlun.ErrNotClean, codes.FailedPrecondition},
		{sharedlun.ErrHeld, codes.FailedPrecondition},
		{sharedlun.ErrInUse, codes.FailedPrecondition},
		{sharedlun.ErrMisfit, codes.FailedPrecondition},
		{sharedlun.ErrRefused, codes.FailedPrecondition},
		{sharedlun.ErrNotFound, codes.NotFound},
	}
	problemCodes = map[string]codes.Code{
		sharedlun.ReasonPortalUnreachable: codes.Unavailable, sharedlun.ReasonTargetUnreachable: codes.Unavailable, sharedlun.ReasonKeyStays: codes.Unavailable,
	}
)

// Of makes the status of an error. A problem goes along as detail. What is of no kind is left to the map of all services.
func Of(err error) error {
	var problem *sharedlun.Problem
	if errors.As(err, &problem) {
		code, ok := problemCodes[problem.Reason]
		if !ok {
			code = codes.FailedPrecondition
		}
		bare := status.New(code, err.Error())
		if detailed, err := bare.WithDetails(Problem(problem)); err == nil {
			return detailed.Err()
		}
		return bare.Err()
	}
	if code, known := codeFor(err); known {
		return status.Error(code, err.Error())
	}
	return err
}

// Told makes the status of an error, as Of does. What is a refusal says in its details that nothing was changed, and that nothing of the request is under way:
// of an error that is not known to be one, nothing is said.
func Told(err error) error {
	out := Of(err)
	st, ok := status.FromError(out)
	if _, changed := errors.AsType[*sharedlun.Changed](err); err == nil || !ok || changed || errors.Is(err, sharedlun.ErrUnknown) {
		return out
	}
	if with, err := st.WithDetails(&agentv1.Unchanged{}); err == nil {
		return with.Err()
	}
	return out
}

// codeFor is the code of an error, if it is of a kind of package sharedlun.
func codeFor(err error) (code codes.Code, known bool) {
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			return c.code, true
		}
	}
	return codes.Unknown, false
}

// Problem is a problem on the wire; nil when there is none.
func Problem(p *sharedlun.Problem) *agentv1.IscsiProblem {
	if p == nil {
		return nil
	}
	return &agentv1.IscsiProblem{Reason: p.Reason, Message: p.Message}
}
