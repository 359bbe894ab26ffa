package statefulcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// owners tells who owns the claim of an identity: there is no garbage collector here, so the references are what counts.
func (s *suite) owners(identity int) string {
	s.t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: s.namespace, Name: fmt.Sprintf("db-data-%016x", identity)}
	if err := s.client.Get(context.Background(), key, c); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for _, o := range c.OwnerReferences {
		out = append(out, o.Kind)
	}
	return strings.Join(out, " ")
}

// claim tells what is on record of the claim of an identity, and whether it is being deleted or gone.
func (s *suite) claim(identity int) string {
	s.t.Helper()
	c := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: s.namespace, Name: fmt.Sprintf("db-data-%016x", identity)}
	err := s.client.Get(context.Background(), key, c)
	switch {
	case apierrors.IsNotFound(err):
		return "deleted"
	case err != nil:
		s.t.Fatal(err)
	case !c.DeletionTimestamp.IsZero():
		return "deleted"
	}
	return c.Annotations[v1alpha1.AnnotationReplicaState]
}

func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		policy           *v1alpha1.ClaimRetention
		owner, scaled    string
		orphansAreListed bool
	}{
		"nothing said":                       {nil, "StatefulCluster", "Scaled", true},
		"kept when deleted":                  {&v1alpha1.ClaimRetention{WhenDeleted: "Retain"}, "", "Scaled", true},
		"deleted when scaled":                {&v1alpha1.ClaimRetention{WhenScaled: "Delete"}, "StatefulCluster", "deleted", false},
		"kept when deleted, not when scaled": {&v1alpha1.ClaimRetention{WhenDeleted: "Retain", WhenScaled: "Delete"}, "", "deleted", false},
		"deleted when replaced":              {&v1alpha1.ClaimRetention{WhenReplaced: "Delete"}, "StatefulCluster", "Scaled", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1")
			s.add(2, func(c *v1alpha1.StatefulCluster) { c.Spec.PersistentVolumeClaimRetentionPolicy = tc.policy })
			s.settle("two replicas", isReady)
			if got := s.claim(1); got != "Filled" {
				t.Errorf("on record of an available replica is %q", got)
			}
			s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
			s.setPod("db-0000000000000001", corev1.ConditionFalse)
			s.settle("one replica", isReady)
			s.mustPass()
			c := s.get()
			if got := s.claim(1); got != tc.scaled {
				t.Errorf("the claim of a replica that was scaled away: %q", got)
			}
			if got := s.owners(2); got != tc.owner || s.claim(2) != "Filled" {
				t.Errorf("the claim of the replica that stays is owned by %q, on record is %q", got, s.claim(2))
			}
			if listed := c.Status.OrphanedClaimCount == 1; listed != tc.orphansAreListed {
				t.Errorf("orphans %v", c.Status.OrphanedClaims)
			}
		})
	}
}

// TestRetention_ofAnotherController: what somebody else made its own stays, whatever the policy is, and keeps nothing else from being done.
func TestRetention_ofAnotherController(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Delete", WhenScaled: "Delete"}
	})
	s.settle("two replicas", isReady)
	for _, c := range s.claims() {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Database", Name: "d", UID: "d-1", Controller: ptr.To(true)}}
		if err := s.client.Update(context.Background(), &c); err != nil {
			t.Fatal(err)
		}
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	s.setPod("db-0000000000000001", corev1.ConditionFalse)
	s.settle("one replica", isReady)
	s.mustPass()
	for i, want := range []string{"Scaled", "Filled"} {
		if s.claim(i+1) != want || s.owners(i+1) != "Database" {
			t.Errorf("claim %d: on record is %q, and it is owned by %q", i+1, s.claim(i+1), s.owners(i+1))
		}
	}
}

// TestRetention_replaced: the claims of a replica that was given up go when its replacement has the data, and not before. A node that comes back
// earlier has lost nothing.
func TestRetention_replaced(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete", WhenReplaced: "Delete"}
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.settle("three replicas", isReady)
	lost := 0
	for i, p := range s.pods() {
		if p.Spec.NodeName == "n3" {
			lost = i + 1
		}
	}
	s.setNode("n3", corev1.ConditionUnknown)
	s.wait(50 * time.Second)
	if s.claim(lost) != "Filled" || s.names() != "1 2 3" {
		t.Fatalf("within the grace: %s, pods %s", s.claim(lost), s.names())
	}
	s.wait(20 * time.Second)
	s.mustPass()
	if s.claim(lost) != "Replaced" || !strings.Contains(s.names(), "4") {
		t.Fatalf("after the grace: %s, pods %s", s.claim(lost), s.names())
	}
	s.setNode("n3", corev1.ConditionTrue)
	s.held["db-0000000000000004"] = true
	for range 5 {
		s.kubelet()
		s.mustPass()
	}
	if s.claim(lost) != "Replaced" {
		t.Errorf("the replacement has no data yet: %s", s.claim(lost))
	}
	s.held["db-0000000000000004"] = false
	s.settle("three replicas", isReady)
	s.mustPass()
	if s.claim(lost) != "deleted" {
		t.Errorf("the replacement has the data: %s", s.claim(lost))
	}
}

func TestRetention_changes(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.settle("one replica", isReady)
	for _, to := range []v1alpha1.Retention{"Retain", "Delete"} {
		s.edit(func(c *v1alpha1.StatefulCluster) {
			c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: to}
		})
		s.mustPass()
		if got, want := s.owners(1), map[v1alpha1.Retention]string{"Delete": "StatefulCluster"}[to]; got != want {
			t.Errorf("%s: owned by %q", to, got)
		}
	}
}

// TestRetention_history: the last replicas that were given up keep their claims, the others do not.
func TestRetention_history(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(4, func(c *v1alpha1.StatefulCluster) { c.Spec.OrphanHistoryLimit = ptr.To[int32](1) })
	s.settle("four replicas", isReady)
	for want := int32(3); want > 0; want-- {
		s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = &want })
		s.settle("one less", isReady)
		s.now = s.now.Add(time.Minute)
	}
	s.mustPass()
	left := s.names()
	kept := []string{}
	for i := 1; i <= 4; i++ {
		if state := s.claim(i); state == "Scaled" {
			kept = append(kept, fmt.Sprint(i))
		} else if (state == "Filled") != (left == fmt.Sprint(i)) {
			t.Errorf("claim %d: %s, replica %s", i, state, left)
		}
	}
	if c := s.get(); len(kept) != 1 || c.Status.OrphanedClaimCount != 1 || !strings.HasSuffix(c.Status.OrphanedClaims[0], kept[0]) {
		t.Errorf("kept are %v, listed %v", kept, c.Status.OrphanedClaims)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.OrphanHistoryLimit, c.Spec.OrphanMaxAgeSeconds = nil, ptr.To[int64](3600)
	})
	s.mustPass()
	if s.result.RequeueAfter <= 0 || s.result.RequeueAfter > time.Hour {
		t.Errorf("again after %v", s.result.RequeueAfter)
	}
	s.now = s.now.Add(time.Hour)
	s.mustPass()
	s.mustPass()
	if c := s.get(); c.Status.OrphanedClaimCount != 0 {
		t.Errorf("after its time it is kept: %v", c.Status.OrphanedClaims)
	}
}

// TestRetention_withoutRights: a record that may not be written is told, and replicas run on.
func TestRetention_withoutRights(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.settle("one replica", isReady)
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, o.GetName(), errors.New(
					`User "x" cannot patch resource "persistentvolumeclaims" in API group "" in the namespace "y"`))
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Retain"}
	})
	s.mustPass()
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonAccessDenied, "ClusterRole quarry-statefulcluster")(s.get()); complaint != "" || s.names() != "1" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	if s.result.RequeueAfter <= 0 {
		t.Error("it is never tried again")
	}
	s.r.Client = s.client
	s.settle("the rights are there", isReady)
	if s.owners(1) != "" {
		t.Errorf("owned by %s", s.owners(1))
	}
}

// TestRetention_someoneElseDeletesThePod: whoever has a pod end, a drain, an eviction or a person, has not scaled down. The pod comes back on its
// claims.
func TestRetention_someoneElseDeletesThePod(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete", WhenReplaced: "Delete"}
	})
	s.settle("one replica", isReady)
	before := s.pods()[0]
	if err := s.client.Delete(context.Background(), &before); err != nil {
		t.Fatal(err)
	}
	s.mustPass()
	if got := s.owners(1); got != "StatefulCluster" || s.claim(1) != "Filled" {
		t.Errorf("owned by %q, on record is %q", got, s.claim(1))
	}
	s.kubelet()
	s.settle("the replica is back", isReady)
	if after := s.pods(); len(after) != 1 || after[0].Name != before.Name || after[0].UID == before.UID || len(s.claims()) != 1 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
}

// TestReconcile_clockAhead: a clock that is ahead makes no replica available, and puts nothing on record.
func TestReconcile_clockAhead(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, func(c *v1alpha1.StatefulCluster) { c.Spec.MinReadySeconds = 60 })
	s.mustPass()
	s.kubelet()
	s.now = s.now.Add(time.Hour)
	s.wait(50 * time.Second)
	if c := s.get(); s.claim(1) != v1alpha1.ReplicaNew || c.Status.AvailableReplicas != 0 || len(c.Status.ReadyFor) != 1 || s.result.RequeueAfter == 0 {
		t.Errorf("on record %s, again after %s, %+v", s.claim(1), s.result.RequeueAfter, c.Status)
	}
	s.wait(10 * time.Second)
	before := s.get()
	if s.claim(1) != v1alpha1.ReplicaFilled || before.Status.AvailableReplicas != 1 || before.Status.ReadyFor[0].Looked != nil {
		t.Errorf("on record %s, %+v", s.claim(1), before.Status)
	}
	if s.wait(time.Minute); s.get().ResourceVersion != before.ResourceVersion {
		t.Error("written, and nothing changed")
	}
}

// TestReconcile_scaledToNoneAndBack: the copies stay, and are taken up again. With whenScaled Delete they are not.
func TestReconcile_scaledToNoneAndBack(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(3, nil)
	s.settle("three replicas", isReady)
	scale := func(to int32) {
		s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = &to })
		s.settle("another number", func(c *v1alpha1.StatefulCluster) string {
			if c.Status.Replicas != to {
				return fmt.Sprint(c.Status.Replicas)
			}
			return isReady(c)
		})
	}
	scale(0)
	if got := s.get().Status.OrphanedClaims; s.claim(1)+s.claim(2)+s.claim(3) != "FilledFilledFilled" || len(got) != 0 || len(s.pods()) != 0 {
		t.Errorf("on record %s %s %s, orphans %v, pods %s", s.claim(1), s.claim(2), s.claim(3), got, s.names())
	}
	scale(2)
	s.mustPass()
	if s.minted != 3 || s.get().Status.OrphanedClaimCount != 1 || len(s.claims()) != 3 {
		t.Errorf("%d identities, %d claims, orphans %v, pods %s", s.minted, len(s.claims()), s.get().Status.OrphanedClaims, s.names())
	}
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete"}
	})
	scale(0)
	s.mustPass()
	for i := range 3 {
		if got := s.claim(i + 1); got != "deleted" {
			t.Errorf("claim %d: %s", i+1, got)
		}
	}
}

// TestReconcile_reboot: a pod that ended with its node is made again on the same claims.
func TestReconcile_reboot(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.settle("one replica", isReady)
	before := s.pods()[0]
	p := before.DeepCopy()
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Terminated"
	p.Status.Conditions = nil
	if err := s.client.Status().Update(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.Add(time.Minute)
	s.mustPass()
	s.mustPass()
	s.settle("the replica is back", isReady)
	if after := s.pods(); len(after) != 1 || after[0].Name != before.Name || after[0].UID == before.UID || len(s.claims()) != 1 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
}

// TestReconcile_claimDeletedBeforeThePodStarted: the pod would wait for it for ever.
func TestReconcile_claimDeletedBeforeThePodStarted(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.mustPass()
	claim := s.claims()[0]
	claim.Finalizers = nil
	if err := s.client.Update(context.Background(), &claim); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(context.Background(), &claim); err != nil {
		t.Fatal(err)
	}
	s.mustPass()
	if again := s.claims(); len(again) != 1 || again[0].UID == claim.UID || again[0].Name != claim.Name || s.names() != "1" {
		t.Fatalf("claims %d, pods %s", len(again), s.names())
	}
	s.settle("the replica", isReady)
}

// TestReconcile_disruptionBudget: a budget holds a removal up, which is said, and let go on later.
func TestReconcile_disruptionBudget(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "all-of-them"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		},
	}
	s.create(budget)
	allow := func(n int32) {
		t.Helper()
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, CurrentHealthy: 2, DesiredHealthy: 2, ExpectedPods: 2, DisruptionsAllowed: n,
		}
		if err := s.client.Status().Update(context.Background(), budget); err != nil {
			t.Fatal(err)
		}
	}
	allow(0)
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Replicas = ptr.To[int32](1)
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete"}
	})
	s.told()
	for range 3 {
		s.mustPass()
	}
	if s.names() != "1 2" || s.result.RequeueAfter <= 0 || s.result.RequeueAfter > time.Minute || s.owners(2) != "StatefulCluster" {
		t.Errorf("pods %s, again after %v, claim owned by %q", s.names(), s.result.RequeueAfter, s.owners(2))
	}
	if told := strings.Join(s.told(), "\n"); strings.Count(told, "Warning DisruptionBudget") != 1 {
		t.Errorf("events:\n%s", told)
	}
	for _, kind := range []string{v1alpha1.ConditionRemovalAllowed, v1alpha1.ConditionReady} {
		if complaint := says(kind, v1alpha1.ReasonDisruptionBudget, "disruption budget all-of-them")(s.get()); complaint != "" {
			t.Error(complaint)
		}
	}
	allow(1)
	s.settle("one replica", isReady)
}

// TestReconcile_volumeOnNodeThatIsGone: a pod that cannot be scheduled because its volume is on a node that is not there is replaced.
func TestReconcile_volumeOnNodeThatIsGone(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.mustPass()
	s.held["db-0000000000000001"] = true
	s.bind("db-data-0000000000000001", "n2")
	s.mustPass()
	if s.names() != "1" || s.result.RequeueAfter != 5*time.Second {
		t.Errorf("pods %s, again after %v", s.names(), s.result.RequeueAfter)
	}
	s.removeNode("n2")
	s.mustPass()
	if s.names() != "1" {
		t.Errorf("it is not waited for the node: pods %s", s.names())
	}
	s.wait(2 * time.Minute)
	s.settle("a replica elsewhere", isReady)
	if s.names() != "2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_changedClaimTemplates: they hold for replicas that are made later; those that are there keep what they have, those of an earlier version,
// too.
func TestReconcile_changedClaimTemplates(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	old := s.claims()
	delete(old[0].Annotations, v1alpha1.AnnotationClaims)
	if err := s.client.Update(context.Background(), &old[0]); err != nil {
		t.Fatal(err)
	}
	before := s.pods()
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Replicas = ptr.To[int32](3)
		more := c.Spec.VolumeClaimTemplates[0]
		more.Metadata.Name = "log"
		c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, more)
	})
	s.settle("three replicas", isReady)
	if after := s.pods(); len(after) != 3 || after[0].UID != before[0].UID || after[1].UID != before[1].UID || len(s.claims()) != 4 || len(after[2].Spec.Volumes) != 2 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	for i := range before {
		if err := s.client.Delete(context.Background(), &before[i], client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	s.mustPass()
	s.settle("both are back, with a new claim beside their own", isReady)
	s.mustPass()
	for _, c := range s.claims() {
		if made, state := c.Annotations[v1alpha1.AnnotationClaims], c.Annotations[v1alpha1.AnnotationReplicaState]; made != "data,log" || state != "Filled" {
			t.Errorf("%s is of %s, and %s", c.Name, made, state)
		}
	}
	if got := s.names(); got != "1 2 3" || len(s.claims()) != 6 {
		t.Errorf("pods %s, %d claims", got, len(s.claims()))
	}
}

// TestReconcile_unrecorded: when claims of an earlier version are all that is left, none begins empty beside them until a person says which hold the data.
func TestReconcile_unrecorded(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(2, nil)
	s.settle("two replicas", isReady)
	for _, p := range s.pods() {
		if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	claims := s.claims()
	write := func(c *corev1.PersistentVolumeClaim, state string) {
		t.Helper()
		if c.Annotations[v1alpha1.AnnotationReplicaState] = state; state == "" {
			delete(c.Annotations, v1alpha1.AnnotationReplicaState)
		}
		if err := s.client.Update(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	for i := range claims {
		write(&claims[i], "")
	}
	for range 3 {
		s.mustPass()
	}
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicasUnknown, "2 claims")(s.get()); complaint != "" || s.names() != "" || len(s.claims()) != 2 {
		t.Fatalf("pods %s: %s", s.names(), complaint)
	}
	write(&claims[0], v1alpha1.ReplicaFilled)
	s.settle("one is taken up, and none begins empty beside it", says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicasUnknown, "1 of 2 replicas are ready"))
	if got := s.names(); got != "1" || s.claim(1) != "Filled" {
		t.Errorf("pods %s, on record %q", got, s.claim(1))
	}
	write(&claims[1], v1alpha1.ReplicaReplaced)
	s.settle("one is made beside it", isReady)
	if got := s.names(); got != "1 3" || s.claim(1) != "Filled" || s.claim(2) != "Replaced" {
		t.Errorf("pods %s, on record %q and %q", got, s.claim(1), s.claim(2))
	}
}

// bind makes a volume on a node and binds a claim to it, as a provisioner and the volume controller do.
func (s *suite) bind(claim, node string) {
	s.t.Helper()
	ctx := context.Background()
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pv-"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: claim, VolumeAttributes: map[string]string{v1alpha1.AttributeGroupUUID: "group-" + node}}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	s.create(v)
	c := &corev1.PersistentVolumeClaim{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim}, c); err != nil {
		s.t.Fatal(err)
	}
	c.Spec.VolumeName = v.Name
	if err := s.client.Update(ctx, c); err != nil {
		s.t.Fatal(err)
	}
}
