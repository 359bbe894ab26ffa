package plan

import (
	"errors"
	"fmt"
	"testing"

	"quarry.storage/quarry/pkg/refusal"
)

func TestSettling(t *testing.T) {
	settling := &NotCleanError{Refusals: []Refusal{{Reason: refusal.Settling}}}
	other := &NotCleanError{Refusals: []Refusal{{Reason: refusal.Settling}, {Reason: refusal.Busy}}}
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("x"), false},
		{settling, true},
		{fmt.Errorf("x: %w", settling), true},
		{errors.Join(settling, settling), true},
		{other, false},
		{errors.Join(settling, other), false},
		{errors.Join(settling, errors.New("x")), false},
	} {
		if got := Settling(tt.err); got != tt.want {
			t.Errorf("%v: %t", tt.err, got)
		}
	}
}
