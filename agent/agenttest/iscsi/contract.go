package iscsi

import (
	"context"
	"errors"
	"testing"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Agent is what is held to the contract: the agent's work on targets and LUNs, on one node.
type Agent interface {
	GetInitiator(ctx context.Context) (sharedlun.Initiator, error)
	GetTarget(ctx context.Context, t sharedlun.Target, users bool) (sharedlun.Seen, error)
	Login(ctx context.Context, t sharedlun.Target, c *sharedlun.Chap, renew *sharedlun.Renewal) (sharedlun.Seen, error)
	Logout(ctx context.Context, t sharedlun.Target) error
	Device(ctx context.Context, id sharedlun.Identity) (string, error)
	Astray(ctx context.Context, id sharedlun.Identity, group string) (volumes []string, says string, err error)
	Reservation(ctx context.Context, id sharedlun.Identity, expected bool) (sharedlun.Reservation, error)
	Confirm(ctx context.Context, id sharedlun.Identity, key uint64) (sharedlun.Reservation, error)
	Register(ctx context.Context, id sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error)
	Unregister(ctx context.Context, id sharedlun.Identity, key uint64, last bool) (sharedlun.Reservation, error)
	Preempt(ctx context.Context, id sharedlun.Identity, key, victim uint64) (sharedlun.Reservation, error)
}

// Site is one target with one portal, and LUN 0 of 64 MiB with nothing on it, that two nodes see, for one case of the contract.
type Site struct {
	A, B Agent
	// NameA and NameB are the names of their initiators.
	NameA, NameB string
	// BootID is that of both nodes.
	BootID string
	Target sharedlun.Target
	// Stop and Start let the target answer no more, and again; its registrations stay. LoseKeys lets it forget them.
	Stop, Start, LoseKeys func()
	// Restart starts iscsid anew on both nodes. Sessions go on.
	Restart func()
	// Cut ends the session of a node, as somebody else may.
	Cut func(a Agent)
	// Reserve reserves the LUN with a type for a key of a node, as an earlier version or somebody else does, and Release ends the reservation.
	Reserve func(a Agent, key uint64, kind uint32)
	Release func(a Agent, key uint64)
	// Reservations lets the target keep reservations, or say that it knows none.
	Reservations func(on bool)
	// Chap lets it ask for credentials.
	Chap func(c sharedlun.Chap)
	// Swap puts another LUN under the number.
	Swap func()
	// Use lets a LUN be used on A's node until the function that it returns is called, Hold lets something be built on it.
	Use, Hold func(id sharedlun.Identity) (end func())
	// Write writes to the LUN on a node, and reports whether it may.
	Write func(a Agent, id sharedlun.Identity) bool
}

type check struct {
	*testing.T
	Site
}

const (
	keyA, keyB, keyC = 0xa1, 0xb1, 0xc1
	// patience is how long a kernel may take to see that a target is gone or back.
	patience = 60 * time.Second
)

// Contract runs every case on a site of its own.
func Contract(t *testing.T, site func(t *testing.T) Site) {
	for _, c := range []struct {
		name string
		run  func(*check)
	}{
		{"sessions", sessions},
		{"credentials", credentials},
		{"wrong targets", wrongTargets},
		{"in use", inUse},
		{"registrations", registrations},
		{"fencing", fencing},
		{"whoever leaves", leaving},
		{"a fence without a reservation", released},
		{"reservations of earlier versions", earlier},
		{"mapped volumes", mapped},
		{"names of initiators", initiators},
		{"reservations that are gone", none},
		{"old keys", oldKeys},
		{"sessions that are made anew", renewed},
		{"other LUNs", otherLuns},
		{"lost keys", lostKeys},
		{"a LUN in use", used},
		{"a target that is gone", targetGone},
		{"a target that is gone for good", goneForGood},
		{"a session that somebody ended", cutOff},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&check{T: t, Site: site(t)}) })
	}
}

func (c *check) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *check) want(err, kind error) {
	c.Helper()
	if !errors.Is(err, kind) {
		c.Errorf("%v, want %v", err, kind)
	}
}

func (c *check) wantReason(err error, reason string) {
	c.Helper()
	var p *sharedlun.Problem
	if !errors.As(err, &p) || p.Reason != reason || p.Message == "" {
		c.Errorf("%v, want %s", err, reason)
	}
}

// login logs both nodes in, and returns the LUN.
func (c *check) login() sharedlun.Identity {
	c.Helper()
	var id sharedlun.Identity
	for _, a := range []Agent{c.A, c.B} {
		seen, err := a.Login(c.Context(), c.Target, nil, nil)
		c.must(err)
		if len(seen.Luns) != 1 {
			c.Fatalf("%+v", seen)
		}
		id = seen.Luns[0].Identity
	}
	return id
}

func sessions(c *check) { //nolint:gocyclo // one journey, told in its order
	i, err := c.A.GetInitiator(c.Context())
	if err != nil || i.Problem != nil || i.Name == "" {
		c.Errorf("%+v, %v", i, err)
	}
	seen, err := c.A.GetTarget(c.Context(), c.Target, false)
	if err != nil || len(seen.Sessions) != 1 || seen.Sessions[0].State != sharedlun.SessionNone || len(seen.Luns) != 0 || seen.Recorded {
		c.Errorf("%+v, %v", seen, err)
	}
	for range 2 {
		seen, err = c.A.Login(c.Context(), c.Target, nil, nil)
		c.must(err)
		again, err := c.A.GetTarget(c.Context(), c.Target, false)
		c.must(err)
		if !again.Recorded {
			c.Error("nothing is on record")
		}
		for _, s := range []sharedlun.Seen{seen, again} {
			if len(s.Sessions) != 1 || s.Sessions[0] != (sharedlun.Session{Portal: c.Target.Portals[0], State: sharedlun.SessionUp}) || len(s.Luns) != 1 {
				c.Fatalf("%+v", s)
			}
			l := s.Luns[0]
			if l.Number != 0 || l.Check() != nil || l.SizeBytes != 64<<20 || l.ReadOnly ||
				len(l.Paths) != 1 || !l.Paths[0].Up || l.Paths[0].Device != l.Device || l.Paths[0].Portal != c.Target.Portals[0] {
				c.Errorf("%+v", l)
			}
		}
	}
	if device, err := c.A.Device(c.Context(), seen.Luns[0].Identity); err != nil || device != "/dev/"+seen.Luns[0].Device {
		c.Errorf("%s, %v", device, err)
	}
	_, err = c.B.Device(c.Context(), seen.Luns[0].Identity)
	c.want(err, sharedlun.ErrNotFound)
	for range 2 {
		c.must(c.A.Logout(c.Context(), c.Target))
		if seen, err = c.A.GetTarget(c.Context(), c.Target, false); err != nil || seen.Sessions[0].State != sharedlun.SessionNone || len(seen.Luns) != 0 || seen.Recorded {
			c.Errorf("%+v, %v", seen, err)
		}
	}
}

func credentials(c *check) {
	good := sharedlun.Chap{Username: "user", Password: "secret of the user", MutualUsername: "it", MutualPassword: "secret of the target"}
	c.Chap(good)
	login := func(chap *sharedlun.Chap, renew *sharedlun.Renewal) error {
		_, err := c.A.Login(c.Context(), c.Target, chap, renew)
		return err
	}
	wrong, liar := good, good
	wrong.Password, liar.MutualPassword = "wrong secret of the user", "wrong secret of the target"
	for _, chap := range []*sharedlun.Chap{nil, &wrong, &liar} {
		c.wantReason(login(chap, nil), sharedlun.ReasonWrongChap)
	}
	c.must(login(&good, nil))
	// A session that is there stays, and tries other credentials when it is made anew.
	c.must(login(&wrong, nil))
	c.wantReason(login(&wrong, &sharedlun.Renewal{}), sharedlun.ReasonWrongChap)
	c.must(login(&good, &sharedlun.Renewal{}))
	c.want(login(&sharedlun.Chap{Username: "user"}, nil), sharedlun.ErrInvalid)
	c.must(c.A.Logout(c.Context(), c.Target))
}

func wrongTargets(c *check) {
	other := c.Target
	other.IQN += "x"
	_, err := c.A.Login(c.Context(), other, nil, nil)
	c.wantReason(err, sharedlun.ReasonWrongTarget)
	other = c.Target
	other.Portals = []string{"127.0.0.1:3999"}
	_, err = c.A.Login(c.Context(), other, nil, nil)
	c.wantReason(err, sharedlun.ReasonPortalUnreachable)
	other.Portals = []string{"nas:3260"}
	_, err = c.A.Login(c.Context(), other, nil, nil)
	c.want(err, sharedlun.ErrInvalid)
	c.want(c.A.Logout(c.Context(), other), sharedlun.ErrInvalid)
	_, err = c.A.GetTarget(c.Context(), other, false)
	c.want(err, sharedlun.ErrInvalid)
}

func inUse(c *check) {
	id := c.login()
	for _, use := range []func(sharedlun.Identity) func(){c.Use, c.Hold} {
		end := use(id)
		c.wantReason(c.A.Logout(c.Context(), c.Target), sharedlun.ReasonSessionInUse)
		_, err := c.A.Login(c.Context(), c.Target, nil, &sharedlun.Renewal{})
		c.wantReason(err, sharedlun.ReasonSessionInUse)
		seen, err := c.A.GetTarget(c.Context(), c.Target, false)
		if err != nil || seen.Sessions[0].State != sharedlun.SessionUp {
			c.Errorf("%+v, %v", seen, err)
		}
		end()
	}
	c.must(c.register(c.A, id, keyA, 0))
	end := c.Hold(id)
	_, err := c.A.Unregister(c.Context(), id, keyA, true)
	c.want(err, sharedlun.ErrInUse)
	end()
	_, err = c.A.Unregister(c.Context(), id, keyA, true)
	c.must(err)
	c.must(c.A.Logout(c.Context(), c.Target))
}
