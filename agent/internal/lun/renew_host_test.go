//go:build hostroot

package lun_test

import (
	"errors"
	"testing"

	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

// TestRealRenewedPaths: sessions of two paths are made anew, one after the other, and leave no key at the target.
func TestRealRenewedPaths(t *testing.T) {
	lio.New(t, realIQN)
	lio.Multipathd(t)
	a, b := realNode(t, "quarry-a"), realNode(t, "quarry-b")
	both := sharedlun.Target{IQN: realIQN, Portals: lio.Portals}
	login := func(n *lun.Node, target sharedlun.Target, renew *sharedlun.Renewal) error {
		_, err := n.Login(t.Context(), target, nil, renew)
		return err
	}
	must(t, login(a, both, nil))
	id := joined(t, a, both).Identity
	before := joined(t, a, both)
	_, err := a.Register(t.Context(), id, granted(0x71))
	must(t, err)
	var last *sharedlun.Problem
	if err := login(a, both, &sharedlun.Renewal{Keys: []uint64{0x71}}); !errors.As(err, &last) || last.Reason != sharedlun.ReasonLastKey {
		t.Fatalf("the last key: %v", err)
	}
	if after := joined(t, a, both); after.Paths[0].Session != before.Paths[0].Session || after.Paths[1].Session != before.Paths[1].Session {
		t.Errorf("%+v, before %+v", after, before)
	}
	must(t, login(b, sharedlun.Target{IQN: realIQN, Portals: lio.Portals[:1]}, nil))
	other := granted(0x81)
	other.Initiator = lio.InitiatorName("quarry-b")
	_, err = b.Register(t.Context(), id, other)
	must(t, err)
	must(t, login(a, both, &sharedlun.Renewal{Keys: []uint64{0x70, 0x71}}))
	after := joined(t, a, both)
	for _, p := range after.Paths {
		if p.Session <= before.Paths[1].Session {
			t.Errorf("%+v, before %+v", after, before)
		}
	}
	r, err := b.Reservation(t.Context(), id, true)
	if err != nil || r.Has(0x71) || r.Writable(0x81) != nil {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = a.Register(t.Context(), id, granted(0x71))
	if err != nil || r.Writable(0x71) != nil {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = a.Unregister(t.Context(), id, 0x71, false)
	must(t, err)
	if r, err = b.Unregister(t.Context(), id, 0x81, true); err != nil || len(r.Keys) != 0 || r.Type != 0 {
		t.Errorf("keys are left: %+v, %v", r, err)
	}
	must(t, b.Logout(t.Context(), sharedlun.Target{IQN: realIQN, Portals: lio.Portals[:1]}))
	must(t, a.Logout(t.Context(), both))
}
