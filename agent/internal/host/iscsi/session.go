package iscsi

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Session is a session of the kernel.
type Session struct {
	// ID is the kernel's number of it.
	ID          int
	IQN, Portal string
	Up          bool
	// Message says why it is not up.
	Message string
	// Initiator is the name that the session was made with; empty when the kernel does not tell it. The node may have another name by now.
	Initiator string
	// Unserved is true when iscsid does not serve the session; see MarkUnserved.
	Unserved bool
	// dir is its device in sysfs.
	dir string
}

// attribute reads an attribute of sysfs.
func attribute(dir, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(text)), err
}

// gone reports whether an error means that what was read of has gone away.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOTCONN)
}

// Sessions reads the sessions with a target, ordered by number; with all targets when iqn is empty. A session that goes away meanwhile is left out.
func (h *Host) Sessions(iqn string) ([]Session, error) {
	class := filepath.Join(h.cfg.Sys, "class/iscsi_session")
	entries, err := os.ReadDir(class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("iSCSI sessions: %w", err)
	}
	var out []Session
	for _, e := range entries {
		s, err := h.session(filepath.Join(class, e.Name()))
		switch {
		case err != nil && gone(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("iSCSI session %s: %w", e.Name(), err)
		case s != nil && (iqn == "" || s.IQN == iqn):
			out = append(out, *s)
		}
	}
	slices.SortFunc(out, func(a, b Session) int { return a.ID - b.ID })
	return out, nil
}

// session reads one session; nil when it is not through our interface.
func (h *Host) session(dir string) (*Session, error) {
	id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "session"))
	if err != nil {
		return nil, err
	}
	s := &Session{ID: id, dir: filepath.Join(dir, "device")}
	if s.IQN, err = attribute(dir, "targetname"); err != nil {
		return nil, err
	}
	if iface, err := attribute(dir, "ifacename"); h.cfg.Iface != "" && (err != nil || iface != h.cfg.Iface) {
		return nil, err
	}
	if s.Initiator, err = attribute(dir, "initiatorname"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	state, err := attribute(dir, "state")
	if err != nil {
		return nil, err
	}
	connection, err := h.connection(s)
	if err != nil {
		return nil, err
	}
	s.Up = state == "LOGGED_IN" && (connection == "up" || connection == "")
	if !s.Up {
		s.Message = fmt.Sprintf("The kernel says that the session is %s and its connection %s. It tries to connect again.", state, connection)
	}
	return s, nil
}

// connection reads the portal that the session was made with, and the state of its connection. Kernels before 5.8 do not tell that.
func (h *Host) connection(s *Session) (state string, err error) {
	dir := filepath.Join(h.cfg.Sys, "class/iscsi_connection", fmt.Sprintf("connection%d:0", s.ID))
	address, err := attribute(dir, "persistent_address")
	if err != nil {
		return "", err
	}
	port, err := attribute(dir, "persistent_port")
	if err != nil {
		return "", err
	}
	s.Portal = joinPortal(address, port)
	state, err = attribute(dir, "state")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return state, err
}

// joinPortal writes a portal as callers do.
func joinPortal(address, port string) string {
	a, err := netip.ParseAddr(strings.Trim(address, "[]"))
	n, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil {
		return address + ":" + port
	}
	return netip.AddrPortFrom(a, uint16(n)).String()
}

// States are the sessions with the portals of a target, in their order; sessions with other portals of it follow.
func States(t sharedlun.Target, sessions []Session) []sharedlun.Session {
	out := make([]sharedlun.Session, 0, len(t.Portals))
	for _, p := range t.Portals {
		out = append(out, sharedlun.Session{Portal: p, State: sharedlun.SessionNone})
	}
	for _, s := range sessions {
		state := sharedlun.Session{Portal: s.Portal, State: sharedlun.SessionDown, Message: s.Message, Unserved: s.Unserved}
		if s.Up {
			state.State = sharedlun.SessionUp
		}
		i := slices.IndexFunc(out, func(o sharedlun.Session) bool { return o.Portal == s.Portal })
		switch {
		case i < 0:
			out = append(out, state)
		case out[i].State != sharedlun.SessionUp:
			out[i] = state
		}
	}
	return out
}
