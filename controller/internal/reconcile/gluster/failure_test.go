package gluster

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestNode_requestFailed: the brick that would take the place of another one is smaller than an XFS may be. What glusterd2 says to that is told, and when it is asked
// again, also by a process that begins after it was said (G39).
func TestNode_requestFailed(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volumeOf(310 << 20)
	n := s.full()
	s.remove(n)
	told := func() bool {
		c := s.condition(n, v1alpha1.ConditionDrained)
		return c.Status == metav1.ConditionUnknown && c.Reason == v1alpha1.ReasonRequestFailed && strings.Contains(c.Message, "HTTP status 500: a txn step failed: ") &&
			strings.Contains(c.Message, "may have taken effect") && strings.Contains(c.Message, "asked again at "+s.node(n).Spec.Move.Asked.Add(10*time.Minute).UTC().Format(time.RFC3339))
	}
	s.until("what glusterd2 said is told", told)
	first := s.node(n).Spec.Move
	s.restart()
	s.passes(2)
	if !told() {
		t.Errorf("another process does not tell it: %+v", s.condition(n, v1alpha1.ConditionDrained))
	}
	s.until("it is asked again", func() bool { return s.node(n).Spec.Move.Repeated > first.Repeated })
	if s.state(n) != "failed" {
		t.Errorf("the node is %s", s.state(n))
	}
}
