package record

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Unowned returns the pods that have an identity and nobody who controls them, as a deletion that orphans leaves them. It also returns how many of them
// have not ended. One that is being deleted has not ended before its containers have: until then it may write.
func Unowned(pods []corev1.Pod) (all []*corev1.Pod, run int) {
	for i := range pods {
		p := &pods[i]
		if p.Labels[v1alpha1.LabelIdentity] == "" || metav1.GetControllerOf(p) != nil {
			continue
		}
		if all = append(all, p); p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			run++
		}
	}
	return all, run
}

// Abandoned returns the claims of pods that nobody controls. Claims that belong to the StatefulCluster are not among them: they have its own record.
func (n Naming) Abandoned(labelled []corev1.PersistentVolumeClaim, unowned []*corev1.Pod) []*corev1.PersistentVolumeClaim {
	return n.foreign(labelled, func(c *corev1.PersistentVolumeClaim) bool {
		return slices.ContainsFunc(unowned, func(p *corev1.Pod) bool { return uses(p, c) })
	})
}

// Undecided returns the names of those claims, also of pods that are gone by now, of which nobody has said what becomes of them, in their order: no person named
// them to be adopted, deleted them or wrote a fate on them. What is on record of their replica does not tell that one is empty: nobody kept it while nobody
// controlled the pod.
func (n Naming) Undecided(labelled []corev1.PersistentVolumeClaim, abandoned []*corev1.PersistentVolumeClaim, named []string) []string {
	var out []string
	for _, c := range n.foreign(labelled, func(c *corev1.PersistentVolumeClaim) bool {
		return (c.Annotations[v1alpha1.AnnotationOrphaned] != "" || slices.Contains(abandoned, c)) &&
			fates[c.Annotations[v1alpha1.AnnotationReplicaState]] == "" && !slices.Contains(named, c.Name)
	}) {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

// foreign returns the claims that a test holds for among those that stay and are not the StatefulCluster's own.
func (n Naming) foreign(labelled []corev1.PersistentVolumeClaim, test func(*corev1.PersistentVolumeClaim) bool) []*corev1.PersistentVolumeClaim {
	own := map[string]bool{}
	for _, c := range n.Of(labelled) {
		own[c.Name] = true
	}
	var out []*corev1.PersistentVolumeClaim
	for i := range labelled {
		if c := &labelled[i]; !own[c.Name] && c.DeletionTimestamp.IsZero() && test(c) {
			out = append(out, c)
		}
	}
	return out
}

// uses reports whether a claim is of the identity of a pod, or one of its volumes.
func uses(p *corev1.Pod, c *corev1.PersistentVolumeClaim) bool {
	return p.Labels[v1alpha1.LabelIdentity] == c.Labels[v1alpha1.LabelIdentity] || slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name
	})
}

// GivenUp reports whether a claim has on record that its replica was given up.
func GivenUp(c *corev1.PersistentVolumeClaim) bool {
	return fates[c.Annotations[v1alpha1.AnnotationReplicaState]] != ""
}

// Carried is what is on record of a replica whose pod ran on while nobody kept the record: it may have the data by now, even if it had none before.
func Carried(state string) string {
	switch state {
	case "", v1alpha1.ReplicaNew, v1alpha1.ReplicaServed:
		return v1alpha1.ReplicaServed
	}
	// As always, a word that nobody knows is taken for the data.
	return v1alpha1.ReplicaFilled
}

// Occupier returns the name of a pod that is not the StatefulCluster's own and has the name of the pod that an identity is to have, or uses a claim of it; empty when there is
// none. Beside it no pod of the identity can be made. One that has ended uses no claim.
func (i *Identity) Occupier(labelled []corev1.Pod, name, uid string) string {
	for j := range labelled {
		p := &labelled[j]
		if owner := metav1.GetControllerOf(p); owner != nil && string(owner.UID) == uid {
			continue
		}
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if p.Name == name || !ended && slices.ContainsFunc(i.Claims, func(c *corev1.PersistentVolumeClaim) bool { return uses(p, c) }) {
			return p.Name
		}
	}
	return ""
}
