package iscsi

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// maxIdentity bounds the texts of a LUN's identity, and maxBootID that of a boot.
const (
	maxIdentity = 512
	maxBootID   = 64
)

func target(t *agentv1.Target) (sharedlun.Target, error) {
	out := sharedlun.Target{IQN: t.GetIqn(), Portals: t.GetPortals()}
	return out, out.Check()
}

// credentials are nil for a target that asks for none.
func credentials(c *agentv1.Chap) (*sharedlun.Chap, error) {
	if c == nil {
		return nil, nil
	}
	out := &sharedlun.Chap{
		Username: c.GetUsername(), Password: c.GetPassword(), MutualUsername: c.GetMutualUsername(), MutualPassword: c.GetMutualPassword(),
	}
	return out, out.Check()
}

// identity checks which LUN is meant, and the keys that are needed.
func identity(l *agentv1.LunIdentity, keys ...uint64) (sharedlun.Identity, error) {
	out := sharedlun.Identity{WWID: l.GetWwid(), Serial: l.GetSerial(), SizeBytes: l.GetSizeBytes()}
	if len(out.WWID) > maxIdentity || len(out.Serial) > maxIdentity {
		return out, fmt.Errorf("%w: the identity of the LUN is longer than %d bytes", sharedlun.ErrInvalid, maxIdentity)
	}
	if err := out.Check(); err != nil {
		return out, err
	}
	if slices.Contains(keys, 0) {
		return out, fmt.Errorf("%w: a key is 0", sharedlun.ErrInvalid)
	}
	if len(keys) == 2 && keys[0] == keys[1] {
		return out, fmt.Errorf("%w: a node does not take its own key off in this way", sharedlun.ErrInvalid)
	}
	return out, nil
}

func bootID(id string) error {
	if id == "" || len(id) > maxBootID {
		return fmt.Errorf("%w: boot_id is %.100q", sharedlun.ErrInvalid, id)
	}
	return nil
}

// codeOf are the codes of errors, in the order in which they are looked for, and problemCodes those of reasons. What is in neither is left to the map
// of all services.
var (
	codeOf = []struct {
		err  error
		code codes.Code
	}{
		{sharedlun.ErrInvalid, codes.InvalidArgument},
		{sharedlun.ErrTargetBusy, codes.Aborted},
		{sharedlun.ErrNoReservations, codes.Unimplemented},
		{sharedlun.ErrUnknown, codes.Unavailable},
		{sharedlun.ErrOtherLun, codes.FailedPrecondition},
		{sharedlun.ErrRebooted, codes.FailedPrecondition},
		{sharedlun.ErrNoKey, codes.FailedPrecondition},
		{sharedlun.ErrInUse, codes.FailedPrecondition},
		{sharedlun.ErrRefused, codes.FailedPrecondition},
		{sharedlun.ErrNotFound, codes.NotFound},
	}
	problemCodes = map[string]codes.Code{
		sharedlun.ReasonPortalUnreachable: codes.Unavailable, sharedlun.ReasonTargetUnreachable: codes.Unavailable,
	}
)

// toStatus makes the error of a call. A problem goes along as detail.
func toStatus(err error) error {
	var problem *sharedlun.Problem
	if errors.As(err, &problem) {
		code, ok := problemCodes[problem.Reason]
		if !ok {
			code = codes.FailedPrecondition
		}
		bare := status.New(code, err.Error())
		if detailed, err := bare.WithDetails(toProblem(problem)); err == nil {
			return detailed.Err()
		}
		return bare.Err()
	}
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			return status.Error(c.code, err.Error())
		}
	}
	return err
}

func toProblem(p *sharedlun.Problem) *agentv1.IscsiProblem {
	if p == nil {
		return nil
	}
	return &agentv1.IscsiProblem{Reason: p.Reason, Message: p.Message}
}

var toState = map[sharedlun.SessionState]agentv1.IscsiSession_State{
	sharedlun.SessionNone: agentv1.IscsiSession_STATE_NONE, sharedlun.SessionUp: agentv1.IscsiSession_STATE_UP,
	sharedlun.SessionDown: agentv1.IscsiSession_STATE_DOWN,
}

func toSessions(sessions []sharedlun.Session) []*agentv1.IscsiSession {
	var out []*agentv1.IscsiSession
	for _, s := range sessions {
		out = append(out, &agentv1.IscsiSession{Portal: s.Portal, State: toState[s.State], Message: s.Message})
	}
	return out
}

func toLuns(luns []sharedlun.Lun) []*agentv1.Lun {
	var out []*agentv1.Lun
	for _, l := range luns {
		lun := &agentv1.Lun{
			Identity: &agentv1.LunIdentity{Wwid: l.WWID, Serial: l.Serial, SizeBytes: l.SizeBytes}, Number: l.Number, Device: l.Device,
			ReadOnly: l.ReadOnly, Content: l.Content, ContentError: l.ContentError,
		}
		for _, p := range l.Paths {
			lun.Paths = append(lun.Paths, &agentv1.LunPath{Portal: p.Portal, Device: p.Device, Up: p.Up})
		}
		out = append(out, lun)
	}
	return out
}

func toReservation(r sharedlun.Reservation) *agentv1.Reservation {
	return &agentv1.Reservation{Supported: r.Supported, Keys: r.Keys, Type: r.Type, Holder: r.Holder, Generation: r.Generation}
}
