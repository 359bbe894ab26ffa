// Package iscsi serves IscsiService and SharedLunService: it validates requests and converts them. It
// knows neither the tools nor who is asked, and keeps no state.
package iscsi

import (
	"context"

	"google.golang.org/grpc"

	"quarry.storage/quarry/agent/internal/server/sharedstatus"
	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Targets works on the sessions of this node. Errors are those of package sharedlun.
type Targets interface {
	// GetInitiator describes the initiator.
	GetInitiator(ctx context.Context) (sharedlun.Initiator, error)
	// GetTarget reads sessions and LUNs; with users, who uses the LUNs on this node.
	GetTarget(ctx context.Context, t sharedlun.Target, users bool) (sharedlun.Seen, error)
	// Login makes sessions. c is nil for a target that asks for no credentials, renew for sessions that stay as they are.
	Login(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error)
	// Logout ends them.
	Logout(ctx context.Context, t sharedlun.Target) error
}

// Luns keeps reservations. Errors are those of package sharedlun.
type Luns interface {
	// Reservation reads. A target that is expected to have reservations is refused without.
	Reservation(ctx context.Context, id sharedlun.Identity, expected bool) (sharedlun.Reservation, error)
	// Register registers this node's key.
	Register(ctx context.Context, id sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error)
	// Unregister takes it off. The last key of all stays, unless last says otherwise.
	Unregister(ctx context.Context, id sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error)
	// Preempt takes another node's key off.
	Preempt(ctx context.Context, id sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error)
}

// Node is what both services work on.
type Node interface {
	Targets
	Luns
}

// Register registers both services, unless there is no node. bootID is that of this boot.
func Register(g grpc.ServiceRegistrar, node Node, bootID string) {
	if node == nil {
		return
	}
	agentv1.RegisterIscsiServiceServer(g, &targetService{targets: node, bootID: bootID})
	agentv1.RegisterSharedLunServiceServer(g, &lunService{luns: node})
}

type targetService struct {
	agentv1.UnimplementedIscsiServiceServer
	targets Targets
	bootID  string
}

// GetInitiator implements agentv1.IscsiServiceServer.
func (s *targetService) GetInitiator(ctx context.Context, _ *agentv1.GetInitiatorRequest) (*agentv1.GetInitiatorResponse, error) {
	i, err := s.targets.GetInitiator(ctx)
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	daemon := agentv1.GetInitiatorResponse_DAEMON_AGENT
	if i.OfHost {
		daemon = agentv1.GetInitiatorResponse_DAEMON_HOST
	}
	return &agentv1.GetInitiatorResponse{
		Name: i.Name, Daemon: daemon, Problem: sharedstatus.Problem(i.Problem), BootId: s.bootID, Multipath: i.Multipath,
	}, nil
}

// GetTarget implements agentv1.IscsiServiceServer.
func (s *targetService) GetTarget(ctx context.Context, req *agentv1.GetTargetRequest) (*agentv1.GetTargetResponse, error) {
	t, err := target(req.GetTarget())
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	seen, err := s.targets.GetTarget(ctx, t, req.GetWithUsers())
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	return &agentv1.GetTargetResponse{Sessions: toSessions(seen.Sessions), Luns: toLuns(seen.Luns), Recorded: seen.Recorded}, nil
}

// Login implements agentv1.IscsiServiceServer.
func (s *targetService) Login(ctx context.Context, req *agentv1.LoginRequest) (*agentv1.LoginResponse, error) {
	t, err := target(req.GetTarget())
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	c, err := credentials(req.GetChap())
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	var renew *sharedlun.Renewal
	if req.GetRenew() {
		renew = &sharedlun.Renewal{Keys: req.GetKeys()}
	}
	seen, err := s.targets.Login(ctx, t, c, renew)
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	return &agentv1.LoginResponse{Sessions: toSessions(seen.Sessions), Luns: toLuns(seen.Luns)}, nil
}

// Logout implements agentv1.IscsiServiceServer.
func (s *targetService) Logout(ctx context.Context, req *agentv1.LogoutRequest) (*agentv1.LogoutResponse, error) {
	t, err := target(req.GetTarget())
	if err == nil {
		err = s.targets.Logout(ctx, t)
	}
	if err != nil {
		return nil, sharedstatus.Of(err)
	}
	return &agentv1.LogoutResponse{}, nil
}

type lunService struct {
	agentv1.UnimplementedSharedLunServiceServer
	luns Luns
}

// GetReservation implements agentv1.SharedLunServiceServer.
func (s *lunService) GetReservation(
	ctx context.Context, req *agentv1.GetReservationRequest,
) (*agentv1.GetReservationResponse, error) {
	id, err := identity(req.GetLun())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	r, err := s.luns.Reservation(ctx, id, req.GetReservationsExpected())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	return &agentv1.GetReservationResponse{Reservation: toReservation(r)}, nil
}

// Register implements agentv1.SharedLunServiceServer.
func (s *lunService) Register(ctx context.Context, req *agentv1.RegisterRequest) (*agentv1.RegisterResponse, error) {
	id, err := identity(req.GetLun())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	g, err := grant(req)
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	r, err := s.luns.Register(ctx, id, g)
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	return &agentv1.RegisterResponse{Reservation: toReservation(r)}, nil
}

// Unregister implements agentv1.SharedLunServiceServer.
func (s *lunService) Unregister(ctx context.Context, req *agentv1.UnregisterRequest) (*agentv1.UnregisterResponse, error) {
	id, err := identity(req.GetLun(), req.GetKey())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	r, err := s.luns.Unregister(ctx, id, req.GetKey(), req.GetLast())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	return &agentv1.UnregisterResponse{Reservation: toReservation(r)}, nil
}

// Preempt implements agentv1.SharedLunServiceServer.
func (s *lunService) Preempt(ctx context.Context, req *agentv1.PreemptRequest) (*agentv1.PreemptResponse, error) {
	id, err := identity(req.GetLun(), req.GetKey(), req.GetVictim())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	r, err := s.luns.Preempt(ctx, id, req.GetKey(), req.GetVictim())
	if err != nil {
		return nil, sharedstatus.Told(err)
	}
	return &agentv1.PreemptResponse{Reservation: toReservation(r)}, nil
}
