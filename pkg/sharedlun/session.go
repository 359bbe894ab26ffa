package sharedlun

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of what is asked of a node.
const (
	// maxName is the longest name of an initiator or a target (RFC 7143, 4.2.7.1).
	maxName = 223
	// maxCredential is one less than what open-iscsi has room for.
	maxCredential = 255
)

// nameOfISCSI is that of the three kinds of names (RFC 7143, 4.2.7).
var nameOfISCSI = regexp.MustCompile(`^(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9.-]+(:[A-Za-z0-9._:-]+)?|eui\.[0-9a-f]{16}|naa\.([0-9a-f]{16}|[0-9a-f]{32}))$`)

// Kinds of failures with targets, for errors.Is.
var (
	// ErrTargetBusy means that another call works on the target.
	ErrTargetBusy = errors.New("another call works on the target")
	// ErrRefused means that the target refused a command for a reason of its own.
	ErrRefused = errors.New("the target refused it")
)

// Renewal says that sessions that are there are made anew.
type Renewal struct {
	// Keys are this node's on record, of this boot and of earlier ones: they are taken off a path before its session ends. To the target the next session
	// is somebody else, and nobody could take them off any more.
	Keys []uint64
}

// Target names an iSCSI target.
type Target struct {
	IQN string
	// Portals as "ADDRESS:PORT", an IPv6 address in brackets.
	Portals []string
}

// Check refuses a target that does not name exactly one.
func (t Target) Check() error {
	if len(t.IQN) > maxName || !nameOfISCSI.MatchString(t.IQN) {
		return fmt.Errorf("%w: %.250q is no name of an iSCSI target", ErrInvalid, t.IQN)
	}
	if len(t.Portals) == 0 || len(t.Portals) > MaxPortals {
		return fmt.Errorf("%w: %d portals, 1 to %d are taken", ErrInvalid, len(t.Portals), MaxPortals)
	}
	for i, p := range t.Portals {
		at, err := netip.ParseAddrPort(p)
		switch {
		case err != nil, at.Port() == 0, at.Addr().Zone() != "", at.String() != p:
			return fmt.Errorf("%w: portal %.100q is no ADDRESS:PORT", ErrInvalid, p)
		case slices.Contains(t.Portals[:i], p):
			return fmt.Errorf("%w: portal %s is named twice", ErrInvalid, p)
		}
	}
	return nil
}

// Chap has the credentials for a target. Printed, it shows none of them.
type Chap struct {
	Username, Password string
	// MutualUsername and MutualPassword, both or none, are those of the target.
	MutualUsername, MutualPassword string
}

// String hides the credentials.
func (c Chap) String() string { return "credentials" }

// GoString hides the credentials.
func (c Chap) GoString() string { return "credentials" }

// Check refuses credentials that cannot be used. The error has no secret in it.
func (c Chap) Check() error {
	if c.Username == "" || c.Password == "" || (c.MutualUsername == "") != (c.MutualPassword == "") {
		return fmt.Errorf("%w: credentials are a name and a password, and those of the target are both or none", ErrInvalid)
	}
	for name, text := range map[string]string{
		"username": c.Username, "password": c.Password, "mutual username": c.MutualUsername, "mutual password": c.MutualPassword,
	} {
		control := func(r rune) bool { return r < ' ' || r == 0x7f }
		if len(text) > maxCredential || !utf8.ValidString(text) || strings.ContainsFunc(text, control) || strings.TrimSpace(text) != text {
			return fmt.Errorf("%w: the %s is longer than %d bytes, begins or ends with a blank, or has control characters in it", ErrInvalid, name, maxCredential)
		}
	}
	return nil
}

// SessionState tells whether I/O flows.
type SessionState int

// The states.
const (
	// SessionNone: there is no session.
	SessionNone SessionState = iota
	// SessionUp: I/O flows.
	SessionUp
	// SessionDown: the session is there, its connection is not, and the kernel tries again.
	SessionDown
)

// Session is the session of a node with one portal.
type Session struct {
	Portal string
	State  SessionState
	// Message is what the kernel or the last login said when it is not up.
	Message string
	// Unserved is true when iscsid does not know the session, so that nobody connects it again once it loses its connection.
	Unserved bool
}

// Path is one path to a LUN.
type Path struct {
	// Target and Portal that it leads through, and Device, the kernel's name.
	Target, Portal, Device string
	// Session is the kernel's number of the session. One that is made anew has another, and is another path to the target, which has no key.
	Session int64
	// Map is the kernel's name of the multipath map that the path is a part of; empty when it is of none.
	Map string
	// Up is true when the kernel says that the device is running, and its session is up.
	Up bool
	// Initiator is the name by which the target knows this node on the path; empty when the kernel does not tell it.
	Initiator string
}

// Lun is a LUN as a node sees it.
type Lun struct {
	Identity
	// Number at the target.
	Number int64
	// Device stands for all paths: the path itself, or the multipath map. Empty while there are several paths and no map.
	Device   string
	Paths    []Path
	ReadOnly bool
	// Users say who uses it on the node, in words that follow "in use by"; empty when nobody does, or when that was not asked. UsersError says why there
	// may be more.
	Users      []string
	UsersError string
}

// Seen is what a node sees of a target.
type Seen struct {
	// Sessions with the portals that were asked about, in their order; sessions with other portals of the target follow.
	Sessions []Session
	// Luns, ordered by number.
	Luns []Lun
	// Recorded is true when the initiator has records of the target, or when that cannot be read: a logout removes them.
	Recorded bool
}

// Initiator describes the initiator of a node.
type Initiator struct {
	// Name as found; empty when there is none.
	Name string
	// OfHost is true when the host's own iscsid serves sessions.
	OfHost bool
	// Problem says why the node cannot use iSCSI; nil when it can.
	Problem *Problem
	// Multipath is true when multipathd runs.
	Multipath bool
}

// NewProblem makes a Problem.
func NewProblem(reason, format string, args ...any) *Problem {
	return &Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Portal returns "ADDRESS:PORT" of a portal as a Target has it; an IPv6 address stands in brackets. What is no IP address stays as it is, and Check refuses it.
func Portal(address string, port uint16) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	return netip.AddrPortFrom(a, port).String()
}
