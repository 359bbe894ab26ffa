package iscsi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

// fenced are two nodes with two paths and a key each.
type fenced struct {
	*testing.T
	target *Target
	lun    *Lun
	id     sharedlun.Identity
	a, b   *Node
}

func newFenced(t *testing.T) *fenced {
	f := New()
	x := &fenced{T: t, target: f.AddTarget(iqn, portals...), a: f.AddNode("a", boot), b: f.AddNode("b", boot)}
	x.lun = x.target.AddLun(0, 1<<30)
	x.id = x.lun.Identity()
	for node, key := range map[*Node]uint64{x.a: keyA, x.b: keyB} {
		if _, err := node.Login(t.Context(), x.target.Target(), nil, nil); err != nil {
			t.Fatal(err)
		}
		x.want(x.register(node, key), nil)
	}
	return x
}

func (x *fenced) register(n *Node, key uint64) error {
	_, err := n.Register(x.Context(), x.id, granted(n, key))
	return err
}

func (x *fenced) want(err, kind error) {
	x.Helper()
	if !errors.Is(err, kind) {
		x.Errorf("%v, want %v", err, kind)
	}
}

// TestPreempt_everyPath: a fence is one only if every path says so.
func TestPreempt_everyPath(t *testing.T) {
	for _, late := range [][]string{portals[:1], portals[1:], portals} {
		x := newFenced(t)
		for _, portal := range late {
			x.lun.Lag(portal, true)
		}
		_, err := x.b.Preempt(t.Context(), x.id, keyB, keyA)
		x.want(err, sharedlun.ErrUnknown)
		for _, portal := range late {
			x.lun.Lag(portal, false)
		}
		r, err := x.b.Preempt(t.Context(), x.id, keyB, keyA)
		if err != nil || !slices.Equal(r.Keys, []uint64{keyB}) || x.lun.MayWrite("a") {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestRead_everyPath: paths that tell different things tell nothing, and nothing was changed.
func TestRead_everyPath(t *testing.T) {
	x := newFenced(t)
	x.lun.Lag(portals[1], true)
	if _, err := x.a.Unregister(t.Context(), x.id, keyA, false); !errors.Is(err, sharedlun.ErrUnknown) || errors.Is(err, sharedlun.ErrUnread) {
		t.Errorf("%v", err)
	}
	_, err := x.b.Reservation(t.Context(), x.id, true)
	x.want(err, sharedlun.ErrUnread)
}

// TestPreempt_otherPath: a path without the key, or one that does not answer, does not keep a node from fencing.
func TestPreempt_otherPath(t *testing.T) {
	x := newFenced(t)
	x.target.PortalDown(portals[0], true)
	r, err := x.b.Preempt(t.Context(), x.id, keyB, keyA)
	if err != nil || r.Has(keyA) {
		t.Errorf("%+v, %v", r, err)
	}
	x.target.PortalDown(portals[0], false)

	x = newFenced(t)
	delete(x.lun.keys, nexus{x.b.initiator.Name, iqn, portals[0], 1})
	if r, err = x.b.Preempt(t.Context(), x.id, keyB, keyA); err != nil || r.Has(keyA) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRegister_fencedMeanwhile: a node with mapped volumes is fenced while its key comes to a path that has none.
func TestRegister_fencedMeanwhile(t *testing.T) {
	for _, lost := range portals {
		x := newFenced(t)
		x.a.Hold(x.lun, "dm-7")
		delete(x.lun.keys, nexus{x.a.initiator.Name, iqn, lost, slices.Index(portals, lost) + 1})
		x.lun.FenceBefore(lost, keyA)
		x.want(x.register(x.a, keyA), sharedlun.ErrNoKey)
		r, err := x.b.Confirm(t.Context(), x.id, keyB)
		if err != nil || !slices.Equal(r.Keys, []uint64{keyB}) || x.lun.MayWrite("a") {
			t.Errorf("%+v, %v", r, err)
		}
	}
	// A path that has the key is left as it is: after a fence, it would get the key anew.
	for _, portal := range portals {
		x := newFenced(t)
		x.a.Hold(x.lun, "dm-7")
		x.lun.FenceBefore(portal, keyA)
		err := x.register(x.a, keyA)
		if fenced := len(x.lun.fences) == 0; fenced != (err != nil) || fenced && x.lun.MayWrite("a") {
			t.Errorf("%s: fenced: %v, registered again: %v", portal, fenced, err)
		}
	}
}

// TestRegister_sameName: two nodes of one name are one for the target, so that a fence of one is void. The second gets no key.
func TestRegister_sameName(t *testing.T) {
	f := New()
	target := f.AddTarget(iqn, portals[0])
	l := target.AddLun(0, 1<<30)
	a, b := f.AddNode("a", boot), f.AddNode("b", boot)
	b.SetInitiator(a.initiator)
	for _, n := range []*Node{a, b} {
		if _, err := n.Login(t.Context(), target.Target(), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Register(t.Context(), l.Identity(), granted(a, keyA)); err != nil {
		t.Fatal(err)
	}
	if !l.MayWrite("b") {
		t.Fatal("the model's target tells two nodes of one name apart")
	}
	g := granted(b, keyB, keyA)
	g.Others = []string{a.initiator.Name}
	if _, err := b.Register(t.Context(), l.Identity(), g); !errors.Is(err, sharedlun.ErrInitiator) {
		t.Errorf("%v", err)
	}
	// A name that was changed counts once the sessions are made anew with it.
	own := sharedlun.Initiator{Name: "iqn.2026-01.b:b", Multipath: true}
	b.SetInitiator(own)
	g = granted(b, keyB)
	g.Others = []string{a.initiator.Name}
	if _, err := b.Register(t.Context(), l.Identity(), g); !errors.Is(err, sharedlun.ErrInitiator) {
		t.Errorf("%v", err)
	}
	if _, err := b.Login(t.Context(), target.Target(), nil, &sharedlun.Renewal{}); err != nil {
		t.Fatal(err)
	}
	if r, err := b.Register(t.Context(), l.Identity(), g); err != nil || !slices.Equal(r.Keys, []uint64{keyA, keyB}) {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRegister_ownVolumes: while nobody has reserved the LUN, a node with volumes mapped gets its key if they are its own.
func TestRegister_ownVolumes(t *testing.T) {
	for name, c := range map[string]struct {
		holds, own []string
		reserved   bool
		want       error
	}{
		"its own":                       {[]string{VolumePrefix + "u1", VolumePrefix + "u2"}, []string{"u2", "u1"}, false, nil},
		"one is not":                    {[]string{VolumePrefix + "u1", VolumePrefix + "u2"}, []string{"u1"}, false, sharedlun.ErrInUse},
		"a device of somebody else":     {[]string{VolumePrefix + "u1", "dm-7"}, []string{"u1"}, false, sharedlun.ErrInUse},
		"another node has reserved it":  {[]string{VolumePrefix + "u1"}, []string{"u1"}, true, sharedlun.ErrInUse},
		"nothing is said of its own":    {[]string{VolumePrefix + "u1"}, nil, false, sharedlun.ErrInUse},
		"reserved, and nothing is used": {nil, nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFenced(t)
			x.lun.LoseKeys()
			g := granted(x.b, keyB)
			if g.Reserve = c.reserved; c.reserved {
				if _, err := x.b.Register(t.Context(), x.id, g); err != nil {
					t.Fatal(err)
				}
			}
			x.a.Hold(x.lun, c.holds...)
			g = granted(x.a, keyA)
			g.Reserve, g.Own = false, c.own
			r, err := x.a.Register(t.Context(), x.id, g)
			x.want(err, c.want)
			if c.want == nil && (!r.Has(keyA) || r.Held() != c.reserved) || !x.lun.MayWrite("a") && !c.reserved {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestLogin_guarded: a LUN that is reserved gets no new path while something is built on it here.
func TestLogin_guarded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(x *fenced)
		free   bool
	}{
		"nothing is built on it": {func(*fenced) {}, true},
		"a volume is mapped":     {func(x *fenced) { x.a.Hold(x.lun, "dm-7") }, false},
		"nobody has reserved it": {func(x *fenced) { x.a.Hold(x.lun, "dm-7"); x.lun.LoseKeys() }, true},
		"it keeps none":          {func(x *fenced) { x.a.Hold(x.lun, "dm-7"); x.lun.SetReservations(false) }, true},
		"that cannot be read":    {func(x *fenced) { x.a.Hold(x.lun, "dm-7"); x.target.PortalDown(portals[0], true) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFenced(t)
			x.a.Cut(portals[1])
			c.change(x)
			seen, err := x.a.Login(t.Context(), x.target.Target(), nil, nil)
			if made := err == nil && seen.Sessions[1].State == sharedlun.SessionUp; made != c.free || !c.free && !strings.Contains(seen.Sessions[1].Message+fmt.Sprint(err), "before it has a key") {
				t.Errorf("%+v, %v", seen.Sessions, err)
			}
			x.target.PortalDown(portals[0], false)
			if _, err := x.a.Login(t.Context(), x.target.Target(), nil, &sharedlun.Renewal{}); (err == nil) != c.free && name != "that cannot be read" {
				t.Errorf("sessions made anew: %v", err)
			}
		})
	}
}

// TestLogin_mapsMeanwhile: while sessions are made no table is confirmed, and a table that was loaded before that keeps further sessions from being made: the next path
// would have no key, and one that is renewed would lose it.
func TestLogin_mapsMeanwhile(t *testing.T) {
	for name, renew := range map[string]*sharedlun.Renewal{"a path comes back": nil, "credentials change": {Keys: []uint64{keyA}}} {
		t.Run(name, func(t *testing.T) {
			x := newFenced(t)
			if renew == nil {
				x.a.Cut(portals[0])
				x.a.Cut(portals[1])
				// One session is there again, and its path has the key.
				x.target.PortalDown(portals[1], true)
				if _, err := x.a.Login(t.Context(), x.target.Target(), nil, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := x.a.Register(t.Context(), x.id, granted(x.a, keyA)); err != nil {
					t.Fatal(err)
				}
				x.target.PortalDown(portals[1], false)
			}
			if _, err := x.a.Confirm(t.Context(), x.id, keyA); err != nil {
				t.Fatalf("before the login: %v", err)
			}
			logins := 0
			x.a.atLogin = func(string) {
				if logins++; logins > 1 {
					return
				}
				_, err := x.a.Confirm(t.Context(), x.id, keyA)
				x.want(err, sharedlun.ErrBusy)
				// A table that was loaded, and confirmed, right before the target was locked.
				x.a.Hold(x.lun, VolumePrefix+"u1")
			}
			_, err := x.a.Login(t.Context(), x.target.Target(), nil, renew)
			x.a.atLogin = nil
			if renew != nil && (err == nil || !strings.Contains(err.Error(), "before it has a key")) {
				t.Errorf("the second session was made anew: %v", err)
			}
			if renew == nil && logins != 1 || logins == 0 || !x.lun.MayWrite("a") {
				t.Errorf("%d logins; the node may write: %t", logins, x.lun.MayWrite("a"))
			}
		})
	}
}

// TestRegister_twoTargets: a LUN that a node sees through two targets is no Iscsi's alone.
func TestRegister_twoTargets(t *testing.T) {
	x := newFenced(t)
	other := x.a.f.AddTarget(iqn+"-2", "10.0.0.3:3260")
	x.lun.Show(other)
	c := x.a.f.AddNode("c", boot)
	for _, target := range []*Target{x.target, other} {
		if _, err := c.Login(t.Context(), target.Target(), nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	x.want(x.register(c, keyC), sharedlun.ErrInUse)
	if err := c.Logout(t.Context(), other.Target()); err != nil {
		t.Fatal(err)
	}
	x.want(x.register(c, keyC), nil)
}

// TestGetTarget_twoTargets: a path through a target that somebody logs in to later is shown, and gets the key as one that came back does. Other LUNs of that target
// are not shown.
func TestGetTarget_twoTargets(t *testing.T) {
	x := newFenced(t)
	other := x.a.f.AddTarget(iqn+"-2", "10.0.0.3:3260")
	other.AddLun(5, 1<<30)
	x.lun.Show(other)
	if _, err := x.a.Login(t.Context(), other.Target(), nil, nil); err != nil {
		t.Fatal(err)
	}
	seen, err := x.a.GetTarget(t.Context(), x.target.Target(), false)
	if err != nil || len(seen.Sessions) != len(portals) || len(seen.Luns) != 1 {
		t.Fatalf("%+v, %v", seen, err)
	}
	through := func(p sharedlun.Path) bool { return p.Target == iqn+"-2" && p.Portal == "10.0.0.3:3260" && p.Up }
	if l := seen.Luns[0]; len(l.Paths) != len(portals)+1 || !slices.ContainsFunc(l.Paths, through) || l.Identity != x.id {
		t.Errorf("%+v", l)
	}
	_, err = x.a.Confirm(t.Context(), x.id, keyA)
	x.want(err, sharedlun.ErrNoKey)
	x.want(x.register(x.a, keyA), nil)
	_, err = x.a.Confirm(t.Context(), x.id, keyA)
	x.want(err, nil)
}
