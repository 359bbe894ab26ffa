package gluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/gluster/csi"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/pki"
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

// TestEtcd_authorityGone: the Secret with the authority of etcd is gone while members run. None is made that they do not have, and a condition says what to do. Once
// all StatefulSets of etcd were deleted, another one is made, and the claims stay (G33).
func TestEtcd_authorityGone(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(1)
	s.until("it runs", s.running(1))
	name := types.NamespacedName{Namespace: s.namespace, Name: workload.EtcdTLS("pool")}
	first := &corev1.Secret{}
	must(t, s.client.Get(t.Context(), name, first))

	// A certificate that cannot be used is made again by the same authority.
	damaged := first.DeepCopy()
	damaged.Data[workload.KeyCertificate] = []byte("x")
	must(t, s.client.Update(t.Context(), damaged))
	s.passes(1)
	again := &corev1.Secret{}
	must(t, s.client.Get(t.Context(), name, again))
	if string(again.Data[workload.KeyCA]) != string(first.Data[workload.KeyCA]) || string(again.Data[workload.KeyCertificate]) == "x" {
		t.Error("the certificate is of another authority, or is not made again")
	}

	must(t, s.client.Delete(t.Context(), again))
	for range 3 {
		if err := s.pass(); err == nil {
			t.Error("nothing is wrong")
		}
	}
	if s.client.Get(t.Context(), name, &corev1.Secret{}) == nil {
		t.Error("an authority is made that no member has")
	}
	if c := s.ofCluster(v1alpha1.ConditionEtcdReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonStepFailed || !strings.Contains(c.Message, "Restore the Secret. If nobody has it any more, delete the StatefulSets pool-etcd-0, pool-etcd-1, pool-etcd-2 together") {
		t.Errorf("%+v", c)
	}
	claim := s.claim(workload.Member("pool", 0))
	for i := range workload.Members {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload.Member("pool", i)}}
		must(t, s.client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	}
	_ = s.pass()
	s.until("it runs again", s.running(1))
	must(t, s.client.Get(t.Context(), name, again))
	if now := s.claim(claim.Name); string(again.Data[workload.KeyCA]) == string(first.Data[workload.KeyCA]) || now == nil || now.UID != claim.UID {
		t.Errorf("the authority is the old one, or the claim is another: %+v", now)
	}
}

// TestPool_hindered: what keeps the objects of a cluster or of a node from being made is told where a person looks (G29).
func TestPool_hindered(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: workload.Service("pool")}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
	must(t, s.client.Create(t.Context(), foreign))
	s.pool(1)
	for range 3 {
		_ = s.pass()
	}
	if c := s.ofCluster(v1alpha1.ConditionEtcdReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonStepFailed || !strings.Contains(c.Message, "The Service pool-gluster is somebody else's") {
		t.Errorf("%+v", c)
	}
	if c := s.ofCluster(v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
	must(t, s.client.Delete(t.Context(), foreign))
	s.until("etcd runs", func() bool { return s.ofCluster(v1alpha1.ConditionEtcdReady).Status == metav1.ConditionTrue })
	s.intercept(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if claim, is := o.(*corev1.PersistentVolumeClaim); is {
			return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claim.Name, errors.New("exceeded quota: storage"))
		}
		return c.Create(ctx, o, opts...)
	}})
	s.until("the node says why", func() bool {
		all := s.nodes()
		return len(all) == 1 && strings.Contains(all[0].Status.Message, "exceeded quota: storage")
	})
	s.r.Client = s.client
	s.until("it runs", s.running(1))
}

// TestDrivers_withAuthority: drivers that could not reach the servers are not deployed, and the condition says what to do (G28).
func TestDrivers_withAuthority(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	authority, err := pki.NewAuthority(s.now())
	must(t, err)
	cert, key, err := authority.Current.Encode()
	must(t, err)
	must(t, s.client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "ca"}, Data: map[string][]byte{workload.KeyCertificate: cert, workload.KeyPrivate: key}}))
	s.pool(1, func(c *v1alpha1.GlusterCluster) {
		fuse(c)
		c.Spec.GlusterCA = &v1alpha1.GlusterCredentials{SecretName: "ca"}
	})
	s.passes(2)
	if c := s.ofCluster(v1alpha1.ConditionCSIReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonInvalidSpec || !strings.Contains(c.Message, "do not go together") {
		t.Errorf("%+v", c)
	}
	var daemons appsv1.DaemonSetList
	must(t, s.client.List(t.Context(), &daemons, client.InNamespace(s.namespace)))
	if len(daemons.Items) > 0 {
		t.Error("a driver is deployed")
	}
}

// TestNamespace_deleted: a namespace is deleted with a GlusterCluster in it, and the right to look goes first. While there are PersistentVolumes of its driver a
// person is told; then nodes, cluster and CSIDriver go (G27).
func TestNamespace_deleted(t *testing.T) {
	s := newSuite(t)
	s.pool(2, fuse)
	s.until("they serve", s.online(2))
	pv := s.released("v")
	s.r.Live = interceptor.NewClient(s.client, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, is := list.(*corev1.PersistentVolumeClaimList); is {
			return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "", errors.New(`User "quarry" cannot list resource "persistentvolumeclaims" in API group "" in the namespace "x"`))
		}
		return c.List(ctx, list, opts...)
	}})
	if _, err := s.try(); err == nil || s.ofCluster(v1alpha1.ConditionReady).Reason != v1alpha1.ReasonAccessDenied {
		t.Errorf("%v, %+v", err, s.ofCluster(v1alpha1.ConditionReady))
	}
	must(t, s.client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	for _, n := range s.nodes() {
		s.remove(n.Name)
	}
	try := func() {
		result, err := s.try()
		must(t, err)
		if result.RequeueAfter == 0 && s.cluster() != nil {
			t.Error("nobody looks again")
		}
	}
	must(t, s.client.Delete(t.Context(), s.cluster()))
	try()
	if c := s.ofCluster(v1alpha1.ConditionReady); len(s.nodes()) != 2 || c.Reason != v1alpha1.ReasonVolumesExist || !strings.Contains(c.Message, "1 PersistentVolumes") {
		t.Errorf("%d nodes, %+v", len(s.nodes()), c)
	}
	// It is deleted, and csi-attacher, whose pods went with the namespace, has its finalizer on it still.
	pv.Finalizers = append(pv.Finalizers, "external-attacher/org-gluster-glusterfs")
	must(t, s.client.Update(t.Context(), pv))
	must(t, s.client.Delete(t.Context(), pv))
	t.Cleanup(func() {
		must(t, s.client.Patch(context.Background(), pv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	})
	try()
	driver := &storagev1.CSIDriver{}
	if err := s.client.Get(t.Context(), types.NamespacedName{Name: csi.Name(v1alpha1.GlusterFuse)}, driver); s.cluster() != nil || len(s.nodes()) > 0 || !apierrors.IsNotFound(err) {
		t.Errorf("cluster %v, %d nodes, CSIDriver %v", s.cluster(), len(s.nodes()), err)
	}
}
