package iscsi

import (
	"errors"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	boot = "4f3c1f3e-0000-4000-8000-000000000001"
	iqn  = "iqn.2026-01.storage.quarry.lab:model"
)

var portals = []string{"10.0.0.1:3260", "10.0.0.2:3260"}

func TestFakeContract(t *testing.T) {
	Contract(t, func(*testing.T) Site {
		f := New()
		target := f.AddTarget(iqn, portals[0])
		l := target.AddLun(0, 64<<20)
		a, b := f.AddNode("a", boot), f.AddNode("b", boot)
		return Site{
			A: a, B: b, NameA: a.initiator.Name, NameB: b.initiator.Name, BootID: boot, Target: target.Target(), Reservations: l.SetReservations,
			Reserve: func(_ Agent, key uint64, kind uint32) { l.Reserve(key, kind) },
			Release: func(Agent, uint64) { l.Release() },
			Stop:    target.Stop, Start: target.Start, LoseKeys: l.LoseKeys,
			Restart: func() {}, // The model's kernel needs no iscsid.
			Cut:     func(who Agent) { who.(*Node).Cut(portals[0]) },
			Chap:    func(c sharedlun.Chap) { target.SetChap(&c) },
			Swap:    func() { l.Swap(sharedlun.Identity{WWID: "naa.other", Serial: "other", SizeBytes: 64 << 20}) },
			Use: func(sharedlun.Identity) func() {
				a.Use(l, "process dd")
				return func() { a.Use(l) }
			},
			Hold: func(sharedlun.Identity) func() {
				a.Hold(l, "dm-7")
				return func() { a.Hold(l) }
			},
			Write: func(who Agent, _ sharedlun.Identity) bool { return l.MayWrite(who.(*Node).name) },
		}
	})
}

// granted is what a node is granted that has its own name.
func granted(n *Node, key uint64, old ...uint64) sharedlun.Grant {
	return sharedlun.Grant{Key: key, Old: old, BootID: boot, Initiator: n.initiator.Name, Reserve: true}
}

// TestPaths has a node with two paths, of which each goes away in turn.
func TestPaths(t *testing.T) { //nolint:gocyclo // one journey, told in its order
	f := New()
	target := f.AddTarget(iqn, portals...)
	l := target.AddLun(3, 1<<30)
	n := f.AddNode("a", boot)
	n.SetInitiator(sharedlun.Initiator{Name: "iqn.2026-01.a:a"})
	var p *sharedlun.Problem
	if _, err := n.Login(t.Context(), target.Target(), nil, nil); !errors.As(err, &p) || p.Reason != sharedlun.ReasonMultipathMissing {
		t.Fatalf("%v", err)
	}
	n.SetInitiator(sharedlun.Initiator{Name: "iqn.2026-01.a:a", Multipath: true})
	target.PortalDown(portals[1], true)
	seen, err := n.Login(t.Context(), target.Target(), nil, nil)
	if err != nil || seen.Sessions[0].State != sharedlun.SessionUp || seen.Sessions[1].State != sharedlun.SessionNone || seen.Sessions[1].Message == "" {
		t.Fatalf("%+v, %v", seen, err)
	}
	id := l.Identity()
	if _, err := n.Register(t.Context(), id, granted(n, keyA)); err != nil {
		t.Fatal(err)
	}
	target.PortalDown(portals[1], false)
	if seen, err = n.Login(t.Context(), target.Target(), nil, nil); err != nil || len(seen.Luns) != 1 || len(seen.Luns[0].Paths) != 2 {
		t.Fatalf("%+v, %v", seen, err)
	}
	// The new path has no key: this node cannot be sure of every write.
	if _, err := n.Confirm(t.Context(), id, keyA); !errors.Is(err, sharedlun.ErrNoKey) {
		t.Errorf("%v", err)
	}
	if r, err := n.Register(t.Context(), id, granted(n, keyA)); err != nil || !slices.Equal(r.Keys, []uint64{keyA}) {
		t.Errorf("%+v, %v", r, err)
	}
	n.Use(l, "process dd")
	if _, err := n.Login(t.Context(), target.Target(), nil, &sharedlun.Renewal{}); err != nil {
		t.Errorf("a LUN with two paths loses one at a time: %v", err)
	}
	n.Use(l)
	// The new sessions have no key; those of the earlier ones are forgotten by the target here.
	l.LoseKeys()
	if _, err := n.Register(t.Context(), id, granted(n, keyA)); err != nil {
		t.Errorf("%v", err)
	}
	for _, down := range portals {
		target.PortalDown(down, true)
		if _, err := n.Confirm(t.Context(), id, keyA); err != nil {
			t.Errorf("without %s: %v", down, err)
		}
		if device, err := n.Device(t.Context(), id); err != nil || device != "/dev/"+seen.Luns[0].Device && device == "" {
			t.Errorf("%s, %v", device, err)
		}
		target.PortalDown(down, false)
	}
	for _, down := range []bool{true, false} {
		// The key of a path that is down goes through the other one.
		target.PortalDown(portals[1], down)
		if r, err := n.Unregister(t.Context(), id, keyA, true); err != nil || len(r.Keys) != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := n.Logout(t.Context(), target.Target()); err != nil || len(n.Records()) != 0 {
		t.Errorf("%v, %v", err, n.Records())
	}
}

// TestTargetsOfOthers: what cannot be reserved for all is refused.
func TestTargetsOfOthers(t *testing.T) {
	f := New()
	target := f.AddTarget(iqn, portals[0])
	plain, taken := target.AddLun(0, 1<<30), target.AddLun(1, 1<<30)
	plain.SetReservations(false)
	taken.ReserveAlone(0x99, 1)
	n := f.AddNode("a", boot)
	if _, err := n.Login(t.Context(), target.Target(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if r, err := n.Reservation(t.Context(), plain.Identity(), false); err != nil || r.Supported {
		t.Errorf("%+v, %v", r, err)
	}
	_, errRegister := n.Register(t.Context(), plain.Identity(), granted(n, keyA))
	_, errConfirm := n.Confirm(t.Context(), plain.Identity(), keyA)
	for _, err := range []error{errRegister, errConfirm} {
		if !errors.Is(err, sharedlun.ErrNoReservations) {
			t.Errorf("%v", err)
		}
	}
	if _, err := n.Register(t.Context(), taken.Identity(), granted(n, keyA)); !errors.Is(err, sharedlun.ErrNotReserved) {
		t.Errorf("%v", err)
	}
	if r, err := n.Reservation(t.Context(), taken.Identity(), true); err != nil || !slices.Equal(r.Keys, []uint64{0x99}) {
		t.Errorf("%+v, %v", r, err)
	}
	n.Boot("another")
	if _, err := n.Device(t.Context(), plain.Identity()); !errors.Is(err, sharedlun.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
