package iscsi

import (
	"context"
	"errors"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestPerform_registering: a node has answered to a request to register once it did that, or refused. One that had no answer stays open, whatever later ones
// are answered.
func TestPerform_registering(t *testing.T) {
	lost := &decide.Fault{Kind: decide.FaultUnavailable, Message: "the connection was closed"}
	refused := &san.Refusal{Err: &decide.Fault{Kind: decide.FaultPrecondition, Message: "another key of this node is registered"}}
	for name, c := range map[string]struct {
		answers []error
		open    bool
		paths   string
	}{
		"registered":                     {[]error{nil}, false, "p=sdb"},
		"refused":                        {[]error{refused}, false, ""},
		"refused in other words":         {[]error{errors.Join(refused, errors.New("more"))}, false, ""},
		"refused, then registered":       {[]error{refused, nil}, false, "p=sdb"},
		"no answer":                      {[]error{lost}, true, ""},
		"no answer, then refused":        {[]error{lost, refused}, true, ""},
		"no answer, then registered":     {[]error{lost, nil}, true, "p=sdb"},
		"refused, and then no answer":    {[]error{refused, lost}, true, ""},
		"registered, and then refused":   {[]error{nil, refused}, false, "p=sdb"},
		"registered, and then no answer": {[]error{nil, lost}, true, "p=sdb"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "n1", "n2")
			s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey)))
			next := 0
			s.san.Strike = func(call, _ string, after bool) error {
				if call != "register" || after {
					return nil
				}
				if r := s.member("n2").Spec.Reservation; r.Registering == "" {
					t.Error("nothing says that a request is under way")
				}
				next++
				return c.answers[next-1]
			}
			register := s.step("n2", v1alpha1.ActionRegisterKey)
			register.Paths = "p=sdb"
			for _, answer := range c.answers {
				if err := s.perform(register); (err == nil) != (answer == nil) {
					t.Errorf("%v, answered was %v", err, answer)
				}
			}
			if r := s.member("n2").Spec.Reservation; (r.Registering != "") != c.open || r.Paths != c.paths {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestPerform_registeringTwice: a process that was the leader before asks at the same time. Neither answer says that the other request will not reach the target any more.
func TestPerform_registeringTwice(t *testing.T) {
	for name, order := range map[string][]int{"in order": {0, 1}, "the later one first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "n1", "n2")
			s.must(s.perform(s.step("n2", v1alpha1.ActionGrantKey)))
			processes := []process{s.process(), s.process()}
			for _, p := range processes {
				go func() { p.done <- p.b.registerKey(t.Context(), s.step("n2", v1alpha1.ActionRegisterKey)) }()
				<-p.sent
			}
			for i, n := range order {
				close(processes[n].may)
				s.must(<-processes[n].done)
				if s.member("n2").Spec.Reservation.Registering == "" {
					t.Errorf("answer %d says that no request is open any more", i+1)
				}
			}
		})
	}
}

// process is one that asks nodes to register keys. They get the request only once they may, after the process has sent it.
type process struct {
	Agents
	b         *Backend
	sent, may chan struct{}
	done      chan error
}

func (s *site) process() process {
	p := process{Agents: s.san, sent: make(chan struct{}), may: make(chan struct{}), done: make(chan error)}
	cfg := s.b.Config
	cfg.Agents = p
	p.b = New(cfg)
	return p
}

// Register registers a key.
func (p process) Register(ctx context.Context, node string, lun sharedlun.Identity, g sharedlun.Grant) (sharedlun.Reservation, error) {
	close(p.sent)
	<-p.may
	return p.Agents.Register(ctx, node, lun, g)
}

// TestPerform_newSessions: a path of a new session may have the name of an earlier one, and not its key.
func TestPerform_newSessions(t *testing.T) {
	s := newSite(t, "n1")
	register := s.step("n1", v1alpha1.ActionRegisterKey)
	register.Paths = "p=sdb,q=sdc"
	s.must(s.perform(s.step("n1", v1alpha1.ActionGrantKey), register))
	login := s.step("n1", v1alpha1.ActionLogin)
	login.Paths = "q=sdc,r=sdd"
	s.must(s.perform(login))
	if r := s.member("n1").Spec.Reservation; r.Paths != "q=sdc" {
		t.Errorf("%+v", r)
	}
	login.Paths = ""
	s.must(s.perform(login))
	if r := s.member("n1").Spec.Reservation; r.Paths != "" {
		t.Errorf("%+v", r)
	}
}

// TestPerform_fenceByWord: a request to register that had no answer lets nobody believe a fence, unless a person vouches that the node is off.
func TestPerform_fenceByWord(t *testing.T) {
	s := keyed(t)
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation.Registering = "1" })
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.taint()
	wantError(t, s.perform(s.fence()), "did not answer", true)
	fence := s.fence()
	fence.Vouched = true
	s.must(s.perform(fence))
	if r := s.member("n2").Spec.Reservation; !r.Fenced || r.Registering != "" || s.san.Keys(s.lun)["n2"] != 0 {
		t.Errorf("%+v, %v", r, s.san.Keys(s.lun))
	}
	// Whoever answers: what came back is taken off again.
	s.san.SetAgent("n2", decide.AgentUp)
	key, err := sharedlun.ParseKey(s.member("n2").Spec.Reservation.Key)
	s.must(err)
	s.san.KeepKey(s.lun, "n2", key)
	s.must(s.perform(s.fence()))
	if len(s.san.Keys(s.lun)) != 1 {
		t.Error(s.san.Keys(s.lun))
	}
}

// TestPerform_preemptKeys: keys of a plan are taken off, unless a Member has one of them by now.
func TestPerform_preemptKeys(t *testing.T) {
	s := keyed(t)
	s.san.KeepKey(s.lun, "stranger", 0x99)
	step := s.step("", v1alpha1.ActionPreemptKeys)
	step.Runs, step.Member, step.Keys = "n1", "", []string{"0000000000000099", s.member("n2").Spec.Reservation.Key}
	wantError(t, s.perform(step), "of a Member by now", true)
	if len(s.san.Keys(s.lun)) != 3 {
		t.Error(s.san.Keys(s.lun))
	}
	step.Keys = step.Keys[:1]
	for range 2 {
		s.must(s.perform(step))
	}
	if keys := s.san.Keys(s.lun); len(keys) != 2 || keys["stranger"] != 0 {
		t.Error(keys)
	}
}

// TestPerform_renewal: a node takes its key off before it makes its sessions anew, unless it is the last one.
func TestPerform_renewal(t *testing.T) {
	s := keyed(t)
	renew := func(node string) error {
		step := s.step(node, v1alpha1.ActionLogin)
		step.Renew = true
		return s.perform(step)
	}
	s.must(renew("n1"))
	if keys := s.san.Keys(s.lun); len(keys) != 1 || keys["n2"] == 0 {
		t.Errorf("%v", keys)
	}
	// The other one waits until the first has its key again.
	wantError(t, renew("n2"), "only node n2 has a key", false)
	s.must(s.perform(s.step("n1", v1alpha1.ActionRegisterKey)))
	s.must(renew("n2"))
	if keys := s.san.Keys(s.lun); len(keys) != 1 || keys["n1"] == 0 {
		t.Errorf("%v", keys)
	}
	// Nobody else is to have one: the session keeps its credentials.
	edit(s, &v1alpha1.Member{}, "san.n2", func(m *v1alpha1.Member) { m.Spec.Reservation = nil })
	s.must(renew("n1"))
	if keys := s.san.Keys(s.lun); len(keys) != 1 || keys["n1"] == 0 {
		t.Errorf("%v", keys)
	}
	// Two at a time would each find the key of the other.
	s.b.memory.ownOf(uid).Lock()
	defer s.b.memory.ownOf(uid).Unlock()
	wantError(t, renew("n1"), "another node takes its key off the LUN, or makes its sessions anew", true)
}
