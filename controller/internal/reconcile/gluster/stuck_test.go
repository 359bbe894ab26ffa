package gluster

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// onMachine has the pod of a workload on a Node that does not answer: it never ends.
func (s *suite) onMachine(name, machine string) {
	s.t.Helper()
	p := &corev1.Pod{}
	must(s.t, s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: workload.Pod(name)}, p))
	must(s.t, s.client.Delete(s.t.Context(), p, client.GracePeriodSeconds(0)))
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}, Spec: p.Spec}
	again.Spec.NodeName = machine
	must(s.t, s.client.Create(s.t.Context(), again))
	s.stuck[name] = true
}

// end ends a pod that did not, as Kubernetes does once a Node is tainted as out of service.
func (s *suite) end(name string) {
	s.t.Helper()
	delete(s.stuck, name)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload.Pod(name)}}
	must(s.t, client.IgnoreNotFound(s.client.Delete(s.t.Context(), p, client.GracePeriodSeconds(0))))
}

// TestNode_podNeverEnds: the machine of a node that is removed is dead, and its pod never ends. The condition says so, and what to do; other nodes are removed
// meanwhile, and the pool is not looked at all the time (G32).
func TestNode_podNeverEnds(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	n, other := s.inZone("z0"), s.inZone("z1")
	s.onMachine(n, "dead")
	s.remove(n)
	s.until("it waits for its pod", func() bool {
		c := s.condition(n, v1alpha1.ConditionRemoved)
		return strings.Contains(c.Message, "The pod "+workload.Pod(n)+" was asked to end at ") && strings.Contains(c.Message, "kubectl taint nodes dead ")
	})
	s.passes(5)
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter < time.Second {
		t.Errorf("the pool is looked at every %s", result.RequeueAfter)
	}
	s.remove(other)
	s.until("the other one is gone", s.in(other, "gone"))
	if s.state(n) == "gone" || s.claim(n) == nil {
		t.Error("it is gone before its pod")
	}
	s.end(n)
	s.until("it is gone", s.in(n, "gone"))
}

// TestCluster_etcdNeverEnds: a pod of etcd never ends. The deletion of the cluster waits for it, and says so.
func TestCluster_etcdNeverEnds(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(1)
	s.until("it runs", s.running(1))
	member := workload.Member("pool", 1)
	s.onMachine(member, "dead")
	must(t, s.client.Delete(t.Context(), s.cluster()))
	s.until("it waits for its pod", func() bool {
		return strings.Contains(s.ofCluster(v1alpha1.ConditionReady).Message, "The pod "+workload.Pod(member)+" was asked to end at ")
	})
	result, err := s.try()
	must(t, err)
	if c := s.claim(member); result.RequeueAfter < time.Second || c == nil || c.DeletionTimestamp != nil {
		t.Errorf("the pool is looked at every %s, and the claim is %v", result.RequeueAfter, c)
	}
	s.end(member)
	s.until("it is gone", func() bool { return s.cluster() == nil })
}
