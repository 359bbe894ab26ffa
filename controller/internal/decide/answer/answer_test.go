package answer

import "testing"

// TestAnswer: what nobody said is neither yes nor no.
func TestAnswer(t *testing.T) {
	var nobody Answer
	if nobody != Unknown || nobody == Of(true) || nobody == Of(false) || Of(true) != Yes || Of(false) != No {
		t.Errorf("%v, %v, %v", nobody, Of(true), Of(false))
	}
	if got := nobody.String() + " " + Of(false).String() + " " + Of(true).String(); got != "unknown no yes" {
		t.Error(got)
	}
}
