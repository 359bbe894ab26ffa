// Package shared makes the agents' calls about shared LUNs: sessions with targets, reservations, the volume group and its volumes. It knows the wire, as
// package agents does, whose connections it uses, and decides nothing. Errors are decide.Faults.
package shared

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// lookTimeout bounds calls that change nothing.
	lookTimeout = sharedlun.ReadTimeout
	// callTimeout bounds calls that change sessions and keys.
	callTimeout = sharedlun.DeviceTimeout
)

// Calls makes the calls.
type Calls struct {
	Pool *agents.Pool
}

var _ san.Nodes = Calls{}

// group calls the service of the volume group.
func (c Calls) group(
	ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.SharedGroupServiceClient) error,
) error {
	return c.refusing(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewSharedGroupServiceClient(conn))
	})
}

// refusing makes a call. What the agent itself says of an error, that nothing is under way, is told on: its code alone proves nothing, for the connection makes
// errors too.
func (c Calls) refusing(ctx context.Context, limit time.Duration, node, call string, do func(context.Context, *grpc.ClientConn) error) error {
	refused := false
	err := c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		err := do(ctx, conn)
		refused = unchanged(err)
		return err
	})
	if refused {
		return &san.Refusal{Err: err}
	}
	return err
}

// unchanged reports whether an agent says that it changed nothing.
func unchanged(err error) bool {
	s, ok := status.FromError(err)
	return err != nil && ok && slices.ContainsFunc(s.Details(), func(d any) bool { _, is := d.(*agentv1.Unchanged); return is })
}

// lun calls the service of the reservations. Of a request for which there was no connection nothing is under way either.
func (c Calls) lun(
	ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.SharedLunServiceClient) error,
) error {
	sent := false
	err := c.refusing(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		sent = true
		return do(ctx, agentv1.NewSharedLunServiceClient(conn))
	})
	if err != nil && !sent {
		return &san.Refusal{Err: err}
	}
	return err
}

// target calls the service of the sessions.
func (c Calls) target(
	ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.IscsiServiceClient) error,
) error {
	return c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewIscsiServiceClient(conn))
	})
}
