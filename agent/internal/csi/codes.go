package csi

import (
	"errors"
	"slices"

	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/pkg/csirpc"
)

// Errors of this package.
var (
	errIncompatible = errors.New("is there already, with other properties")
	errRange        = errors.New("the volume is smaller")
)

// meanings are the codes of the errors of this package and of what it uses.
var meanings = csirpc.Table{
	{Err: mount.ErrUnsafe, Code: codes.InvalidArgument},
	{Err: mount.ErrOption, Code: codes.InvalidArgument},
	{Err: fs.ErrUnsupported, Code: codes.InvalidArgument},
	{Err: ErrNotThere, Code: codes.NotFound},
	{Err: errIncompatible, Code: codes.AlreadyExists},
	{Err: errRange, Code: codes.OutOfRange},
	{Err: ErrPrecondition, Code: codes.FailedPrecondition},
	{Err: ErrUnavailable, Code: codes.Unavailable},
	{Err: fs.ErrUnknownData, Code: codes.FailedPrecondition},
	{Err: errUnfinished, Code: codes.Aborted},
	{Err: fs.ErrBusy, Code: codes.Aborted},
	{Err: fs.ErrBlank, Code: codes.FailedPrecondition},
	{Err: fs.ErrNotEmpty, Code: codes.FailedPrecondition},
	{Err: fs.ErrDamaged, Code: codes.FailedPrecondition},
	{Err: mount.ErrKind, Code: codes.FailedPrecondition},
}

// table is the codes of a driver: those of the source first.
func table(p Profile) csirpc.Table { return slices.Concat(p.Codes, meanings) }

// invalid makes an error about a request.
func invalid(format string, args ...any) error { return csirpc.Invalid(format, args...) }
