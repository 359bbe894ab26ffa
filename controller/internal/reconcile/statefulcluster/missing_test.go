package statefulcluster

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestReconcile_manyNodesDoNotExist_otherDrivers: volumes that no Member holds tell of the nodes that do not exist as well, until their claims are deleted. So do those of other StatefulClusters.
func TestReconcile_manyNodesDoNotExist_otherDrivers(t *testing.T) {
	for name, selected := range map[string]bool{"the claim names its node": true, "the volume does": false} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t, "n1", "n2", "n3")
			s.add(3, func(c *v1alpha1.StatefulCluster) {
				c.Annotations = map[string]string{v1alpha1.AnnotationNodeGrace: "1m"}
			})
			s.settle("three replicas", isReady)
			for _, c := range s.claims() {
				s.localVolume(&c, selected)
			}
			pods := s.pods()
			for _, p := range pods[:2] {
				s.removeNode(p.Spec.NodeName)
				s.end(p)
			}
			s.wait(10 * time.Minute)
			if complaint := says(v1alpha1.ConditionReady, v1alpha1.ReasonReplicaStarting, "So are too many others")(s.get()); complaint != "" || len(s.claims()) != 3 {
				t.Fatalf("pods %s, %d claims: %s", s.names(), len(s.claims()), complaint)
			}
			// One is known to be gone for good: one of the two nodes that are left is no blackout, where two of three were.
			if err := s.client.Delete(context.Background(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db-data-" + strings.TrimPrefix(pods[0].Name, "db-")}}); err != nil {
				t.Fatal(err)
			}
			s.wait(3 * time.Minute)
			if c := s.get(); strings.Contains(meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady).Message, "too many others") {
				t.Errorf("%+v", c.Status.Conditions)
			}
		})
	}
}

// localVolume gives a claim a volume of another driver on the node of its pod.
func (s *suite) localVolume(c *corev1.PersistentVolumeClaim, selected bool) {
	s.t.Helper()
	node := ""
	for _, p := range s.pods() {
		if p.Labels[v1alpha1.LabelIdentity] == c.Labels[v1alpha1.LabelIdentity] {
			node = p.Spec.NodeName
		}
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "local-"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: "fast", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	s.create(v)
	if c.Spec.VolumeName = v.Name; selected {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, record.AnnotationSelectedNode, node)
	}
	if err := s.client.Update(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
}
