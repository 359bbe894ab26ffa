package gluster

import (
	"strings"
	"testing"
)

// TestEnding: what is waited for is named, with since when, and what to do if it never goes.
func TestEnding(t *testing.T) {
	for want, e := range map[string]Ending{
		"pod n-0 was asked to end at 2030-01-02T03:04:05Z":                   {Workload: "n", Pod: "n-0", Machine: "m1"},
		"kubectl taint nodes m1 node.kubernetes.io/out-of":                   {Workload: "n", Pod: "n-0", Machine: "m1"},
		"pod n-1 was asked to end at 2030":                                   {Workload: "n", Pod: "n-1"},
		"nobody else asks it to end: delete it":                              {Workload: "n", Pod: "n-0", Machine: "m1", Orphan: true},
		"StatefulSet n was deleted at 2030":                                  {Workload: "n"},
		"claims were deleted at 2030-01-02T03:04:05Z and still exist: a, b.": {Claims: []string{"a", "b"}},
	} {
		e.Since = now
		if got := e.Message(); !strings.Contains(got, want) {
			t.Errorf("%q does not tell %q", got, want)
		}
	}
}
