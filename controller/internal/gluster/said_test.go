package gluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestSaid(t *testing.T) {
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"no error":              {nil, ""},
		"one of somebody else":  {errors.New("x"), ""},
		"a step failed":         {&Error{Status: 500, Pending: true, Messages: []string{"a txn step failed", "mkfs.xfs: too small."}}, "HTTP status 500: a txn step failed: mkfs.xfs: too small"},
		"wrapped":               {fmt.Errorf("ask: %w", &Error{Status: 409, Messages: []string{"busy"}}), "HTTP status 409: busy"},
		"a proxy answered":      {&Error{Status: 502, Pending: true, cause: errors.New("the answer is not JSON")}, "HTTP status 502: the answer is not JSON"},
		"no answer":             {&Error{Pending: true, cause: errors.New("timeout")}, ""},
		"an answer that is cut": {&Error{Status: 200, Pending: true, cause: errors.New("the answer ends early")}, ""},
		"it was never asked":    {&Error{cause: errors.New("the volume has no\nsuch brick")}, "the volume has no such brick"},
	} {
		if got := Said(row.err); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	long := &Error{Status: 500, Messages: []string{clean(strings.Repeat("ä", 2000)), clean(strings.Repeat("b", 2000)), clean(strings.Repeat("c", 2000)), "d"}}
	if n := len([]rune(Said(long))); n > 1024 {
		t.Errorf("%d characters: the record takes 1024", n)
	}
}
