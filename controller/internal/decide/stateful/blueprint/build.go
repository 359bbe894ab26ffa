package blueprint

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Name of the pod of an identity.
func (b *Blueprint) Name(identity string) string { return b.owner.Name + "-" + identity }

// ClaimName is the name of the claim of a template and an identity.
func (b *Blueprint) ClaimName(template, identity string) string {
	return b.owner.Name + "-" + template + "-" + identity
}

// Pod of an identity. Its claims stand in the place of volumes of the same names; all other volumes of the template stay.
func (b *Blueprint) Pod(identity string) *corev1.Pod {
	t := b.owner.Spec.Template.Metadata
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.owner.Namespace, Name: b.Name(identity),
			Labels: plain(t.Labels), Annotations: maps.Clone(t.Annotations), Finalizers: slices.Clone(t.Finalizers),
			OwnerReferences: []metav1.OwnerReference{b.Owner()},
		},
		Spec: *b.pod.DeepCopy(),
	}
	p.Labels[v1alpha1.LabelStatefulCluster] = b.owner.Name
	p.Labels[v1alpha1.LabelIdentity] = identity
	p.Labels[appsv1.ControllerRevisionHashLabelKey] = b.Revision
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	// The name in DNS is the replica's own, as it is with a StatefulSet.
	p.Spec.Hostname, p.Spec.Subdomain = p.Name, b.owner.Spec.ServiceName
	for _, c := range b.owner.Spec.VolumeClaimTemplates {
		p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == c.Metadata.Name })
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: c.Metadata.Name,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: b.ClaimName(c.Metadata.Name, identity),
			}},
		})
	}
	return p
}

// Claims of an identity. They are marked as reserved until their pod is made.
func (b *Blueprint) Claims(identity string) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i, t := range b.owner.Spec.VolumeClaimTemplates {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: b.owner.Namespace, Name: b.ClaimName(t.Metadata.Name, identity),
				Labels: plain(t.Metadata.Labels), Annotations: maps.Clone(t.Metadata.Annotations),
			},
			Spec: *b.claims[i].DeepCopy(),
		}
		maps.Copy(c.Labels, plain(b.owner.Spec.Selector.MatchLabels))
		c.Labels[v1alpha1.LabelStatefulCluster] = b.owner.Name
		c.Labels[v1alpha1.LabelStatefulClusterUID] = string(b.owner.UID)
		c.Labels[v1alpha1.LabelIdentity] = identity
		c.Labels[v1alpha1.LabelReserved] = "true"
		if b.WhenDeleted() == v1alpha1.DeleteClaims {
			c.OwnerReferences = []metav1.OwnerReference{b.Owner()}
		}
		out = append(out, c)
	}
	return out
}

// Owner is the reference by which the StatefulCluster owns what is made for it.
func (b *Blueprint) Owner() metav1.OwnerReference {
	return *metav1.NewControllerRef(b.owner, v1alpha1.GroupVersion.WithKind("StatefulCluster"))
}

// WhenDeleted says what becomes of all claims when the StatefulCluster is deleted.
func (b *Blueprint) WhenDeleted() v1alpha1.Retention {
	if r := b.owner.Spec.PersistentVolumeClaimRetentionPolicy; r != nil && r.WhenDeleted != "" {
		return r.WhenDeleted
	}
	return v1alpha1.DeleteClaims
}

// WhenScaled says what becomes of the claims of a replica that leaves while the StatefulCluster stays.
func (b *Blueprint) WhenScaled() v1alpha1.Retention {
	if r := b.owner.Spec.PersistentVolumeClaimRetentionPolicy; r != nil && r.WhenScaled != "" {
		return r.WhenScaled
	}
	return v1alpha1.RetainClaims
}

// WithoutUse lists the fields that are set and have no meaning here.
func WithoutUse(spec *v1alpha1.StatefulClusterSpec) []string {
	var out []string
	if spec.Ordinals != nil {
		out = append(out, "spec.ordinals (replicas are not numbered)")
	}
	if spec.PodManagementPolicy != "" {
		out = append(out, "spec.podManagementPolicy (replicas have no order and are made one after another)")
	}
	if spec.RevisionHistoryLimit != nil {
		out = append(out, "spec.revisionHistoryLimit (no history is kept)")
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		out = append(out, "spec.updateStrategy.rollingUpdate.partition (replicas are not numbered)")
	}
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && r.MaxUnavailable != nil {
		out = append(out, "spec.updateStrategy.rollingUpdate.maxUnavailable (one replica is changed at a time)")
	}
	return out
}
