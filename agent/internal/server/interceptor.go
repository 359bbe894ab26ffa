package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/internal/server/access"
)

const (
	// requestIDKey is the metadata in which the controller sends the id of its own work, so that one id finds both halves.
	requestIDKey = "x-request-id"
	// defaultDeadline bounds a unary call whose caller set no deadline.
	defaultDeadline = 2 * time.Minute
	// maxRequestID bounds what of a caller's id reaches the log.
	maxRequestID = 64
)

// guard is what every call passes before its handler: log, metrics, recovery, authorization, deadline.
type guard struct {
	log     logr.Logger
	metrics *metrics
}

func (g guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	ctx, finish := g.begin(ctx, info.FullMethod)
	defer func() {
		err = recovered(recover(), err)
		finish(err)
	}()
	if err := access.Authorize(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultDeadline)
		defer cancel()
	}
	resp, err = handler(ctx, req)
	return resp, toStatus(err)
}

func (g guard) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx, finish := g.begin(ss.Context(), info.FullMethod)
	defer func() {
		err = recovered(recover(), err)
		finish(err)
	}()
	if err := access.Authorize(ctx, info.FullMethod); err != nil {
		return err
	}
	return toStatus(handler(srv, streamWithContext{ServerStream: ss, ctx: ctx}))
}

// begin puts the logger of the call into its context; finish logs and counts the outcome.
func (g guard) begin(ctx context.Context, method string) (context.Context, func(error)) {
	log := g.log.WithValues("method", method)
	if ids := metadata.ValueFromIncomingContext(ctx, requestIDKey); len(ids) > 0 {
		log = log.WithValues("requestID", ids[0][:min(len(ids[0]), maxRequestID)])
	}
	start := time.Now()
	return logr.NewContext(ctx, log), func(err error) {
		code := status.Code(err)
		took := time.Since(start)
		g.metrics.handled(method, code, took)
		switch code {
		case codes.OK, codes.Canceled:
			log.V(1).Info("Handled call", "code", code.String(), "took", took.String())
		case codes.Internal, codes.Unknown:
			log.Error(err, "Failed call", "code", code.String(), "took", took.String())
		default:
			log.Info("Refused call", "code", code.String(), "reason", status.Convert(err).Message(), "took", took.String())
		}
	}
}

// panicError is a panic of a handler. The log shows its stack, the caller does not need it.
type panicError struct {
	value any
	stack []byte
}

// Error is for the log.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.value, e.stack) }

// GRPCStatus is for the caller.
func (e *panicError) GRPCStatus() *status.Status {
	return status.New(codes.Internal, "panic in the agent")
}

// recovered turns the value of a panic into an error.
func recovered(value any, err error) error {
	if value == nil {
		return err
	}
	return &panicError{value: value, stack: debug.Stack()}
}

// streamWithContext gives a stream's handler the context that the guard made.
type streamWithContext struct {
	grpc.ServerStream
	ctx context.Context
}

// Context of the call.
func (s streamWithContext) Context() context.Context { return s.ctx }
