package server

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// codeOf is the one map from errors to codes, in the order in which they are looked for: an error that joins several takes the code of
// the first. A request that is wrong comes before a state that may pass.
var codeOf = []struct {
	err  error
	code codes.Code
}{
	{plan.ErrInvalid, codes.InvalidArgument},
	{plan.ErrBusy, codes.Aborted},
	{plan.ErrUnzeroed, codes.Aborted},
	{plan.ErrUndiscarded, codes.Aborted},
	{plan.ErrUnsure, codes.Unavailable},
	{plan.ErrUntold, codes.Unavailable},
	{plan.ErrStale, codes.Unavailable},
	{plan.ErrDamaged, codes.FailedPrecondition},
	{plan.ErrUsageUnknown, codes.Unavailable},
	{plan.ErrMoving, codes.Unavailable},
	{node.ErrStopping, codes.Unavailable},
	{plan.ErrNotOurs, codes.PermissionDenied},
	{plan.ErrAlreadyExists, codes.AlreadyExists},
	{plan.ErrOtherNode, codes.FailedPrecondition},
	{plan.ErrOtherGroup, codes.FailedPrecondition},
	{plan.ErrNotFound, codes.NotFound},
	{plan.ErrMismatch, codes.FailedPrecondition},
	{plan.ErrNotClean, codes.FailedPrecondition},
	{plan.ErrHasVolumes, codes.FailedPrecondition},
	{plan.ErrHoldsData, codes.FailedPrecondition},
	{plan.ErrLastDevice, codes.FailedPrecondition},
	{plan.ErrSectorSizes, codes.FailedPrecondition},
	{plan.ErrPartial, codes.FailedPrecondition},
	{plan.ErrThinPool, codes.FailedPrecondition},
	{plan.ErrNoRoom, codes.ResourceExhausted},
	{plan.ErrOverLimit, codes.OutOfRange},
	{plan.ErrNotThin, codes.FailedPrecondition},
	{plan.ErrRemoving, codes.FailedPrecondition},
	{plan.ErrInUse, codes.FailedPrecondition},
	{plan.ErrRefused, codes.FailedPrecondition},
	{prep.ErrNoTools, codes.FailedPrecondition},
	{prep.ErrNoEncryption, codes.FailedPrecondition},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

// toStatus makes the error of an RPC. An error that carries a status keeps it; one without a known meaning is INTERNAL.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			return detailed(status.New(c.code, err.Error()), c.err)
		}
	}
	return status.Error(codes.Internal, err.Error())
}

// causes are the details of errors that pass.
var causes = map[error]agentv1.HindranceCause{
	plan.ErrMoving:       agentv1.HindranceCause_HINDRANCE_CAUSE_MOVING,
	plan.ErrStale:        agentv1.HindranceCause_HINDRANCE_CAUSE_STALE,
	plan.ErrUsageUnknown: agentv1.HindranceCause_HINDRANCE_CAUSE_POOL_UNKNOWN,
	plan.ErrUntold:       agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD,
}

// detailed tells an agent that answers, and refuses for a reason that passes, from one that does not answer: both are UNAVAILABLE.
func detailed(s *status.Status, cause error) error {
	var detail protoadapt.MessageV1
	if why, ok := causes[cause]; ok {
		detail = &agentv1.Hindrance{Cause: why}
	} else if errors.Is(cause, plan.ErrUnsure) {
		detail = &agentv1.UnknownVolumeGroup{Reason: s.Message()}
	} else {
		return s.Err()
	}
	with, err := s.WithDetails(detail)
	if err != nil {
		return s.Err()
	}
	return with.Err()
}
