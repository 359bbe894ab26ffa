package gluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/volume"
)

// revision is the name of what a workload has as its template.
func revision(w *appsv1.StatefulSet) string {
	text, err := json.Marshal(w.Spec.Template)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s-%x", w.Name, sha256.Sum256(text))[:len(w.Name)+9]
}

// revise does what Kubernetes does when it looks at a workload: it says of which revision its pods have to be.
func (s *suite) revise(w *appsv1.StatefulSet) {
	s.t.Helper()
	if w.Status.ObservedGeneration == w.Generation {
		return
	}
	w.Status.ObservedGeneration, w.Status.UpdateRevision, w.Status.Replicas = w.Generation, revision(w), 1
	must(s.t, s.client.Status().Update(s.t.Context(), w))
}

// podOf is the pod that Kubernetes makes for a workload.
func podOf(w *appsv1.StatefulSet) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.Namespace, Name: workload.Pod(w.Name), Labels: map[string]string{appsv1.StatefulSetRevisionLabel: revision(w)},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
	}, Spec: w.Spec.Template.Spec}
	for k, v := range w.Spec.Template.Labels {
		p.Labels[k] = v
	}
	p.Spec.NodeName = machineOf(w.Namespace)
	return p
}

// ends reports whether the pod of a workload was asked to end.
func (s *suite) ends(w *appsv1.StatefulSet) bool {
	s.t.Helper()
	p := &corev1.Pod{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: s.namespace, Name: workload.Pod(w.Name)}, p)
	must(s.t, client.IgnoreNotFound(err))
	return err == nil && p.DeletionTimestamp != nil
}

// pods are those of the pool, by name.
func (s *suite) pods() map[string]*corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	must(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	return byName(list.Items)
}

// budgets lets one pod of a part be evicted, while all of them are ready.
func (s *suite) budgets() {
	s.t.Helper()
	var list policyv1.PodDisruptionBudgetList
	must(s.t, s.client.List(s.t.Context(), &list, client.InNamespace(s.namespace)))
	all := s.pods()
	for i := range list.Items {
		b := &list.Items[i]
		allowed := int32(1)
		if s.tight {
			allowed = 0
		}
		for _, p := range all {
			if p.Labels[v1alpha1.LabelGlusterPart] == b.Spec.Selector.MatchLabels[v1alpha1.LabelGlusterPart] && !podReady(p) {
				allowed = 0
			}
		}
		if b.Status.ObservedGeneration == b.Generation && b.Status.DisruptionsAllowed == allowed && len(b.Status.DisruptedPods) == 0 {
			continue
		}
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3}
		must(s.t, s.client.Status().Update(s.t.Context(), b))
	}
}

// machineOf is the Node that all pods of a namespace are on. Tests run beside each other, and one of them taints it.
func machineOf(namespace string) string { return "machine-" + namespace }

// machine makes the Node that all pods are on.
func (s *suite) machine() {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machineOf(s.namespace)}}
	must(s.t, s.client.Create(s.t.Context(), n))
	// The API server makes each Node with the taint that it is not ready, and no controller takes that off here.
	n.Spec.Taints = nil
	must(s.t, s.client.Update(s.t.Context(), n))
}

// stall has a pod that does not start.
func (s *suite) stall(w *appsv1.StatefulSet, why string) {
	s.t.Helper()
	s.revise(w)
	name := workload.Pod(w.Name)
	if s.pods()[name] != nil {
		return
	}
	p := podOf(w)
	must(s.t, s.client.Create(s.t.Context(), p))
	p.Status.Phase = corev1.PodPending
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why}}}}
	must(s.t, s.client.Status().Update(s.t.Context(), p))
}

// heals has the volume heal itself, which it does not where nobody said so.
func (s *suite) heals() {
	s.t.Helper()
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	if _, f := volume.SetOptions(c, "v", volume.OptionRequest{Options: map[string]string{servers.SelfHeal: "on"}, Levels: volume.Levels{Advanced: true}}); f != nil {
		s.t.Fatal(f.Errors)
	}
}

// image is that of a pod.
func image(p *corev1.Pod) string { return p.Spec.Containers[0].Image }

// TestPods_replaced: other images reach the workloads, and the pods are replaced one at a time: etcd first, then servers, each only when all others are ready and the
// volume is healed, and none while a brick is being moved (G20).
func TestPods_replaced(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	s.heals()
	s.until("all pods are current", func() bool { return s.ofCluster(v1alpha1.ConditionPodsCurrent).Status == metav1.ConditionTrue })
	before := s.pods()
	s.editCluster(func(c *v1alpha1.GlusterCluster) {
		c.Spec.Images = v1alpha1.GlusterImages{Glusterd2: "example.com/glusterd2:2", Etcd: "example.com/etcd:2"}
	})
	var order []string
	s.until("all pods are replaced", func() bool {
		away, all := []string{}, s.pods()
		for name, p := range before {
			now := all[name]
			if now != nil && now.UID != p.UID && !slices.Contains(order, name) {
				order = append(order, name)
			}
			if now == nil || !podReady(now) {
				away = append(away, name)
			}
		}
		if len(away) > 1 {
			t.Fatalf("these are away at once: %v", away)
		}
		return s.ofCluster(v1alpha1.ConditionPodsCurrent).Status == metav1.ConditionTrue && len(order) == len(before)
	})
	for i, name := range order {
		if want := ":2"; !strings.HasSuffix(image(s.pods()[name]), want) || strings.Contains(name, "-etcd-") != (i < workload.Members) {
			t.Errorf("%d: %s has %s; the order is %v", i, name, image(s.pods()[name]), order)
		}
	}
	s.whole()
	for _, n := range s.nodes() {
		if c := s.condition(n.Name, v1alpha1.ConditionPodCurrent); c.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", n.Name, c)
		}
	}
	if !s.tells("PodReplaced The pod pool-etcd-0-0 is replaced.") {
		t.Errorf("no event tells it: %q", s.told)
	}
}

// TestPods_wait: pods of an earlier template are told, and stay while files are to be healed, while a claim of one was deleted, and while a budget says no.
func TestPods_wait(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.pool(3)
	s.until("it runs", s.running(3))
	s.volume()
	s.heals()
	n := s.inZone("z0")
	s.halt(n)
	s.until("it is offline", s.in(n, "offline"))
	c := s.world.Begin(s.anyone(n).Node)
	volume.Write(c, "v", "d")
	c.End()
	before := s.pods()
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Glusterd2 = "example.com/glusterd2:2" })
	waits := func(why string) func() bool {
		return func() bool {
			c := s.ofCluster(v1alpha1.ConditionPodsCurrent)
			return c.Status == metav1.ConditionFalse && c.Reason == v1alpha1.ReasonRolloutWaits && strings.Contains(c.Message, workload.Pod(n)) && strings.Contains(c.Message, why)
		}
	}
	s.until("it is told, and waits", waits("The pod "+workload.Pod(n)+" is not ready."))
	if c := s.condition(n, v1alpha1.ConditionPodCurrent); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonRolloutWaits {
		t.Errorf("%+v", c)
	}
	s.passes(10)
	for name, p := range s.pods() {
		if before[name] == nil || before[name].UID != p.UID {
			t.Errorf("%s was replaced", name)
		}
	}

	// The claim of the first one was deleted: it would go with the pod. A finalizer stands for the pod that uses it.
	claim := s.claim(workload.StateClaim(n))
	claim.Finalizers = []string{"example.com/in-use"}
	must(t, s.client.Update(t.Context(), claim))
	s.keepClaim = claim.Name
	must(t, s.client.Delete(t.Context(), claim))
	s.until("even if it is up", func() bool { delete(s.halted, n); return s.state(n) == "online" })
	s.until("others are replaced", func() bool {
		name := workload.Pod(s.inZone("z2"))
		now := s.pods()[name]
		return now != nil && now.UID != before[name].UID
	})
	s.until("this one waits for its claim", waits("A claim of the pod "+workload.Pod(n)+", or of the one in its place, is not there or was deleted"))
	if now := s.pods()[workload.Pod(n)]; now == nil || now.UID != before[now.Name].UID {
		t.Error("its data go with it")
	}
}

// TestPods_idle: with a wrong image nothing of a pod runs. Another one is made at once when the image is right, even if the pool is silent.
func TestPods_idle(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.broken = "example.com/glusterd2:wrong"
	s.pool(2, func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Glusterd2 = v1alpha1.GlusterImage(s.broken) })
	s.until("both have a pod", func() bool { return len(s.pods()) == workload.Members+2 })
	s.passes(3)
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Glusterd2 = "example.com/glusterd2:2" })
	s.until("it runs", s.running(2))
}

// TestPods_budget: a budget that says no is told, and nothing is replaced.
func TestPods_budget(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.pool(1)
	s.until("it runs", s.running(1))
	before := s.pods()
	s.tight = true
	s.passes(1)
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Etcd = "example.com/etcd:2" })
	s.until("it is told", func() bool {
		c := s.ofCluster(v1alpha1.ConditionPodsCurrent)
		return c.Reason == v1alpha1.ReasonRolloutWaits && strings.Contains(c.Message, "is not replaced now: ")
	})
	s.passes(3)
	result, err := s.try()
	must(t, err)
	if result.RequeueAfter < time.Second {
		t.Errorf("it is asked again after %s", result.RequeueAfter)
	}
	for name, p := range s.pods() {
		if before[name] == nil || before[name].UID != p.UID {
			t.Errorf("%s was replaced", name)
		}
	}
}

// TestPods_forbidden: a controller that may not evict pods tells so instead of saying that a pod is replaced, and what to do. Once it may, the pods are replaced.
func TestPods_forbidden(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.pool(1)
	s.until("it runs", s.running(1))
	s.intercept(interceptor.Funcs{SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, to client.Object, opts ...client.SubResourceCreateOption) error {
		if sub != "eviction" {
			return c.SubResource(sub).Create(ctx, o, to, opts...)
		}
		return apierrors.NewForbidden(corev1.Resource("pods"), o.GetName(), errors.New(`User "quarry" cannot create resource "pods/eviction" in API group "" in the namespace "x"`))
	}})
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Etcd = "example.com/etcd:2" })
	s.until("it is told", func() bool {
		c := s.ofCluster(v1alpha1.ConditionPodsCurrent)
		return c.Reason == v1alpha1.ReasonRolloutWaits && strings.Contains(c.Message, "is not replaced now: ") &&
			strings.Contains(c.Message, `cannot create resource "pods/eviction"`) && strings.Contains(c.Message, "Apply the ClusterRole quarry-gluster")
	})
	if _, err := s.try(); err == nil {
		t.Error("the pass has no error")
	}
	if s.tells("PodReplaced") {
		t.Errorf("an event says that a pod was replaced: %q", s.told)
	}
	s.restart()
	s.until("etcd has the image", func() bool {
		for name, p := range s.pods() {
			if strings.Contains(name, "-etcd-") && !strings.HasSuffix(image(p), ":2") {
				return false
			}
		}
		return s.ofCluster(v1alpha1.ConditionPodsCurrent).Status == metav1.ConditionTrue
	})
}

// TestPods_tainted: a pod whose machine has a taint that the next one does not tolerate stays, and the taint is told.
func TestPods_tainted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.machine()
	s.pool(1)
	s.until("it runs", s.running(1))
	before := s.pods()
	s.r.Live = interceptor.NewClient(s.client, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if err := c.Get(ctx, key, o, opts...); err != nil {
			return err
		}
		if n, ok := o.(*corev1.Node); ok {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "example.com/full", Effect: corev1.TaintEffectNoSchedule})
		}
		return nil
	}})
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.Images.Etcd = "example.com/etcd:2" })
	s.until("it is told", func() bool {
		c := s.ofCluster(v1alpha1.ConditionPodsCurrent)
		return c.Reason == v1alpha1.ReasonRolloutWaits && strings.Contains(c.Message, "has the taint example.com/full:NoSchedule, which the pod does not tolerate.")
	})
	s.passes(3)
	for name, p := range s.pods() {
		if before[name] == nil || before[name].UID != p.UID {
			t.Errorf("%s was replaced", name)
		}
	}
}
