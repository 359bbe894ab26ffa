package statefulcluster

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// member makes a Member with the group of every volume that bind makes on a node.
func (s *suite) member(node string) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "fast." + node}}
	m.Spec = v1alpha1.MemberSpec{
		Of: v1alpha1.MemberOwner{Kind: "Cluster", Name: "fast", UID: "u"}, Node: v1alpha1.HostName(node), Group: &v1alpha1.MemberGroup{UUID: "group-" + node},
	}
	s.create(m)
	s.t.Cleanup(func() { _ = s.client.Delete(context.Background(), m) })
	return m
}

// groupLost has a Member say that it has lost its group, or that all is well.
func (s *suite) groupLost(m *v1alpha1.Member, lost bool) {
	s.t.Helper()
	c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, LastTransitionTime: metav1.NewTime(s.now)}
	if lost {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonVolumeGroupLost
	}
	m.Status.Conditions, m.Status.Flags = []metav1.Condition{c}, &v1alpha1.MemberFlags{IsUp: true}
	if err := s.client.Status().Update(context.Background(), m); err != nil {
		s.t.Fatal(err)
	}
}

// condemn deletes a Member because a person said that it is lost, and leaves it to its finalizer, as its controller does.
func (s *suite) condemn(m *v1alpha1.Member) {
	s.t.Helper()
	s.t.Cleanup(func() {
		m.Finalizers = nil
		_ = s.client.Update(context.Background(), m)
	})
	if err := s.client.Delete(context.Background(), m); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(m), m); err != nil {
		s.t.Fatal(err)
	}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionLeaving, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonLost, LastTransitionTime: metav1.NewTime(s.now),
	})
	if err := s.client.Status().Update(context.Background(), m); err != nil {
		s.t.Fatal(err)
	}
}

// lostDisk makes two replicas on two nodes, whose volumes Members hold, and has that of the second lose its group.
func (s *suite) lostDisk() *v1alpha1.Member {
	s.t.Helper()
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
	})
	s.settle("two replicas", isReady)
	p := s.pods()[1]
	s.bind("db-data-0000000000000002", p.Spec.NodeName)
	m := s.member(p.Spec.NodeName)
	s.groupLost(m, true)
	return m
}

// TestReconcile_lostDisk: the node lives, and the disk does not.
func TestReconcile_lostDisk(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	m := s.lostDisk()
	s.wait(40 * time.Second)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "disks of replica db-0000000000000002 failed")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	s.groupLost(m, false)
	s.wait(2 * time.Minute)
	if s.names() != "1 2" || isReady(s.get()) != "" {
		t.Errorf("it was put back: pods %s, %s", s.names(), isReady(s.get()))
	}
	s.groupLost(m, true)
	s.wait(2 * time.Minute)
	s.settle("a replica elsewhere", isReady)
	if s.names() != "1 3" || s.claim(2) != "Replaced" {
		t.Errorf("pods %s, claim %s", s.names(), s.claim(2))
	}
}

// TestReconcile_givenUpDisk: a person gave up the group of a disk that was pulled, and its pod is ready still: nothing that it writes is kept.
func TestReconcile_givenUpDisk(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	m := s.lostDisk()
	s.groupLost(m, false)
	s.settle("two replicas", isReady)
	m.Spec.Group = &v1alpha1.MemberGroup{UUID: "other", Earlier: []string{m.Spec.Group.UUID}}
	if err := s.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	s.wait(10 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "nobody can say how they are")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("given up, or relied on, before anybody said that it is away: pods %s, %s", s.names(), complaint)
	}
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionGivenUpAbsent, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonGivenUpAbsent, ObservedGeneration: m.Generation,
		LastTransitionTime: metav1.NewTime(s.now),
	})
	if err := s.client.Status().Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	s.settle("a replica elsewhere", isReady)
	if s.names() != "1 3" || s.claim(2) != v1alpha1.ReplicaReplaced {
		t.Errorf("pods %s, claim %s", s.names(), s.claim(2))
	}
}

// TestReconcile_toldBefore: a controller begins anew, and the Member says what an earlier one told, be it that this one wrote it again of a node that tells nothing. The
// disk may be back. Nobody is given up for it, and the replica stands in for no other one either, before its own look.
func TestReconcile_toldBefore(t *testing.T) {
	for name, gives := range map[string]func(s *suite, m *v1alpha1.Member){
		"its group was lost": func(*suite, *v1alpha1.Member) {},
		"a person gave it up": func(s *suite, m *v1alpha1.Member) {
			m.Spec.Group = &v1alpha1.MemberGroup{UUID: "other", Earlier: []string{m.Spec.Group.UUID}}
			if err := s.client.Update(context.Background(), m); err != nil {
				s.t.Fatal(err)
			}
			m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionGivenUpAbsent, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonGivenUpAbsent, ObservedGeneration: m.Generation,
				LastTransitionTime: metav1.NewTime(s.now),
			})
			if err := s.client.Status().Update(context.Background(), m); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2", "n3")
			told, watched := false, false
			s.r.Told = func() func(types.UID) bool { return func(types.UID) bool { return told } }
			s.r.Watched = func() func(types.UID) bool { return func(types.UID) bool { return watched } }
			m := s.lostDisk()
			gives(s, m)
			s.wait(10 * time.Minute)
			told = true
			s.wait(10 * time.Minute)
			if s.names() != "1 2" {
				t.Fatalf("given up for what was told before: pods %s", s.names())
			}
			if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "nobody can say how they are")(s.get()); complaint != "" {
				t.Error(complaint)
			}
			// The other one is lost with its node: it would be the last that serves.
			s.setNode(s.pods()[0].Spec.NodeName, corev1.ConditionUnknown)
			s.wait(3 * time.Minute)
			if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonQuorumGuard)(s.get()); complaint != "" || s.names() != "1 2" {
				t.Fatalf("pods %s: %s", s.names(), complaint)
			}
			s.setNode(s.pods()[0].Spec.NodeName, corev1.ConditionTrue)
			watched = true
			s.wait(3 * time.Minute)
			s.settle("a replica elsewhere", isReady)
			if s.names() != "1 3" {
				t.Errorf("pods %s", s.names())
			}
		})
	}
}

// TestReconcile_deviceBeside: a device that is missing beside a replica, and holds nothing of it, keeps no pod from being made again.
func TestReconcile_deviceBeside(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	m := s.lostDisk()
	m.Status.Devices = []v1alpha1.MemberDevice{{Path: "/dev/sdb", State: v1alpha1.DeviceMissing}}
	s.groupLost(m, false)
	p := s.pods()[1]
	if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.settle("the replica is back", isReady)
	if s.names() != "1 2" {
		t.Errorf("pods %s", s.names())
	}
	s.setPod(p.Name, corev1.ConditionFalse)
	s.wait(30 * time.Second)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "disks of replica db-0000000000000002 failed")(s.get()); complaint != "" {
		t.Errorf("its pod says otherwise: %s", complaint)
	}
}

// TestReconcile_maintenanceOfADisk: while a person works on it nobody is given up.
func TestReconcile_maintenanceOfADisk(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	m := s.lostDisk()
	m.Spec.Maintenance = true
	if err := s.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	s.groupLost(m, true)
	s.wait(10 * time.Minute)
	if s.names() != "1 2" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_noRoom: a replica stays while no other node is known to have room for its claims.
func TestReconcile_noRoom(t *testing.T) {
	s := newSuite(t, "n1", "n2", "n3")
	free := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "n3"}, StorageClassName: "fast", Capacity: new(resource.MustParse("1Mi")),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.TopologyHost: "n3"}},
	}
	s.create(free)
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), free) })
	s.lostDisk()
	s.wait(3 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom, "no other node is known to take another one", " is not known to have room for its claims.", v1alpha1.AnnotationApprove)(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	free.Capacity = new(resource.MustParse("1Gi"))
	if err := s.client.Update(context.Background(), free); err != nil {
		t.Fatal(err)
	}
	s.settle("a replica elsewhere", isReady)
	if s.names() != "1 3" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_roomBesideALostDisk: on three nodes for three replicas, only the node of the dead disk can take another one, and has another disk. It counts
// once a person says that what was there is lost for ever.
func TestReconcile_roomBesideALostDisk(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	m := s.lostDisk()
	node := string(m.Spec.Node)
	free := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "own"}, StorageClassName: "fast", Capacity: new(resource.MustParse("1Gi")),
		NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.TopologyHost: node}},
	}
	s.create(free)
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), free) })
	s.wait(3 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom, "no other node is known to take another one", " is not known to have room for its claims.", v1alpha1.AnnotationApprove)(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	// A word that nobody acts upon changes nothing, even if the Member says that its group is lost.
	m.Spec.Lost, m.Finalizers = string(m.UID), []string{v1alpha1.FinalizerMember}
	if err := s.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	s.wait(3 * time.Minute)
	if s.names() != "1 2" {
		t.Errorf("a word that nobody took: pods %s", s.names())
	}
	s.condemn(m)
	s.settle("a replica on the other disk", isReady)
	if s.names() != "1 3" {
		t.Errorf("pods %s", s.names())
	}
}

// TestReconcile_noNodeTakesAnother: a replica stays while no other node would take one, whatever room there is: the rules of its template keep it from all.
func TestReconcile_noNodeTakesAnother(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
		c.Spec.Template.Spec = rawOf(map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "image:1"}},
			"affinity": map[string]any{"podAntiAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
				"topologyKey": v1alpha1.TopologyHost, "labelSelector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
			}}}},
		})
	})
	s.settle("two replicas", isReady)
	s.setNode(s.pods()[1].Spec.NodeName, corev1.ConditionUnknown)
	s.addNode("n3")
	s.addNode("n4")
	taint := func(name string, taints ...corev1.Taint) {
		t.Helper()
		n := &corev1.Node{}
		if err := s.client.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil {
			t.Fatal(err)
		}
		n.Spec.Taints = taints
		if err := s.client.Update(context.Background(), n); err != nil {
			t.Fatal(err)
		}
	}
	taint("n3", corev1.Taint{Key: "others", Effect: corev1.TaintEffectNoSchedule})
	taint("n4", corev1.Taint{Key: "others", Effect: corev1.TaintEffectNoSchedule})
	s.wait(2 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom, "no other node", " is kept away by the pod anti-affinity of the template.")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	taint("n4")
	s.wait(time.Minute)
	if s.claim(2) != v1alpha1.ReplicaReplaced {
		t.Errorf("n4 would take it: %s", s.claim(2))
	}
}

func TestMemberChanged(t *testing.T) {
	m := func(edit func(*v1alpha1.Member)) client.Object {
		out := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
		edit(out)
		return out
	}
	base := m(func(*v1alpha1.Member) {})
	for name, c := range map[string]struct {
		after client.Object
		want  bool
	}{
		"more volumes": {m(func(m *v1alpha1.Member) { m.Status.Volumes = 7 }), false},
		"maintenance":  {m(func(m *v1alpha1.Member) { m.Spec.Maintenance = true }), true},
		"a group that was given up is away": {m(func(m *v1alpha1.Member) {
			m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionGivenUpAbsent, Status: metav1.ConditionTrue}}
		}), true},
		"a device is out": {m(func(m *v1alpha1.Member) { m.Status.Devices = []v1alpha1.MemberDevice{{State: v1alpha1.DeviceMissing}} }), true},
	} {
		if got := memberChanged.Update(event.UpdateEvent{ObjectOld: base, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !memberChanged.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: base}) {
		t.Error("what is not known does not matter")
	}
}

// TestReconcile_noRoomForThePod: a replica stays while every other node is full of pods of others, however much room there is for its claims.
func TestReconcile_noRoomForThePod(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
		c.Spec.Template.Spec = rawOf(map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "image:1", "resources": map[string]any{"requests": map[string]any{"cpu": "1500m"}}}},
			"topologySpreadConstraints": []any{map[string]any{
				"topologyKey": v1alpha1.TopologyHost, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
			}},
		})
	})
	s.settle("two replicas", isReady)
	s.addNode("n3")
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	other.Spec.NodeName = "n3"
	other.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "image:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}}
	s.create(other)
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), other, client.GracePeriodSeconds(0)) })
	s.setNode(s.pods()[1].Spec.NodeName, corev1.ConditionUnknown)
	s.wait(3 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom, "no other node", "Node n3 is short of cpu: 1500m asked for, and 1 left.")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	s.approve()
	s.wait(time.Minute)
	if s.claim(2) != v1alpha1.ReplicaReplaced {
		t.Errorf("a person let it go: %s, %+v", s.claim(2), s.get().Status)
	}
}

// TestReconcile_noRoomByALimitRange: what the namespace adds to each pod counts, even if the template asks for nothing. So does the anti-affinity of a pod in the zone of a node.
func TestReconcile_noRoomByALimitRange(t *testing.T) {
	s := newSuite(t, "n1", "n2")
	s.create(&corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "defaults"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")},
			Default: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}}},
	})
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
		c.Spec.Template.Spec = rawOf(map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "image:1"}},
			"topologySpreadConstraints": []any{map[string]any{
				"topologyKey": v1alpha1.TopologyHost, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": map[string]any{"matchLabels": map[string]any{"app": "db"}},
			}},
		})
	})
	s.settle("two replicas", isReady)
	s.addNode("n3")
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "beside"}}
	other.Spec.NodeName = "n3"
	other.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "image:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
	}}
	s.create(other)
	t.Cleanup(func() { _ = s.client.Delete(context.Background(), other, client.GracePeriodSeconds(0)) })
	s.setNode(s.pods()[1].Spec.NodeName, corev1.ConditionUnknown)
	s.wait(3 * time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom, "Node n3 is short of cpu: 1500m asked for, and 1 left.")(s.get()); complaint != "" || s.names() != "1 2" {
		t.Errorf("pods %s: %s", s.names(), complaint)
	}
	if err := s.client.Delete(context.Background(), other, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	// A pod of somebody else in the namespace, that wants nobody like a replica on its node.
	other = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "alone"}}
	other.Spec.NodeName = "n3"
	other.Spec.Containers = []corev1.Container{{Name: "main", Image: "image:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}}}}
	other.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: v1alpha1.TopologyHost, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
	}}}}
	s.held["alone"] = true
	s.create(other)
	s.wait(time.Minute)
	if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonNoRoom)(s.get()); complaint != "" || s.claim(2) != v1alpha1.ReplicaFilled {
		t.Errorf("claim %s: %s", s.claim(2), complaint)
	}
	s.end(*other)
	s.wait(time.Minute)
	if s.claim(2) != v1alpha1.ReplicaReplaced {
		t.Errorf("there is room now: %+v", s.get().Status)
	}
}

func TestTurn(t *testing.T) {
	var names []string
	for i := range 120 {
		names = append(names, fmt.Sprint(i))
	}
	if got := turn(names[:50], func(int) int { return 7 }); len(got) != 50 || got[0] != "0" {
		t.Errorf("few: %v", got)
	}
	seen := map[string]bool{}
	for first := range names {
		got := turn(names, func(n int) int {
			if n != len(names) {
				t.Errorf("one of %d", n)
			}
			return first
		})
		if len(got) != 50 || got[0] != names[first] {
			t.Fatalf("%d are asked, from %s on", len(got), got[0])
		}
		for _, n := range got {
			seen[n] = true
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d of %d had their turn", len(seen), len(names))
	}
}
