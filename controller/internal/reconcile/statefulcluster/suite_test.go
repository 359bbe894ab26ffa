package statefulcluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster/gauge"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// suite is a controller over a real API server, with a small stand-in for scheduler and kubelets.
type suite struct {
	t         *testing.T
	client    client.WithWatch
	r         *Reconciler
	events    *events.FakeRecorder
	namespace string
	now       time.Time
	minted    int
	// held are names of pods that the kubelet stand-in does not move on.
	held map[string]bool
	// result of the last pass.
	result ctrl.Result
}

func newSuite(t *testing.T, hosts ...string) *suite {
	t.Helper()
	c := apitest.Mirror(t, apitest.Client(t), &v1alpha1.StatefulClusterList{}, &v1alpha1.MemberList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.PersistentVolumeList{}, &corev1.NodeList{}, &appsv1.ControllerRevisionList{}, &storagev1.CSIStorageCapacityList{})
	s := &suite{
		t: t, client: c, events: events.NewFakeRecorder(1000), now: time.Now().Truncate(time.Second), held: map[string]bool{},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "stateful-"}}
	s.create(ns)
	s.namespace = ns.Name
	s.r = &Reconciler{
		Client: s.client, Workloads: s.client, Live: s.client, Events: s.events,
		Now: func() time.Time { return s.now },
		Identity: func() string {
			s.minted++
			return fmt.Sprintf("%016x", s.minted)
		},
	}
	t.Cleanup(s.cleanUp)
	for _, n := range hosts {
		s.addNode(n)
	}
	return s
}

func (s *suite) cleanUp() {
	ctx := context.Background()
	var nodes corev1.NodeList
	if err := s.client.List(ctx, &nodes); err != nil {
		s.t.Error(err)
	}
	for i := range nodes.Items {
		_ = s.client.Delete(ctx, &nodes.Items[i])
	}
	// The next test has nodes of the same names: what is left would fill them, and tell of nodes that do not exist.
	for _, o := range []client.Object{&v1alpha1.StatefulCluster{}, &corev1.Pod{}} {
		if err := s.client.DeleteAllOf(ctx, o, client.InNamespace(s.namespace), client.GracePeriodSeconds(0)); err != nil {
			s.t.Error(err)
		}
	}
	gauge.Forget(client.ObjectKey{Namespace: s.namespace, Name: "db"})
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) addNode(name string) {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TopologyHost: name}}}
	s.create(n)
	s.setNode(name, corev1.ConditionTrue)
}

// setNode says whether a node is ready.
func (s *suite) setNode(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil {
		s.t.Fatal(err)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(s.now)}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}
	if err := s.client.Status().Update(context.Background(), n); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) removeNode(name string) {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		s.t.Fatal(err)
	}
}

// rawOf writes a part of a spec the way a manifest has it.
func rawOf(v any) runtime.RawExtension {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: text}
}

// example is a StatefulCluster of one container and one claim.
func example(namespace string, replicas int32) *v1alpha1.StatefulCluster {
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}}
	c.Spec.Replicas = &replicas
	c.Spec.ServiceName = "db"
	c.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": "db"}
	c.Spec.Template.Metadata.Labels = map[string]v1alpha1.LabelValue{"app": "db"}
	c.Spec.Template.Spec = templateWith("image:1")
	c.Spec.VolumeClaimTemplates = []v1alpha1.ClaimTemplate{{
		Metadata: v1alpha1.ClaimMetadata{Name: "data"},
		Spec: rawOf(map[string]any{
			"storageClassName": "fast", "accessModes": []string{"ReadWriteOnce"},
			"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		}),
	}}
	return c
}

func templateWith(image string) runtime.RawExtension {
	return rawOf(map[string]any{"containers": []any{map[string]any{"name": "main", "image": image}}})
}

// add creates the example after an edit.
func (s *suite) add(replicas int32, edit func(*v1alpha1.StatefulCluster)) *v1alpha1.StatefulCluster {
	s.t.Helper()
	c := example(s.namespace, replicas)
	if edit != nil {
		edit(c)
	}
	s.create(c)
	return c
}

func (s *suite) get() *v1alpha1.StatefulCluster {
	s.t.Helper()
	c := &v1alpha1.StatefulCluster{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: s.namespace, Name: "db"}, c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *suite) edit(change func(*v1alpha1.StatefulCluster)) {
	s.t.Helper()
	c := s.get()
	change(c)
	if err := s.client.Update(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
}

// pass is one pass of the controller; it returns its error.
func (s *suite) pass() error {
	s.t.Helper()
	var err error
	s.result, err = s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "db"}})
	return err
}

func (s *suite) mustPass() {
	s.t.Helper()
	if err := s.pass(); err != nil {
		s.t.Fatal(err)
	}
}

// pods returns all pods of the namespace, ordered by name.
func (s *suite) pods() []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	if err := s.client.List(context.Background(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func (s *suite) claims() []corev1.PersistentVolumeClaim {
	s.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := s.client.List(context.Background(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// names of the pods that are not being deleted.
func (s *suite) names() string {
	s.t.Helper()
	var out []string
	for _, p := range s.pods() {
		if p.DeletionTimestamp.IsZero() {
			out = append(out, strings.TrimLeft(strings.TrimPrefix(p.Name, "db-"), "0"))
		}
	}
	return strings.Join(out, " ")
}

// kubelet moves every pod one step on: it is scheduled, runs and is ready; one that is being deleted ends. Pods on nodes that are not
// ready, or not there, stay as they are.
func (s *suite) kubelet() {
	s.t.Helper()
	for _, p := range s.pods() {
		if s.held[p.Name] {
			continue
		}
		if p.Spec.NodeName == "" {
			s.schedule(&p)
		}
		if !s.answers(p.Spec.NodeName) {
			continue
		}
		if !p.DeletionTimestamp.IsZero() {
			if err := s.client.Delete(context.Background(), &p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				s.t.Fatal(err)
			}
			continue
		}
		if p.Status.Phase != corev1.PodRunning {
			s.setPod(p.Name, corev1.ConditionTrue)
		}
	}
}

// schedule puts a pod on the node that has the fewest and answers.
func (s *suite) schedule(p *corev1.Pod) {
	s.t.Helper()
	var list corev1.NodeList
	if err := s.client.List(context.Background(), &list); err != nil {
		s.t.Fatal(err)
	}
	count := map[string]int{}
	for _, other := range s.pods() {
		count[other.Spec.NodeName]++
	}
	best := ""
	for _, n := range list.Items {
		if s.answers(n.Name) && (best == "" || count[n.Name] < count[best]) {
			best = n.Name
		}
	}
	if best == "" {
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: best}}
	if err := s.client.SubResource("binding").Create(context.Background(), p, binding); err != nil {
		s.t.Fatal(err)
	}
	p.Spec.NodeName = best
}

func (s *suite) answers(name string) bool {
	n := &corev1.Node{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil {
		return false
	}
	return nodes.Of(n).State == replica.NodeFine
}

// setPod lets a pod run, ready or not.
func (s *suite) setPod(name string, ready corev1.ConditionStatus) {
	s.t.Helper()
	p := &corev1.Pod{}
	if err := s.client.Get(context.Background(), client.ObjectKey{Namespace: s.namespace, Name: name}, p); err != nil {
		s.t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(s.now)}}
	if err := s.client.Status().Update(context.Background(), p); err != nil {
		s.t.Fatal(err)
	}
}

// settle passes and lets the kubelets work until the check holds.
func (s *suite) settle(what string, check func(*v1alpha1.StatefulCluster) string) *v1alpha1.StatefulCluster {
	s.t.Helper()
	complaint := ""
	for range 60 {
		s.mustPass()
		c := s.get()
		if complaint = check(c); complaint == "" {
			return c
		}
		s.kubelet()
		s.now = s.now.Add(time.Second)
	}
	s.t.Fatalf("waited in vain: %s: %s; pods %s; status %+v", what, complaint, s.names(), s.get().Status)
	return nil
}

// wait passes for a time, as often as the controller asks for.
func (s *suite) wait(d time.Duration) {
	s.t.Helper()
	for end := s.now.Add(d); s.now.Before(end); {
		s.mustPass()
		step := 10 * time.Second
		if s.result.RequeueAfter > 0 {
			step = min(step, max(s.result.RequeueAfter.Truncate(time.Second), time.Second))
		}
		s.now = s.now.Add(step)
	}
	s.mustPass()
}

// approve sets the annotation to the digest of the plan that is shown.
func (s *suite) approve() {
	s.t.Helper()
	s.edit(func(c *v1alpha1.StatefulCluster) {
		if c.Status.Plan == nil {
			s.t.Fatalf("no plan is shown: %+v", c.Status)
		}
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[v1alpha1.AnnotationApprove] = c.Status.Plan.Digest
	})
}

// isReady checks for the Ready condition of the present generation.
func isReady(c *v1alpha1.StatefulCluster) string {
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != c.Generation {
		return fmt.Sprintf("%+v", ready)
	}
	return ""
}

// says checks for a condition that is not true.
func says(kind, reason string, words ...string) func(*v1alpha1.StatefulCluster) string {
	return func(c *v1alpha1.StatefulCluster) string {
		is := meta.FindStatusCondition(c.Status.Conditions, kind)
		if is == nil || is.Status == metav1.ConditionTrue || is.Reason != reason {
			return fmt.Sprintf("%+v", is)
		}
		for _, w := range words {
			if !strings.Contains(is.Message, w) {
				return fmt.Sprintf("the message lacks %q: %s", w, is.Message)
			}
		}
		return ""
	}
}

// told returns the events so far.
func (s *suite) told() []string {
	var out []string
	for {
		select {
		case e := <-s.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}
