package statefulcluster

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// maxOrphans bounds the list in the status.
const maxOrphans = 100

// settleClaims brings the owner references of claims to what the retention policy says, and takes the mark of being reserved off those whose
// pod is there. It deletes nothing itself; the garbage collector follows the references.
func (r *Reconciler) settleClaims(ctx context.Context, s *scope) error {
	for i := range s.claims {
		c := &s.claims[i]
		if !c.DeletionTimestamp.IsZero() {
			continue
		}
		_, err := kube.Patch(ctx, r.Client, c, func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = s.ownersOf(c)
			if s.podOf(c.Labels[v1alpha1.LabelIdentity]) != nil {
				delete(c.Labels, v1alpha1.LabelReserved)
			}
		})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// ownersOf says who owns a claim. A pod that leaves takes its claims with it when whenScaled says Delete; while it stays, the claim lives
// as long as the StatefulCluster, or for ever.
func (s *scope) ownersOf(c *corev1.PersistentVolumeClaim) []metav1.OwnerReference {
	pod := s.podOf(c.Labels[v1alpha1.LabelIdentity])
	if pod == nil && handedOver(c) {
		// The pod is gone, and the garbage collector is on its way.
		return c.OwnerReferences
	}
	owners := slices.DeleteFunc(slices.Clone(c.OwnerReferences), func(o metav1.OwnerReference) bool {
		return o.UID == s.cluster.UID || isPod(o)
	})
	switch {
	case pod != nil && s.leaves(pod) && s.plan.WhenScaled() == v1alpha1.DeleteClaims:
		owners = append(owners, metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
	case s.plan.WhenDeleted() == v1alpha1.DeleteClaims:
		owners = append(owners, s.plan.Owner())
	}
	return owners
}

func isPod(o metav1.OwnerReference) bool { return o.Kind == "Pod" && o.APIVersion == "v1" }

func handedOver(c *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.OwnerReferences, isPod)
}

// orphans returns the names of the claims whose replica is gone for good, the newest first, and how many there are.
func (s *scope) orphans() (names []string, count int) {
	claims := slices.Clone(s.claims)
	slices.SortFunc(claims, func(a, b corev1.PersistentVolumeClaim) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for i := range claims {
		c := &claims[i]
		if !c.DeletionTimestamp.IsZero() || handedOver(c) || s.isReserved(c) || s.podOf(c.Labels[v1alpha1.LabelIdentity]) != nil {
			continue
		}
		if count++; count <= maxOrphans {
			names = append(names, c.Name)
		}
	}
	return names, count
}
