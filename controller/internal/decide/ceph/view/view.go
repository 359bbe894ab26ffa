package view

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
	"quarry.storage/quarry/pkg/osd"
)

// Profile returns what the engine has to know of Clusters of type cephfs.
func Profile() backend.Profile {
	return backend.Profile{
		Type: v1alpha1.StorageTypeCephFS, Exclusive: true, MovesData: true,
		Driver: backend.Driver{Name: v1alpha1.DriverCephFS, Deployment: "quarry-csi-cephfs", Snapshots: true, Capacity: true, PrefixOf: prefixOf},
		Members: &backend.Readiness{
			Condition: v1alpha1.ConditionOSDsReady, Reason: v1alpha1.ReasonOSDsReady, Message: "The OSDs of every host run.",
			None: "No OSD runs yet.", Preparing: "its disks become OSDs", Unapproved: "the steps on its disks wait for approval",
			Forgets: "Ceph has forgotten",
		},
		Effects: map[string]backend.Effect{v1alpha1.ActionWipeDevice: {Takes: true, Wipes: true}, v1alpha1.ActionTakeDisks: {Takes: true}},
	}
}

// prefixOf is what the handles of a Cluster's volumes begin with: the FSID, which is that of an earlier Cluster where its Ceph cluster was taken up. Before that has begun the volumes may be another Cluster's, and hold nothing of this one.
func prefixOf(s v1alpha1.Storage) string {
	c, is := s.(*v1alpha1.Cluster)
	if !is || !noted.Has(c) {
		return string(s.GetUID()) + "/"
	}
	return c.FSID() + "/"
}

// View is one observation of a Cluster of type cephfs, and the decisions on it.
type View struct {
	seen    Observation
	members map[string]*v1alpha1.Member
	plan    plan
	// lacks remembers of which kinds the Cluster has too few daemons.
	lacks map[string]bool
}

var _ backend.View = (*View)(nil)

// New returns the view of an observation.
func New(o Observation) *View {
	v := bare(o)
	v.plan = v.decide()
	for i := range v.plan.steps {
		v.plan.steps[i] = v.bound(v.plan.steps[i])
	}
	return v
}

// bound is a step about the record of a Member as it is now.
func (v *View) bound(s Step) Step {
	for _, m := range v.members {
		if m.Name == s.Member {
			s.MemberUID = m.UID
		}
	}
	return s
}

// bare is the view of an observation before anything is decided.
func bare(o Observation) *View {
	v := &View{seen: o, members: map[string]*v1alpha1.Member{}, lacks: map[string]bool{}}
	owner := backend.OwnerOf(o.Cluster)
	for _, m := range o.World.Members {
		node := string(m.Spec.Node)
		v.members[node] = owner.Prefer(v.members[node], m)
	}
	return v
}

// Seen returns what the view was made of.
func (v *View) Seen() Observation { return v.seen }

// Quiet reports whether nothing is to be done, and nothing waited for.
func (v *View) Quiet() bool { return len(v.plan.steps) == 0 && len(v.plan.waits) == 0 && !v.deleting() }

func (v *View) deleting() bool { return !v.seen.Cluster.DeletionTimestamp.IsZero() }

// Hosts returns the hosts that have anything on record, or a daemon.
func (v *View) Hosts() []string {
	var out []string
	for _, n := range v.nodes() {
		if !v.empty(record(v.member(n))) || v.daemonOn(n) {
			out = append(out, n)
		}
	}
	return out
}

// daemonOn reports whether any daemon is deployed on a node: while one is the node is not empty, whether the daemon keeps data there or not.
func (v *View) daemonOn(node string) bool {
	w := v.seen.Workloads
	return w != nil && slices.ContainsFunc(w.Daemons, func(d Workload) bool { return d.Node == node })
}

// empty reports whether nothing of a record is left. Once the Cluster is given up its flags go with it.
func (v *View) empty(r v1alpha1.MemberCeph) bool {
	r.NoOut = r.NoOut && !noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved)
	return empty(r)
}

// Facts returns what is known about a host.
func (v *View) Facts(host string) backend.Facts {
	n, r := v.seen.Nodes[host], record(v.member(host))
	f := backend.Facts{Up: n.Up(), TooEarly: n.Agent == decide.AgentConnecting, Data: nodestate.DataPresent}
	f.Missing = n.Agent == decide.AgentMissing && v.empty(r)
	switch {
	case v.seen.Workloads == nil:
		f.Data = nodestate.DataUnknown
	case v.empty(r) && !v.daemonOn(host):
		f.Data = v.holds(host)
	}
	for _, o := range r.OSDs {
		verdict, known := v.seen.Verdicts[o.UUID]
		f.Recorded = f.Recorded || f.Up && verdict.Kind == osd.Ready
		f.Unsure = f.Unsure || f.Up && (!known || verdict.Kind == osd.Unknown)
	}
	if backend.Lost(v.member(host)) && !v.deleting() {
		f.Holding = v.owed(host, r)
	}
	switch n.Agent {
	case decide.AgentMissing:
		f.Reason, f.Problem = v1alpha1.ReasonAgentMissing, backend.Sentence(n.Problem, "no agent runs on this node")
	case decide.AgentUnreachable:
		f.Reason, f.Problem = v1alpha1.ReasonAgentUnreachable, backend.Sentence(n.Problem, "the agent does not answer")
	}
	return f
}

// owed is what Ceph still has of a host that was declared lost, and the keys of its disks. Its Member stays until Ceph has forgotten it: the record says which OSDs those are.
func (v *View) owed(host string, r v1alpha1.MemberCeph) []string {
	var out []string
	if r.Monitor != nil {
		out = append(out, "monitor "+r.Monitor.Name)
	}
	for _, o := range r.OSDs {
		switch known, id := v.known(o.UUID); known {
		case ceph.Yes:
			out = append(out, fmt.Sprintf("osd.%d", id))
		case ceph.Unknown:
			out = append(out, "the OSD on "+string(o.Path))
		case ceph.No:
			// Of a disk that is out of hand the key is all that can be destroyed. It goes with the record.
			if o.Encrypted {
				out = append(out, "the key of disk "+string(o.Path)+", which is removed then")
			}
		}
	}
	if v.daemonOn(host) {
		out = append(out, "daemons that are deployed on it")
	}
	return out
}

// known says whether the monitors know an OSD.
func (v *View) known(uuid string) (ceph.Answer, int) {
	t := v.seen.Ceph
	if t == nil || t.Map == nil || !v.seen.Current {
		return ceph.Unknown, -1
	}
	for _, o := range t.Map.OSDs {
		if o.UUID == uuid {
			return ceph.Yes, o.ID
		}
	}
	return ceph.No, -1
}

// Decide returns what is to be done on the disks of one host, and how it is.
func (v *View) Decide(m backend.Member) backend.Host {
	h := v.onHost(m)
	for i := range h.Steps {
		h.Steps[i] = v.bound(h.Steps[i].(Step))
	}
	return h
}

func (v *View) onHost(m backend.Member) backend.Host {
	r := record(m.Object)
	h := backend.Host{Devices: v.devices(m.Node, r), Watched: v.seen.Nodes[m.Node].Up()}
	for _, o := range r.OSDs {
		// While Ceph is being asked, what it said last stands.
		h.Serves = h.Serves || v.runs(o.UUID)
	}
	switch {
	case m.Object == nil || m.Invalid != nil:
		return h
	case m.Flags.ShouldDestroy():
		h.Finding = v.draining(m.Node, r)
		h.Steps, _ = v.adopt(m)
		return h
	case m.Frozen:
		return h
	}
	steps, not := v.adopt(m)
	h.Steps = steps
	passed := v.take(m, r, &h)
	if len(not) > 0 {
		// More is at stake than with a disk that is not taken.
		h.Finding = backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonOSDWaiting, Message: backend.Shorten(not, 5)}
	}
	if h.Finding.IsZero() && len(h.Steps) == 0 {
		h.Finding = passing(v.found(m.Node, r), passed)
	}
	return h
}

// runs reports whether Ceph says that an OSD is up.
func (v *View) runs(uuid string) bool {
	t := v.seen.Ceph
	return t != nil && t.Map != nil && slices.ContainsFunc(t.Map.OSDs, func(o ceph.OSD) bool { return o.UUID == uuid && o.Up })
}

// devices are those of the OSDs of a host, as far as its agent tells of them.
func (v *View) devices(node string, r v1alpha1.MemberCeph) []v1alpha1.MemberDevice {
	var out []v1alpha1.MemberDevice
	for _, o := range r.OSDs {
		d := v1alpha1.MemberDevice{Path: string(o.Path), Identity: o.WWN, Size: size(o.Size), State: v1alpha1.DevicePresent}
		if d.Identity == "" {
			d.Identity = o.Serial
		}
		d.OSD, d.OSDState = v.said(node, o, d)
		if n := v.seen.Nodes[node]; n.Up() {
			if _, there := osdrecord.Device(n, o); !there {
				d.State = v1alpha1.DeviceMissing
			}
		}
		// A disk in the place of one that died may have its path. The status has each path once.
		if i := slices.IndexFunc(out, func(x v1alpha1.MemberDevice) bool { return x.Path == d.Path }); i < 0 {
			out = append(out, d)
		} else if out[i].State == v1alpha1.DeviceMissing {
			out[i] = d
		}
	}
	return out
}

// said is the number of the OSD of a disk, and how it is. Until Ceph says which OSDs there are, it is what was said last of the disk.
func (v *View) said(node string, o v1alpha1.MemberOSD, disk v1alpha1.MemberDevice) (*int32, v1alpha1.OSDState) {
	if t := v.seen.Ceph; t != nil && t.Map != nil {
		if i := slices.IndexFunc(t.Map.OSDs, func(x ceph.OSD) bool { return x.UUID == o.UUID }); i >= 0 {
			return new(int32(t.Map.OSDs[i].ID)), state(t.Map.OSDs[i])
		}
		return nil, ""
	}
	if m := v.member(node); m != nil {
		for _, d := range m.Status.Devices {
			// Another disk may have its path.
			if d.Path == disk.Path && d.Identity == disk.Identity {
				return d.OSD, d.OSDState
			}
		}
	}
	return nil, ""
}

// state is how an OSD is; empty for one that never ran.
func state(o ceph.OSD) v1alpha1.OSDState {
	switch {
	case o.New:
		return ""
	case o.Up && o.In:
		return v1alpha1.OSDUpIn
	case o.Up:
		return v1alpha1.OSDUpOut
	case o.In:
		return v1alpha1.OSDDownIn
	}
	return v1alpha1.OSDDownOut
}

// asking is how soon to look again while Ceph is being asked, and every while nothing happens.
const (
	asking = 2 * time.Second
	every  = 20 * time.Second
)

// pods are what the workloads of the Cluster are made of.
func (v *View) pods() cephpod.Plan { return cephpod.Of(v.seen.Cluster) }
