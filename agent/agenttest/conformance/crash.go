package conformance

import (
	"fmt"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// maxSteps bounds the search for the last step of a call.
const maxSteps = 50

// survives lets the agent die before and after every step of a call, repeats the call with the restarted agent, and wants the same
// end. prepare makes the state that the call begins with and answers the call.
func (s *suite) survives(prepare func() func() error, check func()) {
	s.Helper()
	deaths := 0
	for _, after := range []bool{false, true} {
		for n := 1; n <= maxSteps; n++ {
			s.Reset(s.T)
			call := prepare()
			s.Crash(n, after)
			died := call() != nil
			s.Crash(0, false)
			if died {
				s.Restart(s.T)
				s.must(fmt.Sprintf("call repeated after death at step %d", n), call())
			}
			check()
			if s.Failed() {
				s.Fatalf("death at step %d (after it: %t)", n, after)
			}
			if !died {
				break
			}
			deaths++
		}
	}
	if deaths < 2 {
		s.Errorf("the agent died %d times only", deaths)
	}
	s.Logf("The agent died %d times.", deaths)
}

func ensureSurvives(s *suite) {
	paths := s.Disks()[:2]
	s.survives(func() func() error {
		a, b := s.clean(paths[0]), s.clean(paths[1])
		return func() error { return s.ensure(groupName, owner, a, b) }
	}, func() { s.holds(paths...) })
}

func extendSurvives(s *suite) {
	paths := s.Disks()[:2]
	s.survives(func() func() error {
		a, b := s.clean(paths[0]), s.clean(paths[1])
		s.must("ensure", s.ensure(groupName, owner, a))
		return func() error { return s.ensure(groupName, owner, a, b) }
	}, func() { s.holds(paths...) })
}

func reduceSurvives(s *suite) {
	paths := s.Disks()[:2]
	s.survives(func() func() error {
		a, b := s.clean(paths[0]), s.clean(paths[1])
		s.must("ensure", s.ensure(groupName, owner, a, b))
		return func() error { return s.reduce(owner, b) }
	}, func() {
		s.holds(paths[0])
		s.clean(paths[1])
	})
}

// removeSurvives records only one of two devices: the other is found by what is written on it.
func removeSurvives(s *suite) {
	paths := s.Disks()[:2]
	s.survives(func() func() error {
		a, b := s.clean(paths[0]), s.clean(paths[1])
		s.must("ensure", s.ensure(groupName, owner, a, b))
		return func() error { return s.remove(groupName, owner, a) }
	}, func() {
		if g := s.group(); g != nil {
			s.Errorf("group is still there: %v", g)
		}
		s.clean(paths[0])
		s.clean(paths[1])
	})
}

func wipeSurvives(s *suite) {
	path := s.Disks()[0]
	s.survives(func() func() error {
		var id *agentv1.DeviceIdentity
		s.clean(path)
		id = s.dirty(path)
		return func() error { return s.wipe(id) }
	}, func() { s.clean(path) })
}
