package setup

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestRun_glusterWithItsOwnRights makes a GlusterCluster and deletes it, by a controller that has the rights of deploy/rbac and is held to the policies of deploy/base.
func TestRun_glusterWithItsOwnRights(t *testing.T) {
	admin, ctx := apitest.Client(t), context.Background()
	install(t)
	start(t, Config{
		Namespace: namespace, AgentNamespace: agentNamespace, AgentServiceAccount: "quarry-agent", AgentPort: 7443, MetricsAddress: "0", HealthAddress: "0",
		Image: "quarry.storage/controller:dev", Controllers: []string{controllerGluster},
	})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "gluster-"}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gluster-fast"}, Provisioner: "example.com/fast"}
	for _, o := range []client.Object{ns, class} {
		if err := admin.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	c := &v1alpha1.GlusterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "pool"}}
	c.Spec.Images = v1alpha1.GlusterImages{
		Glusterd2: "example.com/glusterd2:1", Etcd: "example.com/etcd:1", Drivers: map[string]v1alpha1.GlusterImage{"gluster-fuse": "example.com/fuse:1"},
	}
	c.Spec.Drivers = []v1alpha1.GlusterDriver{v1alpha1.GlusterFuse}
	c.Spec.NodeTemplates = []v1alpha1.GlusterNodeTemplate{{
		Name: "east", Threshold: v1alpha1.GlusterThreshold{Nodes: new(int32(1))},
		Storage: v1alpha1.GlusterTemplateStorage{StorageClassName: class.Name, Capacity: resource.MustParse("10Gi")},
	}}
	if err := admin.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	await(t, "the right that is missing is named", func() string {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err.Error()
		}
		etcd := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionEtcdReady)
		if etcd == nil || etcd.Reason != v1alpha1.ReasonAccessDenied || !strings.Contains(etcd.Message, "ClusterRole quarry-gluster") {
			return fmtCondition(etcd)
		}
		return ""
	})
	bind(t, admin, ns.Name, "quarry-gluster")
	p := &glusterPods{t: t, admin: admin, namespace: ns.Name}
	await(t, "a node with a workload", func() string {
		p.settle()
		var all v1alpha1.GlusterNodeList
		if err := admin.List(ctx, &all, client.InNamespace(ns.Name)); err != nil || len(all.Items) != 1 {
			return "there is no node"
		}
		set := &appsv1.StatefulSet{}
		if err := admin.Get(ctx, client.ObjectKey{Namespace: ns.Name, Name: all.Items[0].Name}, set); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := admin.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster is gone", func() string {
		p.settle()
		if err := admin.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
			return fmtCondition(meta.FindStatusCondition(c.Status.Conditions, "Ready"))
		}
		return ""
	})
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(ctx, &claims, client.InNamespace(ns.Name)); err != nil || len(claims.Items) > 0 {
		t.Errorf("%d claims are left, %v", len(claims.Items), err)
	}
}

// glusterPods does what Kubernetes would: the pods of etcd run, no server ever does, and what is deleted goes.
type glusterPods struct {
	t         *testing.T
	admin     client.Client
	namespace string
}

func (p *glusterPods) settle() {
	p.t.Helper()
	ctx, here := context.Background(), client.InNamespace(p.namespace)
	var sets appsv1.StatefulSetList
	var claims corev1.PersistentVolumeClaimList
	if err := p.admin.List(ctx, &sets, here); err != nil {
		p.t.Fatal(err)
	}
	if err := p.admin.List(ctx, &claims, here); err != nil {
		p.t.Fatal(err)
	}
	for i := range sets.Items {
		w := &sets.Items[i]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: w.Name + "-0", Labels: w.Spec.Template.Labels}, Spec: w.Spec.Template.Spec}
		switch {
		case !w.DeletionTimestamp.IsZero():
			_ = p.admin.Delete(ctx, pod, client.GracePeriodSeconds(0))
			w.Finalizers = nil
			_ = p.admin.Update(ctx, w)
		case w.Labels[v1alpha1.LabelGlusterPart] == "etcd" && p.admin.Create(ctx, pod) == nil:
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			_ = p.admin.Status().Update(ctx, pod)
		}
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; !c.DeletionTimestamp.IsZero() {
			c.Finalizers = nil
			_ = p.admin.Update(ctx, c)
		}
	}
}
