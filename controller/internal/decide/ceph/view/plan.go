package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/osdrecord"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// plan is what is to be done for the whole.
type plan struct {
	steps []Step
	waits []string
	// silent: nobody can say what is left to do.
	silent bool
}

func (p *plan) step(s Step) { p.steps = append(p.steps, s) }

func (p *plan) wait(format string, args ...any) {
	p.waits = append(p.waits, fmt.Sprintf(format, args...))
}

// whole is a step of the whole, on a host or on none.
func (v *View) whole(action, host, why string) Step {
	return Step{Does: action, Cluster: v.seen.Cluster.Name, UID: string(v.seen.Cluster.UID), FSID: v.seen.Cluster.FSID(), Through: host, Why: why}
}

// decide makes the plan: each step as soon as it is possible, whatever was done before.
func (v *View) decide() plan {
	var p plan
	if v.seen.Workloads == nil {
		p.silent = true
		p.wait("What is deployed cannot be read.")
		return p
	}
	if v.deleting() {
		v.guard(&p)
		v.tearDown(&p)
		return p
	}
	v.guard(&p)
	if !v.prepared(&p) {
		return p
	}
	v.facts(&p)
	v.sweep(&p)
	// What waits for a person binds the steps after it: no client stays unblocked because a dead disk is to be replaced.
	slices.SortStableFunc(p.steps, func(a, b Step) int { return cmp.Compare(a.rank(), b.rank()) })
	// While Ceph does not answer nobody knows what is left to do: a plan that waits for its approval is not over. What guards is decided without an answer as well.
	p.silent = !slices.ContainsFunc(p.steps, func(s Step) bool { return backend.Guards(s) == "" }) && !v.seen.Current && noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephFormed)
	return p
}

// guard keeps data from harm, whatever else is under way: a Cluster whose deletion waits for its volumes serves them. Once nothing of it is wanted any more,
// there is nothing to guard.
func (v *View) guard(p *plan) {
	if v.deleting() && noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephRemoved) {
		return
	}
	current := v.current()
	v.budget(p)
	plans := []ceph.Plan{v.planFence(current)}
	if current.Quorum != nil && noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephFormed) {
		plans = append(plans, v.planFlags(v.hosts(), current), v.planUpkeep(current))
	}
	v.add(p, plans...)
}

// current is what Ceph says now; nothing while it is being asked.
func (v *View) current() ceph.Facts {
	if v.seen.Ceph != nil && v.seen.Current {
		return v.seen.Ceph.Facts
	}
	return ceph.Facts{}
}

// add takes over what the rules about Ceph want.
func (v *View) add(p *plan, plans ...ceph.Plan) {
	all := ceph.Together(plans...)
	// While Ceph is being asked, the rules only say that they know nothing.
	if v.seen.Current || v.seen.Asking != BeingAsked {
		p.waits = append(p.waits, all.Waits...)
	}
	for _, s := range all.Steps {
		v.translate(p, s)
	}
}

// unsaid tells what Ceph did not say.
func (v *View) unsaid(p *plan) {
	switch {
	case v.seen.Current && v.seen.Ceph.Problem != "":
		p.wait("Ceph was not asked to the end: %s", backend.Cut(v.seen.Ceph.Problem, 512))
	case !v.seen.Current && v.seen.Asking != "":
		p.wait("%s", v.seen.Asking)
	}
}

// facts has the rules about Ceph decide.
func (v *View) facts(p *plan) {
	hosts, current := v.hosts(), v.current()
	formed, seen := noted.Formed(v.seen.Cluster), v.formed()
	first := slices.IndexFunc(v.seen.Workloads.Daemons, func(w Workload) bool { return w.First })
	if current.Quorum != nil && !seen {
		if why := v.second(current); why != "" {
			p.wait("%s", why)
			return
		}
	}
	if current.Quorum != nil && (!seen || first >= 0) {
		s := v.whole(v1alpha1.ActionFormCeph, "", "The monitors were seen as a quorum: from now on none is made that knows no other.")
		if first >= 0 {
			s.Daemon, _ = v.wanted(v.seen.Workloads.Daemons[first])
		}
		p.step(s)
		return
	}
	v.unsaid(p)
	v.tellUnable(p, hosts)
	v.nameless(p)
	v.ignored(p)
	plans := []ceph.Plan{v.planMonitors(hosts, formed, current)}
	if formed && current.Quorum != nil {
		v.options(p)
		plans = append(plans, v.planOSDs(hosts, current), v.planPools(current), v.planUpgrade(hosts, current))
		v.daemons(p, hosts, current)
	}
	if current.Quorum == nil && v.seen.Asking != BeingAsked {
		plans = append(plans, v.planRevival(hosts))
	}
	v.add(p, plans...)
	if formed && current.Quorum != nil {
		v.serve(p, current)
		v.dashboard(p, current)
	}
}

func (v *View) planMonitors(hosts []ceph.Host, formed bool, f ceph.Facts) ceph.Plan {
	names := []string{}
	for _, d := range v.seen.Workloads.Daemons {
		if d.Kind == cephname.DaemonMonitor {
			names = append(names, d.ID)
		}
	}
	w := v.wantedMonitors(v.able(hosts, cephname.DaemonMonitor))
	w.Next, w.Formed, w.Deployed, w.Unmade = v.next(), formed, &names, v.unmade()
	w.Exists = v.existing().Proof != ""
	if c := v.seen.Cluster; c.TakesUp() && !noted.Is(c, v1alpha1.AnnotationCephFormed) {
		for _, m := range v.toldOf() {
			w.Known = append(w.Known, ceph.MonitorRecord{Name: m.Name, Host: string(m.Host)})
		}
	}
	return ceph.PlanMonitors(w, f)
}

// wantedMonitors are the monitors on record, and how many the spec wants.
func (v *View) wantedMonitors(hosts []ceph.Host) ceph.Monitors {
	records, _ := v.monitors()
	w := ceph.Monitors{Records: records, Hosts: hosts}
	if c := v.seen.Cluster.Spec.Ceph; c != nil {
		w.Count = int(c.Mons)
	}
	return w
}

func (v *View) planOSDs(hosts []ceph.Host, f ceph.Facts) ceph.Plan {
	w := ceph.OSDs{Disks: v.disks(), Hosts: hosts, Tools: slices.Sorted(maps.Keys(v.seen.Workloads.Tools)), ShareHost: v.shareHost()}
	if c := v.seen.Cluster.Spec.Ceph; c != nil {
		// Whoever approves each step is asked for this one too, with what is lost by it.
		w.AutoReplace = c.AutoReplace && v.seen.Cluster.Spec.Approval != v1alpha1.ApprovalManual
	}
	return ceph.PlanOSDs(w, f)
}

func (v *View) planPools(f ceph.Facts) ceph.Plan {
	w := ceph.Pools{Replicas: v.replicas(), Served: noted.Served(v.seen.Cluster), ShareHost: v.shareHost()}
	if f.Map != nil && slices.ContainsFunc(f.Map.Pools, func(p ceph.Pool) bool { return p.Name == cephname.PoolManager }) {
		w.Names = append(w.Names, cephname.PoolManager)
	}
	w.Names = append(w.Names, cephname.PoolMetadata, cephname.PoolData)
	w.Grouping = v.grouping(f)
	return ceph.PlanPools(w, f)
}

func (v *View) planFlags(hosts []ceph.Host, f ceph.Facts) ceph.Plan {
	var set []string
	for _, n := range v.nodes() {
		if record(v.member(n)).NoOut {
			set = append(set, n)
		}
	}
	return ceph.PlanFlags(ceph.Flags{Hosts: hosts, Set: set}, f)
}

// planFence is about the clients of nodes that are out of service. Before the filesystem is made, or a Ceph cluster is taken up that may have clients, there are none.
func (v *View) planFence(f ceph.Facts) ceph.Plan {
	records, err := noted.Blocked(v.seen.Cluster)
	if err != nil {
		return ceph.Plan{Waits: []string{fmt.Sprintf("Which clients are blocked cannot be read: %v.", err)}}
	}
	if !noted.Served(v.seen.Cluster) && len(records) == 0 {
		return ceph.Plan{}
	}
	return ceph.PlanFence(ceph.Fence{Clients: v.seen.Clients, Records: records}, f)
}

// translate makes a step of the whole of one that the rules about Ceph want.
func (v *View) translate(p *plan, s ceph.Step) {
	host := ""
	switch s.Do {
	case ceph.PrepareOSD, ceph.ZapOSD:
		host = s.Host
	}
	out := v.whole(actions[s.Do], host, s.Why)
	out.Ceph, out.Loses = s, s.Loses
	if m := v.member(s.Host); m != nil {
		out.Member = m.Name
	}
	switch s.Do {
	case ceph.StartMonitor:
		out.Daemon = cephpod.Daemon{
			Kind: cephname.DaemonMonitor, ID: s.Name, Node: s.Host, Image: v.image(cephname.DaemonMonitor), Address: v.seen.Addresses[s.Host], First: s.First,
		}
		if r := record(v.member(s.Host)).Monitor; r != nil {
			out.Daemon.Address = r.Address
		}
	case ceph.StartOSD, ceph.StopOSD, ceph.PrepareOSD, ceph.ZapOSD:
		if !v.onDisk(p, s, &out) {
			return
		}
	case ceph.ReplaceDaemon:
		i := slices.IndexFunc(v.seen.Workloads.Daemons, func(x Workload) bool { return x.Kind+"."+x.ID == s.Name })
		d, ok := v.wanted(v.seen.Workloads.Daemons[i])
		if !ok {
			return
		}
		// Once the monitors were seen none is made that knows no other.
		d.Image, d.First = v.pods().Image, v.seen.Workloads.Daemons[i].First && !noted.Formed(v.seen.Cluster)
		out.Daemon = d
	}
	p.step(out)
}

// onDisk completes a step on the disk of an OSD. It reports whether the step can be taken: else the plan says what it waits for.
func (v *View) onDisk(p *plan, s ceph.Step, out *Step) bool {
	r := record(v.member(s.Host))
	i := slices.IndexFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == s.UUID })
	if i < 0 {
		return false
	}
	d, there := osdrecord.Device(v.seen.Nodes[s.Host], r.OSDs[i])
	if !there && (s.Do == ceph.PrepareOSD || s.Do == ceph.ZapOSD && !r.OSDs[i].Replaced) {
		p.wait("Disk %s on %s is not there.", s.Path, s.Host)
		return false
	}
	out.Devices, out.Tools, out.Purged, out.Making = []decide.Device{d}, v.seen.Workloads.Tools[s.Host], r.OSDs[i].Purged, v.seen.Verdicts[s.UUID].Making
	if !there {
		out.Devices = nil
	}
	out.Daemon = cephpod.Daemon{
		Kind: cephname.DaemonOSD, ID: fmt.Sprint(s.ID), Node: s.Host, Image: v.image(cephname.DaemonOSD), UUID: s.UUID, Device: string(r.OSDs[i].Path),
		Encrypted: r.OSDs[i].Encrypted, Secret: r.OSDs[i].Secret,
	}
	if s.Do == ceph.StopOSD && s.ID < 0 {
		// The monitors do not know its number, and its Deployment does.
		if out.Daemon.ID = v.numberOf(s.UUID); out.Daemon.ID == "" {
			p.wait("The daemon of disk %s on %s ends.", s.Path, s.Host)
			return false
		}
	}
	return true
}
