package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// StateClass is the StorageClass of the state of servers and etcd: that of the spec, or of a node's template, or of the first template; empty when there is none.
func StateClass(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode) string {
	if s := c.Spec.State; s != nil && s.StorageClassName != "" {
		return s.StorageClassName
	}
	if n != nil {
		for _, t := range c.Spec.NodeTemplates {
			if t.Name == n.Annotations[v1alpha1.AnnotationTemplate] {
				return t.Storage.StorageClassName
			}
		}
	}
	if len(c.Spec.NodeTemplates) > 0 {
		return c.Spec.NodeTemplates[0].Storage.StorageClassName
	}
	return ""
}

// State is the claim with the state of a node's server. It carries the ID of the server, so that a GlusterNode that is made anew finds its bricks.
func State(c *v1alpha1.GlusterCluster, n *v1alpha1.GlusterNode) *corev1.PersistentVolumeClaim {
	out := filesystem(c, StateClaim(n.Name), StateClass(c, n), labels(c.Name, PartServer, n.Name))
	out.Annotations = map[string]string{v1alpha1.AnnotationPeer: n.Spec.Peer}
	return out
}

// MemberClaim is the claim of a member of etcd.
func MemberClaim(c *v1alpha1.GlusterCluster, i int) *corev1.PersistentVolumeClaim {
	return filesystem(c, Member(c.Name, i), StateClass(c, nil), labels(c.Name, PartEtcd, ""))
}

func filesystem(c *v1alpha1.GlusterCluster, name, class string, labels map[string]string) *corev1.PersistentVolumeClaim {
	size := resource.MustParse("1Gi")
	if c.Spec.State != nil && c.Spec.State.Capacity != nil {
		size = *c.Spec.State.Capacity
	}
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: meta(c.Namespace, name, labels),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(class),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
}

// Mark puts on a claim of a template's node whose it is.
func Mark(claim *corev1.PersistentVolumeClaim, n *v1alpha1.GlusterNode) *corev1.PersistentVolumeClaim {
	claim.Labels = labels(n.Spec.Cluster, PartServer, n.Name)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[v1alpha1.AnnotationPeer] = n.Spec.Peer
	return claim
}
