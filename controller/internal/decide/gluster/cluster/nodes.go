// Package cluster decides what concerns a GlusterCluster as a whole: which nodes belong to which template, what a node of a template looks like, which options
// are set, in which order a cluster is deleted, and what its conditions say. It is pure.
package cluster

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Nodes are the nodes of a cluster, sorted by where they come from.
type Nodes struct {
	// ByTemplate has those of each template of the spec, also of one that has none.
	ByTemplate map[string][]*v1alpha1.GlusterNode
	// Orphaned were made from a template that the spec does not have any more. They stay: a template that is left out by mistake empties no node.
	Orphaned []*v1alpha1.GlusterNode
	// HandMade are those of people, external ones included. They are never counted for sizing, nor removed.
	HandMade []*v1alpha1.GlusterNode
}

// GetNodes sorts the nodes that name a cluster.
func GetNodes(c *v1alpha1.GlusterCluster, all []*v1alpha1.GlusterNode) Nodes {
	out := Nodes{ByTemplate: map[string][]*v1alpha1.GlusterNode{}}
	for _, t := range c.Spec.NodeTemplates {
		out.ByTemplate[t.Name] = nil
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *v1alpha1.GlusterNode) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range all {
		if n.Spec.Cluster != c.Name || n.Namespace != c.Namespace {
			continue
		}
		name, made := n.Annotations[v1alpha1.AnnotationTemplate]
		_, known := out.ByTemplate[name]
		switch {
		case !made || n.Spec.External != nil:
			out.HandMade = append(out.HandMade, n)
		case known:
			out.ByTemplate[name] = append(out.ByTemplate[name], n)
		default:
			out.Orphaned = append(out.Orphaned, n)
		}
	}
	return out
}

// NewNode is a node of a template. Its name ends in a suffix that no other one ever has, for a name stands for data. It has no owner: one that was restored with
// another UID would have the garbage collector delete every node, and so empty it.
func NewNode(c *v1alpha1.GlusterCluster, t v1alpha1.GlusterNodeTemplate, suffix string) *v1alpha1.GlusterNode {
	name := fmt.Sprintf("%s-%s-%s", c.Name, t.Name, suffix)
	return &v1alpha1.GlusterNode{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "GlusterNode"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: c.Namespace, Annotations: map[string]string{v1alpha1.AnnotationTemplate: t.Name},
			Finalizers: []string{v1alpha1.FinalizerGlusterNode},
		},
		Spec: v1alpha1.GlusterNodeSpec{
			Cluster: c.Name, Zone: zoneOf(t), Storage: []v1alpha1.GlusterStorage{{PVCName: name}}, NodeAffinity: t.NodeAffinity.DeepCopy(),
		},
	}
}

// zoneOf is the zone of a template's nodes: its name when it has none (A15).
func zoneOf(t v1alpha1.GlusterNodeTemplate) v1alpha1.GlusterZone {
	if t.Zone != "" {
		return t.Zone
	}
	return v1alpha1.GlusterZone(t.Name)
}

// NewClaim is the claim of a node of a template. Nothing but the removal of the node deletes it.
func NewClaim(n *v1alpha1.GlusterNode, t v1alpha1.GlusterNodeTemplate) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: n.Namespace, Annotations: map[string]string{v1alpha1.AnnotationTemplate: t.Name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: new(corev1.PersistentVolumeBlock),
			StorageClassName: new(t.Storage.StorageClassName),
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: t.Storage.Capacity}},
		},
	}
}

// Revert returns the spec of a template's node without what a person changed (A15), or nil if there is nothing to revert. What a person says about one node
// stays: desiredState and lost. Zone and cluster cannot change, and storage that was added cannot be taken off.
func Revert(n *v1alpha1.GlusterNode, t v1alpha1.GlusterNodeTemplate) *v1alpha1.GlusterNodeSpec {
	if equality.Semantic.DeepEqual(n.Spec.NodeAffinity, t.NodeAffinity) {
		return nil
	}
	spec := n.Spec.DeepCopy()
	spec.NodeAffinity = t.NodeAffinity.DeepCopy()
	return spec
}

// Drifted says what is not as the template has it and cannot be reverted; empty when all is.
func Drifted(n *v1alpha1.GlusterNode, t v1alpha1.GlusterNodeTemplate) string {
	switch {
	case n.Spec.Zone != zoneOf(t):
		return fmt.Sprintf("Node %s is in zone %s, and template %s in %s. Bricks were placed by the zone: delete the node, and one in the new zone is made.", n.Name, n.Spec.Zone, t.Name, zoneOf(t))
	case len(n.Spec.Storage) != 1 || n.Spec.Storage[0].PVCName != n.Name:
		return fmt.Sprintf("Node %s has other storage than template %s gives it. glusterd2 gives up no device, so it stays.", n.Name, t.Name)
	}
	return ""
}
