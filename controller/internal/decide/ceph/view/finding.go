package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephvolume"
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

// because is the end of a message that has reasons.
func because(why []string) string {
	if len(why) == 0 {
		return ""
	}
	return ": " + backend.Shorten(why, 5)
}

// found says how the OSDs of a host are.
func (v *View) found(node string, r v1alpha1.MemberCeph) backend.Finding {
	var waits []string
	for _, o := range r.OSDs {
		if !v.runs(o.UUID) {
			waits = append(waits, string(o.Path))
		}
	}
	told, served := v.waits(node), noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephServed)
	switch {
	case len(r.OSDs) == 0:
		return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonNoCleanDevice, Message: "has no disk that can become an OSD"}
	case len(waits) == 0:
		return backend.Finding{}
	case len(told) > 0 && served:
		return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonOSDWaiting, Message: backend.Shorten(told, 5)}
	case served && (!v.seen.Current || v.seen.Ceph.Map == nil):
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

// misplaced tells of disks in a wrong host, and of disks without WWN and serial number that are empty at the path of an OSD which is given up. Nobody can tell whether such a disk is that of the OSD, so that its record stands for
// it: it becomes no OSD before Ceph has forgotten that one.
func (v *View) misplaced(p *plan) {
	for _, s := range osdrecord.Strays(v.seen.Nodes, v.seen.World.Members) {
		p.wait("Disk %s of host %s, with an OSD, is seen in host %s now, as %s. Put it back into %[2]s: an OSD does not move with its disk by itself.", s.OSD.Path, s.Host, s.At, s.Path)
	}
	for _, n := range v.nodes() {
		for _, o := range record(v.member(n)).OSDs {
			known, id := v.known(o.UUID)
			if osdrecord.Nameless(o) && o.Replaced && known == ceph.Yes && v.seen.Verdicts[o.UUID].Kind == osd.Empty {
				p.wait("Disk %s on %s is clean, and has neither a WWN nor a serial number: nobody can tell whether it is the one of osd.%d, which is given up, or another one in its place. It is not taken while Ceph knows that OSD. "+
					"Attach it at another place of the host, with another path: there it counts as another disk.", o.Path, n, id)
			}
		}
	}
}

// recordedAt tells of a disk that another host of the Cluster has on record: it was there before. Its OSD would have the same UUID, and what is done to give up the one would be done to the other.
func (v *View) recordedAt(host string, d decide.Device) string {
	at := osdrecord.RecordedAt(host, d, v.seen.Nodes, v.seen.World.Members)
	if at == "" {
		return ""
	}
	return fmt.Sprintf("%s is on record as the disk of an OSD of host %s: put it back there, or give that OSD up, and it is taken here once it is off the record of %[2]s", d.Path, at)
}

// draining says what the removal of a host waits for.
func (v *View) draining(node string, r v1alpha1.MemberCeph) backend.Finding {
	if v.empty(r) && !v.daemonOn(node) {
		return backend.Finding{}
	}
	text := "is being emptied"
	// Who switches the host off for good has to know that disks still have something on them.
	if len(r.OSDs) > 0 {
		text += fmt.Sprintf(", and %d of its disks are not given back yet (status.devices)", len(r.OSDs))
	}
	if told := v.waits(node); len(told) > 0 {
		text += ": " + backend.Shorten(told, 5)
	}
	return backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonDraining, Message: text}
}

// A list of the volumes that is compared with PersistentVolumes is older than settled, and not as old as listed. A PersistentVolume that is bound settled after the list was made was bound then; one that has to
// be there is older than listed.
const (
	settled = 5 * time.Second
	listed  = time.Minute
)

// volumesPresent names the PersistentVolumes whose volumes are not in the filesystem, as after somebody removed one by hand, after a backup of the API server brought back the object of one that
// was deleted, and after the Cluster was made again. While nobody can list the volumes, what was said of them stands.
func (v *View) volumesPresent() metav1.Condition {
	const t = v1alpha1.ConditionVolumesPresent
	told := v.seen.Ceph
	current := false
	if told != nil && told.Volumes != nil {
		age := v.seen.Now.Sub(told.Listed)
		current = age >= settled && age < listed
	}
	gone, foreign := v.missing(current)
	before := meta.FindStatusCondition(v.seen.Cluster.Status.Conditions, t)
	switch {
	case len(gone)+len(foreign) > 0:
		text := "Nothing is made in their place. If they are not needed, delete the claims, and the PersistentVolumes that stay."
		if len(foreign) > 0 {
			text = fmt.Sprintf("PersistentVolumes name volumes of another Ceph cluster, such as that of an earlier Cluster of this name: %s. ", backend.Shorten(foreign, 10)) + text
		}
		if len(gone) > 0 {
			text = fmt.Sprintf("Volumes that PersistentVolumes name are not in the filesystem: %s. ", backend.Shorten(gone, 10)) + text
		}
		return no(t, v1alpha1.ReasonVolumesMissing, text)
	case !current && before != nil:
		return *before
	case !current && v.named():
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Nobody has compared the volumes that PersistentVolumes name with those in the filesystem yet."+v.stale())
	case !current:
		return yes(t, v1alpha1.ReasonVolumesPresent, "No volume is known to be missing.")
	}
	return yes(t, v1alpha1.ReasonVolumesPresent, "Every volume that a PersistentVolume names is in the filesystem.")
}

// missing names the PersistentVolumes that have to be there, and whose volumes are not in the filesystem, or in that of no Cluster. Without a list that is current nobody knows of the former.
func (v *View) missing(current bool) (gone, foreign []string) {
	own := v.seen.Cluster.FSID()
	for _, at := range v.seen.World.Volumes {
		for _, volume := range at {
			id, err := cephvolume.Parse(volume.Handle)
			switch {
			case err != nil || !volume.Expected:
			case id.FSID == own:
				if current && !slices.Contains(*v.seen.Ceph.Volumes, id.Name) {
					gone = append(gone, volume.String())
				}
			case volume.Bound && !v.living(id.FSID):
				foreign = append(foreign, volume.String())
			}
		}
	}
	slices.Sort(gone)
	slices.Sort(foreign)
	return gone, foreign
}

// named reports whether a PersistentVolume names a volume in the filesystem that has to be there.
func (v *View) named() bool { return v.namedIf(func(x backend.Volume) bool { return x.Expected }) }

// names reports whether any PersistentVolume names a volume in the filesystem: a restore makes it a moment before the Cluster, and binds it later.
func (v *View) names() bool { return v.namedIf(func(backend.Volume) bool { return true }) }

func (v *View) namedIf(is func(backend.Volume) bool) bool {
	for _, at := range v.seen.World.Volumes {
		for _, volume := range at {
			if id, err := cephvolume.Parse(volume.Handle); err == nil && is(volume) && id.FSID == v.seen.Cluster.FSID() {
				return true
			}
		}
	}
	return false
}

// earlier says why nothing of the Cluster may be begun; empty once its keys are made, and if no PersistentVolume of it names a Ceph cluster that no storage is.
// A Cluster that is restored without its UID, or is made again under its name, finds its volumes so, and the disks that they are on may be among its hosts'. A
// PersistentVolume counts whatever its age and phase: a restore makes it a moment before the Cluster, and binds it later. The Cluster makes no Ceph cluster
// beside them (backends.md section 2, rule 12): that one would take the clean disks, and with them the room that the earlier one needs to heal.
func (v *View) earlier() string {
	c := v.seen.Cluster
	if noted.Is(c, v1alpha1.AnnotationCephKeys) || v.deleting() {
		return ""
	}
	if twin := v.twin(c.FSID()); twin != "" {
		return fmt.Sprintf("Nothing is begun: the Ceph cluster %s, which spec.ceph.takeUp names, is that of Cluster %s.", c.FSID(), twin)
	}
	var of, named []string
	for _, at := range v.seen.World.Volumes {
		for _, volume := range at {
			if id, err := cephvolume.Parse(volume.Handle); err == nil && !v.living(id.FSID) {
				of, named = append(of, id.FSID), append(named, volume.String())
			}
		}
	}
	if len(named) == 0 {
		return ""
	}
	slices.Sort(of)
	slices.Sort(named)
	return fmt.Sprintf("No Ceph cluster is made, and no disk is taken: PersistentVolumes name volumes of the Ceph cluster %s, which no Cluster has any more: %s. "+
		"Restore the API server with the Cluster of that UID, or have this Cluster take the earlier Ceph cluster up (spec.ceph.takeUp). If the volumes are not needed, give the PersistentVolumes the reclaim policy Retain, and delete their claims and them.",
		backend.Shorten(slices.Compact(of), 3), backend.Shorten(named, 10))
}

// twin is the name of another Cluster whose Ceph cluster has an FSID; empty if there is none.
func (v *View) twin(fsid string) string {
	for _, o := range v.seen.World.Others {
		if c, is := o.(*v1alpha1.Cluster); is && c.FSID() == fsid {
			return c.Name
		}
	}
	return ""
}

// living reports whether the Ceph cluster of the Cluster, or of another one, has an FSID.
func (v *View) living(fsid string) bool {
	return fsid == v.seen.Cluster.FSID() || v.twin(fsid) != ""
}

// unserved reports whether a check says that placement groups serve nothing, for about a minute or for good, or that a person has paused all reads or writes. Ceph only warns of it, and whatever uses them hangs.
func unserved(check string) bool {
	name, text, _ := strings.Cut(check, ":")
	return name == "PG_AVAILABILITY" || name == "OSDMAP_FLAGS" && (strings.Contains(text, "pauserd") || strings.Contains(text, "pausewr"))
}

// blocklist says whether every address on Ceph's blocklist is there by the record of the Cluster.
func (v *View) blocklist() metav1.Condition {
	const t = v1alpha1.ConditionBlocklistKnown
	records, err := noted.Blocked(v.seen.Cluster)
	switch told := v.seen.Ceph; {
	case err != nil:
		return no(t, v1alpha1.ReasonClientsBlocked, fmt.Sprintf("Which clients are blocked cannot be read: %v.", err))
	case told != nil && v.old():
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonCephUnreachable, "Nobody can say now which addresses are on Ceph's blocklist."+v.stale())
	case told == nil || told.Blocked == nil:
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Ceph has not said which addresses are on its blocklist.")
	default:
		if out := (ceph.Fence{Clients: v.seen.Clients, Records: records}).Strangers(told.Facts); len(out) > 0 {
			return no(t, v1alpha1.ReasonClientsBlocked, backend.Cut(strings.Join(out[:min(3, len(out))], " "), 1024))
		}
		return yes(t, v1alpha1.ReasonBlocklistKnown, "The Cluster knows why each address on Ceph's blocklist is there.")
	}
}

// forming says how far a Cluster is whose monitors nobody has seen yet.
func (v *View) forming() metav1.Condition {
	text := "The first monitor is being started."
	switch {
	case v.tooOld() != "":
		return no(v1alpha1.ConditionMonitorsReady, v1alpha1.ReasonCephImageTooOld, v.tooOld())
	case v.earlier() != "", v.unmade() != "":
		text = "No monitor is started."
	case v.seen.Cluster.TakesUp():
		text = "The monitors that spec.ceph.takeUp names are being started."
	}
	return no(v1alpha1.ConditionMonitorsReady, v1alpha1.ReasonCephForming, v.later(text))
}
