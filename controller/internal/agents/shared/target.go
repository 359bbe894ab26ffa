package shared

import (
	"context"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Initiator describes the initiator of a node, and the boot that it belongs to.
func (c Calls) Initiator(ctx context.Context, node string) (i sharedlun.Initiator, bootID string, err error) {
	var r *agentv1.GetInitiatorResponse
	err = c.target(ctx, lookTimeout, node, "GetInitiator", func(ctx context.Context, s agentv1.IscsiServiceClient) (err error) {
		r, err = s.GetInitiator(ctx, &agentv1.GetInitiatorRequest{})
		return err
	})
	if err != nil {
		return sharedlun.Initiator{}, "", err
	}
	i = sharedlun.Initiator{
		Name: r.GetName(), OfHost: r.GetDaemon() == agentv1.GetInitiatorResponse_DAEMON_HOST, Multipath: r.GetMultipath(),
	}
	if p := r.GetProblem(); p != nil {
		i.Problem = &sharedlun.Problem{Reason: p.GetReason(), Message: p.GetMessage()}
	}
	return i, r.GetBootId(), nil
}

// Target tells what a node sees of a target; with users, who uses its LUNs there.
func (c Calls) Target(ctx context.Context, node string, t sharedlun.Target, users bool) (sharedlun.Seen, error) {
	var r *agentv1.GetTargetResponse
	err := c.target(ctx, lookTimeout, node, "GetTarget", func(ctx context.Context, s agentv1.IscsiServiceClient) (err error) {
		r, err = s.GetTarget(ctx, &agentv1.GetTargetRequest{Target: toTarget(t), WithUsers: users})
		return err
	})
	seen := seenOf(r.GetSessions(), r.GetLuns())
	seen.Recorded = r.GetRecorded()
	return seen, err
}

// Login makes a session with every portal of a target. renew makes those anew that are there; nil leaves them.
func (c Calls) Login(ctx context.Context, node string, t sharedlun.Target, chap *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error) {
	request := &agentv1.LoginRequest{Target: toTarget(t)}
	if renew != nil {
		request.Renew, request.Keys = true, renew.Keys
	}
	if chap != nil {
		request.Chap = &agentv1.Chap{
			Username: chap.Username, Password: chap.Password, MutualUsername: chap.MutualUsername, MutualPassword: chap.MutualPassword,
		}
	}
	var r *agentv1.LoginResponse
	err := c.target(ctx, callTimeout, node, "Login", func(ctx context.Context, s agentv1.IscsiServiceClient) (err error) {
		r, err = s.Login(ctx, request)
		return err
	})
	return seenOf(r.GetSessions(), r.GetLuns()), err
}

// Logout ends the sessions with a target that nobody uses.
func (c Calls) Logout(ctx context.Context, node string, t sharedlun.Target) error {
	return c.target(ctx, callTimeout, node, "Logout", func(ctx context.Context, s agentv1.IscsiServiceClient) error {
		_, err := s.Logout(ctx, &agentv1.LogoutRequest{Target: toTarget(t)})
		return err
	})
}

// Reservation reads the keys of a LUN. A target that has reservations on record is expected to have them: one without is an error then. That a target has none
// is only told by the answer, never by an error.
func (c Calls) Reservation(ctx context.Context, node string, lun sharedlun.Identity, expected bool) (sharedlun.Reservation, error) {
	var r *agentv1.GetReservationResponse
	err := c.lun(ctx, lookTimeout, node, "GetReservation", func(ctx context.Context, s agentv1.SharedLunServiceClient) (err error) {
		r, err = s.GetReservation(ctx, &agentv1.GetReservationRequest{Lun: toIdentity(lun), ReservationsExpected: expected})
		return err
	})
	return reservationOf(r.GetReservation()), err
}

// Register registers the key that a node was granted. What it names, the names of initiators among it, has to be on record before.
func (c Calls) Register(ctx context.Context, node string, lun sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error) {
	var r *agentv1.RegisterResponse
	err := c.lun(ctx, callTimeout, node, "Register", func(ctx context.Context, s agentv1.SharedLunServiceClient) (err error) {
		r, err = s.Register(ctx, toRegister(lun, g))
		return err
	})
	return reservationOf(r.GetReservation()), err
}

func toRegister(lun sharedlun.Identity, g sharedlun.Grant) *agentv1.RegisterRequest {
	return &agentv1.RegisterRequest{
		Lun: toIdentity(lun), Key: g.Key, OldKeys: g.Old, BootId: g.BootID, InitiatorName: g.Initiator, OtherInitiatorNames: g.Others,
		Reserve: g.Reserve, OwnVolumeUuids: g.Own,
	}
}

// Unregister takes a node's own key off. The last key of all stays, unless last says that nobody has to be kept from writing any more.
func (c Calls) Unregister(ctx context.Context, node string, lun sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error) {
	var r *agentv1.UnregisterResponse
	err := c.lun(ctx, callTimeout, node, "Unregister", func(ctx context.Context, s agentv1.SharedLunServiceClient) (err error) {
		r, err = s.Unregister(ctx, &agentv1.UnregisterRequest{Lun: toIdentity(lun), Key: key, Last: last})
		return err
	})
	return reservationOf(r.GetReservation()), err
}

// Preempt takes another node's key off through a node that has its own, and returns the keys as read afterwards.
func (c Calls) Preempt(ctx context.Context, node string, lun sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error) {
	var r *agentv1.PreemptResponse
	err := c.lun(ctx, callTimeout, node, "Preempt", func(ctx context.Context, s agentv1.SharedLunServiceClient) (err error) {
		r, err = s.Preempt(ctx, &agentv1.PreemptRequest{Lun: toIdentity(lun), Key: key, Victim: victim})
		return err
	})
	return reservationOf(r.GetReservation()), err
}
