package nfs

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// unique tells an Nfs of the older one that names the same share, and of those whose path is inside or around its own. A share that has another name
// there is recognised by its identity, once both have reported one.
func (v *View) unique() metav1.Condition {
	var older, alike, inside, around []string
	mine, id := v.nfs.Spec.Path, v.shareID()
	for _, o := range v.world.Others {
		n, ok := o.(*v1alpha1.Nfs)
		switch {
		case !ok:
		case n.Spec.Path == mine && sharedvolume.SameServer(n.Spec.Server, v.nfs.Spec.Server):
			older = append(older, ifBefore(n, v.nfs)...)
		case id != "" && n.Status.ShareID == id:
			alike = append(alike, ifBefore(n, v.nfs)...)
		case !sharedvolume.SameServer(n.Spec.Server, v.nfs.Spec.Server):
		case sharedvolume.Contains(mine, n.Spec.Path):
			inside = append(inside, n.Name)
		case sharedvolume.Contains(n.Spec.Path, mine):
			around = append(around, n.Name)
		}
	}
	not := func(reason, message string) metav1.Condition {
		return backend.Condition(v1alpha1.ConditionShareUnique, metav1.ConditionFalse, reason, message)
	}
	switch {
	case len(older) > 0:
		return not(v1alpha1.ReasonSameShare, fmt.Sprintf(
			"Nfs %s names the same server and path: both work, and both count the same room. Use one of them.", slices.Min(older)))
	case len(alike) > 0:
		return not(v1alpha1.ReasonSameShare, fmt.Sprintf("The share has the identity of that of Nfs %s, which names it otherwise: it is the same share, or a copy. "+
			"If it is the same, both work, and both count the same room: use one of them.", slices.Min(alike)))
	case len(inside)+len(around) > 0:
		return not(v1alpha1.ReasonNestedShare, nestedText(inside, around))
	}
	return backend.Condition(v1alpha1.ConditionShareUnique, metav1.ConditionTrue, v1alpha1.ReasonShareUnique, "No older Nfs names this share.")
}

// ifBefore returns the name of an Nfs that is older than another one.
func ifBefore(n, than *v1alpha1.Nfs) []string {
	if before(n, than) {
		return []string{n.Name}
	}
	return nil
}

// nestedText names the Nfs objects whose paths are inside and around the one of another Nfs.
func nestedText(inside, around []string) string {
	var parts []string
	for where, names := range map[string][]string{"inside": inside, "around": around} {
		if slices.Sort(names); len(names) > 0 {
			parts = append(parts, fmt.Sprintf("The path of Nfs %s is %s the path of this one on the same server.", backend.Shorten(names, 3), where))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ") + " Each refuses directories that the other has volumes in or around, and both count the same room. Use paths beside each other."
}

func before(a, b *v1alpha1.Nfs) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
