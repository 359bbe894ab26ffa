package view

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/osd"
)

// passing adds to a finding the clean disks that are not taken.
func passing(f backend.Finding, passed []string) backend.Finding {
	switch text := "Clean disks that are not taken: " + backend.Shorten(passed, 5); {
	case len(passed) == 0:
	case f.IsZero():
		f.Message = "The member serves volumes. " + text
	default:
		f.Message = strings.TrimSuffix(f.Message, ".") + ". " + text
	}
	return f
}

// found says how the OSDs of a host are.
func (v *View) found(node string, r v1alpha1.MemberCeph) backend.Finding {
	var waits []string
	for _, o := range r.OSDs {
		if !v.runs(o.UUID) {
			waits = append(waits, string(o.Path))
		}
	}
	told, served := v.waits(node), Noted(v.seen.Cluster, v1alpha1.AnnotationCephServed)
	switch {
	case len(r.OSDs) == 0:
		return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonNoCleanDevice, Message: "has no disk that can become an OSD"}
	case len(waits) == 0:
		return backend.Finding{}
	case len(told) > 0 && served:
		return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonOSDWaiting, Message: backend.Shorten(told, 5)}
	case served && !v.seen.Current:
		if f := v.unasked(r); !f.IsZero() {
			return f
		}
	}
	return backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "its disks become OSDs: " + backend.Shorten(append(told, waits...), 5)}
}

// unasked says how the OSDs of a host are that do not run, as far as it is known while Ceph does not say it now. It is zero for disks that are still to become OSDs.
func (v *View) unasked(r v1alpha1.MemberCeph) backend.Finding {
	t := v.seen.Ceph
	if t == nil || t.Map == nil {
		if v.seen.Asking == BeingAsked {
			return backend.Finding{Kind: backend.Busy, Reason: v1alpha1.ReasonPreparing, Message: "Ceph is being asked whether its OSDs run"}
		}
		return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonCephUnreachable, Message: "nobody can say whether its OSDs run: " + or(v.seen.Asking, "Ceph does not answer.")}
	}
	var down []string
	for _, o := range t.Map.OSDs {
		if i := slices.IndexFunc(r.OSDs, func(x v1alpha1.MemberOSD) bool { return x.UUID == o.UUID }); i >= 0 && !o.Up && !o.New {
			down = append(down, fmt.Sprintf("osd.%d on %s", o.ID, r.OSDs[i].Path))
		}
	}
	if len(down) == 0 {
		return backend.Finding{}
	}
	return backend.Finding{
		Kind: backend.Bad, Reason: v1alpha1.ReasonOSDWaiting, Message: "its OSDs did not run when Ceph said last how they are: " + backend.Shorten(down, 5) + "." + v.stale(),
	}
}

// nameless tells of disks without WWN and serial number that are empty at the path of an OSD which is given up. Nobody can tell whether such a disk is that of the OSD, so that its record stands for
// it: it becomes no OSD before Ceph has forgotten that one.
func (v *View) nameless(p *plan) {
	for _, n := range v.nodes() {
		for _, o := range record(v.member(n)).OSDs {
			known, id := v.known(o.UUID)
			if o.WWN == "" && o.Serial == "" && o.Replaced && known == ceph.Yes && v.seen.Verdicts[o.UUID].Kind == osd.Empty {
				p.wait("Disk %s on %s is clean, and has neither a WWN nor a serial number: nobody can tell whether it is the one of osd.%d, which is given up, or another one in its place. It is not taken while Ceph knows that OSD. "+
					"Attach it at another place of the host, with another path: there it counts as another disk.", o.Path, n, id)
			}
		}
	}
}

// draining says what the removal of a host waits for.
func (v *View) draining(node string, r v1alpha1.MemberCeph) backend.Finding {
	if v.empty(r) && !v.daemonOn(node) {
		return backend.Finding{}
	}
	text := "is being emptied"
	if told := v.waits(node); len(told) > 0 {
		text += ": " + backend.Shorten(told, 5)
	}
	return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonDraining, Message: text}
}

// waits are the sentences about one host.
func (v *View) waits(node string) []string {
	var out []string
	for _, w := range v.plan.waits {
		if slices.ContainsFunc(strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune(" ,:()", r) }), func(word string) bool { return strings.TrimSuffix(word, ".") == node }) {
			out = append(out, w)
		}
	}
	return out
}
