// Package shared makes the agents' calls about shared LUNs: sessions with targets, reservations, the volume group and its volumes. It knows the wire, as
// package agents does, whose connections it uses, and decides nothing. Errors are decide.Faults.
package shared

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/san"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	// lookTimeout bounds calls that change nothing.
	lookTimeout = 20 * time.Second
	// callTimeout bounds calls that change sessions, keys and devices.
	callTimeout = 90 * time.Second
	// margin is how much longer a change of the group may take than LVM: the agent waits until LVM is gone, and looks at the LUN before and after.
	margin = 30 * time.Second
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
	return c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewSharedGroupServiceClient(conn))
	})
}

// lun calls the service of the reservations.
func (c Calls) lun(
	ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.SharedLunServiceClient) error,
) error {
	return c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewSharedLunServiceClient(conn))
	})
}

// target calls the service of the sessions.
func (c Calls) target(
	ctx context.Context, limit time.Duration, node, call string, do func(context.Context, agentv1.IscsiServiceClient) error,
) error {
	return c.Pool.Call(ctx, limit, node, call, func(ctx context.Context, conn *grpc.ClientConn) error {
		return do(ctx, agentv1.NewIscsiServiceClient(conn))
	})
}
