package view

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

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
	h := ceph.Host{Name: node, Answers: v.seen.Nodes[node].Up(), Address: v.seen.Addresses[node], Leaving: !m.DeletionTimestamp.IsZero()}
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
	strays := osdrecord.Strays(v.seen.Nodes, v.seen.World.Members)
	for _, n := range v.nodes() {
		for _, o := range record(v.member(n)).OSDs {
			d := ceph.Disk{Host: n, Path: string(o.Path), UUID: o.UUID, Outed: o.Outed, Purged: o.Purged, GivenUp: o.Replaced, AutoReplaced: o.AutoReplaced, Encrypted: o.Encrypted, Deployed: v.deployedOSD(o.UUID)}
			d.At = osdrecord.At(strays, n, o.UUID)
			d.Ending = d.Deployed == ceph.Yes && v.seen.Workloads.ends(o.UUID)
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
		return []metav1.Condition{no(t, v1alpha1.ReasonDisksNotEncrypted, fmt.Sprintf("%d of %d OSDs were made before the spec wanted encrypted disks, and stay in the clear until their host has left and is listed again: %s", len(clear), total, backend.Shorten(clear, 5)))}
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
// Until they are on record no daemon of theirs is deployed. Whatever becomes of them later, nothing is lost by it. It says of the others why they are left as they are.
func (v *View) adopt(m backend.Member) (steps []backend.Step, not []string) {
	for _, u := range v.Unrecorded() {
		if u.Node != m.Node {
			continue
		}
		if why := v.unadoptable(u); why != "" {
			not = append(not, fmt.Sprintf("osd.%d on %s is on no record, and is left as it is: %s", u.OSD.ID, u.Device.Path, why))
			continue
		}
		steps = append(steps, Step{
			Does: v1alpha1.ActionAdoptOSD, Cluster: v.seen.Cluster.Name, UID: string(v.seen.Cluster.UID), FSID: v.seen.Cluster.FSID(), On: m.Node, Member: m.Object.Name,
			Ceph:    ceph.Step{Do: ceph.AdoptOSD, Host: m.Node, Path: u.Device.Path, UUID: u.Record.UUID, ID: u.OSD.ID},
			Devices: []decide.Device{u.Device}, Encrypted: u.Record.Encrypted, Why: "The monitors know the OSD on the disk, and the Cluster has no record of it.",
		})
	}
	return steps, append(not, v.strangers(m.Node)...)
}

// strangers says which disks of a host are not wiped although the spec consents to it: those that carry OSDs of the Ceph cluster under names which those were not made under, and those of which nobody has said what they carry.
func (v *View) strangers(host string) (not []string) {
	if !v.mapped() {
		return nil
	}
	for _, u := range v.Suspects() {
		uuid, looked := v.carried(u)
		is, n := v.known(uuid)
		switch {
		case u.Node != host:
		case v.others(u):
			not = append(not, u.Device.Path+" carries an OSD of the Ceph cluster of another Cluster, and is not wiped")
		case uuid == "" && !looked:
			not = append(not, u.Device.Path+" is not wiped before its agent has said which OSD it carries; an agent of an earlier version cannot")
		case is == ceph.Yes && !osdrecord.Fits(v.seen.Cluster.FSID(), host, u.Device, uuid):
			not = append(not, fmt.Sprintf("%s carries osd.%d, and is not wiped: its WWN, its serial number or its size are others than those of the disk that the OSD was made on. Put it back as it was, or have the OSD replaced or its host removed, before it is wiped", u.Device.Path, n))
		}
	}
	return slices.Compact(not)
}

// unadoptable says why an OSD does not come on record; empty if it does. One that runs on another host without a Deployment is somebody else's doing, and one whose disk two hosts see, or saw, may run on the other one.
func (v *View) unadoptable(u osdrecord.Unrecorded) string {
	verdict, looked := v.seen.Verdicts[u.Record.UUID]
	twice := slices.ContainsFunc(v.Unrecorded(), func(x osdrecord.Unrecorded) bool { return x.Node != u.Node && x.Record.UUID == u.Record.UUID })
	switch {
	case !v.mapped():
		return "Ceph does not say now which OSDs it has"
	case twice || u.Device.RefusedFor(v1alpha1.RefusalSharedDisk):
		return "another host sees the disk, too, or saw it"
	case v.kept(u.Suspect):
		return "spec.retire of a Member names its disk"
	case u.OSD.Up && u.OSD.Host != u.Node && v.deployedOSD(u.Record.UUID) != ceph.Yes:
		// Of OSDs that all ended at once Ceph says for a quarter of an hour that they are up. On its own host no second daemon gets the disk.
		return fmt.Sprintf("Ceph says that it runs on %s, and nothing of the Cluster deploys it", or(u.OSD.Host, "a host that it does not name"))
	case !looked:
		return "its agent has not said what is on the disk"
	case verdict.Kind != osd.Ready && (verdict.Kind != osd.Unfinished || !u.OSD.New):
		return or(verdict.Message, "its agent does not say what is on the disk")
	}
	return v.seen.Keyless[u.Record.UUID]
}

// unrecorded is a node without the devices that are on record already, of this or of another Cluster, and without those that may carry an OSD which is on no record.
func (v *View) unrecorded(host string, n decide.Node, r v1alpha1.MemberCeph) decide.Node {
	taken := slices.Clone(r.OSDs)
	for _, m := range v.seen.World.OtherMembers {
		if string(m.Spec.Node) == host {
			taken = append(taken, record(m).OSDs...)
		}
	}
	for _, u := range v.Unrecorded() {
		if u.Node == host {
			taken = append(taken, u.Record)
		}
	}
	out := n
	out.Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d decide.Device) bool {
		return slices.ContainsFunc(taken, func(o v1alpha1.MemberOSD) bool {
			had, there := osdrecord.Device(n, o)
			return there && had.KernelName == d.KernelName
		})
	})
	return out
}

// next is the name of the next monitor, which none that anybody has ever seen has.
func (v *View) next() string {
	members := make([]v1alpha1.Member, 0, len(v.members))
	for _, m := range v.members {
		members = append(members, *m)
	}
	made := noted.MonitorsMade(v.seen.Cluster, members)
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
