package iscsi

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// cut are the calls that are cut off.
var cut = []string{
	"login", "logout", "register", "unregister", "preempt", "create", "remove", "promise", "change", "map", "unmap", "mappings", "contents", "reservation",
}

// cuts cuts off the first call of each kind on each node before its effect, and the third one after it.
type cuts struct {
	counts map[string]int
	// struck counts the calls of each kind that were cut off.
	struck map[string]int
}

func (c *cuts) strike(call, node string, after bool) error {
	if !slices.Contains(cut, call) {
		return nil
	}
	key := fmt.Sprintf("%s %s %t", call, node, after)
	c.counts[key]++
	if n := c.counts[key]; n == 1 && !after || n == 2 && after {
		c.struck[call]++
		return &decide.Fault{Kind: decide.FaultUnavailable, Node: node, Call: call, Message: "the connection was closed"}
	}
	return nil
}

// TestIscsi_everyCallIsCutOff: of each call on each node one is cut off before its effect, and a later one after it. The controller starts anew now and then. The
// result is the same.
func TestIscsi_everyCallIsCutOff(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	c := &cuts{counts: map[string]int{}, struck: map[string]int{}}
	s.san.Strike = c.strike
	s.add("san", nil, "n1", "n2")
	for round := range 100 {
		_ = s.reconcile("san")
		s.leap(3 * time.Second)
		if round%7 == 3 {
			s.restart()
		}
		if s.get("san").Status.Phase == v1alpha1.PhaseRunning {
			break
		}
	}
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	if g := s.san.Group(s.lun); g == nil || len(s.san.Keys(s.lun)) != 2 {
		t.Fatalf("%+v %v", g, s.san.Keys(s.lun))
	}
	s.cutVolumes(c)
	clear(c.counts)
	s.deleteIscsi("san")
	s.untilGone("san")
	if s.san.Group(s.lun) != nil || len(s.san.Keys(s.lun)) != 0 || s.san.Sessions("n1")+s.san.Sessions("n2") != 0 {
		t.Errorf("left: %v %v", s.san.Group(s.lun), s.san.Keys(s.lun))
	}
	for _, call := range cut {
		if c.struck[call] == 0 {
			t.Errorf("no call %q was cut off", call)
		}
	}
}

// cutVolumes has a volume mapped after a boot, released by its node, and taken from a node that is fenced.
func (s *suite) cutVolumes(c *cuts) {
	s.t.Helper()
	clear(c.counts)
	s.volume("n1")
	s.san.Boot("n1")
	s.until("san", func(i *v1alpha1.Iscsi) string {
		if on := s.san.Mapped("uuid-v1"); !slices.Equal(on, []string{"n1"}) {
			return fmt.Sprintf("v1 is mapped on %v; %s", on, i.Status.Message)
		}
		return ""
	})
	released := func(i *v1alpha1.Iscsi) string {
		if v := s.san.Group(s.lun).Volume("v1"); v.HeldBy != "" {
			return fmt.Sprintf("v1 is held by %s; %s", v.HeldBy, i.Status.Message)
		}
		return ""
	}
	clear(c.counts)
	s.san.DropMapping("n1", "uuid-v1")
	s.leave()
	s.until("san", released)
	clear(c.counts)
	s.san.SetVolume(s.lun, sharedlun.Volume{Name: "v1", UUID: "uuid-v1", SizeBytes: 1 << 20, ReadyBytes: 1 << 20, HeldBy: "n2", Leaving: true}, "n2")
	s.san.SetAgent("n2", decide.AgentUnreachable)
	s.taint(true)
	// A request to register had no answer: a person has to vouch that the node is off.
	i := s.until("san", func(i *v1alpha1.Iscsi) string {
		if i.Status.Plan == nil || len(i.Status.Plan.Steps) == 0 {
			return "no plan: " + i.Status.Message
		}
		return lacks(i.Status.Plan.Steps[0].Reason, "Node n2 did not answer when it was asked to register its key")
	})
	s.edit(func(o *v1alpha1.Iscsi) {
		o.Annotations = map[string]string{v1alpha1.AnnotationApprove: i.Status.Plan.Digest}
	})
	s.until("san", released)
	if r := s.member("n2").Spec.Reservation; !r.Fenced || r.Registering != "" || s.san.Keys(s.lun)["n2"] != 0 {
		s.t.Errorf("%+v, keys %v", r, s.san.Keys(s.lun))
	}
	s.san.Boot("n2")
	s.taint(false)
	s.until("san", hasPhase(v1alpha1.PhaseRunning))
	s.deleteVolume("pv-v1")
	s.san.DropVolume(s.lun, "v1")
}
