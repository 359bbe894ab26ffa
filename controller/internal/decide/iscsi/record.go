package iscsi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/iscsi/recorded"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// record is what Members and volumes say of the LUN and its group. It outranks what is seen.
type record struct {
	recorded.Record
	// group is the UUID of the group; empty before there was one.
	group string
	// misnamed names the PersistentVolumes of the class that name another group than the one that Members have on record.
	misnamed []string
}

func recordOf(w backend.World) record {
	r := record{Record: recorded.Of(w.Members)}
	r.group = r.Group()
	named := groupsOf(w)
	switch {
	case r.Conflict != "":
	case r.group != "":
		// Each handle was made from it. Another one is of no volume of this group, and nothing that is done here goes by a handle.
		delete(named, r.group)
		r.misnamed = slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(named))...)))
	case len(named) > 1:
		r.Conflict = "no Member has a volume group on record, and PersistentVolumes name different ones: " + strings.Join(slices.Sorted(maps.Keys(named)), ", ")
	case len(named) == 1:
		r.group = slices.Collect(maps.Keys(named))[0]
	}
	return r
}

// groupsOf returns the groups that PersistentVolumes name, with these volumes.
func groupsOf(w backend.World) map[string][]string {
	out := map[string][]string{}
	for _, volumes := range w.Volumes {
		for _, v := range volumes {
			if id, err := sharedlun.Parse(v.Handle); err == nil {
				out[id.Group] = append(out[id.Group], v.String())
			}
		}
	}
	return out
}

// refusal says why nothing at all is done for the Iscsi; zero when there is no reason.
func (v *View) refusal() backend.Finding {
	switch {
	case v.rival != "":
		return bad(v1alpha1.ReasonSameTarget, fmt.Sprintf("Iscsi %s uses the target %s already", v.rival, v.seen.Iscsi.Spec.IQN))
	case v.taken != "":
		return bad(v1alpha1.ReasonSameTarget, fmt.Sprintf("the members of Iscsi %s have this LUN on record: one LUN is one Iscsi's", v.taken))
	case v.rec.Conflict != "":
		return bad(v1alpha1.ReasonRecordConflict, v.rec.Conflict)
	case v.rec.IQN != "" && v.rec.IQN != v.seen.Iscsi.Spec.IQN:
		return bad(v1alpha1.ReasonTargetChanged, fmt.Sprintf(
			"the LUN on record is of target %s, spec.iqn is %s: put the name back, or delete this Iscsi and make another one", v.rec.IQN, v.seen.Iscsi.Spec.IQN))
	}
	return backend.Finding{}
}

// claims are the volumes of the group that the API server knows by their names on the LUN, with what a person calls them.
func (v *View) claims() map[string]string {
	out := map[string]string{}
	for _, at := range v.seen.World.Volumes {
		for _, volume := range at {
			if id, err := sharedlun.Parse(volume.Handle); err == nil && id.Group == v.rec.group {
				out[id.Name] = volume.String()
			}
		}
	}
	return out
}

// volumesOfGroup names the PersistentVolumes of the class that are of another group.
func (v *View) volumesOfGroup() metav1.Condition {
	const t = v1alpha1.ConditionVolumesOfGroup
	if len(v.rec.misnamed) == 0 {
		return yes(t, v1alpha1.ReasonVolumesOfGroup, "No PersistentVolume of the class names another volume group.")
	}
	return no(t, v1alpha1.ReasonOtherGroup, fmt.Sprintf("PersistentVolumes of the class name another volume group than %s, which is on record, so that nobody can attach or remove them here: %s. "+
		"All others go on. Delete those that were made by hand, or give them the class of their own Iscsi.", v.rec.group, backend.Shorten(v.rec.misnamed, maxNamed)))
}

// volumesPresent names the PersistentVolumes of the group whose volumes are not on the LUN, as after somebody removed one by hand, or a backup of the API server
// brought back the object of one that was deleted. Whoever attaches one is told so only then.
func (v *View) volumesPresent() metav1.Condition {
	const t = v1alpha1.ConditionVolumesPresent
	g := v.group()
	if r := v.seen.Reading; g == nil && r.Older != "" {
		// What was said was said of what is not on the LUN any more.
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonGroupUnreadable, "Which volumes are on the LUN is not known: "+r.Older)
	}
	if g == nil {
		// The condition LunReady says why there is none. What was said of volumes stands.
		if c := meta.FindStatusCondition(v.seen.Iscsi.Status.Conditions, t); c != nil && c.Reason != v1alpha1.ReasonGroupUnreadable {
			return *c
		} else if c != nil {
			return v.unknown(t, "Which volumes are on the LUN is not known: it was not read since it was in an earlier state.")
		}
		return yes(t, v1alpha1.ReasonVolumesPresent, "No volume is known to be missing.")
	}
	missing := v.missing(g)
	if len(missing) == 0 {
		return yes(t, v1alpha1.ReasonVolumesPresent, "Every volume that a PersistentVolume names is on the LUN.")
	}
	return no(t, v1alpha1.ReasonVolumesMissing, fmt.Sprintf("Volumes that PersistentVolumes name are not on the LUN: %s. Nothing is made in their place. "+
		"Bring the LUN back as it was, or delete the claims.", backend.Shorten(missing, maxNamed)))
}

// missing names the PersistentVolumes of a group that have to be there, and whose volumes the group does not have; ordered.
func (v *View) missing(g *sharedlun.Group) (out []string) {
	there := map[string]bool{}
	for _, volume := range g.Volumes {
		there[volume.Name] = true
	}
	for _, at := range v.seen.World.Volumes {
		for _, volume := range at {
			if id, err := sharedlun.Parse(volume.Handle); err == nil && volume.Expected && id.Group == g.UUID && !there[id.Name] {
				out = append(out, volume.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

func bad(reason, message string) backend.Finding {
	return backend.Finding{Kind: backend.Bad, Reason: reason, Message: message}
}

// fenced reports whether a member is on record as fenced.
func fenced(m *v1alpha1.Member) bool {
	return m != nil && m.Spec.Reservation != nil && m.Spec.Reservation.Fenced
}

// usedByUs reports whether the node ever logged in for this Iscsi: somebody else may have made the records of the target, and may need them.
func (h host) usedByUs() bool {
	if h.mine() {
		return true
	}
	if h.m.Object == nil {
		return false
	}
	_, loggedIn := h.m.Object.Annotations[v1alpha1.AnnotationChap]
	return loggedIn
}

// mine reports whether the node has something of this Iscsi.
func (h host) mine() bool {
	return h.m.Object != nil && (h.m.Object.Spec.Lun != nil || h.m.Object.Spec.Reservation != nil)
}
