package iscsi

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

// Exit codes of iscsiadm(8).
const (
	codeNoSession     = 2
	codeInternal      = 9
	codeSessionExists = 15
	codeFatalLogin    = 19
	codeNoObjects     = 21
	codeAuthorization = 24
	codeNotConnected  = 32
)

// Login makes the session with one portal of a target, if there is none, and brings its record to the credentials; nil stands for none. With a session it looks
// for new LUNs and sizes. The error is a *sharedlun.Problem where the target or the initiator is the reason.
func (h *Host) Login(ctx context.Context, iqn, portal string, c *sharedlun.Chap) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	sessions, err := h.at(iqn, portal)
	if err != nil {
		return err
	}
	group := ""
	if len(sessions) == 0 {
		if group, err = h.reach(ctx, iqn, portal); err != nil {
			return err
		}
	}
	files, err := h.ensureRecord(ctx, iqn, portal, group)
	if err != nil {
		return err
	}
	if err := h.settle(iqn, portal, files, c); err != nil {
		return err
	}
	if len(sessions) > 0 {
		return h.rescan(ctx, sessions)
	}
	_, err = h.tool(ctx, h.node(iqn, portal, "--login")...)
	if exitCode(err) == codeNoObjects {
		// The record of ours that was found is in the place of another version of open-iscsi.
		if files, err = h.makeRecord(ctx, iqn, portal, group); err == nil {
			err = h.settle(iqn, portal, files, c)
		}
		if err != nil {
			return err
		}
		_, err = h.tool(ctx, h.node(iqn, portal, "--login")...)
	}
	if code := exitCode(err); code == 0 || code == codeSessionExists {
		return h.await(ctx, iqn, portal)
	}
	return h.explain(err, iqn, portal, c)
}

// at are the sessions with a portal.
func (h *Host) at(iqn, portal string) ([]Session, error) {
	sessions, err := h.Sessions(iqn)
	return slices.DeleteFunc(sessions, func(s Session) bool { return s.Portal != portal }), err
}

// node are arguments that name one record; those of all portals of the target when none is named.
func (h *Host) node(iqn, portal string, more ...string) []string {
	args := []string{"-m", "node", "-T", iqn}
	if portal != "" {
		args = append(args, "-p", portal)
	}
	if h.cfg.Iface != "" {
		args = append(args, "-I", h.cfg.Iface)
	}
	return append(args, more...)
}

// ready loads the initiator and has iscsid run.
func (h *Host) ready(ctx context.Context) error {
	if !h.modules() {
		if p := h.load(ctx); p != nil {
			return p
		}
	}
	return h.serve(ctx)
}

// reach finds out whether the portal has the target, and returns what discover does.
func (h *Host) reach(ctx context.Context, iqn, portal string) (group string, err error) {
	if err := h.probe(ctx, portal); err != nil {
		return "", sharedlun.NewProblem(sharedlun.ReasonPortalUnreachable,
			"Node %s cannot connect to portal %s: %v. See whether the target runs, and what is between.", h.cfg.NodeName, portal, err)
	}
	return h.discover(ctx, iqn, portal)
}

// discover asks the portal for its targets, and returns the number of the group that the portal belongs to; empty where the portal does
// not tell without credentials. It leaves no record.
func (h *Host) discover(ctx context.Context, iqn, portal string) (group string, err error) {
	args := []string{"-m", "discovery", "-t", "st", "-p", portal, "-o", "nonpersistent"}
	if h.cfg.Iface != "" {
		args = append(args, "-I", h.cfg.Iface)
	}
	res, err := h.tool(ctx, args...)
	if exitCode(err) == -1 {
		return "", sharedlun.NewProblem(sharedlun.ReasonTargetUnreachable, "Node %s asked portal %s for its targets: %v.", h.cfg.NodeName, portal, err)
	}
	if code := exitCode(err); code != 0 && code != codeNoObjects {
		// Many targets tell nothing to whom they do not know. The login says more.
		return "", nil
	}
	found := false
	for line := range strings.Lines(string(res.Stdout)) {
		at, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != iqn {
			continue
		}
		found = true
		if where, number, ok := strings.Cut(at, ","); ok && where == portal {
			return number, nil
		}
	}
	if !found {
		return "", sharedlun.NewProblem(sharedlun.ReasonWrongTarget,
			"Portal %s has no target %s for node %s. See the name, and whether the target lets this initiator in.", portal, iqn, h.cfg.NodeName)
	}
	return "", nil
}

// ensureRecord finds the record of a portal, or makes it. Where there are others than ours, which may be in the place of another version, it is that of which iscsiadm tells.
func (h *Host) ensureRecord(ctx context.Context, iqn, portal, group string) ([]string, error) {
	all, own, err := h.portalRecords(iqn, portal)
	if err != nil {
		return nil, err
	}
	if len(own) == len(all) && len(own) > 0 {
		return own, nil
	}
	if len(all) > 0 {
		switch text, err := h.shown(ctx, iqn, portal); {
		case err != nil:
			return nil, err
		case text != "" && len(own) > 0 && settled(text):
			return own, nil
		case text != "":
			return slices.DeleteFunc(all, func(file string) bool { return slices.Contains(own, file) }), nil
		}
	}
	return h.makeRecord(ctx, iqn, portal, group)
}

// makeRecord makes a record of a portal, and finds what was made.
func (h *Host) makeRecord(ctx context.Context, iqn, portal, group string) ([]string, error) {
	before, _, err := h.portalRecords(iqn, portal)
	if err != nil {
		return nil, err
	}
	at := portal
	if _, err := strconv.ParseUint(group, 10, 16); err == nil {
		at += "," + group
	}
	if _, err := h.tool(ctx, h.node(iqn, at, "-o", "new")...); err != nil {
		return nil, fmt.Errorf("make the record of %s: %w", iqn, err)
	}
	all, _, err := h.portalRecords(iqn, portal)
	made := slices.DeleteFunc(all, func(file string) bool { return slices.Contains(before, file) })
	if err == nil && len(made) == 0 {
		err = fmt.Errorf("the record of %s at %s was made, and is not found: %w", iqn, portal, fs.ErrNotExist)
	}
	return made, err
}

// explain makes the error of a login that failed.
func (h *Host) explain(err error, iqn, portal string, c *sharedlun.Chap) error {
	what := fmt.Sprintf("Node %s reached portal %s", h.cfg.NodeName, portal)
	switch code := exitCode(err); {
	case code == codeAuthorization && c == nil:
		return sharedlun.NewProblem(sharedlun.ReasonWrongChap, "%s, and target %s asks for credentials or does not know this initiator.", what, iqn)
	case code == codeAuthorization:
		return sharedlun.NewProblem(sharedlun.ReasonWrongChap, "%s, and target %s refuses the credentials, or does not know this initiator.", what, iqn)
	case code == codeFatalLogin && c != nil && c.MutualUsername != "":
		return sharedlun.NewProblem(sharedlun.ReasonWrongChap, "%s, and target %s does not show the credentials that are expected of it.", what, iqn)
	}
	return sharedlun.NewProblem(sharedlun.ReasonTargetUnreachable, "%s, and the session with target %s does not come up: %v.", what, iqn, err)
}

// rescan looks for new LUNs and sizes. A session that is down has none.
func (h *Host) rescan(ctx context.Context, sessions []Session) error {
	for _, s := range sessions {
		if !s.Up {
			continue
		}
		if _, err := h.tool(ctx, "-m", "session", "-r", strconv.Itoa(s.ID), "--rescan"); err != nil && exitCode(err) != codeNoObjects {
			return fmt.Errorf("look for new LUNs of %s: %w", s.IQN, err)
		}
	}
	return h.rejoin(sessions[0].IQN)
}

const (
	awaitTimeout = 5 * time.Second
	awaitPause   = 50 * time.Millisecond
)

// await waits until the kernel has looked for the LUNs of a new session, and they have their nodes. A session without LUNs is one nevertheless.
func (h *Host) await(ctx context.Context, iqn, portal string) error {
	limited, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	for {
		sessions, err := h.at(iqn, portal)
		if err != nil {
			return err
		}
		luns, err := h.Luns(sessions)
		if err != nil {
			return err
		}
		complete := len(luns) > 0 && !slices.ContainsFunc(luns, func(l sharedlun.Lun) bool { return !h.hasNode(l) })
		select {
		case <-limited.Done():
			if len(sessions) == 0 && ctx.Err() == nil {
				return sharedlun.NewProblem(sharedlun.ReasonTargetUnreachable, "the login to target %s at %s succeeded, and there is no session: it ended at once", iqn, portal)
			}
			return ctx.Err()
		case <-time.After(awaitPause):
		}
		if complete {
			return nil
		}
	}
}

func (h *Host) hasNode(l sharedlun.Lun) bool {
	return !slices.ContainsFunc(l.Paths, func(p sharedlun.Path) bool {
		_, err := os.Stat(filepath.Join(h.cfg.Dev, p.Device))
		return err != nil
	})
}

// Logout ends one session. One that is not there needs no work. Whoever calls has made sure that nobody uses it.
func (h *Host) Logout(ctx context.Context, s Session) error {
	if err := h.serve(ctx); err != nil {
		return err
	}
	_, err := h.tool(ctx, "-m", "session", "-r", strconv.Itoa(s.ID), "--logout")
	if code := exitCode(err); code == 0 || code == codeNoObjects {
		return nil
	}
	left, errLeft := h.left(s)
	switch {
	case errLeft == nil && left == nil:
		return nil
	case errLeft == nil && !left.Up && refused(exitCode(err)):
		err = h.part(ctx, s)
	}
	if err != nil {
		return fmt.Errorf("log out of %s at %s: %w", s.IQN, s.Portal, err)
	}
	return nil
}

// Forget removes the records of a target: those that iscsiadm has, and those of ours in the place of another version. Those of other targets stay, and so does what somebody else has on record in that
// place.
func (h *Host) Forget(ctx context.Context, iqn string) error {
	if pid, err := h.server(); err == nil && pid == 0 && h.cfg.Start == nil {
		// Nobody here serves sessions: nobody made records for us.
		return nil
	}
	if err := h.serve(ctx); err != nil {
		return err
	}
	_, err := h.tool(ctx, h.node(iqn, "", "-o", "delete")...)
	if code := exitCode(err); code == 0 || code == codeNoObjects {
		err = h.atRoot(func(root *os.Root) error { return h.forgetOwn(root, iqn) })
	}
	if err != nil {
		return fmt.Errorf("remove the records of %s: %w", iqn, err)
	}
	return nil
}
