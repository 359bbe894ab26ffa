package csi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/volumeid"
)

// Errors of this package.
var (
	errInvalid      = errors.New("invalid request")
	errIncompatible = errors.New("is there already, with other properties")
	errPrecondition = errors.New("the volume is not ready for this")
	errNotThere     = errors.New("the volume is not there")
	errRange        = errors.New("the volume is smaller")
)

// codeOf is the one map from errors to the codes of the CSI specification. The first that fits wins.
var codeOf = []struct {
	err  error
	code codes.Code
}{
	{errInvalid, codes.InvalidArgument},
	{mount.ErrUnsafe, codes.InvalidArgument},
	{mount.ErrOption, codes.InvalidArgument},
	{fs.ErrUnsupported, codes.InvalidArgument},
	{plan.ErrBusy, codes.Aborted},
	{volumeid.ErrNotOurs, codes.NotFound},
	{plan.ErrNotFound, codes.NotFound},
	{plan.ErrNotOurs, codes.NotFound},
	{errNotThere, codes.NotFound},
	{errIncompatible, codes.AlreadyExists},
	{errRange, codes.OutOfRange},
	{errPrecondition, codes.FailedPrecondition},
	{fs.ErrUnknownData, codes.FailedPrecondition},
	{fs.ErrNotEmpty, codes.FailedPrecondition},
	{fs.ErrDamaged, codes.FailedPrecondition},
	{plan.ErrPartial, codes.FailedPrecondition},
	{dm.ErrNotLVM, codes.FailedPrecondition},
	{mount.ErrKind, codes.FailedPrecondition},
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
}

// toStatus makes the error of an RPC. One that carries a status keeps it; one without a known meaning is INTERNAL.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			return status.Error(c.code, err.Error())
		}
	}
	return status.Error(codes.Internal, err.Error())
}

// invalid makes an error about a request.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errInvalid, fmt.Errorf(format, args...))
}
