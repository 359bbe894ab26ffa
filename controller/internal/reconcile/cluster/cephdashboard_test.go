package cluster

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// dashboard is what is there for the dashboard: the manager that its Service selects, and its password; both are empty where there is none.
func (k *kubelet) dashboard() (manager, password string) {
	k.t.Helper()
	service, secret := &corev1.Service{}, &corev1.Secret{}
	for _, o := range []client.Object{service, secret} {
		if err := k.client.Get(k.t.Context(), client.ObjectKey{Namespace: cephname.Namespace, Name: cephname.Dashboard("files")}, o); err != nil && !apierrors.IsNotFound(err) {
			k.t.Fatal(err)
		}
	}
	return service.Spec.Selector[cephname.LabelID], string(secret.Data["password"])
}

// showsDashboard is a Cluster whose active manager serves the dashboard to the user of the Secret.
func (k *kubelet) showsDashboard(c *v1alpha1.Cluster) string {
	manager, password := k.dashboard()
	active, user := "", cephtest.DashboardUser{}
	k.model.Change(func() { active, user = k.model.Managers[0], k.model.Dashboard.Users["quarry"] })
	switch {
	case manager != active:
		return "the Service selects manager " + manager + ", and " + active + " serves"
	case password == "" || user.Password != password || user.Role != "read-only":
		return "the dashboard does not know the user of the Secret"
	case c.Status.Ceph.Dashboard == "":
		return "it is not told where the dashboard is"
	}
	return ""
}

// TestCeph_dashboard: the dashboard is served while the spec says so, by the manager that is active, to a user whose password is made once.
func TestCeph_dashboard(t *testing.T) {
	k := newCeph(t, "n1", "n2")
	k.addFiles(func(s *v1alpha1.ClusterSpec) { s.Ceph = &v1alpha1.CephSpec{Replicas: 2, Dashboard: true} }, "n1", "n2")
	k.model.Change(func() { k.model.Starting = true })
	k.until(k.served(2, 1))
	k.until(func(c *v1alpha1.Cluster) string {
		if _, password := k.dashboard(); password != "" {
			t.Error("a password was made before the manager can be told")
		}
		return hasCondition(v1alpha1.ConditionCephConfigured, metav1.ConditionTrue, v1alpha1.ReasonCephConfigured)(c)
	})
	k.model.Change(func() { k.model.Starting = false })
	k.until(k.showsDashboard)
	_, first := k.dashboard()

	// Another manager serves.
	k.model.Change(func() { slices.Reverse(k.model.Managers) })
	k.until(k.showsDashboard)
	if _, now := k.dashboard(); now != first {
		t.Error("the password was made anew")
	}
	// A person wants another password.
	if err := k.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cephname.Namespace, Name: cephname.Dashboard("files")}}); err != nil {
		t.Fatal(err)
	}
	k.until(k.showsDashboard)
	if _, now := k.dashboard(); now == first {
		t.Error("the password is the same one")
	}

	k.edit(func(s *v1alpha1.ClusterSpec) { s.Ceph.Dashboard = false })
	k.until(func(c *v1alpha1.Cluster) string {
		on := false
		k.model.Change(func() { on = k.model.Modules["dashboard"] })
		if manager, _ := k.dashboard(); manager != "" || on || c.Status.Ceph.Dashboard != "" {
			return "the dashboard is served still"
		}
		return ""
	})
	k.deleteCluster("files")
	k.until(func(c *v1alpha1.Cluster) string {
		if c != nil {
			return "still there"
		}
		return ""
	})
	if manager, password := k.dashboard(); manager != "" || password != "" {
		t.Error("something of the dashboard is left")
	}
}

// TestCeph_dashboardAbsent: an image without the dashboard is told, and keeps nothing else from going on. Managers with another image bring it.
func TestCeph_dashboardAbsent(t *testing.T) {
	k := newCeph(t, "n1")
	k.model.Lacks = []string{"dashboard"}
	k.addFiles(func(s *v1alpha1.ClusterSpec) {
		s.Ceph = &v1alpha1.CephSpec{Replicas: 1, Dashboard: true, Metrics: true}
	}, "n1")
	k.until(k.served(1, 1))
	k.until(func(c *v1alpha1.Cluster) string {
		return hasCondition(v1alpha1.ConditionCephConfigured, metav1.ConditionFalse, v1alpha1.ReasonOptionRefused, "module.dashboard", "do not support module")(c)
	})
	metrics := false
	k.model.Change(func() { metrics = k.model.Modules["prometheus"] })
	if manager, password := k.dashboard(); manager != "" || password != "" || !metrics {
		t.Errorf("Service for %q, password of %d letters, metrics %t", manager, len(password), metrics)
	}
	k.model.Change(func() { k.model.Lacks = nil })
	k.until(k.showsDashboard)

	// A rule for passwords that ours does not meet.
	k.model.Change(func() { k.model.Dashboard.Weak, k.model.Dashboard.Users = true, nil })
	if err := k.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cephname.Namespace, Name: cephname.Dashboard("files")}}); err != nil {
		t.Fatal(err)
	}
	k.until(func(c *v1alpha1.Cluster) string {
		return hasCondition(v1alpha1.ConditionCephConfigured, metav1.ConditionFalse, v1alpha1.ReasonOptionRefused, "dashboard: ", "too weak")(c)
	})
	k.until(k.served(1, 1))
}
