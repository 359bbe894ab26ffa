package conformance

import (
	"fmt"
	"testing"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Deaths runs the behaviours of disks and groups when the agent dies during a call.
func Deaths(t *testing.T, node Node) {
	run(t, node, []behaviour{
		{"ensure survives death between any two steps", ensureSurvives},
		{"extend survives death between any two steps", extendSurvives},
		{"reduce survives death between any two steps", reduceSurvives},
		{"remove survives death between any two steps", removeSurvives},
		{"remove without a disk survives death between any two steps", removeWithoutDiskSurvives},
		{"wipe survives death between any two steps", wipeSurvives},
		{"stamp and import survive death between any two steps", claimSurvives},
	})
}

// VolumeDeaths runs the behaviours of logical volumes when the agent dies during a call.
func VolumeDeaths(t *testing.T, node Node) {
	run(t, node, []behaviour{
		{"forgetting a disk survives death between any two steps", forgetSurvives},
		{"a move survives death between any two steps", moveSurvives},
		{"calls on volumes survive death between any two steps", volumeCallsSurvive},
		{"zeroing survives death between any two steps", zeroingSurvives},
	})
}

// maxSteps bounds the search for the last step of a call.
const maxSteps = 50

// survives lets the agent die before every step of a call and after the last one, repeats the call with the restarted agent, and wants
// the same end. What a death after any other step leaves is what the death before the next one leaves.
func (s *suite) survives(prepare func() func() error, check func()) {
	s.Helper()
	n := 1
	for s.dies(n, false, prepare, check) && n <= maxSteps {
		n++
	}
	last := n - 1
	if last < 1 || !s.dies(last, true, prepare, check) {
		s.Errorf("the agent did not die at step %d, the last one", last)
	}
	s.Logf("The agent died %d times.", n)
}

// dies lets the agent die at one step, and says whether the call came to it.
func (s *suite) dies(step int, after bool, prepare func() func() error, check func()) bool {
	s.Helper()
	s.Reset(s.T)
	call := prepare()
	s.Crash(step, after)
	died := call() != nil
	s.Crash(0, false)
	if died {
		s.Restart(s.T)
		s.must(fmt.Sprintf("call repeated after death at step %d", step), call())
	}
	check()
	if s.Failed() {
		s.Fatalf("death at step %d (after it: %t)", step, after)
	}
	return died
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
