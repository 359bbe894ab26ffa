package setup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// undefined takes the definition of GlusterNodes off the API server, and returns what brings it back. It is back after the test at the latest.
func (s *site) undefined() (restore func()) {
	s.t.Helper()
	ctx := context.Background()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	key := client.ObjectKey{Name: "glusternodes." + v1alpha1.Group}
	if err := s.admin.Get(ctx, key, crd); err != nil {
		s.t.Fatal(err)
	}
	again := crd.DeepCopy()
	again.SetResourceVersion("")
	again.SetUID("")
	again.SetManagedFields(nil)
	delete(again.Object, "status")
	if err := s.admin.Delete(ctx, crd); err != nil {
		s.t.Fatal(err)
	}
	await(s.t, "the definition is gone", func() string {
		if err := s.admin.Get(ctx, key, crd.DeepCopy()); !apierrors.IsNotFound(err) {
			return "it is there"
		}
		return ""
	})
	restore = func() {
		if err := s.admin.Create(ctx, again.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
			s.t.Error(err)
		}
		await(s.t, "the definition is served", func() string {
			if err := s.admin.List(ctx, &v1alpha1.GlusterNodeList{}); err != nil {
				return err.Error()
			}
			return ""
		})
	}
	s.t.Cleanup(restore)
	return restore
}

// TestRun_withoutGlusterNodes: where the API server knows no GlusterNodes, storages are looked after, and take disks. Once it knows them, what they have on record counts without a restart, and no more once the definition is deleted again.
func TestRun_withoutGlusterNodes(t *testing.T) {
	s := newSite(t)
	restore := s.undefined()
	s.with(nil, func(t *testing.T) {
		await(t, "the CSI driver is deployed", func() string { return available(t.Context(), s.admin) })
		await(t, "the Cluster runs", phaseOf(s.admin, s.cluster))
		s.device(t, "sdb", "the Cluster's", func(d v1alpha1.NodeDevice) bool { return d.InUseBy == "Cluster "+s.cluster.Name })
		restore()
		n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "server"}}
		n.Spec.Cluster, n.Spec.Storage = "servers", []v1alpha1.GlusterStorage{{PVCName: "claim"}}
		n.Spec.Devices = []v1alpha1.GlusterDevice{{
			Device: "/dev/disk/by-id/other", Path: "/dev/disk/by-id/other", Node: offNode, Serial: "OFF-1-SDC", Size: 100 << 30, Recorded: metav1.Now(),
		}}
		s.keep(n)
		s.agent.AddDisks(100<<30, "sdc")
		s.device(t, "sdc", "the GlusterNode's", func(d v1alpha1.NodeDevice) bool { return !d.Available && d.InUseBy == "GlusterNode default/server" })
		await(t, "the Cluster goes on", phaseOf(s.admin, s.cluster))
		if !s.agent.IsEmpty("sdc") {
			t.Error("a disk on record was taken")
		}
		s.undefined()
		nudge := s.nudges()
		s.device(t, "sdc", "the Cluster's, as the GlusterNode went with the definition", func(d v1alpha1.NodeDevice) bool {
			nudge()
			return d.InUseBy == "Cluster "+s.cluster.Name
		})
	})
}

// undecodable creates a GlusterNode that the API server takes from before its definition was strict, and that no client can decode. It returns what mends it.
func (s *site) undecodable() (mend func()) {
	s.t.Helper()
	ctx, crd := context.Background(), &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	key := client.ObjectKey{Name: "glusternodes." + v1alpha1.Group}
	if err := s.admin.Get(ctx, key, crd); err != nil {
		s.t.Fatal(err)
	}
	strict, err := json.Marshal(crd.Object["spec"])
	if err != nil {
		s.t.Fatal(err)
	}
	pattern := regexp.MustCompile(`"pattern":"\^\[0-9\]\{4\}[^"]*",?`)
	if !pattern.Match(strict) {
		s.t.Fatal("the definition takes any time")
	}
	define := func(spec []byte) error {
		return s.admin.Patch(ctx, crd, client.RawPatch(types.JSONPatchType, fmt.Appendf(nil, `[{"op":"replace","path":"/spec","value":%s}]`, spec)))
	}
	s.t.Cleanup(func() {
		if err := define(strict); err != nil {
			s.t.Error(err)
		}
	})
	if err := define(pattern.ReplaceAll(strict, nil)); err != nil {
		s.t.Fatal(err)
	}
	raw := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"GlusterNode","metadata":{"name":"odd","namespace":"default"},"spec":{"cluster":"servers","storage":[{"pvcName":"claim"}],"devices":[
		{"device":"/dev/disk/by-id/other","path":"/dev/disk/by-id/other","node":"nowhere","serial":"O","size":1,"recorded":"2026-11-27t08:00:00z"}]}}`, v1alpha1.GroupVersion)
	odd := &unstructured.Unstructured{}
	await(s.t, "the definition takes the GlusterNode", func() string {
		odd.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GlusterNode"))
		odd.SetNamespace(metav1.NamespaceDefault)
		odd.SetName("odd")
		if err := s.admin.Patch(ctx, odd, client.RawPatch(types.ApplyPatchType, raw), client.FieldOwner("test")); err != nil {
			return err.Error()
		}
		return ""
	})
	change := func(patch string) {
		if err := client.IgnoreNotFound(s.admin.Patch(ctx, odd, client.RawPatch(types.JSONPatchType, []byte(patch)))); err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(func() {
		change(fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{%q:%q}}]`, v1alpha1.AnnotationRemove, odd.GetUID()))
		if err := client.IgnoreNotFound(s.admin.Delete(ctx, odd)); err != nil {
			s.t.Error(err)
		}
	})
	if err := s.admin.List(ctx, &v1alpha1.GlusterNodeList{}); err == nil {
		s.t.Fatal("it can be decoded")
	}
	return func() { change(`[{"op":"replace","path":"/spec/devices/0/recorded","value":"2026-11-27T08:00:00Z"}]`) }
}

// TestRun_undecodable: a GlusterNode that nobody can decode keeps disks from being taken, and nothing else: neither the controller nor any of its reconcilers waits for it.
func TestRun_undecodable(t *testing.T) {
	s := newSite(t)
	mend := s.undecodable()
	s.with(nil, func(t *testing.T) {
		await(t, "the CSI driver is deployed", func() string { return available(t.Context(), s.admin) })
		s.device(t, "sdb", "available", func(d v1alpha1.NodeDevice) bool { return d.Available })
		s.says(t, "glusternodes, of deploy/crd, cannot be read")
		if !s.agent.IsEmpty("sdb") {
			t.Error("a disk was taken while nobody knew whose it is")
		}
		mend()
		await(t, "the Cluster runs", phaseOf(s.admin, s.cluster))
	})
}

// says waits until the Cluster, or a Member, says something.
func (s *site) says(t *testing.T, what string) {
	t.Helper()
	await(t, "the Cluster says what is missing", func() string {
		var members v1alpha1.MemberList
		if err := errors.Join(s.admin.Get(t.Context(), client.ObjectKeyFromObject(s.cluster), s.cluster), s.admin.List(t.Context(), &members)); err != nil {
			return err.Error()
		}
		text, err := json.Marshal([]any{s.cluster.Status, members.Items})
		if err != nil || !strings.Contains(string(text), what) {
			return fmt.Sprint("not yet: ", string(text), err)
		}
		return ""
	})
}

// nudges returns what has the Cluster looked at, once a second at most: it is looked at again by itself only after a minute.
func (s *site) nudges() func() {
	last, n := time.Time{}, 0
	return func() {
		if time.Since(last) < time.Second {
			return
		}
		last, n = time.Now(), n+1
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster.Name}}
		if err := s.admin.Patch(context.Background(), c, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"test/nudge":"%d"}}}`, n))); err != nil {
			s.t.Error(err)
		}
	}
}

// keep creates a GlusterNode that goes with the test. Only who gives its UID deletes one.
func (s *site) keep(n *v1alpha1.GlusterNode) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), n); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, key := context.Background(), client.ObjectKeyFromObject(n)
		await(s.t, "the GlusterNode is gone", func() string {
			if err := s.admin.Get(ctx, key, n); apierrors.IsNotFound(err) {
				return ""
			}
			n.Annotations, n.Finalizers = map[string]string{v1alpha1.AnnotationRemove: string(n.UID)}, nil
			return fmt.Sprint(errors.Join(s.admin.Update(ctx, n), s.admin.Delete(ctx, n)))
		})
	})
}

// unreadable takes the right to GlusterNodes off all ClusterRoles, and returns what brings it back. It is back after the test at the latest.
func (s *site) unreadable() (restore func()) {
	s.t.Helper()
	ctx := context.Background()
	var before rbacv1.ClusterRoleList
	if err := s.admin.List(ctx, &before); err != nil {
		s.t.Fatal(err)
	}
	write := func(rules func(r rbacv1.ClusterRole) []rbacv1.PolicyRule) {
		s.t.Helper()
		for _, r := range before.Items {
			has := func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "glusternodes") }
			if !slices.ContainsFunc(r.Rules, has) {
				continue
			}
			var now rbacv1.ClusterRole
			if err := s.admin.Get(ctx, client.ObjectKeyFromObject(&r), &now); err != nil {
				s.t.Fatal(err)
			}
			now.Rules = rules(*r.DeepCopy())
			if err := s.admin.Update(ctx, &now); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	write(func(r rbacv1.ClusterRole) []rbacv1.PolicyRule {
		for i := range r.Rules {
			r.Rules[i].Resources = slices.DeleteFunc(r.Rules[i].Resources, func(one string) bool { return one == "glusternodes" })
		}
		return slices.DeleteFunc(r.Rules, func(rule rbacv1.PolicyRule) bool { return len(rule.Resources) == 0 && len(rule.NonResourceURLs) == 0 })
	})
	// The API server learns of rights from a watch of its own.
	allowed := func(want bool) {
		s.t.Helper()
		controller := clientOf(s.t, as(s.t, "quarry-controller"))
		await(s.t, "the API server knows the rights", func() string {
			if err := controller.List(ctx, &v1alpha1.GlusterNodeList{}); apierrors.IsForbidden(err) == want {
				return fmt.Sprint("not yet: ", err)
			}
			return ""
		})
	}
	restore = func() {
		write(func(r rbacv1.ClusterRole) []rbacv1.PolicyRule { return r.Rules })
		allowed(true)
	}
	s.t.Cleanup(restore)
	allowed(false)
	return restore
}

// TestRun_withoutTheRight: a controller whose rights are of an earlier version looks after storages and nodes. It takes no disk, and says which right is missing; once it has the right it goes on.
func TestRun_withoutTheRight(t *testing.T) {
	s := newSite(t)
	restore := s.unreadable()
	s.with(nil, func(t *testing.T) {
		await(t, "the CSI driver is deployed", func() string { return available(t.Context(), s.admin) })
		s.device(t, "sdb", "available", func(d v1alpha1.NodeDevice) bool { return d.Available })
		s.says(t, "has no right to list glusternodes, apply deploy/base again")
		if !s.agent.IsEmpty("sdb") {
			t.Error("a disk was taken while nobody knew whose it is")
		}
		restore()
		await(t, "the Cluster runs", phaseOf(s.admin, s.cluster))
	})
}
