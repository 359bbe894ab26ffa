package pin

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestMoments(t *testing.T) {
	var m moments
	now := time.Now()
	for _, step := range []struct {
		claim   string
		refused bool
		after   time.Duration
		want    time.Duration
	}{
		{"new", false, 0, 0},
		{"refused", true, 0, pause},
		{"refused", true, time.Second, pause - time.Second},
		{"other", true, time.Second, pause},
		{"refused", true, pause, 0},
		// It was brought to its node, and refused once more.
		{"refused", true, 2 * pause, pause},
		{"other", false, 2 * pause, 0},
		{"refused", true, 2*pause + time.Hour, pause},
	} {
		if got := m.wait(types.UID(step.claim), step.refused, now.Add(step.after), pause); got != step.want {
			t.Errorf("%s after %s waits %s, want %s", step.claim, step.after, got, step.want)
		}
	}
	if len(m.since) != 1 {
		t.Errorf("%d claims are remembered", len(m.since))
	}
}
