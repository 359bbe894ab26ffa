package iscsi

import (
	"fmt"
	"slices"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// maxBootID bounds the text of a boot, maxOthers the nodes that share a LUN and the volumes of one.
const (
	maxBootID = 64
	maxOthers = 10_000
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
	if len(out.WWID) > sharedlun.MaxIdentity || len(out.Serial) > sharedlun.MaxIdentity {
		return out, fmt.Errorf("%w: the identity of the LUN is longer than %d bytes", sharedlun.ErrInvalid, sharedlun.MaxIdentity)
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

// grant reads the key that this node is to register.
func grant(r *agentv1.RegisterRequest) (sharedlun.Grant, error) {
	out := sharedlun.Grant{
		Key: r.GetKey(), Old: r.GetOldKeys(), BootID: r.GetBootId(), Initiator: r.GetInitiatorName(), Others: r.GetOtherInitiatorNames(),
		Reserve: r.GetReserve(), Own: r.GetOwnVolumeUuids(),
	}
	if len(out.BootID) > maxBootID || len(out.Others) > maxOthers || len(out.Old) > sharedlun.MaxOldKeys || len(out.Own) > maxOthers {
		return out, fmt.Errorf("%w: boot_id has %d bytes, and there are %d other initiators, %d old keys, and %d volumes",
			sharedlun.ErrInvalid, len(out.BootID), len(out.Others), len(out.Old), len(out.Own))
	}
	return out, out.Check()
}

var toState = map[sharedlun.SessionState]agentv1.IscsiSession_State{
	sharedlun.SessionNone: agentv1.IscsiSession_STATE_NONE, sharedlun.SessionUp: agentv1.IscsiSession_STATE_UP,
	sharedlun.SessionDown: agentv1.IscsiSession_STATE_DOWN,
}

func toSessions(sessions []sharedlun.Session) []*agentv1.IscsiSession {
	var out []*agentv1.IscsiSession
	for _, s := range sessions {
		out = append(out, &agentv1.IscsiSession{Portal: s.Portal, State: toState[s.State], Message: s.Message, Unserved: s.Unserved})
	}
	return out
}

func toLuns(luns []sharedlun.Lun) []*agentv1.Lun {
	var out []*agentv1.Lun
	for _, l := range luns {
		lun := &agentv1.Lun{
			Identity: &agentv1.LunIdentity{Wwid: l.WWID, Serial: l.Serial, SizeBytes: l.SizeBytes}, Number: l.Number, Device: l.Device,
			ReadOnly: l.ReadOnly, Users: l.Users, UsersError: l.UsersError,
		}
		for _, p := range l.Paths {
			lun.Paths = append(lun.Paths, &agentv1.LunPath{Portal: p.Portal, Device: p.Device, Session: p.Session, Up: p.Up, Target: p.Target})
		}
		out = append(out, lun)
	}
	return out
}

func toReservation(r sharedlun.Reservation) *agentv1.Reservation {
	return &agentv1.Reservation{Supported: r.Supported, Keys: r.Keys, Type: r.Type, Holder: r.Holder}
}
