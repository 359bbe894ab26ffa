package conformance

import (
	"fmt"
	"testing"

	"quarry.storage/quarry/agent/agenttest/turn"
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
		{"discarding survives death between any two steps", discardingSurvives},
	})
}

// maxSteps is more than a call has.
const maxSteps = 50

// oneOf is how many steps there are for each that a real kernel is tried at when the run has a turn.
const oneOf = 6

// survives lets the agent die before steps of a call and after the last one, repeats the call with the restarted agent, and wants the same
// end.
func (s *suite) survives(prepare func() func() error, check func()) {
	s.Helper()
	s.deaths(true, prepare, check)
}

// deaths counts the steps of a call in a run without a death, and then lets the agent die before them, or with afterLast after the last one too.
// What a death after any other step leaves is what the death before the next one leaves.
func (s *suite) deaths(afterLast bool, prepare func() func() error, check func()) (steps int) {
	s.Helper()
	steps = s.undisturbed(prepare, check)
	if steps < 1 || steps > maxSteps {
		s.Fatalf("the call has %d steps, want 1 to %d", steps, maxSteps)
	}
	first, step := turn.Instants(s.T, oneOf)
	instants := steps
	if afterLast {
		instants++
	}
	deaths := 0
	// A short call has an instant in every turn.
	for i := first % instants; i < instants; i += step {
		if !s.dies(min(i+1, steps), i == steps, prepare, check) {
			s.Errorf("the agent did not die at instant %d of a call of %d steps", i, steps)
		}
		deaths++
	}
	s.Logf("The agent died at %d instants of a call of %d steps.", deaths, steps)
	return steps
}

// undisturbed makes the call, and returns how many steps it has.
func (s *suite) undisturbed(prepare func() func() error, check func()) (steps int) {
	s.Helper()
	s.Reset(s.T)
	call := prepare()
	before := s.Steps()
	s.must("call", call())
	// The check may change something itself.
	steps = s.Steps() - before
	check()
	if s.Failed() {
		s.Fatal("even without a death")
	}
	return steps
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
