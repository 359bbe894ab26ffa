package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Takeover is a replica whose pod runs on as one of the StatefulCluster, with its claims.
type Takeover struct {
	Pod *corev1.Pod
	// Claims of it that the StatefulCluster does not have yet. They come first: while the pod is still nobody's, a replica with claims and without that pod is waited for,
	// and one with that pod and without claims would count as lost.
	Claims []*corev1.PersistentVolumeClaim
	// Controlled: the StatefulCluster has the pod already.
	Controlled bool
}

// Stray is a pod with the labels of a replica that is none of the StatefulCluster's, and stays so.
type Stray struct {
	// Pod is its name, and Identity that of its replica.
	Pod, Identity string
	// Why it is not adopted is a part of a sentence, without a period.
	Why string
	// GivenUp says that its replica was given up on record: nothing waits for it.
	GivenUp bool
	// Runs says that it has not ended, and that nobody else controls it.
	Runs bool
}

// Pods decides which pods with the labels of replicas are adopted, and says of the others why not. As in apps/v1 a pod is adopted if the selector matches, nobody controls it
// and it is not being deleted. Beyond that it is so only together with all claims of its replica. Its template may be another one than that of now.
func Pods(in Input) (taken []Takeover, strays []Stray) {
	for i := range in.Pods {
		p := &in.Pods[i]
		identity := p.Labels[v1alpha1.LabelIdentity]
		controller := metav1.GetControllerOf(p)
		ours := controller != nil && string(controller.UID) == in.UID
		switch {
		case identity == "" || ours && !in.follows(identity):
			continue
		case controller != nil && !ours:
			strays = append(strays, Stray{Pod: p.Name, Identity: identity, Why: fmt.Sprintf("%s %s controls it", controller.Kind, controller.Name)})
			continue
		}
		claims, why := in.ofPod(p, identity)
		switch {
		case why == "" && (!ours || len(claims) > 0):
			taken = append(taken, Takeover{Pod: p, Claims: claims, Controlled: ours})
		case why != "" && !ours:
			strays = append(strays, Stray{Pod: p.Name, Identity: identity, Why: why, GivenUp: in.givenUp(identity), Runs: !nodes.Ended(p)})
		}
	}
	slices.SortFunc(taken, func(a, b Takeover) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	slices.SortFunc(strays, func(a, b Stray) int { return strings.Compare(a.Pod, b.Pod) })
	return taken, strays
}

// follows reports whether claims of an identity are still to be taken.
func (in Input) follows(identity string) bool {
	return slices.ContainsFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool {
		return c.Labels[v1alpha1.LabelIdentity] == identity && c.Labels[v1alpha1.LabelStatefulClusterUID] != in.UID
	})
}

// Standing counts the pods that stand in the place of a replica that would begin empty: each may run with the data, and its replica was neither given up on record nor is it one that
// the StatefulCluster has.
func Standing(taken []Takeover, strays []Stray, has func(identity string) bool) int {
	n := 0
	for _, t := range taken {
		if !t.Controlled && !nodes.Ended(t.Pod) && !has(t.Pod.Labels[v1alpha1.LabelIdentity]) {
			n++
		}
	}
	for _, s := range strays {
		if s.Runs && !s.GivenUp && !has(s.Identity) {
			n++
		}
	}
	return n
}

// Tell puts strays into one sentence; it is empty without any.
func Tell(strays []Stray) string {
	const shown = 5
	var texts []string
	for _, s := range strays[:min(len(strays), shown)] {
		texts = append(texts, s.Pod+" ("+s.Why+")")
	}
	if more := len(strays) - shown; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	if len(texts) == 0 {
		return ""
	}
	return "Not adopted, and not touched, are pods with the labels of replicas: " + strings.Join(texts, ", ") + "."
}

// ofPod returns the claims that are still to be taken with a pod, or why it is not adopted.
func (in Input) ofPod(p *corev1.Pod, identity string) (claims []*corev1.PersistentVolumeClaim, why string) {
	switch {
	case !p.DeletionTimestamp.IsZero():
		return nil, "it is being deleted"
	case p.Name != in.Owner+"-"+identity:
		return nil, "it is not called after its label " + v1alpha1.LabelIdentity
	case !in.Selector.Matches(labels.Set(p.Labels)):
		return nil, "spec.selector does not match its labels"
	case p.Labels[appsv1.ControllerRevisionHashLabelKey] == "":
		return nil, "it has no label " + appsv1.ControllerRevisionHashLabelKey
	}
	uses := claimsOf(p)
	var all []*corev1.PersistentVolumeClaim
	for i := range in.Claims {
		c := &in.Claims[i]
		if c.Labels[v1alpha1.LabelIdentity] != identity && !uses[c.Name] {
			continue
		}
		if why := in.foreign(c, identity, uses); why != "" {
			return nil, fmt.Sprintf("claim %s: %s", c.Name, why)
		}
		if all = append(all, c); c.Labels[v1alpha1.LabelStatefulClusterUID] != in.UID {
			claims = append(claims, c)
		}
	}
	if why := in.lacks(identity, uses, all); why != "" {
		return nil, why
	}
	for i := range in.Pods {
		o := &in.Pods[i]
		if o.Name != p.Name && !nodes.Ended(o) && slices.ContainsFunc(all, func(c *corev1.PersistentVolumeClaim) bool { return claimsOf(o)[c.Name] }) {
			return nil, fmt.Sprintf("pod %s uses its claims, too", o.Name)
		}
	}
	return claims, ""
}

// foreign says why a claim is not one that the pod of an identity is adopted with; empty when it is one. One that the StatefulCluster has already is of no other.
func (in Input) foreign(c *corev1.PersistentVolumeClaim, identity string, uses map[string]bool) string {
	switch {
	case c.Labels[v1alpha1.LabelIdentity] != identity:
		return "it is of another identity, " + c.Labels[v1alpha1.LabelIdentity]
	case !uses[c.Name]:
		return "it is of the same identity, and the pod does not use it"
	case record.GivenUp(c):
		return "its replica was given up on record"
	case c.Labels[v1alpha1.LabelStatefulClusterUID] == in.UID && c.DeletionTimestamp.IsZero():
		return ""
	}
	return in.misfit(c, identity)
}

// lacks says which claim of a replica is not there; empty when all are: those that its pod uses under their names, and those that were made for it.
func (in Input) lacks(identity string, uses map[string]bool, have []*corev1.PersistentVolumeClaim) string {
	there := func(name string) bool {
		return slices.ContainsFunc(have, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
	}
	for _, template := range slices.Sorted(maps.Keys(in.Templates)) {
		if name := in.ClaimName(template, identity); uses[name] && !there(name) {
			return fmt.Sprintf("its claim %s is not there, or has not the labels of a replica", name)
		}
	}
	for _, template := range madeOf(have) {
		if name := in.ClaimName(template, identity); !there(name) {
			return fmt.Sprintf("its replica had another claim, %s, which is not there", name)
		}
	}
	if len(have) == 0 && len(in.Templates) > 0 {
		return "it has no claim, and spec.volumeClaimTemplates asks for some"
	}
	return ""
}

// givenUp reports whether a claim of an identity says that its replica was given up.
func (in Input) givenUp(identity string) bool {
	return slices.ContainsFunc(in.Claims, func(c corev1.PersistentVolumeClaim) bool {
		return c.Labels[v1alpha1.LabelIdentity] == identity && record.GivenUp(&c)
	})
}

// claimsOf returns the names of the claims that a pod uses.
func claimsOf(p *corev1.Pod) map[string]bool {
	out := map[string]bool{}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out[v.PersistentVolumeClaim.ClaimName] = true
		}
	}
	return out
}
