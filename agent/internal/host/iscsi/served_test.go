package iscsi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// tells has iscsid know sessions in states, in the words of iscsiadm 2.1.
func (n *node) tells(states ...string) {
	var out strings.Builder
	fmt.Fprintf(&out, "Target: %s (non-flash)\n", iqn)
	for i, state := range states {
		connection := "LOGGED IN"
		if state == "Unknown" {
			connection = state
		}
		fmt.Fprintf(&out, "\tCurrent Portal: 10.0.0.%[1]d:3260,1\n\tPersistent Portal: 10.0.0.%[1]d:3260,1\n\t\t**********\n\t\tInterface:\n\t\t**********\n\t\tIface Name: default\n\t\tSID: %[1]d\n"+
			"\t\tiSCSI Connection State: %[2]s\n\t\tiSCSI Session State: LOGGED_IN\n\t\tInternal iscsid Session State: %[3]s\n", i+1, connection, state)
	}
	n.answers = map[string]run.Result{"-m session -P 1": {Stdout: []byte(out.String())}}
}

// unserved are the portals whose sessions are told to be served by nobody.
func (n *node) unserved(h *Host) (out []string) {
	n.Helper()
	all, err := h.Sessions(iqn)
	if err != nil {
		n.Fatal(err)
	}
	h.MarkUnserved(n.Context(), all)
	for _, s := range States(sharedlun.Target{IQN: iqn, Portals: []string{portal}}, all) {
		if s.Unserved {
			out = append(out, s.Portal)
		}
	}
	return out
}

// due lets iscsid be asked again, and what it said stand for so long.
func (h *Host) due(stood time.Duration) {
	h.serving.asked = time.Time{}
	for id, at := range h.serving.since {
		h.serving.since[id] = at.Add(-stood)
	}
}

// TestMarkUnserved: a session that iscsid does not know is told once that lasts. What it knew once it is not asked about, and what it does not say is not told.
func TestMarkUnserved(t *testing.T) {
	n, h := newNode(t)
	n.session("1", "10.0.0.1", "LOGGED_IN")
	n.session("2", "10.0.0.2", "LOGGED_IN")
	want := func(when string, calls int, portals ...string) {
		t.Helper()
		if got := n.unserved(h); !slices.Equal(got, portals) || len(n.calls) != calls {
			t.Errorf("%s: %q, want %q; %d calls, want %d", when, got, portals, len(n.calls), calls)
		}
	}
	n.tells("NO CHANGE", "Unknown")
	want("at first", 1)
	want("a moment later", 1)
	h.due(unservedFor)
	want("after a while", 2, "10.0.0.2:3260")
	h.due(0)
	n.answers = map[string]run.Result{"-m session -P 1": {ExitCode: 18, Stderr: []byte("could not communicate to iscsid")}}
	want("it does not answer", 3)
	h.due(0)
	n.tells("REOPEN", "REOPEN")
	want("it took the session over", 4)
	h.due(0)
	n.tells("Unknown", "Unknown")
	want("it knows both", 4)
	// Another one was started.
	h.serving.pid = 49
	want("a new one", 5)
	h.due(unservedFor)
	n.tells("Unknown", "")
	want("it says nothing of one", 6, "10.0.0.1:3260")
	n.serves = false
	want("nobody serves", 6)
}

// TestMarkUnserved_gone: an iscsid that goes away while iscsiadm asks it has iscsiadm say Unknown of every session, and end well, as iscsiadm 2.1.8 does.
func TestMarkUnserved_gone(t *testing.T) {
	n, h := newNode(t)
	n.session("1", "10.0.0.1", "LOGGED_IN")
	n.tells("Unknown")
	gone := n.answers["-m session -P 1"]
	gone.Stderr = []byte("iscsiadm: read error (0/2), daemon died?\niscsiadm: read error (0/111), daemon died?\n")
	n.answers["-m session -P 1"] = gone
	for range 3 {
		if got := n.unserved(h); len(got) > 0 {
			t.Errorf("nobody was asked, and told of %q", got)
		}
		h.due(unservedFor)
	}
}
