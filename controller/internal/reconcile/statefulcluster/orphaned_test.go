package statefulcluster

import (
	"context"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// orphanAll deletes the StatefulCluster as with --cascade=orphan. No garbage collector runs beside the tests: this is what it does.
func (s *suite) orphanAll() (pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) {
	s.t.Helper()
	orphan := func(o client.Object) {
		s.t.Helper()
		o.SetOwnerReferences(nil)
		if err := s.client.Update(context.Background(), o); err != nil {
			s.t.Fatal(err)
		}
	}
	pods, claims = s.pods(), s.claims()
	for i := range pods {
		orphan(&pods[i])
	}
	for i := range claims {
		orphan(&claims[i])
	}
	for _, revision := range s.history() {
		orphan(&revision)
	}
	if err := s.client.Delete(context.Background(), s.get()); err != nil {
		s.t.Fatal(err)
	}
	return pods, claims
}

// orphaned makes two replicas with the data and orphans them, with pods that do not match any more. A StatefulCluster of the same name stands beside them then.
func orphaned(t *testing.T) (s *suite, pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) {
	t.Helper()
	s, pods, claims = abandoned(t, 2, nil)
	for i := range pods {
		s.unmatch(&pods[i])
	}
	s.add(2, nil)
	return s, pods, claims
}

// unmatch takes a label off a pod without which it is not adopted.
func (s *suite) unmatch(p *corev1.Pod) {
	s.t.Helper()
	delete(p.Labels, appsv1.ControllerRevisionHashLabelKey)
	if err := s.client.Update(context.Background(), p); err != nil {
		s.t.Fatal(err)
	}
}

// abandoned makes replicas with the data, and orphans them.
func abandoned(t *testing.T, replicas int32, edit func(*v1alpha1.StatefulCluster)) (s *suite, pods []corev1.Pod, claims []corev1.PersistentVolumeClaim) {
	t.Helper()
	s = newSuite(t, "n1", "n2")
	s.add(replicas, edit)
	s.settle("the replicas", isReady)
	for _, c := range s.claims() {
		for _, p := range s.pods() {
			if p.Labels[v1alpha1.LabelIdentity] == c.Labels[v1alpha1.LabelIdentity] {
				s.bind(c.Name, p.Spec.NodeName)
			}
		}
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&c), &c); err != nil {
			t.Fatal(err)
		}
		c.Status.Phase = corev1.ClaimBound
		if err := s.client.Status().Update(context.Background(), &c); err != nil {
			t.Fatal(err)
		}
	}
	pods, claims = s.orphanAll()
	return s, pods, claims
}

// waits passes a minute, and demands that a person is asked and nothing begins empty.
func (s *suite) waits(names string, words ...string) {
	s.t.Helper()
	s.wait(time.Minute)
	complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicasUnknown, words...)(s.get())
	if complaint != "" || s.names() != names || len(s.claims()) != 2 {
		s.t.Fatalf("pods %q, %d claims: %s", s.names(), len(s.claims()), complaint)
	}
}

// end deletes pods, and returns when nothing of them is left.
func (s *suite) end(pods ...corev1.Pod) {
	s.t.Helper()
	for i := range pods {
		if err := s.client.Delete(context.Background(), &pods[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *suite) adopts(claims ...corev1.PersistentVolumeClaim) {
	s.t.Helper()
	s.edit(func(c *v1alpha1.StatefulCluster) {
		for _, claim := range claims {
			c.Spec.Adopt = append(c.Spec.Adopt, claim.Name)
		}
	})
}

// TestReconcile_orphanedPods: kubectl delete --cascade=orphan leaves the pods, which run on the data. Where they do not match, one of the same name begins nothing empty
// beside them, and does not touch them.
func TestReconcile_orphanedPods(t *testing.T) {
	s, pods, claims := orphaned(t)
	s.waits("1 2", "2 pods", "--cascade=orphan", "spec.adopt", claims[0].Name, claims[1].Name, pods[0].Name+" (it has no label controller-revision-hash)")
	for i, p := range s.pods() {
		if p.ResourceVersion != pods[i].ResourceVersion {
			t.Errorf("pod %s was changed: %+v", p.Name, p.ObjectMeta)
		}
	}
	s.adopts(claims...)
	s.waits("1 2", "2 pods", "Then delete these pods")
	s.end(pods...)
	s.settle("the data goes on", isReady)
	if s.names() != "1 2" || s.claim(1) != v1alpha1.ReplicaFilled || s.claim(2) != v1alpha1.ReplicaFilled {
		t.Errorf("pods %s, claims %s %s", s.names(), s.claim(1), s.claim(2))
	}
	for _, c := range s.claims() {
		if c.Annotations[v1alpha1.AnnotationOrphaned] != "" {
			t.Errorf("claim %s has the mark still: %v", c.Name, c.Annotations)
		}
	}
}

// TestReconcile_orphanedPodsDeletedFirst: the pods are deleted before anybody said what becomes of their claims. Nothing begins empty while they end, nor afterwards.
func TestReconcile_orphanedPodsDeletedFirst(t *testing.T) {
	s, pods, claims := orphaned(t)
	for i := range pods {
		pods[i].Finalizers = []string{"example.org/slow"}
		if err := s.client.Update(context.Background(), &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	// The StatefulCluster sees them first while they end already.
	s.end(pods...)
	s.waits("", "2 pods", "or end")
	for i := range pods {
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&pods[i]), &pods[i]); err != nil {
			t.Fatal(err)
		}
		pods[i].Finalizers = nil
		if err := s.client.Update(context.Background(), &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.waits("", "2 claims", "spec.adopt", claims[0].Name, claims[1].Name)
	s.adopts(claims[0])
	s.waits("", "1 claims", claims[1].Name)
	s.adopts(claims[1])
	s.settle("the data goes on", isReady)
	if s.names() != "1 2" || s.claim(1) != v1alpha1.ReplicaFilled || s.claim(2) != v1alpha1.ReplicaFilled {
		t.Errorf("pods %s, claims %s %s", s.names(), s.claim(1), s.claim(2))
	}
}

// TestReconcile_orphanedPodsLeft: a person leaves what the pods had, and the StatefulCluster begins empty. Pods that ended by themselves had the data, too.
func TestReconcile_orphanedPodsLeft(t *testing.T) {
	s, pods, claims := orphaned(t)
	for i := range pods {
		pods[i].Status.Phase = corev1.PodFailed
		if err := s.client.Status().Update(context.Background(), &pods[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.waits("1 2", "2 claims", claims[0].Name)
	s.end(pods...)
	s.waits("", "2 claims", claims[0].Name)
	for i := range claims {
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(&claims[i]), &claims[i]); err != nil {
			t.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&claims[i].ObjectMeta, v1alpha1.AnnotationReplicaState, v1alpha1.ReplicaReplaced)
		if err := s.client.Update(context.Background(), &claims[i]); err != nil {
			t.Fatal(err)
		}
	}
	s.settle("two begin empty", isReady)
	if s.names() != "3 4" || len(s.claims()) != 4 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
}

// TestReconcile_keptClaims: who deletes a StatefulCluster and keeps its claims may begin empty under its name. Nothing is asked, and nothing touches the claims.
func TestReconcile_keptClaims(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, retained)
	s.settle("two replicas", isReady)
	s.deleteAll()
	kept := s.claims()
	s.add(2, nil)
	s.settle("two begin empty", isReady)
	if s.names() != "3 4" || len(s.claims()) != 4 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	for _, c := range s.claims() {
		i := slices.IndexFunc(kept, func(k corev1.PersistentVolumeClaim) bool { return k.Name == c.Name })
		if i >= 0 && c.ResourceVersion != kept[i].ResourceVersion {
			t.Errorf("claim %s was changed: %v", c.Name, c.Annotations)
		}
	}
}
