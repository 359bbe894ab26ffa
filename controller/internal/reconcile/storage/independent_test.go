package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// alone is a step that nothing after it stands on.
type alone struct{ backendtest.Step }

func (alone) Independent() bool { return true }

// TestPerformed_eachInTurn: one that hangs until the time of the job is over is not always the first one.
func TestPerformed_eachInTurn(t *testing.T) {
	first := map[string]bool{}
	for range 200 {
		_, _ = performed(t.Context(), []backend.Step{alone{backendtest.Step{Does: "A"}}, alone{backendtest.Step{Does: "B"}}}, func(rest []backend.Step) (int, error) {
			first[rest[0].Action()] = true
			return len(rest), nil
		})
	}
	if len(first) != 2 {
		t.Errorf("only %v came first in 200 jobs", first)
	}
}

// TestPerformed: an independent step that fails holds up no other one, and any other one that fails ends the job. What failed is all told, and passes only if each of them does.
func TestPerformed(t *testing.T) {
	const gone = "disk dead"
	for name, tt := range map[string]struct {
		// steps are one letter each, of which the independent ones are capital; those in fails fail, and those in busy pass.
		steps, fails, busy string
		taken, says        string
		passing, late      bool
	}{
		"all are performed":                 {steps: "aBc", taken: "aBc"},
		"one that others stand on":          {steps: "abc", fails: "b", taken: "a", says: "b failed"},
		"one of its own":                    {steps: "ABC", fails: "A", taken: "BC", says: "A failed"},
		"two of their own":                  {steps: "ABC", fails: "AC", taken: "B", says: "A failed; C failed"},
		"the last of its own":               {steps: "AB", fails: "B", taken: "A", says: "B failed"},
		"one of its own, and then another":  {steps: "AbC", fails: "Ab", taken: "", says: "A failed; b failed"},
		"one that passes and one that does": {steps: "AB", fails: "AB", busy: "A", says: "A failed; B failed"},
		"two that pass":                     {steps: "AB", fails: "AB", busy: "AB", says: "A failed; B failed", passing: true},
		"the time of the job is over":       {steps: "AAA", fails: "A", late: true, says: "A failed"},
	} {
		all := stepsOf(tt.steps)
		ctx, end := context.WithCancel(t.Context())
		if tt.late {
			end()
		}
		defer end()
		taken, err := performed(ctx, all, func(rest []backend.Step) (int, error) {
			for i, s := range rest {
				if strings.Contains(tt.fails, s.Action()) {
					return i, &backend.StepError{Reason: gone, Passing: strings.Contains(tt.busy, s.Action()), Err: errors.New(s.Action() + " failed")}
				}
			}
			return len(rest), nil
		})
		got, says := toldOf(tt.steps, taken, err)
		e := &backend.StepError{Reason: v1alpha1.ReasonStepFailed}
		errors.As(err, &e)
		if got != tt.taken || (err == nil) != (tt.says == "") || err != nil && (says != tt.says || e.Reason != gone || e.Passing != tt.passing) {
			t.Errorf("%s: performed %q, %v, %+v", name, got, err, e)
		}
	}
}

// stepsOf makes a step of each letter, an independent one of each that is capital.
func stepsOf(letters string) (all []backend.Step) {
	for _, letter := range letters {
		s := backendtest.Step{Does: string(letter)}
		if strings.ToUpper(string(letter)) == string(letter) {
			all = append(all, alone{s})
		} else {
			all = append(all, s)
		}
	}
	return all
}

// toldOf is what was performed of some steps, and what an error says of the others. Where all are independent they come in any order, and those that were performed are sorted.
func toldOf(letters string, taken []backend.Step, err error) (done, says string) {
	var all []string
	for _, s := range taken {
		all = append(all, s.Action())
	}
	if strings.ToUpper(letters) == letters {
		slices.Sort(all)
	}
	if err != nil {
		says = err.Error()
	}
	return strings.Join(all, ""), says
}
