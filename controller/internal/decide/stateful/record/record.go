// Package record knows what is on record of the identities of a StatefulCluster. The record is on their claims, and on the pods of those that
// have none; it outranks what is seen. The package is given objects, and makes values only.
package record

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// AnnotationSelectedNode is on a claim whose pod a scheduler has placed; its value is the node. It stays when the pod and the node are gone.
const AnnotationSelectedNode = "volume.kubernetes.io/selected-node"

// Identity is one identity of a StatefulCluster.
type Identity struct {
	Name string
	// Pod of the identity; nil when there is none.
	Pod *corev1.Pod
	// Claims that it has.
	Claims []*corev1.PersistentVolumeClaim
	// Adopted says that a person had it brought back: what was on record before does not count.
	Adopted bool
	// Filled, Served and Fate are on record.
	Filled, Served bool
	Fate           replica.Fate
	// GivenUp is when the fate was recorded; zero where it is not on record.
	GivenUp time.Time
	// Made are the names of the claim templates that it has claims of, by its own record and by the claims that are there, in their order. It only grows.
	Made []string
	// Whole says whether the claims are there that it should have.
	Whole replica.ClaimState
}

// fates by the states that record them.
var fates = map[string]replica.Fate{
	v1alpha1.ReplicaScaled: replica.Scaled, v1alpha1.ReplicaReplaced: replica.Replaced, v1alpha1.ReplicaRolled: replica.Rolled,
}

// Naming is how the claims of a StatefulCluster are called.
type Naming struct {
	// Templates are the names of the claim templates of now.
	Templates []string
	// Claim is the name of the claim of a template and an identity.
	Claim func(template, identity string) string
	// UID of the StatefulCluster.
	UID string
}

// Of returns the claims that belong to the StatefulCluster: those with its UID, and those that are still to follow another one of their replica, which it
// adopted.
func (n Naming) Of(claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	adopted := map[string]bool{}
	for i := range claims {
		if n.adopted(&claims[i]) {
			adopted[claims[i].Labels[v1alpha1.LabelIdentity]] = true
		}
	}
	var out []corev1.PersistentVolumeClaim
	for _, c := range claims {
		if c.Labels[v1alpha1.LabelStatefulClusterUID] == n.UID || adopted[c.Labels[v1alpha1.LabelIdentity]] {
			out = append(out, c)
		}
	}
	return out
}

// adopted reports whether a claim says that the StatefulCluster adopted it.
func (n Naming) adopted(c *corev1.PersistentVolumeClaim) bool {
	return n.UID != "" && c.Annotations[v1alpha1.AnnotationAdopted] == n.UID && c.Labels[v1alpha1.LabelStatefulClusterUID] == n.UID &&
		c.Labels[v1alpha1.LabelIdentity] != ""
}

// Gather puts the pods and claims of a StatefulCluster together to identities, by name. Claims that no identity has any more are left out:
// they are orphans.
func Gather(pods []corev1.Pod, claims []corev1.PersistentVolumeClaim, n Naming) []*Identity {
	byName := map[string]*Identity{}
	of := func(name string) *Identity {
		if byName[name] == nil {
			byName[name] = &Identity{Name: name}
		}
		return byName[name]
	}
	for i := range pods {
		of(pods[i].Labels[v1alpha1.LabelIdentity]).Pod = &pods[i]
	}
	for i := range claims {
		// A claim whose label somebody took off is of no identity, and not of one without a name.
		if name := claims[i].Labels[v1alpha1.LabelIdentity]; name != "" {
			of(name).Claims = append(of(name).Claims, &claims[i])
		}
	}
	var out []*Identity
	for _, one := range byName {
		if one.Pod == nil && !slices.ContainsFunc(one.Claims, belongs) {
			continue
		}
		one.read(n)
		one.Made = one.made(n)
		one.Whole = one.whole(n)
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b *Identity) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// belongs reports whether a claim without a pod is of an identity. Those of versions without records are only while their pod was never
// placed.
func belongs(c *corev1.PersistentVolumeClaim) bool {
	if c.Annotations[v1alpha1.AnnotationReplicaState] != "" {
		return true
	}
	return c.Labels[v1alpha1.LabelReserved] != "" && c.DeletionTimestamp.IsZero() && c.Annotations[AnnotationSelectedNode] == ""
}

// read takes the record from the objects. A record that a crash left on one claim of several holds for all, and so does that it was adopted: then only
// claims that say so count. Without a record, what has a pod that has run may have data.
func (i *Identity) read(n Naming) {
	var states []string
	i.Adopted = slices.ContainsFunc(i.Claims, n.adopted)
	for _, c := range i.Claims {
		if i.Adopted && !n.adopted(c) {
			continue
		}
		states = append(states, c.Annotations[v1alpha1.AnnotationReplicaState])
		if at, err := time.Parse(time.RFC3339, c.Annotations[v1alpha1.AnnotationGivenUp]); err == nil && at.After(i.GivenUp) {
			i.GivenUp = at
		}
	}
	if i.Pod != nil {
		if states = append(states, i.Pod.Annotations[v1alpha1.AnnotationReplicaState]); strings.Join(states, "") == "" {
			i.Filled = i.Pod.Status.Phase != corev1.PodPending && i.Pod.Status.Phase != ""
		}
	}
	slices.Sort(states)
	for _, s := range states {
		// A word that nobody knows was written by a person, or by a later version: it may have data.
		i.Filled = i.Filled || s != "" && s != v1alpha1.ReplicaNew && s != v1alpha1.ReplicaServed
		i.Served = i.Served || s == v1alpha1.ReplicaServed
		if i.Fate == "" {
			i.Fate = fates[s]
		}
	}
}

// State is what is to be on record of the identity.
func (i *Identity) State() string {
	switch {
	case i.Fate != "":
		return string(i.Fate)
	case i.Filled:
		return v1alpha1.ReplicaFilled
	case i.Served:
		return v1alpha1.ReplicaServed
	}
	return v1alpha1.ReplicaNew
}

// made reads of which templates it has claims. Claims of versions without that record are of those that they are called after: what a template that
// came later would have added was never there.
func (i *Identity) made(n Naming) []string {
	var out []string
	for _, c := range i.Claims {
		if text := c.Annotations[v1alpha1.AnnotationClaims]; text != "" {
			out = append(out, strings.Split(text, ",")...)
		}
		for _, template := range n.Templates {
			if c.Name == n.Claim(template, i.Name) {
				out = append(out, template)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// whole says whether the claims are there: those that were made for the identity, by its own record, and for one without data also those of
// the templates of now.
func (i *Identity) whole(n Naming) replica.ClaimState {
	want := n.Templates
	if (i.Filled || i.Served) && len(i.Made) > 0 {
		want = i.Made
	}
	if len(want) == 0 && len(i.Claims) == 0 {
		return replica.NoClaims
	}
	for _, c := range i.Claims {
		if !c.DeletionTimestamp.IsZero() {
			return replica.ClaimsEnding
		}
	}
	for _, template := range want {
		if !slices.ContainsFunc(i.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == n.Claim(template, i.Name) }) {
			return replica.ClaimsMissing
		}
	}
	return replica.ClaimsWhole
}

// Held returns the claims with volumes of replicas that were not given up, of StatefulClusters that a test holds for, by UID. What holds the volumes is to come back.
func Held(claims []corev1.PersistentVolumeClaim, wanted func(uid string) bool) []*corev1.PersistentVolumeClaim {
	var out []*corev1.PersistentVolumeClaim
	for i := range claims {
		c := &claims[i]
		if c.DeletionTimestamp.IsZero() && c.Spec.VolumeName != "" && c.Annotations[v1alpha1.AnnotationReplicaState] != "" && !GivenUp(c) &&
			wanted(c.Labels[v1alpha1.LabelStatefulClusterUID]) {
			out = append(out, c)
		}
	}
	return out
}

// Unrecorded counts the claims of which nobody knows whether they hold the data: orphans of which nothing is on record.
func Unrecorded(orphans []*corev1.PersistentVolumeClaim) int {
	n := 0
	for _, c := range orphans {
		if c.Annotations[v1alpha1.AnnotationReplicaState] == "" {
			n++
		}
	}
	return n
}

// Orphans returns the claims that no identity uses or will use, the newest first. Those that are being deleted are not among them.
func Orphans(claims []corev1.PersistentVolumeClaim, identities []*Identity) []*corev1.PersistentVolumeClaim {
	used := map[string]bool{}
	for _, i := range identities {
		used[i.Name] = i.Fate == "" || i.Pod != nil
	}
	var out []*corev1.PersistentVolumeClaim
	for i := range claims {
		if claims[i].DeletionTimestamp.IsZero() && !used[claims[i].Labels[v1alpha1.LabelIdentity]] {
			out = append(out, &claims[i])
		}
	}
	slices.SortFunc(out, func(a, b *corev1.PersistentVolumeClaim) int {
		if c := b.CreationTimestamp.Compare(a.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}
