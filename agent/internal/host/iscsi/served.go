package iscsi

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// unservedFor is how long iscsid may not know a session until somebody is told: one that was just started takes sessions over one after the other.
	unservedFor = time.Minute
	// askEvery is how often it is asked, and askTimeout how long its answer may take: it works on one thing at a time.
	askEvery   = 10 * time.Second
	askTimeout = 3 * time.Second
	// unknownSession is what iscsiadm says of the state that iscsid has a session in, if iscsid does not know the session.
	unknownSession = "Unknown"
)

// serving is what is known of the sessions that one iscsid serves.
type serving struct {
	pid   int
	asked time.Time
	// knows are the sessions that it knows, by the kernel's numbers: it forgets none as long as the kernel has it. since are those that it did not know when it was asked
	// last, and since when that is seen.
	knows map[int]bool
	since map[int]time.Time
}

// MarkUnserved says of sessions which ones iscsid does not serve: they go on, and nobody connects them again once they lose their connection. That is so behind a session whose target is gone, if
// iscsid was started anew. What it cannot tell is not said. It is asked until it knows them all, and again once another iscsid serves.
func (h *Host) MarkUnserved(ctx context.Context, sessions []Session) {
	pid, err := h.server()
	if err != nil || pid <= 1 {
		// Nobody serves now, or is started by the first who asks: the initiator has a problem of its own, or none.
		return
	}
	h.servingMu.Lock()
	defer h.servingMu.Unlock()
	s := &h.serving
	if s.pid != pid {
		*s = serving{pid: pid, knows: map[int]bool{}, since: map[int]time.Time{}}
	}
	if slices.ContainsFunc(sessions, func(one Session) bool { return !s.knows[one.ID] }) && time.Since(s.asked) >= askEvery {
		s.asked = time.Now()
		s.learn(h.internal(ctx))
	}
	for i := range sessions {
		at, is := s.since[sessions[i].ID]
		sessions[i].Unserved = is && time.Since(at) >= h.unserved
	}
}

// learn takes in the states in which iscsid says that it has sessions. Without an answer nothing is known of those that it did not know before.
func (s *serving) learn(states map[int]string) {
	for id := range s.since {
		if _, told := states[id]; !told {
			delete(s.since, id)
		}
	}
	for id, state := range states {
		switch _, seen := s.since[id]; {
		case state != unknownSession:
			s.knows[id] = true
			delete(s.since, id)
		case !seen && !s.knows[id]:
			s.since[id] = time.Now()
		}
	}
}

// internal asks iscsid in which states it has sessions, by the kernel's numbers; none when it does not answer.
func (h *Host) internal(ctx context.Context) map[int]string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	res, err := h.tool(ctx, "-m", "session", "-P", "1")
	if err != nil || bytes.Contains(res.Stderr, []byte("daemon died")) {
		// Without an iscsid iscsiadm exits well, and says of every session that its state is unknown.
		return nil
	}
	return parseInternal(string(res.Stdout))
}

// parseInternal reads what iscsiadm tells of sessions with -P 1.
func parseInternal(text string) map[int]string {
	out, id := map[int]string{}, -1
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "SID":
			n, err := strconv.Atoi(value)
			if id = n; err != nil {
				id = -1
			}
		case "Internal iscsid Session State":
			if id >= 0 && value != "" {
				out[id] = value
			}
			id = -1
		}
	}
	return out
}
