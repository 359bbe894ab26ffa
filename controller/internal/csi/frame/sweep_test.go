package frame

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"

	"quarry.storage/quarry/pkg/csirpc"
)

// sweeper says what is in the way of each sweep, one after the other, and cancels then.
type sweeper struct {
	errs   []error
	cancel context.CancelFunc
}

func (s *sweeper) Sweep(context.Context) ([]string, error) {
	err := s.errs[0]
	if s.errs = s.errs[1:]; len(s.errs) == 0 {
		s.cancel()
	}
	return nil, err
}

// TestSweep_logsOnce: what stays in the way is told once, and again after it was not.
func TestSweep_logsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		told := 0
		s := &Server{calls: csirpc.Calls{Log: funcr.New(func(string, string) { told++ }, funcr.Options{})}}
		a, b := errors.New("a"), errors.New("b")
		s.sweep(ctx, &sweeper{errs: []error{a, a, a, b, b, nil, b, nil}, cancel: cancel})
		if told != 3 {
			t.Errorf("told %d times, not 3", told)
		}
	})
}
