package randomtest

import (
	"maps"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// declare has a person say that a node and what is on its disks are gone for ever, where the policy on Members lets anybody say that. The person
// deletes the claims of the node, too, those without a volume that were tried there included, and its snapshots are given up.
func (w *world) declare(r *rand.Rand) {
	m, ok := pick(r, w.declarable())
	if !ok {
		return
	}
	uuid, node := m.Spec.Group.UUID, string(m.Spec.Node)
	edit(w, &m, func(m *v1alpha1.Member) { m.Spec.Lost = string(m.UID) })
	w.lost[uuid] = true
	for _, c := range slices.Clone(w.claims) {
		v := w.ledger[c.handle]
		switch {
		case v != nil && v.as.GroupUUID == uuid && v.host == node:
			w.close(c)
			c.deleting = true
		case c.handle == "" && w.inGroup(c.from, uuid):
			// Nobody waits for a copy of what is gone.
			w.abandon(c)
		case c.uncertain && c.node == node && c.cluster == m.Spec.Of.Name:
			// Its volume may be in what is gone, and would be found there if the node is back after all.
			c.deleting = true
		}
	}
	for _, s := range slices.Clone(w.snapshots) {
		if w.inGroup(s.handle, uuid) || s.handle == "" && w.inGroup(s.source, uuid) {
			s.uncertain = true
			w.dropSnapshot(s)
		}
	}
}

// inGroup reports whether a volume or snapshot of a handle is in a group.
func (w *world) inGroup(handle, uuid string) bool {
	if v := w.ledger[handle]; v != nil {
		return v.as.GroupUUID == uuid
	}
	return handle != "" && slices.ContainsFunc(w.snapshots, func(s *snapshot) bool { return s.handle == handle && s.as.GroupUUID == uuid })
}

// declarable are the Members of which a person may say so. The policy is the one of deploy/base/member-admission.yaml. Nobody says it of a group that
// is in another node.
func (w *world) declarable() []v1alpha1.Member {
	return slices.DeleteFunc(w.members(), func(m v1alpha1.Member) bool {
		said := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionRecordReported)
		return said == nil || said.Status != "False" || meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) ||
			m.Spec.Lost != "" || m.Spec.Group == nil || m.Spec.Group.UUID == "" || w.isAway(m.Spec.Group.UUID, string(m.Spec.Node))
	})
}

// bury does what a person does once a lost node is there after all. A word that nobody has acted upon is taken back. A group whose Member is gone is
// nobody's: its disks are cleaned by hand. It reports whether anything was done.
func (w *world) bury() (did bool) {
	recorded := map[string]bool{}
	for _, m := range w.members() {
		if m.Spec.Group == nil || !w.lost[m.Spec.Group.UUID] {
			continue
		}
		recorded[m.Spec.Group.UUID] = true
		if m.DeletionTimestamp.IsZero() {
			edit(w, &m, func(m *v1alpha1.Member) { m.Spec.Lost = "" })
			delete(w.lost, m.Spec.Group.UUID)
			did = true
		}
	}
	for _, h := range w.hosts {
		for _, g := range h.Groups() {
			if w.lost[g.UUID] && !recorded[g.UUID] {
				w.buried++
				h.DropGroup(g.Name)
				// What no object tells of since a restore goes with it.
				maps.DeleteFunc(w.ledger, func(_ string, v *volume) bool { return v.forgotten && v.as.GroupUUID == g.UUID })
				did = true
			}
		}
	}
	return did
}
