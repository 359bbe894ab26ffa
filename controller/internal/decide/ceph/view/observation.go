// Package view decides about Clusters of type cephfs: from what the API server, the agents, the workloads and Ceph say it makes the steps that are
// possible now, and what there is to tell. It is pure. Package ceph has the rules about monitors, OSDs, pools, flags and versions; this one says which
// facts they get, and what becomes of their steps.
package view

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/controller/internal/decide/ceph/preflight"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/osd"
)

// Observation is all that the decisions are made on. It is not changed once a View is made of it.
type Observation struct {
	Cluster *v1alpha1.Cluster
	World   backend.World
	Now     time.Time
	// Nodes are what the agents say, by node.
	Nodes map[string]decide.Node
	// Addresses of the nodes that Kubernetes knows one of.
	Addresses map[string]string
	// Machines are what is known of the nodes before daemons run there.
	Machines map[string]preflight.Machine
	// Verdicts say what a disk is, by the UUID of the OSD that is, or would be, on it: of all disks on record, and of those with an OSD that the monitors know and that is on none.
	Verdicts map[string]osd.Verdict
	// Suspected says what suspects are, by osdrecord.Suspect.Key. One that nobody could look at is missing.
	Suspected map[string]osd.Verdict
	// Keyless says, by UUID, what the Secret of an encrypted OSD lacks that is on no record; one that has its key is not in it.
	Keyless map[string]string
	// Missing says since when, without a break, the agent of a host that runs tells of no such disk, by the UUID of its OSD.
	Missing map[string]time.Time
	// Clients are all nodes: each may have the filesystem mounted.
	Clients []ceph.Client
	// Workloads are what is deployed; nil when that could not be read.
	Workloads *Workloads
	// FailedOver is when another metadata server was last made to serve in place of one on a host in maintenance.
	FailedOver time.Time
	// Ceph is what Ceph said last; nil before it said anything.
	Ceph *Told
	// Current is true while what Ceph said is young, and from after the last change. Asking says why it is not, or that it is being asked.
	Current bool
	Asking  string
}

// BeingAsked is Observation.Asking while the answer to a question is waited for.
const BeingAsked = "Ceph is being asked."

// Workloads are what is deployed for one Ceph cluster.
type Workloads struct {
	// Daemons that have a Deployment.
	Daemons []Workload
	// Tools has the container with Ceph's programs, by node, where it runs.
	Tools map[string]string
	// Sweeps has the monitors whose data are being removed, each with what the kubelet says of a pod for it that does not start; empty for one that does.
	Sweeps map[string]string
	// OSDPods has the UUIDs of OSDs of which a pod exists.
	OSDPods map[string]bool
	// Opened has the UUIDs of OSDs of which there is a pod that has opened the disk, does not do so again, and in which the daemon ended once at least.
	Opened map[string]bool
	// Pods has the node of each pod that exists, by kind of daemon: those of a Deployment that is gone can still run.
	Pods map[string][]string
	// Stuck are the pods that do not start, by node, each with what the kubelet says.
	Stuck map[string][]string
	// Budget says how many OSDs may be away by somebody's will; nil where it does not exist, or somebody altered it.
	Budget *ceph.Budget
	// Keys is true when the Secret with the keys exists. Client is what the Secret of the clients was made for: the monitors in it; empty when there is none.
	Keys   bool
	Client string
	// Config is the configuration file, Options the options that Ceph was told, Refused those that it refuses, with what it said.
	Config  string
	Options map[string]string
	Refused map[string]string
	// Metrics is true when the Service of the managers' metrics exists.
	Metrics bool
	// Dashboard is what is there for the dashboard.
	Dashboard Dashboard
	// DiskKeys says what is wrong with the Secret of each encrypted OSD on record, by UUID; empty for one that opens its disk.
	DiskKeys map[string]string
	// Left is true while a Secret or ConfigMap is there.
	Left bool
}

// ends reports whether no Deployment of an OSD is there that stays.
func (w *Workloads) ends(uuid string) bool {
	return !slices.ContainsFunc(w.Daemons, func(d Workload) bool { return d.Kind == cephname.DaemonOSD && d.UUID == uuid && !d.Going })
}

// Dashboard is what is there for the dashboard of a Ceph cluster.
type Dashboard struct {
	// Told: its Secret has a password, and Ceph was told it.
	Told bool
	// Manager is the one that the Service selects; empty where there is no Service.
	Manager string
}

// Workload is a Deployment of a daemon.
type Workload struct {
	Kind, ID, Node string
	// UUID of an OSD.
	UUID string
	// Template is the digest of what it was made of, Image the one of its daemon.
	Template, Image string
	// Ready: its pod is. Away is since when no pod of it is; zero while one is.
	Ready bool
	Away  time.Time
	// Failing: its pod does not start, or its program ends again and again.
	Failing bool
	// First: the monitor makes the cluster if it finds none on its disk.
	First bool
	// Going: it is being deleted, and its pods may not have ended.
	Going bool
}

// Told is what Ceph said, at one time.
type Told struct {
	At time.Time
	ceph.Facts
	// Problem says which part could not be read, and why; empty when all is known.
	Problem string
	// Health is HEALTH_OK, HEALTH_WARN or HEALTH_ERR; empty when it could not be read. Checks are what Ceph says about it.
	Health string
	Checks []string
	// TotalBytes and AvailableBytes of the data pool are what its users see; 0 when they are not known.
	TotalBytes, AvailableBytes int64
	// Filesystem says whether ours exists, Group whether its subvolume group does.
	Filesystem, Group ceph.Answer
	// Commands says whether the active manager knows the commands of the dashboard; Unknown where nobody had to ask.
	Commands ceph.Answer
	// Subvolumes are the volumes in the group of a Cluster that is being deleted, Volumes those of one that is not; nil when nobody could list them, or nobody had to.
	Subvolumes, Volumes *[]string
	// Listed is when Volumes were listed.
	Listed time.Time
	// Rest says, by host, whether all of its OSDs may be stopped at once. Of hosts that nobody asked about it says nothing.
	Rest map[string]ceph.Answer
}

// kept reports whether a person keeps a disk out of all storages.
func (v *View) kept(u osdrecord.Suspect) bool {
	return slices.ContainsFunc(v.everyone(), func(m *v1alpha1.Member) bool {
		return string(m.Spec.Node) == u.Node && slices.ContainsFunc(m.Spec.Retire, u.Device.Retired)
	})
}

// mapped reports whether Ceph says now which OSDs it has.
func (v *View) mapped() bool { return v.seen.Current && v.seen.Ceph != nil && v.seen.Ceph.Map != nil }

// lastHealth is how Ceph said last that it is; empty if it never did. A controller that starts anew knows it from the status until it has asked.
func (v *View) lastHealth() string {
	if t := v.seen.Ceph; t != nil && t.Health != "" {
		return t.Health
	}
	if s := v.seen.Cluster.Status.Ceph; s != nil {
		return s.Health
	}
	return ""
}

// atLast adds to a message how Ceph said last that it is.
func (v *View) atLast() string {
	if last := v.lastHealth(); last != "" {
		return " At last it was " + last + "."
	}
	return ""
}

// holds says whether a host without anything on record holds data: an OSD that is on no record, or may be one.
func (v *View) holds(host string) nodestate.Data {
	if noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved) {
		return nodestate.DataAbsent
	}
	for _, u := range v.Unrecorded() {
		if u.Node == host && !v.kept(u.Suspect) {
			return nodestate.DataPresent
		}
	}
	if n := v.seen.Nodes[host]; n.Up() && slices.ContainsFunc(n.Devices, v.mayBeOurs(host)) {
		return nodestate.DataUnknown
	}
	return nodestate.DataAbsent
}

// Unrecorded are the disks that may carry OSDs which the monitors know, and no Member has on record.
func (v *View) Unrecorded() []osdrecord.Unrecorded {
	if v.seen.Ceph == nil || noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved) {
		return nil
	}
	return osdrecord.Find(string(v.seen.Cluster.UID), v.seen.Cluster.FSID(), v.seen.Nodes, v.everyone(), v.seen.Ceph.Map)
}

// quorumSeen reports whether the monitors of the Cluster were seen as a quorum, by its own record. That it is to take up a Ceph cluster says nothing of those that answer.
func (v *View) quorumSeen() bool { return noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephFormed) }

// everyone are the Members of all storages.
func (v *View) everyone() []*v1alpha1.Member {
	return slices.Concat(v.seen.World.Members, v.seen.World.OtherMembers)
}

// Suspects are the disks that may carry OSDs of the Cluster although no record and no map of its monitors says so: all with a sign of that as long as no record says that its monitors were seen, as after a restore of the API server from a
// backup which is older than its monitors; later those that the spec consents to have wiped.
func (v *View) Suspects() []osdrecord.Suspect {
	c := v.seen.Cluster
	if noted.Is(c, v1alpha1.AnnotationCephRemoved) {
		return nil
	}
	var hosts []string
	for _, h := range v.candidates() {
		hosts = append(hosts, h.Name)
	}
	all := osdrecord.Suspects(c.FSID(), hosts, v.seen.Nodes, v.everyone())
	if !v.quorumSeen() {
		return all
	}
	return slices.DeleteFunc(all, func(u osdrecord.Suspect) bool {
		return c.Spec.Devices == nil || !slices.ContainsFunc(c.Spec.Devices.Wipe, func(w v1alpha1.WipeConsent) bool { return string(w.Host) == u.Node && u.Device.Is(string(w.Path)) })
	})
}

// carried is the UUID of the OSD of the Ceph cluster that a disk carries; empty if it carries none. looked: an agent has said what is on the disk, even if that is that nobody can tell.
func (v *View) carried(u osdrecord.Suspect) (uuid string, looked bool) {
	verdict, looked := v.seen.Suspected[u.Key()]
	return carried(verdict, u.Record.UUID), looked && !verdict.Blind
}

// carried is the UUID of the OSD that a disk carries by the verdict on it for an OSD with a UUID.
func carried(verdict osd.Verdict, uuid string) string {
	if verdict.Kind == osd.Ready || verdict.Kind == osd.Unfinished {
		return uuid
	}
	return verdict.Carries
}

// forgotten counts the OSDs that the disks of a host may carry, and that are on no record.
func (v *View) forgotten(host string) (n int) {
	for _, u := range v.Unrecorded() {
		if u.Node == host {
			n++
		}
	}
	return n
}

// others reports whether a disk carries an OSD of the Ceph cluster of another Cluster, which its record may have forgotten.
func (v *View) others(u osdrecord.Suspect) bool {
	return slices.ContainsFunc(v.seen.Suspected[u.Key()].FSIDs, func(fsid string) bool { return fsid != v.seen.Cluster.FSID() && v.twin(fsid) != "" })
}

// mayBeOurs reports whether a disk of a host carries an OSD that is worth something to this Cluster or another one, or looks like an OSD's while nobody says what it carries. It is not wiped, whoever consented to that.
func (v *View) mayBeOurs(host string) func(decide.Device) bool {
	all := v.everyone()
	suspects := slices.DeleteFunc(v.Suspects(), func(u osdrecord.Suspect) bool {
		uuid, looked := v.carried(u)
		is, _ := v.known(uuid)
		// What an agent looked at and could not tell is wiped if a person consents to that.
		return u.Node != host || looked && !v.others(u) && (uuid == "" || v.quorumSeen() && is == ceph.No && !osdrecord.OnRecord(all, uuid))
	})
	return func(d decide.Device) bool {
		if noted.Formed(v.seen.Cluster) && !v.mapped() && (d.RefusedFor(v1alpha1.RefusalCeph) || d.RefusedFor(v1alpha1.RefusalEncrypted)) {
			return true
		}
		return slices.ContainsFunc(suspects, func(u osdrecord.Suspect) bool { return u.Device.KernelName == d.KernelName })
	}
}

// barred says why a host gets no monitor for as long as another Cluster has one there; empty if it may get one, or has one.
func (v *View) barred(node string) string {
	if v.has(node, cephname.DaemonMonitor) {
		return ""
	}
	return preflight.Port(node, v.seen.World.OtherMembers)
}

// neighbours are the sentences about hosts that are barred.
func (v *View) neighbours(hosts []ceph.Host) []string {
	var out []string
	for _, h := range hosts {
		if why := v.barred(h.Name); why != "" {
			out = append(out, fmt.Sprintf("Host %s %s.", h.Name, why))
		}
	}
	return out
}
