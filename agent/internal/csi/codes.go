package csi

import (
	"errors"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/volumeid"
)

// Errors of this package.
var (
	errIncompatible = errors.New("is there already, with other properties")
	errPrecondition = errors.New("the volume is not ready for this")
	errNotThere     = errors.New("the volume is not there")
	errRange        = errors.New("the volume is smaller")
)

// meanings are the codes of the errors of this package and of the tools.
var meanings = csirpc.Table{
	{Err: mount.ErrUnsafe, Code: codes.InvalidArgument},
	{Err: mount.ErrOption, Code: codes.InvalidArgument},
	{Err: fs.ErrUnsupported, Code: codes.InvalidArgument},
	{Err: plan.ErrBusy, Code: codes.Aborted},
	{Err: volumeid.ErrNotOurs, Code: codes.NotFound},
	{Err: plan.ErrNotFound, Code: codes.NotFound},
	{Err: plan.ErrNotOurs, Code: codes.NotFound},
	{Err: errNotThere, Code: codes.NotFound},
	{Err: errIncompatible, Code: codes.AlreadyExists},
	{Err: errRange, Code: codes.OutOfRange},
	{Err: errPrecondition, Code: codes.FailedPrecondition},
	{Err: fs.ErrUnknownData, Code: codes.FailedPrecondition},
	{Err: fs.ErrNotEmpty, Code: codes.FailedPrecondition},
	{Err: fs.ErrDamaged, Code: codes.FailedPrecondition},
	{Err: plan.ErrPartial, Code: codes.FailedPrecondition},
	{Err: dm.ErrNotLVM, Code: codes.FailedPrecondition},
	{Err: mount.ErrKind, Code: codes.FailedPrecondition},
}

// invalid makes an error about a request.
func invalid(format string, args ...any) error { return csirpc.Invalid(format, args...) }
