package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestCeph_metrics: managers serve metrics while the spec says so, a Service names them, and both go with that.
func TestCeph_metrics(t *testing.T) {
	k := newCeph(t, "n1")
	want := func(on bool) func(*v1alpha1.Cluster) string {
		return func(c *v1alpha1.Cluster) string {
			s := &corev1.Service{}
			err := k.client.Get(t.Context(), client.ObjectKey{Namespace: cephname.Namespace, Name: cephname.Metrics("files")}, s)
			there, serves := err == nil, false
			k.model.Change(func() { serves = k.model.Modules["prometheus"] })
			switch {
			case err != nil && !apierrors.IsNotFound(err):
				return err.Error()
			case there != on || serves != on:
				return "Service or module are not as they are wanted"
			case there && (s.Spec.Selector[cephname.LabelDaemon] != cephname.DaemonManager || s.Spec.Ports[0].Port != 9283 || s.Spec.Selector[cephname.LabelFSID] != string(c.UID)):
				return "the Service selects something else"
			}
			return hasCondition(v1alpha1.ConditionCephConfigured, metav1.ConditionTrue, v1alpha1.ReasonCephConfigured, "took every option")(c)
		}
	}
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 1, Metrics: true} }, "n1")
	k.until(k.served(1, 1))
	k.until(want(true))
	if err := k.client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: cephname.Namespace, Name: cephname.Metrics("files")}}); err != nil {
		t.Fatal(err)
	}
	k.until(want(true))
	k.edit(func(s *v1alpha1.ClusterSpec) { s.Ceph.Metrics = false })
	k.until(want(false))
}
