package lvm

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Observation is what a View is made of.
type Observation struct {
	Cluster *v1alpha1.Cluster
	World   backend.World
	// Nodes are what the agents report, by host. Nothing is known about a host that is not in it.
	Nodes map[string]decide.Node
	// Now is the time on the clock of decide.Device.Since.
	Now time.Time
	// Holders are the nodes whose agents report a group with the tag of the Cluster, be it one that names another node.
	Holders []string
	// Snapshots names the snapshots that the API server still has of hosts whose member is declared lost, by host.
	Snapshots map[string][]string
}

// names returns the hosts, ordered.
func (o Observation) names() []string { return slices.Sorted(maps.Keys(o.Nodes)) }

// View is one observation of a Cluster with storageType lvm, and the decisions on it.
type View struct {
	seen    Observation
	own     claimant
	rivals  []claimant
	retired map[string][]disk.Retired
	members map[string]*v1alpha1.Member
}

var _ backend.View = (*View)(nil)

// NewView returns the view of an observation.
func NewView(o Observation) *View {
	v := &View{
		seen: o, own: claimantOf(o.Cluster, o.World.Members), retired: retired(o.World.Members, o.World.OtherMembers),
		members: map[string]*v1alpha1.Member{},
	}
	for _, s := range o.World.Others {
		if c, ok := s.(*v1alpha1.Cluster); ok && c.UID != o.Cluster.UID {
			v.rivals = append(v.rivals, claimantOf(c, o.World.OtherMembers))
		}
	}
	for _, m := range o.World.Members {
		node := string(m.Spec.Node)
		v.members[node] = v.own.spec.Owner.Prefer(v.members[node], m)
	}
	return v
}

// Hosts returns the hosts whose agents report, or did when they were last seen, a group of the Cluster; ordered.
func (v *View) Hosts() []string {
	var hosts []string
	for _, h := range v.seen.Holders {
		unknown := slices.ContainsFunc(unknown(v.own.spec, v.seen.Nodes[h]), func(u decide.UnknownGroup) bool { return u.OwnerUID != "" })
		if own, _ := v.groups(h); len(own) > 0 || unknown {
			hosts = append(hosts, h)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// groups returns the groups with the tag of the Cluster on a host: those of its own, and those of members that were declared lost.
func (v *View) groups(host string) (own, lost []decide.Group) {
	n := v.seen.Nodes[host]
	lost = slices.DeleteFunc(n.GroupsOf(v.own.spec.UID()), func(g decide.Group) bool { return !slices.Contains(v.own.spec.Lost, g.UUID) })
	return ownGroups(v.own.spec, n), lost
}

// node returns what the API server says about a host.
func (v *View) node(host string) backend.Node {
	if n, ok := v.seen.World.Nodes[host]; ok {
		return n
	}
	return backend.Node{Name: host}
}

// Facts returns what is known about a host.
func (v *View) Facts(host string) backend.Facts {
	n, known := v.seen.Nodes[host]
	if !known {
		return backend.Facts{TooEarly: true, Problem: "the agent was not asked yet"}
	}
	own, _ := v.groups(host)
	m := v.members[host]
	h := v.host(backend.Member{Node: host, Object: m})
	with := v.host(backend.Member{Node: host, Object: m, Volumes: v.seen.World.Volumes[host]})
	f := backend.Facts{
		Up: n.Up(), TooEarly: n.Agent == decide.AgentConnecting, Missing: n.Agent == decide.AgentMissing,
		Holding: holding(own), Data: data(v.own.spec, n, own), Recorded: h.reportsRecorded(), Unsure: with.unsure(),
	}
	f.Reason, f.Problem = problem(n)
	if f.Data == nodestate.DataAbsent && (!h.scattered().IsZero() || !h.hidden().IsZero()) {
		f.Data = nodestate.DataUnknown
	}
	if backend.Lost(m) && !f.Up && !f.TooEarly {
		// A person knows what nobody can see: the disks are gone, and the volumes with them.
		f.Holding, f.Data = nil, nodestate.DataAbsent
	}
	if snapshots := v.seen.Snapshots[host]; len(snapshots) > 0 {
		f.Holding, f.Data = append(f.Holding, snapshots...), nodestate.DataPresent
	}
	return f
}

// data says what is known about the data of a Cluster on a host. Only a report that is current, and lacks no group that may be the
// Cluster's, can say that there is none.
func data(s Spec, n decide.Node, own []decide.Group) nodestate.Data {
	if !known(s, n) {
		return nodestate.DataUnknown
	}
	for _, g := range own {
		if len(g.Volumes) > 0 {
			return nodestate.DataPresent
		}
	}
	return nodestate.DataAbsent
}

// known reports whether the groups of a Cluster on a host are known as they are now.
func known(s Spec, n decide.Node) bool {
	return n.Up() && n.LVMError == "" && len(unknown(s, n)) == 0
}

// unknown returns the groups on a host that LVM cannot report and that may be the Cluster's, without those of members that were declared
// lost.
func unknown(s Spec, n decide.Node) []decide.UnknownGroup {
	return slices.DeleteFunc(n.UnknownOf(s.UID()), func(u decide.UnknownGroup) bool { return slices.Contains(s.Lost, u.UUID) })
}

// holding names the volumes in groups, ordered.
func holding(groups []decide.Group) []string {
	var names []string
	for _, g := range groups {
		for _, v := range g.Volumes {
			names = append(names, g.Name+"/"+v)
		}
	}
	slices.Sort(names)
	return names
}

// problem says why a host is not up; empty when it is, or when it is too early to say.
func problem(n decide.Node) (reason, message string) {
	switch n.Agent {
	case decide.AgentMissing:
		return v1alpha1.ReasonAgentMissing, backend.Sentence(n.Problem, "no agent runs on this node")
	case decide.AgentUnreachable:
		return v1alpha1.ReasonAgentUnreachable, backend.Sentence(n.Problem, "the agent does not answer")
	}
	return "", ""
}

// Whole returns what concerns the Cluster as a whole.
func (v *View) Whole(hosts []backend.HostHealth) backend.Whole {
	w := backend.Whole{
		Serves:  slices.ContainsFunc(hosts, func(h backend.HostHealth) bool { return h.Decided.Serves && !h.Flags.ShouldDestroy() }),
		Pending: "The StorageClass is made once a host holds a volume group.",
		Class:   v.own.spec.Class(), Warnings: poolsHealthy(hosts),
	}
	for _, volume := range v.seen.World.Volumes[""] {
		w.Holding = append(w.Holding, volume.String())
	}
	if strangers := v.strangers(hosts); len(strangers) > 0 {
		w.Notes = append(w.Notes, "spec.devices.wipe names no host of this Cluster: "+backend.Shorten(strangers, 10))
	}
	return w
}

// strangers are the hosts of consents to a wipe that the Cluster has nothing to do with: a name that was mistyped, most likely.
func (v *View) strangers(hosts []backend.HostHealth) []string {
	if v.own.spec.Devices == nil {
		return nil
	}
	var names []string
	for _, consent := range v.own.spec.Devices.Wipe {
		if !slices.ContainsFunc(hosts, func(h backend.HostHealth) bool { return h.Node == string(consent.Host) }) {
			names = append(names, string(consent.Host))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// poolsHealthy is for Clusters that have thin pools only. Nearly full pools still serve, so Ready does not depend on it.
func poolsHealthy(hosts []backend.HostHealth) []metav1.Condition {
	var lines, unknown []string
	pools := false
	for _, h := range hosts {
		pool := h.Decided.ThinPool
		if pool == nil || h.Removed {
			continue
		}
		pools = true
		switch {
		case !pool.Known():
			unknown = append(unknown, h.Node+": "+pool.Describe())
		case pool.NearlyFull:
			lines = append(lines, h.Node+": "+pool.Describe())
		}
	}
	switch {
	case !pools:
		return nil
	case len(lines) > 0:
		return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionFalse,
			v1alpha1.ReasonThinPoolNearlyFull, backend.Text(append(lines, unknown...)))}
	case len(unknown) > 0:
		return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionUnknown,
			v1alpha1.ReasonThinPoolUnknown, backend.Text(unknown))}
	}
	return []metav1.Condition{backend.Condition(v1alpha1.ConditionThinPoolsHealthy, metav1.ConditionTrue, v1alpha1.ReasonThinPoolsHealthy,
		fmt.Sprintf("Every thin pool is less than %d %% full.", v1alpha1.ThinPoolWarnPercent))}
}
