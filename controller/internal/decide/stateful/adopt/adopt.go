// Package adopt decides which pods that nobody controls a StatefulCluster takes over with their claims, and which kept claims come back under a replica. The latter a person
// names. It says which can be, and why others cannot. It is pure.
package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Input is what is decided on.
type Input struct {
	// Owner is the name of the StatefulCluster, and UID its UID.
	Owner, UID string
	// Named are the claims that a person named, in that order.
	Named []string
	// Claims are all that have the label of the name, and Pods are, too.
	Claims []corev1.PersistentVolumeClaim
	Pods   []corev1.Pod
	// Selector of the replicas.
	Selector labels.Selector
	// Live are the identities that the StatefulCluster has, without those that were given up.
	Live map[string]bool
	// Users are the pods that have a claim, by its name. A pod that has ended has none.
	Users map[string]string
	// Templates are what claims are made from now, by name, and ClaimName is how they are called.
	Templates map[string]corev1.PersistentVolumeClaimSpec
	ClaimName func(template, identity string) string
}

// Refusal is a claim that cannot be adopted.
type Refusal struct {
	// Claim is its name.
	Claim string
	// Why is a part of a sentence, without a period.
	Why string
	// Passing says that it may be over by itself.
	Passing bool
}

// Choice is what becomes of the claims that were named.
type Choice struct {
	// Identity of the replica that comes back first; empty when none does.
	Identity string
	// Claims of it.
	Claims []*corev1.PersistentVolumeClaim
	// Refused are the claims named before it that cannot be adopted.
	Refused []Refusal
}

// Choose takes the first replica of which all claims can be adopted.
func Choose(in Input) Choice {
	var out Choice
	seen := map[string]bool{}
	for _, name := range in.Named {
		c := in.find(name)
		if c == nil {
			out.Refused = append(out.Refused, Refusal{Claim: name, Why: fmt.Sprintf("there is no claim of that name with the label %s=%s", v1alpha1.LabelStatefulCluster, in.Owner)})
			continue
		}
		identity := c.Labels[v1alpha1.LabelIdentity]
		if seen[identity] || in.Live[identity] {
			continue
		}
		if c.Annotations[v1alpha1.AnnotationAdopted] == in.UID {
			// It may have been adopted with its pod, and nobody ever named it before: in silence something empty would begin in its place.
			seen[identity] = true
			out.Refused = append(out.Refused, Refusal{Claim: name, Why: fmt.Sprintf(
				"its replica was adopted before, and given up since; take the annotation %s off its claims to have it adopted once more, or take it off spec.adopt", v1alpha1.AnnotationAdopted)})
			continue
		}
		seen[identity] = identity != ""
		claims, refused := in.whole(identity, c)
		if refused == nil {
			out.Identity, out.Claims = identity, claims
			return out
		}
		out.Refused = append(out.Refused, *refused)
	}
	return out
}

func (in Input) find(name string) *corev1.PersistentVolumeClaim {
	for i := range in.Claims {
		if in.Claims[i].Name == name {
			return &in.Claims[i]
		}
	}
	return nil
}

// whole returns all claims of a replica, or why one of them keeps it from coming back.
func (in Input) whole(identity string, named *corev1.PersistentVolumeClaim) (claims []*corev1.PersistentVolumeClaim, refused *Refusal) {
	if identity == "" {
		return nil, &Refusal{Claim: named.Name, Why: "it has no label " + v1alpha1.LabelIdentity}
	}
	for i := range in.Claims {
		c := &in.Claims[i]
		if c.Labels[v1alpha1.LabelIdentity] != identity {
			continue
		}
		if refused := in.refuse(c, identity); refused != nil {
			return nil, refused
		}
		claims = append(claims, c)
	}
	for _, template := range madeOf(claims) {
		if !slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == in.ClaimName(template, identity) }) {
			return nil, &Refusal{Claim: named.Name, Why: "its replica had another claim, of the template " + template + ", which is not there"}
		}
	}
	return claims, nil
}

// madeOf are the claim templates that a replica has claims of, as these have it on record.
func madeOf(claims []*corev1.PersistentVolumeClaim) []string {
	var out []string
	for _, c := range claims {
		if text := c.Annotations[v1alpha1.AnnotationClaims]; text != "" {
			out = append(out, strings.Split(text, ",")...)
		}
	}
	return out
}

// refuse says why a claim that a person may have named cannot be adopted; nil when it can.
func (in Input) refuse(c *corev1.PersistentVolumeClaim, identity string) *Refusal {
	if !slices.Contains(in.Named, c.Name) {
		return &Refusal{Claim: c.Name, Why: "it is of the same replica as one that is named, and is not named itself"}
	}
	if why := in.misfit(c, identity); why != "" {
		return &Refusal{Claim: c.Name, Why: why}
	}
	if pod := in.Users[c.Name]; pod != "" {
		return &Refusal{Claim: c.Name, Why: "pod " + pod + " uses it", Passing: true}
	}
	return nil
}

// misfit says why a claim cannot be one of a replica of the StatefulCluster; empty when it can.
func (in Input) misfit(c *corev1.PersistentVolumeClaim, identity string) string {
	template := ""
	for name := range in.Templates {
		if c.Name == in.ClaimName(name, identity) {
			template = name
		}
	}
	switch {
	case template == "":
		return fmt.Sprintf("it is not called after a claim template and the identity %s", identity)
	case c.Labels[v1alpha1.LabelStatefulClusterUID] == "":
		return fmt.Sprintf("it has no label %s", v1alpha1.LabelStatefulClusterUID)
	case !c.DeletionTimestamp.IsZero():
		return "it is being deleted"
	case c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "":
		return "it has no volume"
	}
	for _, o := range c.OwnerReferences {
		if string(o.UID) != in.UID {
			return fmt.Sprintf("it goes with %s %s, which owns it", o.Kind, o.Name)
		}
	}
	if why := differs(in.Templates[template], c.Spec); why != "" {
		return fmt.Sprintf("%s, other than that of the claim template %s", why, template)
	}
	return ""
}

// differs says what keeps a claim from standing in for one that the template makes. Its size may be another, as that of a replica made before is.
func differs(want, have corev1.PersistentVolumeClaimSpec) string {
	mode := func(s corev1.PersistentVolumeClaimSpec) corev1.PersistentVolumeMode {
		if s.VolumeMode == nil {
			return corev1.PersistentVolumeFilesystem
		}
		return *s.VolumeMode
	}
	class := func(s corev1.PersistentVolumeClaimSpec) string {
		if s.StorageClassName == nil {
			return ""
		}
		return *s.StorageClassName
	}
	switch {
	// A template without a class takes the default one, which a claim that was made has.
	case want.StorageClassName != nil && class(want) != class(have):
		return fmt.Sprintf("its StorageClass is %q", class(have))
	case mode(want) != mode(have):
		return "its volume mode is " + string(mode(have))
	}
	for _, m := range want.AccessModes {
		if !slices.Contains(have.AccessModes, m) {
			return "it lacks the access mode " + string(m)
		}
	}
	return ""
}

// Stops says why nothing begins empty now, and "" if nothing keeps it from that. What may pass is waited for. What may not holds up only while no
// replica is known to have had the data: else a mistyped name would keep a lost replica from being replaced.
func (c Choice) Stops(known bool) string {
	for _, r := range c.Refused {
		if r.Passing || !known {
			return c.Text()
		}
	}
	return ""
}

// Text tells all refusals.
func (c Choice) Text() string {
	texts := make([]string, 0, len(c.Refused))
	for _, r := range c.Refused {
		texts = append(texts, fmt.Sprintf("Claim %s of spec.adopt cannot be adopted: %s.", r.Claim, r.Why))
	}
	return strings.Join(texts, " ")
}
