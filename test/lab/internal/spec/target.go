package spec

import (
	"fmt"
	"regexp"
	"slices"
)

const (
	// IQNPrefix is what the names of all of the lab's targets and initiators
	// begin with.
	IQNPrefix = "iqn.2026-01.storage.quarry.lab:"
	// PortalPort is the port of every portal.
	PortalPort = 3260
	// MaxPortals is the number of paths that a target can have.
	MaxPortals = 2
	// MaxTargets is the number of targets that have addresses of their own.
	MaxTargets = (254 - firstPortal + 1) / MaxPortals
	// firstPortal is the host part of the first address after those of the
	// nodes.
	firstPortal = 10 + maxNodes + 1
)

// IQN is the name of a target of the lab, or of the initiator of a node.
func IQN(name string) string { return IQNPrefix + name }

// Target is an iSCSI target of the storage node.
type Target struct {
	Name string `json:"name"`
	// Slot chooses the addresses of its portals; no other target has them.
	Slot int `json:"slot"`
	// Portals is the number of its paths, and Cut those that are taken off the
	// network; they count from one.
	Portals int   `json:"portals"`
	Cut     []int `json:"cut,omitempty"`
	// CHAP is what an initiator has to know, and Mutual what the target tells
	// in return.
	CHAP   *Credentials `json:"chap,omitempty"`
	Mutual *Credentials `json:"mutual,omitempty"`
	// LUNs in the order of their numbers, from zero.
	LUNs []LUN `json:"luns"`
	// NoReservations is true for a target that refuses persistent reservations.
	NoReservations bool `json:"noReservations,omitempty"`
	// Stopped is true for a target that takes no sessions.
	Stopped bool `json:"stopped,omitempty"`
}

// Credentials are a name and a password.
type Credentials struct {
	User     string `json:"user"`
	Password string `json:"password"`
}

// LUN is a disk behind a target.
type LUN struct {
	// Serial is the unit serial, which no other disk has.
	Serial string `json:"serial"`
	Bytes  int64  `json:"bytes"`
	// Device is the disk in the storage node; empty until it is plugged in.
	Device string `json:"device"`
}

// IQN is the target's name on the network.
func (t Target) IQN() string { return IQN(t.Name) }

// Addresses are those of the portals, in order.
func (t Target) Addresses() []string {
	var out []string
	for n := range t.Portals {
		out = append(out, fmt.Sprintf("10.99.0.%d", firstPortal+MaxPortals*t.Slot+n))
	}
	return out
}

// IsCut reports whether a path is taken off the network.
func (t Target) IsCut(portal int) bool { return slices.Contains(t.Cut, portal) }

// TargetWish is what somebody wants of a target. What is nil or zero stays as
// it is.
type TargetWish struct {
	Portals, LUNs int
	// Bytes is the size of each LUN. It never changes.
	Bytes int64
	// CHAP and Mutual without a user end the use of either.
	CHAP, Mutual   *Credentials
	NoReservations *bool
}

// DefaultLUNBytes is the size of a LUN if nobody asks for another.
const DefaultLUNBytes = 1 << 30

var (
	targetNamePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,62}$`)
	// LIO's files take one line, and iscsiadm's records no quotes.
	credentialPattern = regexp.MustCompile(`^[!-~]{1,255}$`)
)

func (t Target) with(w TargetWish, serial func() string) (Target, error) {
	if w.Portals != 0 {
		t.Portals = w.Portals
		t.Cut = slices.DeleteFunc(slices.Clone(t.Cut), func(n int) bool { return n > t.Portals })
	}
	if t.Portals < 1 || t.Portals > MaxPortals {
		return t, fmt.Errorf("%d portals: want 1 to %d", t.Portals, MaxPortals)
	}
	var err error
	if t.CHAP, err = changed(t.CHAP, w.CHAP); err != nil {
		return t, err
	}
	if t.Mutual, err = changed(t.Mutual, w.Mutual); err != nil {
		return t, err
	}
	if t.Mutual != nil && t.CHAP == nil {
		return t, fmt.Errorf("mutual CHAP goes with CHAP only")
	}
	if w.NoReservations != nil {
		t.NoReservations = *w.NoReservations
	}
	return t.withLUNs(max(w.LUNs, 1, len(t.LUNs)), w, serial)
}

func (t Target) withLUNs(count int, w TargetWish, serial func() string) (Target, error) {
	if w.LUNs != 0 && w.LUNs < len(t.LUNs) {
		return t, fmt.Errorf("it has %d LUNs, and none of them is taken away: remove the target and make it again", len(t.LUNs))
	}
	bytes := w.Bytes
	for _, l := range t.LUNs {
		if bytes != 0 && l.Bytes != bytes {
			return t, fmt.Errorf("its LUNs have %d bytes, and keep their size: remove the target and make it again", l.Bytes)
		}
		bytes = l.Bytes
	}
	if bytes == 0 {
		bytes = DefaultLUNBytes
	}
	t.LUNs = slices.Clone(t.LUNs)
	for len(t.LUNs) < count {
		t.LUNs = append(t.LUNs, LUN{Serial: serial(), Bytes: bytes})
	}
	return t, nil
}

// changed gives the credentials after a wish.
func changed(have, wish *Credentials) (*Credentials, error) {
	switch {
	case wish == nil:
		return have, nil
	case *wish == Credentials{}:
		return nil, nil
	case !credentialPattern.MatchString(wish.User) || !credentialPattern.MatchString(wish.Password):
		return nil, fmt.Errorf("CHAP: want USER:PASSWORD, printable and without spaces")
	}
	return wish, nil
}
