package handover

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestNext(t *testing.T) {
	serving := func(names ...string) (out []Pod) {
		for _, n := range names {
			out = append(out, Pod{Name: n, Ready: true})
		}
		return out
	}
	four := &Later{Observed: true, Wanted: 4, MaxUnavailable: 1}
	with := func(ready, limit int) *Later {
		return &Later{Observed: true, Wanted: 4, Ready: ready, MaxUnavailable: limit}
	}
	gone, idle := Pod{Name: "gone", Ready: true, Leaving: true}, Pod{Name: "idle"}
	for name, c := range map[string]struct {
		have State
		want Step
	}{
		"nothing of before":                           {State{Later: four}, Step{Done: true}},
		"nothing at all":                              {State{}, Step{Done: true}},
		"only half is applied":                        {State{Earlier: &Earlier{}, Pods: serving("a")}, Step{}},
		"pods without a DaemonSet, half applied":      {State{Pods: serving("a")}, Step{}},
		"a DaemonSet that nobody has counted yet":     {State{Earlier: &Earlier{}, Later: &Later{Wanted: 4}}, Step{}},
		"a DaemonSet that wants no node":              {State{Earlier: &Earlier{}, Later: &Later{Observed: true}, Pods: serving("a")}, Step{}},
		"the earlier one makes no pods from now on":   {State{Earlier: &Earlier{}, Later: four, Pods: serving("a")}, Step{Disown: true}},
		"its pods stay until it is gone":              {State{Earlier: &Earlier{Leaving: true}, Later: four, Pods: append(serving("a"), idle)}, Step{}},
		"a DaemonSet without pods":                    {State{Earlier: &Earlier{}, Later: four}, Step{Disown: true}},
		"one at a time":                               {State{Later: four, Pods: serving("a", "b", "c", "d")}, Step{Delete: []string{"a"}}},
		"one is ending":                               {State{Later: four, Pods: append(serving("b", "c", "d"), gone)}, Step{}},
		"it is gone, the next one not ready":          {State{Later: four, Pods: serving("b", "c", "d")}, Step{}},
		"the next one is ready":                       {State{Later: with(1, 1), Pods: serving("b", "c", "d")}, Step{Delete: []string{"b"}}},
		"two at a time":                               {State{Later: with(0, 2), Pods: serving("a", "b", "c", "d")}, Step{Delete: []string{"a", "b"}}},
		"two, and one is ending":                      {State{Later: with(0, 2), Pods: append(serving("b", "c", "d"), gone)}, Step{Delete: []string{"b"}}},
		"all at once":                                 {State{Later: with(0, 4), Pods: serving("a", "b", "c", "d")}, Step{Delete: []string{"a", "b", "c", "d"}}},
		"none may be without, and yet it goes on":     {State{Later: with(0, 0), Pods: serving("a", "b", "c", "d")}, Step{Delete: []string{"a"}}},
		"one that serves nobody does not wait":        {State{Later: with(1, 1), Pods: append(serving("b", "c"), idle)}, Step{Delete: []string{"idle"}}},
		"the last":                                    {State{Later: with(3, 1), Pods: serving("d")}, Step{Delete: []string{"d"}}},
		"the last is ending":                          {State{Later: with(3, 1), Pods: []Pod{gone}}, Step{}},
		"on a node that is to have no agent any more": {State{Later: with(4, 1), Pods: serving("e")}, Step{Delete: []string{"e"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Next(c.have)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Step{}, "Why"), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if idle := !got.Done && !got.Disown && len(got.Delete) == 0; idle != (got.Why != "") {
				t.Errorf("%+v does not say what is waited for, or waits for nothing", got)
			}
		})
	}
}

// TestNext_ends plays a handover of many nodes to its end: never are more nodes without an agent than allowed.
func TestNext_ends(t *testing.T) {
	const nodes = 20
	for _, limit := range []int{1, 3, nodes} {
		s := State{Earlier: &Earlier{}, Later: &Later{Observed: true, Wanted: nodes, MaxUnavailable: limit}}
		for i := range nodes {
			s.Pods = append(s.Pods, Pod{Name: fmt.Sprint(i), Ready: true})
		}
		rounds := 0
		for step := Next(s); !step.Done; step = Next(s) {
			if rounds++; rounds > 5*nodes {
				t.Fatalf("limit %d: no end: %+v", limit, step)
			}
			play(&s, step)
			if without := nodes - s.Later.Ready - len(s.Pods); without > limit {
				t.Fatalf("limit %d: %d nodes without an agent", limit, without)
			}
		}
	}
}

// play does a step as Kubernetes would, one thing in a round: agents that can start do so only when nothing else is to be done.
func play(s *State, step Step) {
	switch {
	case step.Disown:
		s.Earlier.Leaving = true
	case s.Earlier != nil:
		s.Earlier = nil
	case len(step.Delete) > 0:
		s.Pods = s.Pods[len(step.Delete):]
	default:
		s.Later.Ready = s.Later.Wanted - len(s.Pods)
	}
}
