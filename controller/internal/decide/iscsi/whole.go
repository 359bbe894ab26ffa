package iscsi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Whole returns what concerns the LUN as a whole.
func (v *View) Whole(hosts []backend.HostHealth) backend.Whole {
	w := backend.Whole{
		Serves: v.rec.group != "" && v.refusal().IsZero(), Pending: "The StorageClass is made once every initiator sees the volume group.",
		Class: v.class(), Facts: []metav1.Condition{v.unique(), v.reachable(hosts), v.lunReady(hosts), v.volumesPresent()},
		Warnings: []metav1.Condition{v.pathsHealthy(hosts), v.fencing(), v.volumesOfGroup()}, Wake: NextLook(v.seen.Reading.Failures), Capacity: v.capacity(),
	}
	if p := v.seen.Chap.Problem; p != "" {
		w.Notes = append(w.Notes, p)
	}
	if v.refusal().IsZero() {
		w.Steps = slices.Concat(v.fence(hosts), v.preemptKeys(hosts), v.preemptEarlier(hosts), v.release(hosts), v.forgetReaders(hosts), v.create(hosts), v.remove(hosts))
		w.Steps = v.stand(w.Steps)
		// A step that waits for a person keeps those after it from being taken.
		slices.SortStableFunc(w.Steps, func(a, b backend.Step) int { return cmp.Compare(order(a), order(b)) })
	}
	if v.deleting() && !v.removed() {
		w.Holding = v.left()
		w.Silent = v.rec.group != "" && v.rival == "" && !v.seen.Reading.Known
	}
	if backend.Free(v.seen.Iscsi.Spec.Approval, w.Steps) {
		w.Wake = soon
	}
	return w
}

// order puts steps that need a person behind all others, and those that need none even where every plan is approved before them.
func order(s backend.Step) int {
	switch {
	case s.Destroys():
		return 2
	case backend.Restores(s):
		return 0
	}
	return 1
}

// class is what is wanted of the StorageClass.
func (v *View) class() class.Wish {
	w := class.Wish{
		Parameters: map[string]string{v1alpha1.ParameterIscsi: string(v.seen.Iscsi.UID)}, Binding: storagev1.VolumeBindingImmediate,
	}
	if s := v.seen.Iscsi.Spec.StorageClass; s != nil && s.FsType != "" {
		w.Parameters[class.ParameterFSType] = s.FsType
	}
	return w
}

// capacity is that of the group; what was known before stands while it cannot be read.
func (v *View) capacity() *v1alpha1.Space {
	if g := v.group(); g != nil {
		space := backend.SpaceOf(g.SizeBytes, g.FreeBytes)
		return &space
	}
	space := v.seen.Iscsi.Status.Capacity.Total
	return &space
}

// aside is how much of a LUN its volume group may leave for LVM's own metadata, in bytes.
const aside = 64 << 20

// grown returns the size of the LUN, if an initiator sees a larger one than the group was made on; 0 otherwise.
func (v *View) grown(group int64) int64 {
	var most int64
	for _, name := range v.names() {
		if l, f := v.lunOn(name); f.IsZero() {
			most = max(most, l.SizeBytes)
		}
	}
	if most-group <= aside {
		return 0
	}
	return most
}

// create makes the group, once every initiator sees one and the same LUN, may write to it, and nothing of others is on it.
func (v *View) create(hosts []backend.HostHealth) []backend.Step {
	ref, known := v.Ref()
	if !known || !v.makes(hosts) || !v.occupied().IsZero() {
		return nil
	}
	via := v.worker(hosts, "")
	if v.usable(v.rec.Forming) {
		via = v.rec.Forming
	}
	if via == "" {
		return nil
	}
	s := v.step(via, v1alpha1.ActionCreateSharedGroup, "Every initiator sees the LUN, and nothing is on it.")
	s.Ref, s.Member = ref, v.members[via].Name
	switch c := v.seen.Reading.Contents; {
	case c.Content == "":
	case c.Digest != "" && v.seen.Iscsi.Spec.Wipe == ref.Lun.WWID:
		s.Wipe, s.Lost = c.Digest, c.Content
		s.Why = "spec.wipe names this LUN, and something is on it."
		s.Consent = "Whoever approves loses for good what is on LUN " + ref.Lun.WWID + ": " + c.Content
	case v.rec.Forming == "":
		return nil
	}
	return []backend.Step{s}
}

// makes reports whether a group is wanted now. One that an Iscsi which is being deleted had begun to make is made to its end: only then it can be removed.
func (v *View) makes(hosts []backend.HostHealth) bool {
	r := v.seen.Reading
	if v.rec.group != "" || !r.Known || r.Contents.Group != nil || claimed(v.seen.World) > 0 {
		return false
	}
	if v.deleting() {
		return v.rec.Forming != "" && !v.removed() && r.Contents.Content != ""
	}
	return len(v.awaited(hosts)) == 0
}

// awaited names the initiators that are not ready for the group to be made, with the reason. One under maintenance is not waited for.
func (v *View) awaited(hosts []backend.HostHealth) []string {
	var out []string
	ready := 0
	for _, h := range hosts {
		switch {
		case !slices.Contains(v.seen.Iscsi.Spec.Initiators, v1alpha1.HostName(h.Node)), len(h.Sources) > 0:
		case v.usable(h.Node):
			ready++
		default:
			out = append(out, h.Node+" ("+backend.Sentence(strings.TrimSuffix(h.Finding().Message, "."), "has no key yet")+")")
		}
	}
	if ready == 0 && len(out) == 0 {
		return []string{"an initiator that is not under maintenance"}
	}
	return out
}

// remove removes the group of an Iscsi that is being deleted.
func (v *View) remove(hosts []backend.HostHealth) []backend.Step {
	ref, known := v.Ref()
	g := v.seen.Reading.Group()
	if !v.deleting() || v.removed() || !known || v.rec.group == "" || !v.seen.Reading.Known || claimed(v.seen.World) > 0 {
		return nil
	}
	if g != nil && (g.UUID != v.rec.group || len(g.Volumes) > 0) || g == nil && v.seen.Reading.Contents.Content != "" && v.seen.Reading.Contents.Digest == "" {
		return nil
	}
	via := v.worker(hosts, "")
	if via == "" {
		return nil
	}
	s := v.step(via, v1alpha1.ActionRemoveSharedGroup, "The Iscsi is being deleted, and no volume is left.")
	s.Ref = ref
	return []backend.Step{s}
}

// left names the volumes on the LUN that hold a deletion, and that no PersistentVolume names: snapshots, and those of which the object is gone.
func (v *View) left() []string {
	known := v.claims()
	var out []string
	for _, volume := range v.volumes() {
		switch {
		case volume.Snapshot:
			out = append(out, fmt.Sprintf("snapshot %s of volume %s on the LUN", volume.Name, volume.Origin.Name))
		case known[volume.Name] == "":
			out = append(out, fmt.Sprintf("volume %s on the LUN, which has no PersistentVolume", volume.Name))
		}
	}
	if len(out) > 0 {
		out = append(out[:min(len(out), maxNamed/2)], fmt.Sprintf("to delete the Iscsi all the same and leave the LUN as it is: kubectl annotate --overwrite iscsis.%s %s %s=%s",
			v1alpha1.Group, v.seen.Iscsi.Name, v1alpha1.AnnotationRemove, v.seen.Iscsi.UID))
	}
	return out
}

// release ends what somebody began: a volume is being taken from a node that has unmapped it, or is fenced. It takes a volume from a fenced node that no attachment names.
func (v *View) release(hosts []backend.HostHealth) []backend.Step {
	g, via := v.group(), v.worker(hosts, "")
	if g == nil || via == "" || v.rec.group == "" {
		return nil
	}
	s := v.step(via, v1alpha1.ActionReleaseVolumes, "The volumes are being taken from their nodes, which have no devices of them any more.")
	s.Sequence, s.Again = g.Sequence, true
	for _, volume := range g.Volumes {
		since, h := v.leaving[volume.UUID], v.seen.Hosts[volume.HeldBy]
		unmapped := volume.Leaving && h.Up() && h.Mapped && !h.maps(volume.UUID) && v.believed(volume.HeldBy)
		if !since.IsZero() && volume.HeldBy != "" && (v.fenceCounts(volume.HeldBy, via) || unmapped) && v.seen.Now.Sub(since) >= leavingFor {
			s.Volumes = append(s.Volumes, volume)
		}
	}
	if len(s.Volumes) == 0 {
		return nil
	}
	return []backend.Step{s}
}

// unattached reports whether a volume is a fenced node's, and no VolumeAttachment says so, as after a restore of the API server: nobody else would take it away. One of which
// nothing is ready is being made. An attachment of which nobody knows the volume may be that one.
func (v *View) unattached(volume sharedlun.Volume) bool {
	m := v.members[volume.HeldBy]
	if m == nil || m.Spec.Reservation == nil || !m.Spec.Reservation.Fenced || volume.ReadyBytes == 0 {
		return false
	}
	handle := v.rec.group + "/" + volume.Name
	return !slices.ContainsFunc(v.seen.World.Attached[volume.HeldBy], func(a backend.Volume) bool { return a.Handle == handle || a.Handle == "" })
}

// step begins a step of the whole.
func (v *View) step(via, does, why string) Step {
	ref, _ := v.Ref()
	return Step{Runs: via, Does: does, Owner: v.seen.Iscsi.Name, Ref: ref, Why: why}
}

// Fill writes what only an Iscsi has in its status.
func (v *View) Fill(i *v1alpha1.Iscsi) {
	i.Status.VolumeCount = int32(PersistentVolumes(v.seen.World))
	if w := v.seen.Record; !w.Zero() {
		i.Status.Writer, i.Status.Epoch = w.Writer, int64(w.Epoch)
	}
	if lun := v.LUN(); lun != nil {
		i.Status.Lun = lunStatus(*lun, v.rec.Reserves || !v.rec.Keyless && v.seen.Reading.Known && v.seen.Reading.Keys.Supported)
	}
}

// forgetReaders takes nodes off the readers of volumes that are away for good, one step for each node: a person vouches that they read no more.
func (v *View) forgetReaders(hosts []backend.HostHealth) []backend.Step {
	via := v.worker(hosts, "")
	if v.rec.group == "" || v.group() == nil {
		return nil
	}
	boots, volumes := map[string][]sharedlun.Boot{}, map[string][]sharedlun.Volume{}
	for _, volume := range v.volumes() {
		for _, reader := range volume.Readers {
			if !v.away(reader.Node) {
				continue
			}
			if !slices.Contains(boots[reader.Node], reader) {
				boots[reader.Node] = append(boots[reader.Node], reader)
			}
			if n := len(volumes[reader.Node]); n == 0 || volumes[reader.Node][n-1].UUID != volume.UUID {
				// Who has it now is no matter of the approval.
				volume.HeldBy = ""
				volumes[reader.Node] = append(volumes[reader.Node], volume)
			}
		}
	}
	var out []backend.Step
	for _, node := range slices.Sorted(maps.Keys(boots)) {
		s := v.step(via, v1alpha1.ActionForgetReaders, "Node "+node+" was fenced, and may still read these volumes, which are not removed because of it.")
		s.Consent = "Whoever approves vouches that node " + node + " is off, or was booted since it was fenced."
		s.Victim, s.Vouched, s.Boots, s.Volumes = node, true, boots[node], volumes[node]
		if m := v.members[node]; m != nil {
			s.Member = m.Name
		}
		out = append(out, s)
	}
	return out
}

// away reports whether nobody expects a node to say itself that it was booted: it is no initiator any more, or it is silent, and a person said that it is out of
// service, or Kubernetes does not know it.
func (v *View) away(node string) bool {
	_, asked := v.seen.Hosts[node]
	return !asked && v.members[node] == nil || v.off(node)
}
