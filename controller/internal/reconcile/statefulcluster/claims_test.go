package statefulcluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestRetention(t *testing.T) {
	for name, tc := range map[string]struct {
		policy           *v1alpha1.ClaimRetention
		stays, scaled    string
		orphansAreListed bool
	}{
		"nothing said":                       {nil, "StatefulCluster", "StatefulCluster", true},
		"kept when deleted":                  {&v1alpha1.ClaimRetention{WhenDeleted: "Retain"}, "", "", true},
		"deleted when scaled":                {&v1alpha1.ClaimRetention{WhenScaled: "Delete"}, "StatefulCluster", "Pod", false},
		"kept when deleted, not when scaled": {&v1alpha1.ClaimRetention{WhenDeleted: "Retain", WhenScaled: "Delete"}, "", "Pod", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1")
			s.add(2, func(c *v1alpha1.StatefulCluster) { c.Spec.PersistentVolumeClaimRetentionPolicy = tc.policy })
			s.settle("two replicas", isReady)
			if got := s.owners(1); got != tc.stays {
				t.Errorf("the claim of a replica is owned by %q", got)
			}
			s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
			s.setPod("db-0000000000000001", corev1.ConditionFalse)
			c := s.settle("one replica", isReady)
			if got := s.owners(1); got != tc.scaled {
				t.Errorf("the claim of a replica that was scaled away is owned by %q", got)
			}
			if got := s.owners(2); got != tc.stays {
				t.Errorf("the claim of the replica that stays is owned by %q", got)
			}
			if listed := c.Status.OrphanedClaimCount == 1; listed != tc.orphansAreListed {
				t.Errorf("orphans %v", c.Status.OrphanedClaims)
			}
		})
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

// TestRetention_someoneElseDeletesThePod: the claims follow the policy all the same.
func TestRetention_someoneElseDeletesThePod(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: "Delete"}
	})
	s.settle("one replica", isReady)
	if err := s.client.Delete(context.Background(), &s.pods()[0]); err != nil {
		t.Fatal(err)
	}
	s.mustPass()
	if got := s.owners(1); got != "Pod" {
		t.Errorf("owned by %q", got)
	}
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
	s.now = s.now.Add(2 * time.Minute)
	s.settle("a replica elsewhere", isReady)
	if s.names() != "2" {
		t.Errorf("pods %s", s.names())
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
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: claim}},
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
