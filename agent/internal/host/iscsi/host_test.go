//go:build hostroot

package iscsi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
	"quarry.storage/quarry/test/lio"
)

const (
	hostIQN = "iqn.2026-01.storage.quarry.lab:adapter"
	secret  = `pass $"'#=\ word`
)

func realHost(t *testing.T, iface string) (*Host, *run.Counting) {
	t.Helper()
	counting := &run.Counting{Next: run.Real{}}
	return New(Config{Runner: counting, NodeName: "n1", Iface: iface}), counting
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var p *sharedlun.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("%v, want %s", err, reason)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error has the secret in it: %v", err)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestHost_life logs in to a target, sees its LUNs, and leaves nothing.
func TestHost_life(t *testing.T) { //nolint:gocyclo // one journey, told in its order
	target := lio.New(t, hostIQN)
	target.AddLun(1, "two")
	lio.Iface(t, "quarry-a")
	lio.Iface(t, "quarry-b")
	h, _ := realHost(t, "quarry-a")
	before := tree(t)
	for range 2 {
		for _, p := range lio.Portals {
			mustDo(t, h.Login(t.Context(), hostIQN, p, nil))
		}
	}
	sessions, err := h.Sessions(hostIQN)
	mustDo(t, err)
	luns, err := h.Luns(sessions)
	mustDo(t, err)
	if len(sessions) != 2 || len(luns) != 2 || len(luns[0].Paths) != 2 || luns[0].Number != 0 || luns[1].Number != 1 || luns[0].Device != "" {
		t.Fatalf("%+v\n%+v", sessions, luns)
	}
	for _, l := range luns {
		if l.Check() != nil || !strings.HasPrefix(l.WWID, "naa.6001405") || l.SizeBytes != 64<<20 || l.ReadOnly || !l.Paths[0].Up || !l.Paths[1].Up {
			t.Errorf("%+v", l)
		}
	}
	states := States(sharedlun.Target{IQN: hostIQN, Portals: []string{lio.Portals[1], "10.0.0.1:3260"}}, sessions)
	if states[0].State != sharedlun.SessionUp || states[1].State != sharedlun.SessionNone || states[2].Portal != lio.Portals[0] {
		t.Errorf("%+v", states)
	}
	other, _ := realHost(t, "quarry-b")
	if seen, err := other.Sessions(hostIQN); err != nil || len(seen) != 0 {
		t.Errorf("%+v, %v", seen, err)
	}
	initiator, err := h.Initiator(t.Context())
	if err != nil || !initiator.OfHost || initiator.Problem != nil || !strings.HasPrefix(initiator.Name, "iqn.") {
		t.Errorf("%+v, %v", initiator, err)
	}
	for range 2 {
		for _, s := range sessions {
			mustDo(t, h.Logout(t.Context(), s))
		}
		mustDo(t, h.Forget(t.Context(), hostIQN))
	}
	if sessions, err = h.Sessions(hostIQN); err != nil || len(sessions) != 0 {
		t.Errorf("%+v, %v", sessions, err)
	}
	if after := tree(t); !slices.Equal(before, after) {
		t.Errorf("open-iscsi has %q, before %q", after, before)
	}
}

// tree are the records of open-iscsi.
func tree(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, db := range databases {
		for _, kind := range []string{"nodes", "send_targets", "static"} {
			_ = filepath.WalkDir(filepath.Join("/", db, kind), func(path string, e os.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					out = append(out, path)
				}
				return nil
			})
		}
	}
	return out
}

// TestHost_credentials: they are in no argument, no other record has them, and wrong ones are told from a wrong target.
func TestHost_credentials(t *testing.T) {
	target := lio.New(t, hostIQN)
	target.Chap("user", secret, "it", "the targets own")
	lio.Iface(t, "quarry-a")
	h, counting := realHost(t, "quarry-a")
	login := func(c *sharedlun.Chap) error { return h.Login(t.Context(), hostIQN, lio.Portals[0], c) }
	wantReason(t, login(nil), sharedlun.ReasonWrongChap)
	wantReason(t, login(&sharedlun.Chap{Username: "user", Password: secret + "!"}), sharedlun.ReasonWrongChap)
	wantReason(t, login(&sharedlun.Chap{Username: "user", Password: secret, MutualUsername: "it", MutualPassword: "not the targets"}), sharedlun.ReasonWrongChap)
	good := &sharedlun.Chap{Username: "user", Password: secret, MutualUsername: "it", MutualPassword: "the targets own"}
	mustDo(t, login(good))
	for _, c := range counting.Calls() {
		if text := strings.Join(append(c.Argv(), string(c.Stdin)), " "); strings.Contains(text, secret) || strings.Contains(text, "own") {
			t.Errorf("a process was told the secret: %s", text)
		}
	}
	for _, file := range tree(t) {
		info, err := os.Stat(file)
		text, errRead := os.ReadFile(file)
		mustDo(t, errors.Join(err, errRead))
		if has := bytes.Contains(text, []byte(secret)); has != strings.Contains(file, hostIQN) || has && info.Mode().Perm() != 0o600 {
			t.Errorf("%s of mode %o has the secret: %v", file, info.Mode().Perm(), has)
		}
	}
	sessions, err := h.Sessions(hostIQN)
	mustDo(t, err)
	mustDo(t, h.Logout(t.Context(), sessions[0]))
	mustDo(t, login(&sharedlun.Chap{Username: "user", Password: secret}))
}

// TestHost_problems tells the reasons apart, in seconds.
func TestHost_problems(t *testing.T) {
	lio.New(t, hostIQN)
	lio.Iface(t, "quarry-a")
	h, _ := realHost(t, "quarry-a")
	before := tree(t)
	wantReason(t, h.Login(t.Context(), hostIQN+"x", lio.Portals[0], nil), sharedlun.ReasonWrongTarget)
	wantReason(t, h.Login(t.Context(), hostIQN, "127.0.0.1:3999", nil), sharedlun.ReasonPortalUnreachable)
	if after := tree(t); !slices.Equal(before, after) {
		t.Errorf("open-iscsi has %q, before %q", after, before)
	}
}

// TestHost_targetGone shows a session whose target is stopped, and that it comes back.
func TestHost_targetGone(t *testing.T) {
	target := lio.New(t, hostIQN)
	lio.Iface(t, "quarry-a")
	h, _ := realHost(t, "quarry-a")
	mustDo(t, h.Login(t.Context(), hostIQN, lio.Portals[0], nil))
	state := func(up bool) {
		t.Helper()
		for range 300 {
			s, err := h.Sessions(hostIQN)
			mustDo(t, err)
			if len(s) == 1 && s[0].Up == up && (s[0].Message == "") == up {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Fatalf("the session does not become up: %v", up)
	}
	state(true)
	target.Stop()
	state(false)
	target.Start()
	state(true)
}

// TestHost_own starts iscsid where none runs, and again when it dies. The session outlives both.
func TestHost_own(t *testing.T) { //nolint:gocyclo // one journey, told in its order
	target := lio.New(t, hostIQN)
	lio.StopDaemon(t)
	h := New(Config{
		Runner: run.Real{}, NodeName: "n1", Dir: filepath.Join(t.TempDir(), "state"),
		Start: func(cmd run.Command) (Process, error) { return run.Real{}.Start(cmd) },
	})
	mustDo(t, h.Login(t.Context(), hostIQN, lio.Portals[0], nil))
	mustDo(t, os.Mkdir(filepath.Join(h.cfg.Dir, "nodes", hostIQN), 0o700))
	sessions, err := h.Sessions(hostIQN)
	if err != nil || len(sessions) != 1 || !sessions[0].Up {
		t.Fatalf("%+v, %v", sessions, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	lio.StopDaemon(t)
	for n := 0; ; n++ {
		if yes, err := h.listens(); err == nil && yes {
			break
		}
		if n == 150 {
			t.Fatal("iscsid is not started again")
		}
		time.Sleep(100 * time.Millisecond)
	}
	target.Stop()
	target.Start()
	for n := 0; ; n++ {
		if again, err := h.Sessions(hostIQN); err == nil && len(again) == 1 && again[0].Up && again[0].ID == sessions[0].ID {
			break
		}
		if n == 300 {
			t.Fatal("the session does not come back")
		}
		time.Sleep(100 * time.Millisecond)
	}
	mustDo(t, h.Logout(t.Context(), sessions[0]))
	mustDo(t, h.Forget(t.Context(), hostIQN))
	cancel()
	mustDo(t, <-done)
	if yes, err := h.listens(); err != nil || yes {
		t.Errorf("iscsid outlives us: %v, %v", yes, err)
	}
	without := New(Config{Runner: run.Real{}, NodeName: "n1"})
	wantReason(t, without.Login(t.Context(), hostIQN, lio.Portals[0], nil), sharedlun.ReasonNoTools)
	if i, err := without.Initiator(t.Context()); err != nil || i.Problem == nil || i.Problem.Reason != sharedlun.ReasonNoTools || i.OfHost {
		t.Errorf("%+v, %v", i, err)
	}
}

// inPod is the variable that makes this program the agent in a pod, see TestHost_pod.
const inPod = "QUARRY_TEST_POD"

// TestMain lets this program be an agent with mounts and a network of its own.
func TestMain(m *testing.M) {
	if os.Getenv(inPod) != "" {
		if err := pod(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// pod logs in to the target and out again, as an agent in a pod does, and says whose iscsid it was.
func pod() error {
	ctx := context.Background()
	h := New(Config{
		Runner: run.Real{}, NodeName: "n1", Dir: "/etc/iscsi", Start: func(cmd run.Command) (Process, error) { return run.Real{}.Start(cmd) },
	})
	err := h.Login(ctx, hostIQN, lio.Portals[0], &sharedlun.Chap{Username: "user", Password: secret})
	if err != nil {
		return err
	}
	sessions, err := h.Sessions(hostIQN)
	if err != nil || len(sessions) != 1 || !sessions[0].Up {
		return fmt.Errorf("sessions %+v, %w", sessions, err)
	}
	i, err := h.Initiator(ctx)
	if err != nil {
		return err
	}
	here, _ := filepath.Glob("/etc/iscsi/nodes/" + hostIQN + "/*/*")
	there, _ := filepath.Glob("/proc/1/root/etc/iscsi/nodes/" + hostIQN + "/*/*")
	fmt.Fprintf(os.Stdout, "of host %v, records here %d, there %d\n", i.OfHost, len(here), len(there))
	err = errors.Join(h.Logout(ctx, sessions[0]), h.Forget(ctx, hostIQN))
	if h.own != nil {
		h.own.Kill()
		<-h.own.Done()
	}
	return err
}

// TestHost_pod works from mounts and a network of its own, with the host's iscsid and without.
func TestHost_pod(t *testing.T) {
	target := lio.New(t, hostIQN)
	target.Chap("user", secret, "", "")
	self, err := os.Executable()
	mustDo(t, err)
	place := t.TempDir()
	conf, err := os.ReadFile("/etc/iscsi/iscsid.conf")
	mustDo(t, errors.Join(err, os.WriteFile(filepath.Join(place, "iscsid.conf"), conf, 0o600)))
	for says, before := range map[string]func(*testing.T){
		"of host true, records here 0, there 1":  lio.Daemon,
		"of host false, records here 1, there 0": lio.StopDaemon,
	} {
		before(t)
		cmd := exec.Command("unshare", "--mount", "--net", "sh", "-c", `mount --bind "$0" /etc/iscsi && exec "$1"`, place, self)
		cmd.Env = append(os.Environ(), inPod+"=1")
		out, err := cmd.CombinedOutput()
		if text := strings.TrimSpace(string(out)); err != nil || text != says {
			t.Errorf("%v: %q, want %q", err, text, says)
		}
	}
}
