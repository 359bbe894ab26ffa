package iscsi

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// daemonProcess is an iscsid that never says anything.
type daemonProcess struct{ done chan struct{} }

func (p daemonProcess) Done() <-chan struct{} { return p.done }
func (daemonProcess) LastWords() string       { return "" }
func (daemonProcess) Kill()                   {}

// kernelOf lets a node's kernel do what it is told. Afterwards says what it does with each thing.
func (n *node) kernelOf(h *Host, does map[event]func()) (told *[]event) {
	told = &[]event{}
	h.tell = func(_ context.Context, what event, session int) error {
		if *told = append(*told, what); session != 4 {
			n.Errorf("session %d", session)
		}
		if do := does[what]; do != nil {
			do()
		}
		return nil
	}
	return told
}

// own lets the iscsid of the node be ours. It ends when it is killed.
func (n *node) own(h *Host) (killed *[]int) {
	n.file(strings.Join(h.daemon(), "\x00")+"\x00", "proc/50/cmdline")
	killed = &[]int{}
	h.kill = func(pid int) error {
		*killed, n.serves = append(*killed, pid), false
		return os.RemoveAll(filepath.Join(n.dir, "proc/50"))
	}
	h.cfg.Start = func(run.Command) (Process, error) {
		n.serves = true
		return daemonProcess{make(chan struct{})}, nil
	}
	return killed
}

// TestLogout_gone: a session whose target is gone, and which iscsid does not have in hand, is ended by the kernel. One that is up is left to iscsid.
func TestLogout_gone(t *testing.T) {
	for name, c := range map[string]struct {
		code      int
		state     string
		own, ends bool
		want      []event
		fails     bool
	}{
		"iscsid ends it":         {code: codeNotConnected, state: "FAILED", ends: true, want: []event{unbindSession}},
		"iscsid is not told":     {code: codeInternal, state: "FAILED", want: []event{unbindSession, destroyConnection, destroySession}},
		"iscsid has it not":      {code: codeNoSession, state: "FREE", want: []event{unbindSession, destroyConnection, destroySession}},
		"iscsid is ours":         {code: codeNotConnected, state: "FAILED", own: true, want: []event{unbindSession, destroyConnection, destroySession}},
		"it is up":               {code: codeInternal, state: "LOGGED_IN", fails: true},
		"another reason":         {code: 6, state: "FAILED", fails: true},
		"it needs no more words": {state: "FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			n, h := newNode(t)
			n.session("4", "10.0.0.1", c.state, [3]string{"0", "sda", "aaaa"})
			if c.code != 0 {
				n.answers["--logout"] = run.Result{ExitCode: c.code}
			}
			session := n.path("sys/class/iscsi_session/session4")
			remove := func(path string) func() {
				return func() {
					if err := os.RemoveAll(path); err != nil {
						t.Error(err)
					}
				}
			}
			does := map[event]func(){unbindSession: remove(filepath.Join(session, "device/target4:0:0")), destroySession: remove(session)}
			if c.ends {
				does[unbindSession] = remove(session)
			}
			h.parting = time.Millisecond
			told := n.kernelOf(h, does)
			killed := &[]int{}
			if c.own {
				killed = n.own(h)
			}
			err := h.Logout(t.Context(), Session{ID: 4, IQN: iqn, Portal: portal, dir: filepath.Join(session, "device")})
			if (err != nil) != c.fails || !slices.Equal(*told, c.want) || (len(*killed) > 0) != c.own {
				t.Errorf("%v; told the kernel %v, killed %v", err, *told, *killed)
			}
			if _, errStat := os.Stat(session); c.code != 0 && (errStat == nil) != c.fails {
				t.Errorf("the session is there: %v", errStat == nil)
			}
		})
	}
}

// TestServe_deaf: what is left of our iscsid is ended once it has been deaf for long. Nobody else's is.
func TestServe_deaf(t *testing.T) {
	for name, c := range map[string]struct {
		own   bool
		since time.Duration
		ends  bool
	}{
		"the host's":  {false, time.Hour, false},
		"for a while": {true, 0, false},
		"for long":    {true, time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			n, h := newNode(t)
			killed := n.deaf(h, c.own)
			since := time.Now().Add(-c.since)
			h.deaf.Store(&since)
			i, err := h.Initiator(t.Context())
			if err != nil || i.Problem == nil || i.Problem.Reason != sharedlun.ReasonNoTools {
				t.Errorf("%+v, %v", i, err)
			}
			err = h.serve(t.Context())
			if (len(*killed) > 0) != c.ends {
				t.Errorf("killed %v", *killed)
			}
			if !c.ends {
				var p *sharedlun.Problem
				if !errors.As(err, &p) || p.Reason != sharedlun.ReasonNoTools {
					t.Errorf("%v", err)
				}
				return
			}
			if pid, errServer := h.server(); err != nil || errServer != nil || pid == 0 || h.deaf.Load() != nil {
				t.Errorf("%d, %v, %v", pid, err, errServer)
			}
		})
	}
}

// deaf lets the iscsid of the node, ours or the host's, not answer until it is killed.
func (n *node) deaf(h *Host, own bool) (killed *[]int) {
	if own {
		killed = n.own(h)
	} else {
		killed = &[]int{}
		h.kill = func(pid int) error { *killed = append(*killed, pid); return nil }
		h.cfg.Start = func(run.Command) (Process, error) { return nil, errors.New("started") }
	}
	deaf := true
	h.listens = func() (bool, error) {
		if deaf = deaf && n.serves; deaf {
			return false, errDeaf
		}
		return n.serves, nil
	}
	return killed
}

func TestMessage(t *testing.T) {
	b := message(unbindSession, 0x1122334455667788, 9)
	if err := replied(b); err != nil || len(b) != netlinkHeader+eventSize {
		t.Errorf("%v of %d bytes", err, len(b))
	}
	refusal := -int32(unix.EINVAL)
	binary.NativeEndian.PutUint32(b[netlinkHeader+4:], uint32(refusal))
	if err := replied(b); !errors.Is(err, unix.EINVAL) {
		t.Errorf("%v", err)
	}
	if err := replied(b[:20]); err == nil {
		t.Error("a short reply is one")
	}
}

// TestDeaf_strangers: an iscsiadm of another installation may be of another version, for whose request iscsid waits. One of its own is not named.
func TestDeaf_strangers(t *testing.T) {
	n, h := newNode(t)
	n.deaf(h, false)
	says := func() string {
		i, err := h.Initiator(t.Context())
		if err != nil || i.Problem == nil || i.Problem.Reason != sharedlun.ReasonNoTools {
			t.Fatalf("%+v, %v", i, err)
		}
		return i.Problem.Message
	}
	for pid, mounts := range map[string]string{"60": "mnt:[1]", "61": "mnt:[3]", "62": "mnt:[4]"} {
		network := "net:[1]"
		if pid == "62" {
			network = "net:[2]" // It talks to another one.
		}
		n.file("iscsiadm\n", "proc", pid, "comm")
		n.link(network, "proc", pid, "ns/net")
		n.link(mounts, "proc", pid, "ns/mnt")
	}
	if text := says(); !strings.Contains(text, "end iscsiadm (process 61) there") {
		t.Errorf("%q", text)
	}
	if err := os.RemoveAll(filepath.Join(n.dir, "proc/61")); err != nil {
		t.Fatal(err)
	}
	if text := says(); strings.Contains(text, "iscsiadm") {
		t.Errorf("%q", text)
	}
}

// TestShipped: a record that any version of ours wrote is ours, and is removed with its credentials. Whoever changes the settings adds the earlier ones to shipped, and what they look like here.
func TestShipped(t *testing.T) {
	var known []string
	for _, set := range shipped {
		var b strings.Builder
		write(&b, set)
		known = append(known, b.String())
	}
	want := []string{
		"node.startup = manual\nnode.conn[0].startup = manual\nnode.leading_login = No\nnode.session.initial_login_retry_max = 2\nnode.conn[0].timeo.login_timeout = 10\n",
	}
	if !slices.Equal(known, want) {
		t.Errorf("known are %q", known)
	}
}
