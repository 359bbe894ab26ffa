package ceph

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// TestStartMonitor_besideAnother: of two Clusters that put a monitor on record on one host in the same moment, one that sees the other's takes its own back, and deploys nothing.
func TestStartMonitor_besideAnother(t *testing.T) {
	member := func(of, uid, node, monitor string) *v1alpha1.Member {
		m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: of + "." + node}}
		m.Spec.Of.Kind, m.Spec.Of.Name, m.Spec.Node, m.Spec.Ceph = v1alpha1.KindCluster, of, v1alpha1.HostName(node), &v1alpha1.MemberCeph{}
		if m.Spec.Of.UID = fsid; uid != "" {
			m.Spec.Of.UID = "another"
		}
		if monitor != "" {
			m.Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: monitor, Address: "10.0.0.1"}
		}
		return m
	}
	for name, tt := range map[string]struct {
		// before is there from the start, and between comes when the first record of a monitor is written.
		before, between *v1alpha1.Member
		says            string
		recorded        bool
	}{
		"alone":                           {recorded: true},
		"another one was there":           {before: member("other", "u", "n1", "a"), says: "node n1 has a monitor of Cluster other, and room for one (port 3300)"},
		"another one came":                {between: member("other", "u", "n1", "a"), says: "node n1 has a monitor of Cluster other, and room for one (port 3300)"},
		"another one came to another":     {between: member("other", "u", "n2", "a"), recorded: true},
		"another Cluster without monitor": {before: member("other", "u", "n1", ""), recorded: true},
	} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: fsid}}
		objects := []client.Object{c, member("files", "", "n1", "")}
		if tt.before != nil {
			objects = append(objects, tt.before)
		}
		api := comingTo(t, objects, tt.between)
		b := New(Config{Client: api, Live: api})
		s := view.Step{Does: v1alpha1.ActionStartMonitor}
		s.Cluster, s.UID, s.FSID, s.Member = "files", fsid, fsid, "files.n1"
		s.Daemon.Kind, s.Daemon.ID, s.Daemon.Node, s.Daemon.Address, s.Daemon.First, s.Daemon.Image = cephname.DaemonMonitor, "a", "n1", "10.0.0.1", true, v1alpha1.CephImage
		err := b.startMonitor(t.Context(), s)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		m := &v1alpha1.Member{}
		if err := api.Get(t.Context(), client.ObjectKey{Name: "files.n1"}, m); err != nil {
			t.Fatal(err)
		}
		var deployed appsv1.DeploymentList
		if err := api.List(t.Context(), &deployed); err != nil {
			t.Fatal(err)
		}
		if (m.Spec.Ceph != nil && m.Spec.Ceph.Monitor != nil) != tt.recorded || (len(deployed.Items) > 0) != tt.recorded {
			t.Errorf("%s: record %+v, %d deployed", name, m.Spec.Ceph, len(deployed.Items))
		}
	}
}

// comingTo is an API server to which a Member comes right before the first change of another one; nil for none.
func comingTo(t *testing.T, objects []client.Object, comes *v1alpha1.Member) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	patch := func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
		if _, is := o.(*v1alpha1.Member); is && comes != nil {
			came := comes
			if comes = nil; w.Create(ctx, came) != nil {
				t.Error("the other Member cannot be made")
			}
		}
		return w.Patch(ctx, o, p, options...)
	}
	return fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).
		WithIndex(&v1alpha1.Member{}, kube.MemberOwner, func(o client.Object) []string { return []string{string(o.(*v1alpha1.Member).Spec.Of.UID)} }).
		WithIndex(&v1alpha1.Member{}, kube.MemberNode, func(o client.Object) []string { return []string{string(o.(*v1alpha1.Member).Spec.Node)} }).
		WithInterceptorFuncs(interceptor.Funcs{Patch: patch}).Build()
}
