package osd

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/osd"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	uid   = "7a1c6d1e-0000-4000-8000-000000000001"
	tools = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// site is an agent with two disks, behind a real connection.
func site(t *testing.T) (*agenttest.Agent, Calls) {
	t.Helper()
	a := agenttest.New(t, agenttest.Options{NodeName: "n1"})
	a.AddDisks(100<<30, "sda", "sdb")
	a.AddTools(tools)
	pool := agents.New(context.WithoutCancel(t.Context()), agents.Config{
		TLS:   func(node string) (*tls.Config, error) { return a.CA.ControllerTLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond,
	})
	t.Cleanup(pool.Close)
	pool.SetAddress("n1", a.Addr(), "pod")
	for end := time.Now().Add(10 * time.Second); !pool.Node("n1").Up() || len(pool.Node("n1").Devices) != 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent does not answer")
		}
	}
	return a, Calls{Pool: pool}
}

// wanted is the OSD of the Cluster on a disk.
func wanted(t *testing.T, a *agenttest.Agent, c Calls, disk string, id int) OSD {
	t.Helper()
	d, ok := c.Pool.Node("n1").Device(a.Path(disk))
	if !ok {
		t.Fatalf("no %s", disk)
	}
	uuid, err := osd.UUID(uid, osd.Disk{WWN: d.WWN, Serial: d.Serial, SizeBytes: d.SizeBytes, Node: "n1"}, d.Path)
	if err != nil {
		t.Fatal(err)
	}
	return OSD{Device: d, ClusterUID: uid, UUID: uuid, FSID: uid, ID: id}
}

func kindOf(t *testing.T, c Calls, o OSD) osd.Kind {
	t.Helper()
	v, err := c.Inspect(t.Context(), "n1", o)
	if err != nil || v.Message == "" {
		t.Fatalf("%+v, %v", v, err)
	}
	return v.Kind
}

func TestCalls(t *testing.T) {
	a, c := site(t)
	o := wanted(t, a, c, "sda", -1)
	if k := kindOf(t, c, o); k != osd.Empty {
		t.Fatalf("at first the disk is %s", k)
	}
	if err := c.Prepare(t.Context(), "n1", o, tools, true); !is(err, decide.FaultInvalid) {
		t.Errorf("without a number: %v", err)
	}
	o.ID = 0
	if err := c.Prepare(t.Context(), "n1", o, strings.Repeat("f", 64), true); !is(err, decide.FaultPrecondition) {
		t.Errorf("without the programs: %v", err)
	}
	if err := c.Prepare(t.Context(), "n1", o, tools, false); !is(err, decide.FaultPrecondition) {
		t.Errorf("an empty disk of an OSD that ran: %v", err)
	}
	for range 2 {
		if err := c.Prepare(t.Context(), "n1", o, tools, true); err != nil {
			t.Fatal(err)
		}
	}
	if labels := a.Labels("sda"); kindOf(t, c, o) != osd.Ready || len(labels) == 0 || labels[0].Label.ID != "0" || labels[0].Label.UUID != o.UUID {
		t.Errorf("made: %+v", labels)
	}
}

// TestCalls_zap: the disk of an OSD is given back by its number only, however often.
func TestCalls_zap(t *testing.T) {
	a, c := site(t)
	o := wanted(t, a, c, "sda", 0)
	if err := c.Prepare(t.Context(), "n1", o, tools, true); err != nil {
		t.Fatal(err)
	}
	other := o
	other.ID = 5
	if k := kindOf(t, c, other); k == osd.Ready || k == osd.Empty {
		t.Errorf("for another number the disk is %s", k)
	}
	o.Making = seen(t, c, o)
	if other.Making = o.Making; o.Making == "" {
		t.Fatal("the agent names no making")
	}
	if err := c.Zap(t.Context(), "n1", other); err == nil || len(a.Labels("sda")) == 0 {
		t.Errorf("zapped for another number: %v", err)
	}
	for name, making := range map[string]string{"another making": o.Making + "0", "none": ""} {
		earlier := o
		earlier.Making = making
		if err := c.Zap(t.Context(), "n1", earlier); !is(err, decide.FaultPrecondition) || len(a.Labels("sda")) == 0 {
			t.Errorf("zapped for %s: %v", name, err)
		}
	}
	for range 2 {
		if err := c.Zap(t.Context(), "n1", o); err != nil {
			t.Fatal(err)
		}
	}
	if len(a.Labels("sda")) != 0 || kindOf(t, c, o) != osd.Empty {
		t.Errorf("given back with %+v", a.Labels("sda"))
	}
}

// TestCalls_refused: another OSD is left alone, and so is a disk that changed, or went.
func TestCalls_refused(t *testing.T) {
	a, c := site(t)
	o := wanted(t, a, c, "sda", 0)
	changed := o
	changed.Device.Digest = "another"
	if err := c.Prepare(t.Context(), "n1", changed, tools, true); !is(err, decide.FaultPrecondition) || len(a.Labels("sda")) != 0 {
		t.Errorf("a disk that changed: %v", err)
	}
	a.AddOSD("sda", 1<<30, osd.Label{UUID: "7a1c6d1e-0000-4000-8000-00000000000f", SizeBytes: 100 << 30, Ready: true})
	if k := kindOf(t, c, o); k != osd.Other {
		t.Errorf("the disk of another OSD is %s", k)
	}
	for name, err := range map[string]error{"prepare": c.Prepare(t.Context(), "n1", o, tools, true), "zap": c.Zap(t.Context(), "n1", o)} {
		if !is(err, decide.FaultDenied) || len(a.Labels("sda")) != 1 {
			t.Errorf("%s the disk of another OSD: %v", name, err)
		}
	}
	b := wanted(t, a, c, "sdb", 1)
	a.Unplug("sdb")
	if err := c.Prepare(t.Context(), "n1", b, tools, true); !is(err, decide.FaultNotFound) {
		t.Errorf("a disk that went: %v", err)
	}
	if _, err := c.Inspect(t.Context(), "n2", o); !is(err, decide.FaultUnavailable) {
		t.Errorf("a node without an agent: %v", err)
	}
}

func is(err error, kind decide.FaultKind) bool {
	var f *decide.Fault
	return errors.As(err, &f) && f.Kind == kind
}

// TestClock: how far the clock of a node is off is known as well as the call took.
func TestClock(t *testing.T) {
	a, c := site(t)
	for _, ahead := range []time.Duration{0, time.Hour, -time.Minute} {
		a.SetClock(ahead)
		began := time.Now()
		got, err := c.Clock(t.Context(), "n1")
		// Microseconds are what the agent tells.
		took := time.Since(began) + 2*time.Microsecond
		if err != nil || got.Least > ahead || got.Most < ahead-2*time.Microsecond || got.Most-got.Least > took {
			t.Errorf("%s ahead: %+v after %s, %v", ahead, got, took, err)
		}
	}
	if _, err := c.Clock(t.Context(), "n2"); err == nil {
		t.Error("a node without an agent has a clock")
	}
}

// TestCalls_encrypted: the key reaches the agent with the call that needs it, and an agent that encrypts no disks makes none in the clear.
func TestCalls_encrypted(t *testing.T) {
	a, c := site(t)
	o := wanted(t, a, c, "sda", 0)
	o.Encrypted = true
	if err := c.Prepare(t.Context(), "n1", o, tools, true); !is(err, decide.FaultInvalid) {
		t.Errorf("without a key: %v", err)
	}
	var err error
	if o.Key, err = osd.NewKey([]byte(strings.Repeat("k", osd.KeyBytes))); err != nil {
		t.Fatal(err)
	}
	a.RemoveEncryption(true)
	if err := c.Prepare(t.Context(), "n1", o, tools, true); !is(err, decide.FaultPrecondition) || !a.IsEmpty("sda") {
		t.Errorf("without cryptsetup: %v", err)
	}
	a.RemoveEncryption(false)
	if err := c.Prepare(t.Context(), "n1", o, tools, true); err != nil {
		t.Fatal(err)
	}
	if m := a.Marks("sda"); kindOf(t, c, o) != osd.Ready || !m.Key.Equal(o.Key) || m.Mapped || len(m.Labels) > 0 {
		t.Errorf("%+v", m)
	}
	clear := o
	clear.Encrypted, clear.Key = false, osd.Key{}
	if kindOf(t, c, clear) != osd.Unknown {
		t.Error("it is taken for one in the clear")
	}
	o.Making = seen(t, c, o)
	if err := c.Zap(t.Context(), "n1", o); err != nil || !a.IsEmpty("sda") {
		t.Error(err)
	}
}

// seen is the making of the OSD that the disk carries.
func seen(t *testing.T, c Calls, o OSD) string {
	t.Helper()
	v, err := c.Inspect(t.Context(), "n1", o)
	if err != nil {
		t.Fatal(err)
	}
	return v.Making
}

// TestUnderstood: an agent of an earlier version leaves out what it does not know.
func TestUnderstood(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		for _, says := range []bool{false, true} {
			err := understood("n1", OSD{Encrypted: encrypted}, &agentv1.InspectOsdResponse{State: agentv1.OsdState_OSD_STATE_EMPTY, Encrypted: says})
			if wants := encrypted && !says; (err != nil) != wants || wants && !is(err, decide.FaultUnavailable) {
				t.Errorf("encrypted %t, the agent says %t: %v", encrypted, says, err)
			}
		}
	}
}

// TestVerdict_blind: what an agent of an earlier version leaves out is not taken for a disk that carries nothing.
func TestVerdict_blind(t *testing.T) {
	none := ""
	for name, tt := range map[string]struct {
		said *agentv1.InspectOsdResponse
		want bool
	}{
		"it tells both":               {&agentv1.InspectOsdResponse{Carries: &none, TellsFsids: true}, false},
		"it tells the OSD alone":      {&agentv1.InspectOsdResponse{Carries: &none}, true},
		"it tells neither":            {&agentv1.InspectOsdResponse{}, true},
		"it tells the clusters alone": {&agentv1.InspectOsdResponse{Fsids: []string{"x"}, TellsFsids: true}, true},
	} {
		if got := verdict(tt.said).Blind; got != tt.want {
			t.Errorf("%s: blind %t", name, got)
		}
	}
}
