// Package adopt decides which kept claims come back under a replica. A person names them; it says which can be, and why others cannot. It is pure.
package adopt

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Input is what is decided on.
type Input struct {
	// Owner is the name of the StatefulCluster, and UID its UID.
	Owner, UID string
	// Named are the claims that a person named, in that order.
	Named []string
	// Claims are all that have the label of the name.
	Claims []corev1.PersistentVolumeClaim
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
		if seen[identity] || in.Live[identity] || c.Annotations[v1alpha1.AnnotationAdopted] == in.UID {
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
	var made []string
	for i := range in.Claims {
		c := &in.Claims[i]
		if c.Labels[v1alpha1.LabelIdentity] != identity {
			continue
		}
		if refused := in.refuse(c, identity); refused != nil {
			return nil, refused
		}
		claims = append(claims, c)
		if text := c.Annotations[v1alpha1.AnnotationClaims]; text != "" {
			made = append(made, strings.Split(text, ",")...)
		}
	}
	for _, template := range made {
		if !slices.ContainsFunc(claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == in.ClaimName(template, identity) }) {
			return nil, &Refusal{Claim: named.Name, Why: "its replica had another claim, of the template " + template + ", which is not there"}
		}
	}
	return claims, nil
}

// refuse says why a claim cannot be adopted; nil when it can.
func (in Input) refuse(c *corev1.PersistentVolumeClaim, identity string) *Refusal {
	no := func(format string, args ...any) *Refusal {
		return &Refusal{Claim: c.Name, Why: fmt.Sprintf(format, args...)}
	}
	template := ""
	for name := range in.Templates {
		if c.Name == in.ClaimName(name, identity) {
			template = name
		}
	}
	switch {
	case !slices.Contains(in.Named, c.Name):
		return no("it is of the same replica as one that is named, and is not named itself")
	case template == "":
		return no("it is not called after a claim template and the identity %s", identity)
	case c.Labels[v1alpha1.LabelStatefulClusterUID] == "":
		return no("it has no label %s", v1alpha1.LabelStatefulClusterUID)
	case !c.DeletionTimestamp.IsZero():
		return no("it is being deleted")
	case c.Status.Phase != corev1.ClaimBound || c.Spec.VolumeName == "":
		return no("it has no volume")
	}
	for _, o := range c.OwnerReferences {
		if string(o.UID) != in.UID {
			return no("it goes with %s %s, which owns it", o.Kind, o.Name)
		}
	}
	if why := differs(in.Templates[template], c.Spec); why != "" {
		return no("%s, other than that of the claim template %s", why, template)
	}
	if pod := in.Users[c.Name]; pod != "" {
		return &Refusal{Claim: c.Name, Why: "pod " + pod + " uses it", Passing: true}
	}
	return nil
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
