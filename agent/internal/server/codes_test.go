package server

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/apply"
	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestToStatus_hindrance: an agent that answers and does nothing now says why in a detail: without one, it stops or is away. Only that it does not know
// which groups there are is told as an unknown group: the way out of that is to heal a disk.
func TestToStatus_hindrance(t *testing.T) {
	none := agentv1.HindranceCause_HINDRANCE_CAUSE_UNSPECIFIED
	for err, want := range map[error]agentv1.HindranceCause{
		plan.Group{Moving: &plan.Moving{}}.Still(): agentv1.HindranceCause_HINDRANCE_CAUSE_MOVING,
		plan.ErrStale:        agentv1.HindranceCause_HINDRANCE_CAUSE_STALE,
		plan.ErrUsageUnknown: agentv1.HindranceCause_HINDRANCE_CAUSE_POOL_UNKNOWN,
		node.ErrStopping:     none,
		plan.ErrUntold:       agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD,
		plan.ErrRestored:     agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD,
		plan.ErrUnsure:       none,
		plan.ErrUnseen:       none,
		// Unknown is never absent, and is told before what follows from it.
		errors.Join(plan.ErrNotFound, plan.ErrUnsure):                none,
		errors.Join(plan.ErrNotFound, plan.ErrInUse, plan.ErrUntold): agentv1.HindranceCause_HINDRANCE_CAUSE_UNTOLD,
	} {
		got, group := none, false
		s := status.Convert(toStatus(fmt.Errorf("x: %w", err)))
		for _, d := range s.Details() {
			switch d := d.(type) {
			case *agentv1.Hindrance:
				got = d.GetCause()
			case *agentv1.UnknownVolumeGroup:
				group = true
			}
		}
		if s.Code() != codes.Unavailable || got != want || group != errors.Is(err, plan.ErrUnsure) || s.Message() != "x: "+err.Error() {
			t.Errorf("%v: %s, %s, an unknown group: %t", err, s, got, group)
		}
	}
	for _, c := range codeOf {
		if c.code == codes.Unavailable && !errors.Is(c.err, node.ErrStopping) && len(status.Convert(toStatus(c.err)).Details()) == 0 {
			t.Errorf("%v says nothing of why", c.err)
		}
	}
}

func TestToStatus(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want codes.Code
	}{
		{nil, codes.OK},
		{fmt.Errorf("x: %w", plan.ErrInvalid), codes.InvalidArgument},
		{fmt.Errorf("x: %w", plan.ErrBusy), codes.Aborted},
		{node.ErrStopping, codes.Unavailable},
		{plan.ErrNotOurs, codes.PermissionDenied},
		{plan.ErrAlreadyExists, codes.AlreadyExists},
		{plan.ErrNotFound, codes.NotFound},
		{&plan.MismatchError{}, codes.FailedPrecondition},
		{&plan.NotCleanError{}, codes.FailedPrecondition},
		{&plan.HasVolumesError{}, codes.FailedPrecondition},
		{plan.ErrHoldsData, codes.FailedPrecondition},
		{plan.ErrLastDevice, codes.FailedPrecondition},
		{plan.ErrSectorSizes, codes.FailedPrecondition},
		{plan.ErrPartial, codes.FailedPrecondition},
		{plan.ErrMoving, codes.Unavailable},
		{plan.ErrStale, codes.Unavailable},
		{plan.ErrUnsure, codes.Unavailable},
		{plan.ErrUntold, codes.Unavailable},
		{plan.ErrThinPool, codes.FailedPrecondition},
		{&apply.StepError{Step: plan.RemoveVG{}, Err: plan.ErrRefused}, codes.FailedPrecondition},
		{&apply.StepError{Step: plan.RemoveVG{}, Err: errors.New("exit status 5")}, codes.Internal},
		{errors.Join(plan.ErrNotFound, plan.ErrInvalid), codes.InvalidArgument},
		{context.Canceled, codes.Canceled},
		{context.DeadlineExceeded, codes.DeadlineExceeded},
		{status.Error(codes.Unauthenticated, "x"), codes.Unauthenticated},
	} {
		if got := status.Code(toStatus(tt.err)); got != tt.want {
			t.Errorf("%v: code %s, want %s", tt.err, got, tt.want)
		}
	}
}
