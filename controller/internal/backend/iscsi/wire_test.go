package iscsi

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	model "quarry.storage/quarry/agent/agenttest/iscsi"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/iscsi"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// wired are real agents behind real connections.
type wired struct{ shared.Calls }

// Node is what is known about a node.
func (w wired) Node(name string) decide.Node { return w.Pool.Node(name) }

// TestWire_registering: an agent that refuses to register a key says so on the wire, and its Member does not wait for that request any more.
func TestWire_registering(t *testing.T) {
	s := newSite(t, "n1")
	fabric, ca := model.New(), agenttest.NewCA(t)
	target := fabric.AddTarget(iqn, "10.0.0.1:3260")
	lun, node := target.AddLun(1, 1<<30), fabric.AddNode("n1", agenttest.BootIDOf("n1"))
	agent := agenttest.New(t, agenttest.Options{NodeName: "n1", CA: ca, Luns: node})
	pool := agents.New(context.WithoutCancel(t.Context()), agents.Config{
		TLS:   func(name string) (*tls.Config, error) { return ca.ControllerTLS(t, name), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond,
	})
	t.Cleanup(pool.Close)
	pool.SetAddress("n1", agent.Addr(), "pod-n1")
	for end := time.Now().Add(20 * time.Second); !pool.Node("n1").Up(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the agent does not answer")
		}
	}
	s.b.Agents = wired{shared.Calls{Pool: pool}}
	step := func(action string) iscsi.Step {
		out := s.step("n1", action)
		out.Ref.Lun, out.BootID = lun.Identity(), agenttest.BootIDOf("n1")
		return out
	}
	s.must(s.perform(step(v1alpha1.ActionLogin), step(v1alpha1.ActionGrantKey)))
	want := func(open bool) {
		t.Helper()
		if r := s.member("n1").Spec.Reservation; r == nil || (r.Registering != "") != open {
			t.Fatalf("%+v, want registering: %t", r, open)
		}
	}
	node.Hold(lun, "dm-3")
	wantError(t, s.perform(step(v1alpha1.ActionRegisterKey)), "in use", false)
	want(false)
	node.Hold(lun)
	target.Stop()
	wantError(t, s.perform(step(v1alpha1.ActionRegisterKey)), "could not be read", true)
	want(false)
	target.Start()
	s.must(s.perform(step(v1alpha1.ActionRegisterKey)))
	want(false)
	// The answer to this one is not waited for.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.b.registerKey(ctx, step(v1alpha1.ActionRegisterKey)); err == nil {
		t.Error("it was answered")
	}
	want(true)
	s.must(s.perform(step(v1alpha1.ActionRegisterKey)))
	want(true)
}
