//go:build hostroot

package iscsi

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

// ownHost is this node, with an iscsid of ours.
func ownHost(t *testing.T) *Host {
	t.Helper()
	lio.StopDaemon(t)
	h := New(Config{
		Runner: run.Real{}, NodeName: "n1", Dir: filepath.Join(t.TempDir(), "state"),
		Start: func(cmd run.Command) (Process, error) { return run.Real{}.Start(cmd) },
	})
	t.Cleanup(func() { lio.StopDaemon(t) })
	return h
}

// orphans makes sessions with both portals, takes the target away, and starts iscsid anew: it takes sessions over one by one, each once its target is back.
func orphans(t *testing.T, h *Host, target *lio.Target, listens bool) []Session {
	t.Helper()
	for _, p := range lio.Portals {
		mustDo(t, h.Login(t.Context(), hostIQN, p, nil))
	}
	target.Stop()
	for _, p := range lio.Portals {
		if !listens {
			target.DropPortal(p)
			t.Cleanup(func() { target.AddPortal(p) })
		}
	}
	for n := 0; ; n++ {
		s, err := h.Sessions(hostIQN)
		mustDo(t, err)
		if len(s) == len(lio.Portals) && !s[0].Up && !s[1].Up {
			break
		}
		if n == 300 {
			t.Fatalf("the sessions stay up: %+v", s)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if h.cfg.Start == nil {
		lio.RestartDaemon(t)
	} else {
		lio.StopDaemon(t)
		mustDo(t, h.serve(t.Context()))
		time.Sleep(2 * time.Second) // It has to have begun with the first session.
	}
	sessions, err := h.Sessions(hostIQN)
	mustDo(t, err)
	return sessions
}

// ends logs out of sessions, and makes sure that new ones can be made.
func ends(t *testing.T, h *Host, target *lio.Target, sessions []Session, listens bool) {
	t.Helper()
	for _, s := range sessions {
		begin := time.Now()
		if err := h.Logout(t.Context(), s); err != nil {
			t.Errorf("%v", err)
		}
		t.Logf("session %d ended after %v", s.ID, time.Since(begin).Round(time.Millisecond))
	}
	if left, err := h.Sessions(hostIQN); err != nil || len(left) != 0 {
		t.Fatalf("%+v, %v", left, err)
	}
	if !listens {
		for _, p := range lio.Portals {
			target.AddPortal(p)
		}
	}
	target.Start()
	for _, p := range lio.Portals {
		mustDo(t, h.Login(t.Context(), hostIQN, p, nil))
	}
	next, err := h.Sessions(hostIQN)
	mustDo(t, err)
	for _, s := range next {
		mustDo(t, h.Logout(t.Context(), s))
	}
	mustDo(t, h.Forget(t.Context(), hostIQN))
}

// TestHost_goneForGood ends sessions that no iscsid has in hand.
func TestHost_goneForGood(t *testing.T) {
	for name, c := range map[string]struct{ own, listens bool }{
		"ours, nobody listens":           {true, false},
		"ours, without the target":       {true, true},
		"the host's, nobody listens":     {false, false},
		"the host's, without the target": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			target := lio.New(t, hostIQN)
			h := New(Config{Runner: run.Real{}, NodeName: "n1"})
			if c.own {
				h = ownHost(t)
			} else {
				lio.Daemon(t)
			}
			ends(t, h, target, orphans(t, h, target, c.listens), c.listens)
		})
	}
}

// TestHost_deaf: iscsid dies while a child of it waits for a target. The child has its socket, where nobody answers any more.
func TestHost_deaf(t *testing.T) {
	target := lio.New(t, hostIQN)
	h := ownHost(t)
	sessions := orphans(t, h, target, false)
	out, err := exec.Command("pgrep", "-o", "-x", "iscsid").Output()
	mustDo(t, err)
	lio.Run(t, "kill", "-KILL", strings.TrimSpace(string(out)))
	time.Sleep(time.Second)
	if yes, err := h.listens(); yes || !errors.Is(err, errDeaf) {
		t.Fatalf("%v, %v", yes, err)
	}
	begin := time.Now()
	i, err := h.Initiator(t.Context())
	if err != nil || i.Problem == nil || i.Problem.Reason != sharedlun.ReasonNoTools || time.Since(begin) > 2*answerTimeout {
		t.Errorf("%+v, %v, after %v", i, err, time.Since(begin))
	}
	wantReason(t, h.Logout(t.Context(), sessions[0]), sharedlun.ReasonNoTools)
	h.deafness = time.Millisecond
	mustDo(t, h.serve(t.Context()))
	if i, err = h.Initiator(t.Context()); err != nil || i.Problem != nil {
		t.Errorf("%+v, %v", i, err)
	}
	ends(t, h, target, sessions, false)
}
