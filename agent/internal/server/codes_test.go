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
)

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
