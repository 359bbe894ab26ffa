package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// Noted reports whether an annotation of a Cluster is its own record: one that a manifest brought along has another UID.
func Noted(c *v1alpha1.Cluster, annotation string) bool {
	return c.Annotations[annotation] == string(c.UID)
}

// Blocked returns which clients are blocked by the record of a Cluster.
func Blocked(c *v1alpha1.Cluster) ([]ceph.Blocked, error) {
	text, ours := strings.CutPrefix(c.Annotations[v1alpha1.AnnotationCephBlocked], string(c.UID)+"/")
	if !ours || c.UID == "" {
		return nil, nil
	}
	var out []ceph.Blocked
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", v1alpha1.AnnotationCephBlocked, err)
	}
	for i := range out {
		// A kernel or a firmware of another version may write the UUID of the same machine otherwise.
		out[i].Machine = decide.Spelled(out[i].Machine)
	}
	return out, nil
}

// BlockedText is what Blocked reads; empty for none.
func BlockedText(c *v1alpha1.Cluster, records []ceph.Blocked) (string, error) {
	if len(records) == 0 {
		return "", nil
	}
	text, err := json.Marshal(records)
	return string(c.UID) + "/" + string(text), err
}

// member returns the Member of a node; nil when there is none.
func (v *View) member(node string) *v1alpha1.Member { return v.members[node] }

// record returns what is on record of a Member.
func record(m *v1alpha1.Member) v1alpha1.MemberCeph {
	if m == nil || m.Spec.Ceph == nil {
		return v1alpha1.MemberCeph{}
	}
	return *m.Spec.Ceph
}

// empty reports whether nothing is on record.
func empty(r v1alpha1.MemberCeph) bool {
	return r.Monitor == nil && len(r.OSDs) == 0 && len(r.Swept) == 0 && !r.NoOut
}

// nodes are those of the Members, ordered.
func (v *View) nodes() []string {
	out := make([]string, 0, len(v.members))
	for name := range v.members {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// host says what the rules about Ceph have to know of a host.
func (v *View) host(node string) ceph.Host {
	m, kube := v.member(node), v.seen.World.Nodes[node]
	h := ceph.Host{Name: node, Address: v.seen.Addresses[node], Leaving: !m.DeletionTimestamp.IsZero()}
	h.Maintenance = v.maintained(node)
	reason, _ := backend.Unwanted(v.seen.Cluster.Common(), kube)
	h.Serving = v.seen.Nodes[node].Up() && kube.Exists && v.seen.Addresses[node] != "" && (reason == "" || h.Leaving)
	return h
}

func (v *View) maintained(node string) bool {
	return slices.Contains(v.seen.Cluster.Spec.Maintenance, v1alpha1.HostName(node)) || v.member(node).Spec.Maintenance || v.seen.World.Nodes[node].Maintenance
}

// hosts are all hosts with a Member.
func (v *View) hosts() []ceph.Host {
	var out []ceph.Host
	for _, n := range v.nodes() {
		out = append(out, v.host(n))
	}
	return out
}

// monitors on record, ordered by name.
func (v *View) monitors() (records []ceph.MonitorRecord, listening []cephpod.Monitor) {
	for _, n := range v.nodes() {
		if m := record(v.member(n)).Monitor; m != nil {
			records = append(records, ceph.MonitorRecord{Name: m.Name, Host: n})
			listening = append(listening, cephpod.Monitor{Name: m.Name, Address: m.Address})
		}
	}
	slices.SortFunc(records, func(a, b ceph.MonitorRecord) int { return cmp.Or(len(a.Name)-len(b.Name), cmp.Compare(a.Name, b.Name)) })
	slices.SortFunc(listening, func(a, b cephpod.Monitor) int { return cmp.Or(len(a.Name)-len(b.Name), cmp.Compare(a.Name, b.Name)) })
	return records, listening
}

// disks are those on record.
func (v *View) disks() []ceph.Disk {
	var out []ceph.Disk
	for _, n := range v.nodes() {
		for _, o := range record(v.member(n)).OSDs {
			d := ceph.Disk{Host: n, Path: string(o.Path), UUID: o.UUID, Recorded: true, Outed: o.Outed, Purged: o.Purged, Leaving: o.Replaced, AutoReplaced: o.AutoReplaced, Deployed: v.deployedOSD(o.UUID)}
			d.Message, d.Locked = "its agent has not said what is on it.", v.locked(o)
			_, there := osdrecord.Device(v.seen.Nodes[n], o)
			if d.Missing = !there && v.seen.Nodes[n].Up(); d.Missing {
				d.Message = "the agent of its host tells of no such disk."
			}
			if since, seen := v.seen.Missing[o.UUID]; seen && d.Missing {
				d.MissingFor = v.seen.Now.Sub(since)
			}
			if verdict, ok := v.seen.Verdicts[o.UUID]; ok {
				d.Kind, d.Message = verdict.Kind, verdict.Message
				d.Stale = verdict.Stale && v.seen.Workloads != nil && v.seen.Workloads.Opened[o.UUID]
			}
			out = append(out, d)
		}
	}
	return out
}

// locked says why nobody opens an encrypted disk: what its Secret lacks. It is empty for a disk that opens. Until the key is on record as used another one is made,
// unless the disk carries the OSD already, whatever became of that record.
func (v *View) locked(o v1alpha1.MemberOSD) string {
	w := v.seen.Workloads
	used := o.Keyed || v.seen.Verdicts[o.UUID].Kind == osd.Ready
	if !o.Encrypted || !used || w == nil {
		return ""
	}
	if wrong, read := w.DiskKeys[o.UUID]; read {
		return wrong
	}
	p := cephpod.Of(v.seen.Cluster)
	_, err := p.OpenDisk(p.DiskSecret(o.UUID, o.Secret), o.UUID, nil)
	return err.Error()
}

// wantsEncrypted reports whether disks that are taken now are to be encrypted.
func (v *View) wantsEncrypted() bool {
	c := v.seen.Cluster.Spec.Ceph
	return c != nil && c.Encrypted
}

// sealed tells the disks of OSDs on record that are in the clear, those that nobody opens, with the reason, and how many there are in all.
func (v *View) sealed() (clear, lost []string, total int) {
	for _, n := range v.nodes() {
		for _, o := range record(v.member(n)).OSDs {
			total++
			if !o.Encrypted {
				clear = append(clear, fmt.Sprintf("%s on %s", o.Path, n))
			} else if wrong := v.locked(o); wrong != "" {
				lost = append(lost, fmt.Sprintf("disk %s on %s: %s", o.Path, n, wrong))
			}
		}
	}
	return clear, lost, total
}

// encrypted says which OSDs are not as the spec wants, or have lost their keys. There is nothing to say of a Cluster that has no encrypted disk, and never wanted one.
func (v *View) encrypted() []metav1.Condition {
	const t = v1alpha1.ConditionDisksEncrypted
	clear, lost, total := v.sealed()
	wants := v.wantsEncrypted()
	const beside = "The stores of the monitors, which have Ceph's keys, and the network are not encrypted by that. What was written to a disk in the clear before it was taken stays where nobody wrote since."
	switch {
	case !wants && len(clear) == total && meta.FindStatusCondition(v.seen.Cluster.Status.Conditions, t) == nil:
		return nil
	case len(lost) > 0:
		return []metav1.Condition{no(t, v1alpha1.ReasonDiskKeyMissing, "No key opens encrypted disks: "+backend.Shorten(lost, 5))}
	case wants && total == 0:
		return []metav1.Condition{no(t, v1alpha1.ReasonPending, "No disk is an OSD yet.")}
	case wants && len(clear) > 0:
		return []metav1.Condition{no(t, v1alpha1.ReasonDisksNotEncrypted, fmt.Sprintf("%d of %d OSDs were made before the spec wanted encrypted disks, and stay in the clear until they are replaced: %s", len(clear), total, backend.Shorten(clear, 5)))}
	case !wants && (total == 0 || len(clear) > 0):
		return []metav1.Condition{backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonEncryptionOff, fmt.Sprintf("The spec does not want encrypted disks. %d of %d OSDs are in the clear.", len(clear), total))}
	case v.seen.Workloads == nil:
		return []metav1.Condition{backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Nobody has read yet which keys of encrypted disks there are.")}
	case !wants:
		return []metav1.Condition{yes(t, v1alpha1.ReasonEncryptionOff, fmt.Sprintf("The disks of all %d OSDs are encrypted and stay so. The spec does not want encrypted disks, so that others are taken in the clear.", total))}
	}
	return []metav1.Condition{yes(t, v1alpha1.ReasonDisksEncrypted, fmt.Sprintf("The disks of all %d OSDs are encrypted. %s", total, beside))}
}

// deployedOSD says whether the daemon of an OSD has a Deployment, or a pod that may be its own still runs.
func (v *View) deployedOSD(uuid string) ceph.Answer {
	w := v.seen.Workloads
	if w == nil {
		return ceph.Unknown
	}
	if slices.ContainsFunc(w.Daemons, func(d Workload) bool { return d.Kind == cephname.DaemonOSD && d.UUID == uuid }) || w.OSDPods[uuid] {
		return ceph.Yes
	}
	return ceph.No
}

// numberOf is the number of the OSD whose Deployment is there; empty without one.
func (v *View) numberOf(uuid string) string {
	for _, d := range v.of(cephname.DaemonOSD) {
		if d.UUID == uuid {
			return d.ID
		}
	}
	return ""
}

// adopt is what puts OSDs on record that the monitors know, that no Member has on record, and that disks of a host carry: those that are younger than the backup which the API server was restored from.
// Until they are on record no daemon of theirs is deployed. Whatever becomes of them later, nothing is lost by it. An OSD that runs without a Deployment is somebody else's doing, and one that two hosts seem
// to have is on neither for sure.
func (v *View) adopt(m backend.Member) (steps []backend.Step) {
	all := v.Unrecorded()
	for _, u := range all {
		twice := slices.ContainsFunc(all, func(x osdrecord.Unrecorded) bool { return x.Node != u.Node && x.Record.UUID == u.Record.UUID })
		retired := slices.ContainsFunc(v.retired(m), func(x disk.Retired) bool { return u.Device.Retired(x.Device) })
		foreign := u.OSD.Up && v.deployedOSD(u.Record.UUID) != ceph.Yes
		if u.Node != m.Node || twice || retired || foreign || !v.seen.Current || v.seen.Verdicts[u.Record.UUID].Kind != osd.Ready {
			continue
		}
		steps = append(steps, Step{
			Does: v1alpha1.ActionAdoptOSD, Cluster: v.seen.Cluster.Name, UID: string(v.seen.Cluster.UID), On: m.Node, Member: m.Object.Name,
			Ceph:    ceph.Step{Do: ceph.AdoptOSD, Host: m.Node, Path: u.Device.Path, UUID: u.Record.UUID, ID: u.OSD.ID},
			Devices: []decide.Device{u.Device}, Encrypted: u.Record.Encrypted, Why: "The monitors know the OSD on the disk, and the Cluster has no record of it.",
		})
	}
	return steps
}

// Unrecorded are the disks that may carry OSDs which the monitors know, and no Member has on record.
func (v *View) Unrecorded() []osdrecord.Unrecorded {
	if v.seen.Ceph == nil || v.deleting() {
		return nil
	}
	return osdrecord.Find(string(v.seen.Cluster.UID), v.seen.Nodes, slices.Concat(v.seen.World.Members, v.seen.World.OtherMembers), v.seen.Ceph.Map)
}

// MonitorsMade is how many monitors a Cluster ever gave a name to, as far as its own record and those of its Members say: the former may be lost.
func MonitorsMade(c *v1alpha1.Cluster, members []v1alpha1.Member) int {
	made := 0
	uid, count, ok := strings.Cut(c.Annotations[v1alpha1.AnnotationCephMonitors], "/")
	if n, err := strconv.Atoi(count); ok && err == nil && uid == string(c.UID) {
		made = max(made, n)
	}
	for i := range members {
		r := record(&members[i])
		for _, name := range slices.Concat(r.Swept, monitorOf(r)) {
			made = max(made, cephname.Number(name)+1)
		}
	}
	return made
}

// next is the name of the next monitor, which none that anybody has ever seen has.
func (v *View) next() string {
	members := make([]v1alpha1.Member, 0, len(v.members))
	for _, m := range v.members {
		members = append(members, *m)
	}
	made := MonitorsMade(v.seen.Cluster, members)
	for _, d := range v.of(cephname.DaemonMonitor) {
		made = max(made, cephname.Number(d.ID)+1)
	}
	for name := range v.seen.Workloads.Sweeps {
		made = max(made, cephname.Number(name)+1)
	}
	if t := v.seen.Ceph; t != nil && t.Quorum != nil {
		for _, m := range t.Quorum.Monitors {
			made = max(made, cephname.Number(m.Name)+1)
		}
	}
	return cephname.Letters(made)
}
