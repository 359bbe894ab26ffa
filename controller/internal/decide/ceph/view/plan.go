package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/option"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// plan is what is to be done for the whole.
type plan struct {
	steps []Step
	waits []string
	// notes tell of what the spec asks for and does not get. Nothing waits for that, so that Ceph is not asked more often for it.
	notes []string
	// silent: nobody can say what is left to do.
	silent bool
}

func (p *plan) step(s Step) { p.steps = append(p.steps, s) }

func (p *plan) wait(format string, args ...any) {
	p.waits = append(p.waits, fmt.Sprintf(format, args...))
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
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
	p.silent = !slices.ContainsFunc(p.steps, func(s Step) bool { return backend.Guards(s) == "" }) && !v.seen.Current && v.quorumSeen()
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
	if current.Quorum != nil && v.quorumSeen() {
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
	formed, seen := noted.Formed(v.seen.Cluster), v.quorumSeen()
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
	v.misplaced(p)
	v.ignored(p, hosts)
	v.moved(p)
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
	names, w := []string{}, v.wantedMonitors(v.able(hosts, cephname.DaemonMonitor))
	for _, d := range v.of(cephname.DaemonMonitor) {
		if names = append(names, d.ID); d.Failing {
			w.Failing = append(w.Failing, d.ID)
		}
	}
	for _, n := range v.nodes() {
		for _, name := range record(v.member(n)).Swept {
			w.Swept = append(w.Swept, ceph.MonitorRecord{Name: name, Host: n})
		}
	}
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
	w := ceph.Monitors{Records: records, Hosts: slices.DeleteFunc(slices.Clone(hosts), func(h ceph.Host) bool { return v.barred(h.Name) != "" })}
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

// replicas is how many copies are wanted.
func (v *View) replicas() int {
	spec, places := 0, 0
	if c := v.seen.Cluster.Spec.Ceph; c != nil {
		spec = int(c.Replicas)
	}
	for _, h := range v.hosts() {
		switch {
		case h.Leaving:
		case v.shareHost():
			places += len(slices.DeleteFunc(slices.Clone(record(v.member(h.Name)).OSDs), func(o v1alpha1.MemberOSD) bool { return o.Replaced }))
		default:
			places++
		}
	}
	n, err := ceph.Replicas(spec, places)
	if err != nil {
		return spec // No pool is made or changed for that.
	}
	if spec > 0 {
		return n
	}
	// A host that goes takes no copy with it: only the spec makes fewer. Until Ceph says how many there are, what it was told stands.
	if t := v.seen.Ceph; t != nil && t.Map != nil {
		for _, pool := range t.Map.Pools {
			if pool.Name == cephname.PoolData {
				n = max(n, pool.Size)
			}
		}
	} else if w := v.seen.Workloads; w != nil {
		n = max(n, cephpod.Copies(w.Config))
	}
	return n
}

// legacyGroups reports whether the table chooses how many placement groups there are.
func (v *View) legacyGroups() bool {
	c := v.seen.Cluster.Spec.Ceph
	return c != nil && c.PGPolicy == v1alpha1.PGPolicyLegacy
}

// grouping is who chooses how many placement groups the pools of the filesystem have: Ceph, unless the spec or an option of it says otherwise. The table counts the OSDs that ran
// and stay, whether they run now or not.
func (v *View) grouping(f ceph.Facts) ceph.Grouping {
	g := ceph.Grouping{Pools: []string{cephname.PoolMetadata, cephname.PoolData}, Bulk: []string{cephname.PoolData}, Scale: ceph.ScaleOn}
	if !v.legacyGroups() {
		modes := []string{ceph.ScaleOn, ceph.ScaleWarn, ceph.ScaleOff}
		told := option.Monitors(v.wantedOptions(), "osd_pool_default_pg_autoscale_mode")
		if i := slices.IndexFunc(told, func(mode string) bool { return slices.Contains(modes, mode) }); i >= 0 {
			g.Scale = told[i]
		}
		return g
	}
	g.Scale = ceph.ScaleOff
	for _, d := range v.disks() {
		ran := f.Map != nil && slices.ContainsFunc(f.Map.OSDs, func(o ceph.OSD) bool { return o.UUID == d.UUID && !o.New })
		if ran && !d.GivenUp && !v.host(d.Host).Leaving {
			g.Disks++
		}
	}
	return g
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
