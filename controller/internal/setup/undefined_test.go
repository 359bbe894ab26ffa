package setup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
		s.device(t, "sdc", "the Cluster's, as the GlusterNode went with the definition", func(d v1alpha1.NodeDevice) bool { return d.InUseBy == "Cluster "+s.cluster.Name })
	})
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
