package blueprint

import (
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/adopt"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
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
	p.Annotations = annotated(p.Annotations, v1alpha1.AnnotationTemplateBase, b.Base)
	if len(b.owner.Spec.VolumeClaimTemplates) == 0 {
		p.Annotations = annotated(p.Annotations, v1alpha1.AnnotationReplicaState, v1alpha1.ReplicaNew)
	}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Tolerations = append(p.Spec.Tolerations, b.patience()...)
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

// patience is what lets a pod stay on a node that falls silent: Kubernetes would have it evicted after five minutes, whatever the grace of the
// StatefulCluster is. A template that says so itself has the last word.
func (b *Blueprint) patience() []corev1.Toleration {
	var out []corev1.Toleration
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(b.pod.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "" && t.Operator == corev1.TolerationOpExists) && (t.Effect == "" || t.Effect == corev1.TaintEffectNoExecute)
		}) {
			out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
		}
	}
	return out
}

func annotated(in map[string]string, key, value string) map[string]string {
	if in == nil {
		in = map[string]string{}
	}
	in[key] = value
	return in
}

// Naming is how the claims are called.
func (b *Blueprint) Naming() record.Naming {
	n := record.Naming{Claim: b.ClaimName, UID: string(b.owner.UID)}
	for _, t := range b.owner.Spec.VolumeClaimTemplates {
		n.Templates = append(n.Templates, t.Metadata.Name)
	}
	return n
}

// Claims of an identity. They have its record from the beginning.
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
		c.Annotations = annotated(c.Annotations, v1alpha1.AnnotationReplicaState, v1alpha1.ReplicaNew)
		c.Annotations[v1alpha1.AnnotationClaims] = strings.Join(b.Naming().Templates, ",")
		if b.WhenDeleted() == v1alpha1.DeleteClaims {
			c.OwnerReferences = []metav1.OwnerReference{b.Owner()}
		}
		out = append(out, c)
	}
	return out
}

// Adopt is what is to be decided on for pods that nobody controls, and for claims that a person wants back; what is there is still to be added.
func (b *Blueprint) Adopt() adopt.Input {
	in := adopt.Input{
		Owner: b.owner.Name, UID: string(b.owner.UID), Named: b.owner.Spec.Adopt, Selector: b.Selector,
		Templates: map[string]corev1.PersistentVolumeClaimSpec{}, ClaimName: b.ClaimName,
	}
	for i, t := range b.owner.Spec.VolumeClaimTemplates {
		in.Templates[t.Metadata.Name] = b.claims[i]
	}
	return in
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

// Policy says which claims of identities that were given up are deleted while the StatefulCluster stays.
func (b *Blueprint) Policy() replica.Policy {
	p := replica.Policy{History: -1}
	if r := b.owner.Spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		p.Scaled, p.Replaced = r.WhenScaled == v1alpha1.DeleteClaims, r.WhenReplaced == v1alpha1.DeleteClaims
	}
	if n := b.owner.Spec.OrphanHistoryLimit; n != nil {
		p.History = int(*n)
	}
	if n := b.owner.Spec.OrphanMaxAgeSeconds; n != nil {
		// More than a century is for ever.
		p.MaxAge = time.Duration(min(*n, 100*365*24*3600)) * time.Second
	}
	return p
}
