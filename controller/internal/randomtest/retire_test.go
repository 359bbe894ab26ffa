package randomtest

import (
	"math/rand/v2"
	"slices"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// retire has a person give up a disk of a group, or take that back.
func (w *world) retire(r *rand.Rand) {
	m, ok := pick(r, w.members())
	h := w.hostOf(string(m.Spec.Node))
	if !ok || h == nil || m.Spec.Group == nil {
		return
	}
	if len(m.Spec.Retire) > 0 && r.IntN(2) == 0 {
		edit(w, &m, func(m *v1alpha1.Member) { m.Spec.Retire = nil })
		return
	}
	for _, g := range h.Groups() {
		if g.UUID != m.Spec.Group.UUID {
			continue
		}
		if d, ok := pick(r, g.Disks); ok {
			path := v1alpha1.DevicePath(h.Path(d))
			edit(w, &m, func(m *v1alpha1.Member) {
				if !slices.ContainsFunc(m.Spec.Retire, func(d v1alpha1.RetiredDevice) bool { return d.Path == path }) {
					m.Spec.Retire = append(m.Spec.Retire, v1alpha1.RetiredDevice{Path: path})
				}
			})
		}
	}
}

// listed are the disks that Members list as given up, with whether each is in a group of ours.
func (w *world) listed() map[spot]bool {
	out := map[spot]bool{}
	for _, m := range w.members() {
		h := w.hostOf(string(m.Spec.Node))
		for _, given := range m.Spec.Retire {
			for _, d := range h.Disks() {
				if h.Path(d) == string(given.Path) {
					_, foreign := w.foreign[spot{h.name, d}]
					out[spot{h.name, string(given.Path)}] = h.Member(d) && !foreign
				}
			}
		}
	}
	return out
}

// leftGroups notes which of the disks that are given up have left their groups, once nothing is on its way.
func (w *world) leftGroups() {
	if !w.ctl.settled() || slices.ContainsFunc(w.hosts, func(h *host) bool { return h.Held() > 0 || !h.Alive() }) {
		return
	}
	for s, member := range w.listed() {
		if !member && !w.out[s] {
			w.out[s] = true
			w.gaveUp++
		}
	}
}

// retiredStayOut: a disk that has left its group is taken by nobody as long as a Member lists it.
func (w *world) retiredStayOut() {
	listed := w.listed()
	for s := range w.out {
		member, still := listed[s]
		switch {
		case !still:
			delete(w.out, s)
		case member:
			w.fail("retired disks stay out", "%s of %s is in a group again", s.disk, s.host)
		}
	}
}

// retires reports whether the host of a volume gives up a disk. While something is on its way from one disk to another, and while there is no room for
// it, nothing is made and nothing grows there.
func (w *world) retires(handle string) bool {
	v := w.ledger[handle]
	return v != nil && w.retiring(v.host, v.as.OwnerUID)
}

func (w *world) retiring(node, owner string) bool {
	return slices.ContainsFunc(w.members(), func(m v1alpha1.Member) bool {
		return string(m.Spec.Node) == node && (string(m.Spec.Of.UID) == owner || m.Spec.Of.Name == owner) && len(m.Spec.Retire) > 0
	})
}
