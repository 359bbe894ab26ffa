package statefulcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestReconcile_makesReplicasOneByOne(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, nil)
	s.mustPass()
	if s.names() != "1" {
		t.Fatalf("pods %s", s.names())
	}
	s.mustPass()
	if s.names() != "1" || s.result.RequeueAfter != 5*time.Second {
		t.Errorf("a pending pod is not waited for: pods %s, again after %v", s.names(), s.result.RequeueAfter)
	}
	c := s.settle("three replicas", isReady)
	if s.names() != "1 2 3" || len(s.claims()) != 3 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
	want := v1alpha1.StatefulClusterStatus{
		ObservedGeneration: 1, Replicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, UpdatedReplicas: 3, CurrentReplicas: 3,
		CurrentRevision: c.Status.UpdateRevision, UpdateRevision: c.Status.UpdateRevision, Selector: "app=db", Conditions: c.Status.Conditions,
	}
	if diff := cmp.Diff(want, c.Status); diff != "" {
		t.Error(diff)
	}
	for range 3 {
		s.mustPass()
	}
	if after := s.get(); after.ResourceVersion != c.ResourceVersion {
		t.Error("written, and nothing changed")
	}
	s.checkIdentity(&s.pods()[0])
}

// checkIdentity looks at everything that a pod and its claim get.
func (s *suite) checkIdentity(p *corev1.Pod) {
	t := s.t
	t.Helper()
	if p.Name != "db-0000000000000001" || p.Spec.Hostname != p.Name || p.Spec.Subdomain != "db" || p.Labels[appsv1.ControllerRevisionHashLabelKey] == "" {
		t.Errorf("%+v", p.Spec)
	}
	if !metav1.IsControlledBy(p, s.get()) {
		t.Errorf("owners of the pod: %+v", p.OwnerReferences)
	}
	v := p.Spec.Volumes[0]
	if v.Name != "data" || v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != "db-data-0000000000000001" {
		t.Errorf("volume %+v", v)
	}
	for _, c := range s.claims() {
		if !metav1.IsControlledBy(&c, s.get()) || c.Labels[v1alpha1.LabelReserved] != "" || c.Labels["app"] != "db" {
			t.Errorf("claim %s: owners %+v, labels %v", c.Name, c.OwnerReferences, c.Labels)
		}
	}
}

func TestReconcile_replacesOnNodeThatIsGone(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, nil)
	s.settle("three replicas", isReady)
	s.told()
	before := map[string]corev1.Pod{}
	var lost corev1.Pod
	for _, p := range s.pods() {
		before[p.Name] = p
		if p.Spec.NodeName == "n2" {
			lost = p
		}
	}
	s.removeNode("n2")
	s.wait(30 * time.Second)
	if s.names() != "1 2 3" {
		t.Errorf("it may be registered again: pods %s", s.names())
	}
	s.wait(5 * time.Minute)
	c := s.settle("a new replica", isReady)
	if _, ok := before["db-0000000000000004"]; ok || !strings.Contains(s.names(), "4") {
		t.Errorf("pods %s", s.names())
	}
	s.othersStay(before, lost)
	orphan := strings.Replace(lost.Name, "db-", "db-data-", 1)
	if c.Status.OrphanedClaimCount != 1 || c.Status.OrphanedClaims[0] != orphan || len(s.claims()) != 4 {
		t.Errorf("orphans %v of %d claims", c.Status.OrphanedClaims, len(s.claims()))
	}
	if told := strings.Join(s.told(), "\n"); !strings.Contains(told, "Warning ReplicaReplaced Replica "+lost.Name) || !strings.Contains(told, "Normal ReplicaCreated") {
		t.Errorf("events:\n%s", told)
	}
}

// othersStay holds that a pod is gone, and that of those that were there no other was made again.
func (s *suite) othersStay(before map[string]corev1.Pod, lost corev1.Pod) {
	s.t.Helper()
	for _, p := range s.pods() {
		if p.Name == lost.Name || p.Spec.NodeName == lost.Spec.NodeName {
			s.t.Errorf("%s is on %s", p.Name, p.Spec.NodeName)
		}
		if old, ok := before[p.Name]; ok && old.UID != p.UID {
			s.t.Errorf("%s was made again", p.Name)
		}
	}
}

func TestReconcile_replacesOnNodeThatIsSilent(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "2m"}
	})
	s.settle("three replicas", isReady)
	s.setNode("n3", corev1.ConditionUnknown)
	s.wait(time.Minute)
	if s.names() != "1 2 3" || s.result.RequeueAfter != 30*time.Second {
		t.Errorf("pods %s, again after %v", s.names(), s.result.RequeueAfter)
	}
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "is unreachable, by now for 1m0s of 2m0s")(s.get()); complaint != "" {
		t.Error(complaint)
	}
	if away := s.get().Status.Away; len(away) != 1 || away[0].Seconds != 60 || !strings.Contains(away[0].Message, "is unreachable") {
		t.Errorf("%+v", away)
	}
	s.wait(time.Minute) // It is evicted, and stays: nobody confirms its end.
	s.mustPass()
	s.mustPass()
	terminating := 0
	for _, p := range s.pods() {
		if !p.DeletionTimestamp.IsZero() {
			terminating++
		}
	}
	if terminating != 1 || !strings.Contains(s.names(), "4") {
		t.Fatalf("%d pods are ending, the others are %s", terminating, s.names())
	}
	s.settle("three ready replicas", func(c *v1alpha1.StatefulCluster) string {
		if c.Status.ReadyReplicas != 3 || isReady(c) != "" {
			return "not yet"
		}
		return ""
	})
}

func TestReconcile_mostNodesAreSilent(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, nil)
	s.settle("three replicas", isReady)
	s.setNode("n2", corev1.ConditionUnknown)
	s.setNode("n3", corev1.ConditionUnknown)
	s.wait(10 * time.Minute)
	if s.names() != "1 2 3" {
		t.Errorf("pods %s", s.names())
	}
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "too many others")(s.get()); complaint != "" {
		t.Error(complaint)
	}
}

// TestReconcile_aMajorityWaitsForAPerson: two of three nodes go for good, one after the other: the first of them is given up only by approval.
func TestReconcile_aMajorityWaitsForAPerson(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3", "n4", "n5")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.settle("three replicas", isReady)
	for _, p := range s.pods()[:2] {
		s.setNode(p.Spec.NodeName, corev1.ConditionUnknown)
	}
	s.told()
	s.wait(5 * time.Minute)
	if s.names() != "1 2 3" {
		t.Fatalf("pods %s", s.names())
	}
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonQuorumGuard, "only 1 of 3 replicas", v1alpha1.AnnotationApprove, s.get().Status.Plan.Digest)(s.get()); complaint != "" {
		t.Error(complaint)
	}
	if told := strings.Join(s.told(), "\n"); strings.Count(told, "Warning QuorumGuard") != 1 {
		t.Errorf("events:\n%s", told)
	}
	if away := s.get().Status.Away; len(away) != 2 {
		t.Errorf("both are told: %+v", away)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Annotations[v1alpha1.AnnotationApprove] = "1234567812345678" })
	s.wait(time.Minute)
	if s.names() != "1 2 3" {
		t.Fatalf("another approval counts: pods %s", s.names())
	}
	s.approve()
	s.wait(time.Minute)
	s.settle("three replicas", isReady)
	if s.names() != "3 4 5" || s.get().Status.Plan != nil {
		t.Errorf("pods %s, plan %+v", s.names(), s.get().Status.Plan)
	}
}

// TestReconcile_relabelledNode: a Node that is deleted and registered again replaces nobody.
func TestReconcile_relabelledNode(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "10s"}
	})
	s.settle("three replicas", isReady)
	s.removeNode("n2")
	s.wait(50 * time.Second)
	s.addNode("n2")
	s.wait(5 * time.Minute)
	if s.names() != "1 2 3" || isReady(s.get()) != "" || len(s.get().Status.Away) != 0 {
		t.Errorf("pods %s, status %+v", s.names(), s.get().Status)
	}
}

// TestReconcile_nodeIsLiveAfterAll: the cache of nodes is late. Nobody is given up for what it says.
func TestReconcile_nodeIsLiveAfterAll(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.settle("three replicas", isReady)
	s.r.Workloads = interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if nodes, ok := list.(*corev1.NodeList); ok {
				for i := range nodes.Items {
					if nodes.Items[i].Name == "n2" {
						nodes.Items[i].Status.Conditions[0].Status = corev1.ConditionUnknown
					}
				}
			}
			return err
		},
	})
	s.wait(5 * time.Minute)
	if s.names() != "1 2 3" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_everythingIsLiveAfterAll: whatever a cache says late, a person's approval, a volume, a Member or a node without a pod, nobody is given up
// for it.
func TestReconcile_everythingIsLiveAfterAll(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3", "n4")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m", v1alpha1.AnnotationStartUpGrace: "24h"}
	})
	s.settle("three replicas", isReady)
	var pods []corev1.Pod
	for i, p := range s.pods() {
		s.bind(fmt.Sprintf("db-data-%016x", i+1), p.Spec.NodeName)
		pods = append(pods, p)
	}
	m := s.member(pods[0].Spec.NodeName)
	s.groupLost(m, false)
	late := ""
	stale := interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			switch l := list.(type) {
			case *v1alpha1.MemberList:
				for i := range l.Items {
					if late == "member" {
						l.Items[i].Status.Conditions[0].Status, l.Items[i].Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonVolumeGroupLost
					}
				}
			case *corev1.NodeList:
				l.Items = slices.DeleteFunc(l.Items, func(n corev1.Node) bool { return late == "node" && n.Name == pods[1].Spec.NodeName })
			}
			return err
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			switch o := o.(type) {
			case *corev1.PersistentVolume:
				if late == "volume" {
					o.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values = []string{"n0"}
				}
			case *v1alpha1.StatefulCluster:
				if late == "approval" && o.Status.Plan != nil {
					o.Annotations[v1alpha1.AnnotationApprove] = o.Status.Plan.Digest
				}
			}
			return err
		},
	})
	s.r.Client, s.r.Workloads = stale, stale
	check := func(what string) {
		t.Helper()
		late = what
		s.wait(80 * time.Second)
		if late = ""; s.claim(1)+s.claim(2)+s.claim(3) != "FilledFilledFilled" || s.minted != 3 {
			t.Fatalf("%s: on record %s %s %s, pods %s", what, s.claim(1), s.claim(2), s.claim(3), s.names())
		}
		s.wait(90 * time.Second)
	}
	check("member")
	if err := s.client.Delete(context.Background(), &pods[1], client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	check("node")
	check("volume")
	s.setNode(pods[1].Spec.NodeName, corev1.ConditionUnknown)
	s.setNode(pods[2].Spec.NodeName, corev1.ConditionUnknown)
	s.addNode("n5")
	check("approval")
}

// TestReconcile_drainedNode: the replica of a node that is drained comes back on its claims when the node does.
func TestReconcile_drainedNode(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "2m"}
	})
	s.settle("two replicas", isReady)
	p := s.pods()[1]
	s.bind("db-data-0000000000000002", p.Spec.NodeName)
	cordon := func(on bool) {
		n := &corev1.Node{}
		if err := s.client.Get(context.Background(), client.ObjectKey{Name: p.Spec.NodeName}, n); err != nil {
			t.Fatal(err)
		}
		n.Spec.Unschedulable = on
		if err := s.client.Update(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	cordon(true)
	if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.wait(time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "takes no new pods")(s.get()); complaint != "" || s.names() != "1" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	cordon(false)
	s.settle("it is back", isReady)
	if s.names() != "1 2" || len(s.claims()) != 2 {
		t.Errorf("pods %s, %d claims", s.names(), len(s.claims()))
	}
}

// TestReconcile_onlyOneWaitsForAPerson: the only copy is not given up for a change of the template.
func TestReconcile_onlyOneWaitsForAPerson(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.settle("one replica", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	s.wait(time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonApprovalNeeded, "OnDelete", v1alpha1.AnnotationApprove)(s.get()); complaint != "" || s.names() != "1" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	s.approve()
	s.settle("a new one", isReady)
	if s.names() != "2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_rollsOnTheSameClaims: with as many nodes as replicas, or data that is not to be copied, pods are made anew where they were.
func TestReconcile_rollsOnTheSameClaims(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	})
	s.settle("three replicas", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) {
		c.Spec.Template.Spec = rawOf(map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image:2", "tty": true}}})
	})
	c := s.settle("all are new", func(c *v1alpha1.StatefulCluster) string {
		if live := len(strings.Fields(s.names())); live < 2 {
			t.Errorf("%d replicas during the change", live)
		}
		return isReady(c)
	})
	if s.names() != "1 2 3" || len(s.claims()) != 3 || c.Status.UpdatedReplicas != 3 {
		t.Errorf("pods %s, %d claims, status %+v", s.names(), len(s.claims()), c.Status)
	}
}

// TestReconcile_changesImagesInPlace: no pod is made anew for an image, and the next one waits until the container of before has ended.
func TestReconcile_changesImagesInPlace(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdateOptions{MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	})
	s.settle("two replicas", isReady)
	runs := func(i int, id string) {
		t.Helper()
		p := s.pods()[i]
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: id, Image: "x", ImageID: "y"}}
		if err := s.client.Status().Update(context.Background(), &p); err != nil {
			t.Fatal(err)
		}
	}
	runs(0, "c://1")
	runs(1, "c://2")
	before := s.pods()
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	images := func() string {
		return s.pods()[0].Spec.Containers[0].Image + " " + s.pods()[1].Spec.Containers[0].Image
	}
	s.wait(time.Minute)
	first := 0
	if images() == "image:1 image:2" {
		first = 1
	} else if images() != "image:2 image:1" {
		t.Fatalf("images %s", images())
	}
	if s.get().Status.ReadyReplicas != 1 {
		t.Errorf("the container of before counts: %+v", s.get().Status)
	}
	runs(first, "c://3")
	s.wait(time.Minute)
	if images() != "image:2 image:2" {
		t.Fatalf("images %s", images())
	}
	runs(1-first, "c://4")
	c := s.settle("both are new", isReady)
	for i, p := range s.pods() {
		if p.UID != before[i].UID {
			t.Errorf("%s was made anew", p.Name)
		}
	}
	if c.Status.UpdatedReplicas != 2 || c.Status.CurrentRevision != c.Status.UpdateRevision {
		t.Errorf("%+v", c.Status)
	}
}

func TestReconcile_unhealthyAfterItsGrace(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationStartUpGrace: "90s"}
	})
	s.settle("two replicas", isReady)
	s.setPod("db-0000000000000002", corev1.ConditionFalse)
	// The clock is ahead by then: only what is seen counts.
	s.now = s.now.Add(time.Hour)
	s.wait(80 * time.Second)
	if c := s.get(); s.names() != "1 2" || s.result.RequeueAfter != 10*time.Second || len(c.Status.UnreadyFor) != 1 || c.Status.UnreadyFor[0].Seconds != 80 {
		t.Errorf("pods %s, again after %v, %+v", s.names(), s.result.RequeueAfter, c.Status.UnreadyFor)
	}
	s.now = s.now.Add(10 * time.Second)
	s.mustPass()
	if s.names() != "1" || s.claim(2) != "Replaced" || s.get().Status.FutileReplacements != 1 {
		t.Errorf("pods %s, status %+v", s.names(), s.get().Status)
	}
	if c := s.settle("a new one", isReady); s.names() != "1 3" || c.Status.FutileReplacements != 0 {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
}

func TestReconcile_scales(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(1, nil)
	s.settle("one replica", isReady)
	scale := func(n int32) {
		// As kubectl scale does it.
		c := s.get()
		sub := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		if err := s.client.SubResource("scale").Update(context.Background(), c, client.WithSubResourceBody(sub)); err != nil {
			t.Fatal(err)
		}
	}
	scale(3)
	s.settle("three replicas", isReady)
	s.setPod("db-0000000000000001", corev1.ConditionFalse)
	scale(1)
	s.mustPass()
	if s.names() != "2 3" {
		t.Errorf("the one that is not ready should go first: pods %s", s.names())
	}
	s.mustPass()
	if s.names() != "2 3" {
		t.Errorf("two at once: pods %s", s.names())
	}
	c := s.settle("one replica", isReady)
	if c.Status.Replicas != 1 || c.Status.OrphanedClaimCount != 2 {
		t.Errorf("%+v", c.Status)
	}
	left := s.names()
	scale(0)
	if c := s.settle("none", isReady); c.Status.Replicas != 0 || len(s.pods()) != 0 {
		t.Errorf("%+v", c.Status)
	}
	scale(1)
	s.settle("one again", isReady)
	if s.names() != left {
		t.Errorf("its data is in %s, and it begins empty: pods %s", left, s.names())
	}
}

func TestReconcile_rollsOneByOne(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	s.add(3, func(c *v1alpha1.StatefulCluster) { c.Spec.MinReadySeconds = 1 })
	before := s.settle("three replicas", isReady).Status
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	s.mustPass()
	if s.names() != "1 2 3 4" {
		t.Fatalf("the new one comes first: pods %s", s.names())
	}
	if st := s.get().Status; st.CurrentRevision != before.CurrentRevision || st.UpdateRevision == before.UpdateRevision {
		t.Errorf("%+v", st)
	}
	c := s.settle("all are new", func(c *v1alpha1.StatefulCluster) string {
		if live := len(strings.Fields(s.names())); live < 3 || live > 4 {
			t.Errorf("%d replicas during the change", live)
		}
		return isReady(c)
	})
	if s.names() != "4 5 6" || c.Status.UpdatedReplicas != 3 || c.Status.CurrentRevision == before.CurrentRevision {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
	for _, p := range s.pods() {
		if p.Spec.Containers[0].Image != "image:2" {
			t.Errorf("%s has %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
}

func TestReconcile_onDelete(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) { c.Spec.UpdateStrategy.Type = v1alpha1.OnDelete })
	s.settle("two replicas", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	if c := s.settle("still ready", isReady); s.names() != "1 2" || c.Status.UpdatedReplicas != 0 {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
	if err := s.client.Delete(context.Background(), &s.pods()[0]); err != nil {
		t.Fatal(err)
	}
	c := s.settle("its pod is made anew", func(c *v1alpha1.StatefulCluster) string {
		if c.Status.UpdatedReplicas != 1 {
			return "not updated"
		}
		return isReady(c)
	})
	if s.names() != "1 2" || c.Status.CurrentReplicas != 1 || len(s.claims()) != 2 {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
}

func TestReconcile_foreignPodsAreLeftAlone(t *testing.T) {
	s := newSuite(t, "n1")
	foreign := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "foreign", Labels: map[string]string{"app": "db", v1alpha1.LabelStatefulCluster: "db"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}},
	}
	s.create(foreign)
	s.held["foreign"] = true
	s.add(1, nil)
	s.settle("one replica", isReady)
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](0) })
	s.settle("none", isReady)
	if s.names() != "foreign" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_takesUpWhatFailed: the claims are made, the pod is not. The next attempt has the same identity.
func TestReconcile_takesUpWhatFailed(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		second := c.Spec.VolumeClaimTemplates[0]
		second.Metadata.Name = "log"
		c.Spec.VolumeClaimTemplates = append(c.Spec.VolumeClaimTemplates, second)
	})
	failing := "Pod"
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			options := &client.CreateOptions{}
			options.ApplyOptions(opts)
			_, isPod := o.(*corev1.Pod)
			if len(options.DryRun) == 0 && (failing == "Pod" && isPod || failing != "" && strings.Contains(o.GetName(), failing)) {
				return errors.New("cut off")
			}
			return c.Create(ctx, o, opts...)
		},
	})
	for _, failing = range []string{"-log-", "Pod", "Pod"} {
		if err := s.pass(); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("got %v", err)
		}
	}
	c := s.get()
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonCreateFailed, "cut off")(c); complaint != "" {
		t.Error(complaint)
	}
	if len(s.claims()) != 2 || c.Status.OrphanedClaimCount != 0 {
		t.Errorf("%d claims, orphans %v", len(s.claims()), c.Status.OrphanedClaims)
	}
	failing = ""
	c = s.settle("the replica", isReady)
	if s.names() != "1" || len(s.claims()) != 2 || c.Status.OrphanedClaimCount != 0 {
		t.Errorf("pods %s, %d claims, orphans %v", s.names(), len(s.claims()), c.Status.OrphanedClaims)
	}
}

// TestReconcile_staleCache: the cache does not know the last pod yet. None is made too many.
func TestReconcile_staleCache(t *testing.T) {
	s := newSuite(t, "n1")
	s.add(1, nil)
	s.r.Workloads = interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	for range 3 {
		s.mustPass()
	}
	if s.names() != "1" || s.result.RequeueAfter != kube.Again {
		t.Errorf("pods %s, again after %v", s.names(), s.result.RequeueAfter)
	}
}

func TestReconcile_isGone(t *testing.T) {
	s := newSuite(t)
	c := s.add(1, nil)
	if err := s.client.Delete(context.Background(), c, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.mustPass()
	if len(s.pods()) != 0 {
		t.Error("a pod is made for what is being deleted")
	}
	c = s.get()
	c.Finalizers = nil
	if err := s.client.Update(context.Background(), c); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	s.mustPass()
}

// TestReconcile_manyNodesDoNotExist: most nodes were deleted, as when their kubelets are registered anew, and Kubernetes removed their pods. Nobody is replaced: that
// they hold parts of a storage says that they are to come back, or that a person says that they are lost.
func TestReconcile_manyNodesDoNotExist(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3", "n4", "n5")
	s.add(3, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.settle("three replicas", isReady)
	p := s.pods()[2]
	gone := []string{p.Spec.NodeName}
	for _, name := range []string{"n1", "n2", "n3", "n4", "n5"} {
		if len(gone) < 3 && !slices.ContainsFunc(s.pods(), func(p corev1.Pod) bool { return p.Spec.NodeName == name }) {
			gone = append(gone, name)
		}
	}
	s.bind("db-data-0000000000000003", p.Spec.NodeName)
	var members []*v1alpha1.Member
	for _, name := range gone {
		members = append(members, s.member(name))
		s.removeNode(name)
	}
	if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.wait(10 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "So are too many others")(s.get()); complaint != "" || s.names() != "1 2" || s.claim(3) != v1alpha1.ReplicaFilled {
		t.Fatalf("pods %s, claim %s: %s", s.names(), s.claim(3), complaint)
	}
	// Two are given up for good, and one more that is silent is no blackout.
	for _, m := range members[1:] {
		if err := s.client.Delete(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	s.addNode("n6")
	s.wait(3 * time.Minute)
	if s.claim(3) != v1alpha1.ReplicaReplaced {
		t.Errorf("pods %s, claim %s: %+v", s.names(), s.claim(3), s.get().Status.Conditions)
	}
}
