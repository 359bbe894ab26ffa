package ceph

import (
	"cmp"
	"slices"

	"quarry.storage/quarry/pkg/cephname"
)

// Monitors is what is wanted of the monitors.
type Monitors struct {
	// Count from the spec; 0 for the default.
	Count int
	// Records of the Cluster. Next is the name that the next monitor gets, which no monitor of the Cluster ever had.
	Records []MonitorRecord
	Next    string
	// Formed: monitors of the Cluster have been seen as a quorum, by the Cluster's own record. From then on none is ever made that knows no other.
	Formed bool
	// Unmade says why no monitor makes the Ceph cluster: it exists, or may exist, without any record of that. It is empty if a monitor may make it. Exists: it does exist.
	Unmade string
	Exists bool
	// Known are monitors that a person told of, of a Ceph cluster which is taken up. They count while the monitors do not answer.
	Known []MonitorRecord
	// Deployed are the names of monitors whose workloads exist; nil when that is not known. Failing are those of them that the kubelet says do not start, or end again and again.
	Deployed *[]string
	Failing  []string
	// Swept are monitors that were removed, and whose data are still on their hosts.
	Swept []MonitorRecord
	Hosts []Host
}

// Target is how many monitors there are to be: three by default, and an odd number where there are too few hosts. Only the spec makes them fewer: one
// more copy of what the monitors know is worth more than one more voter costs.
func (w Monitors) Target() int {
	hosts := 0
	for _, h := range w.Hosts {
		if !h.Leaving {
			hosts++
		}
	}
	have, want := min(len(w.Records), hosts), cmp.Or(w.Count, 3)
	if want <= hosts && w.Count > 0 {
		return want
	}
	return max(have, min(want, hosts-(1-hosts%2)), 0)
}

// PlanMonitors returns at most one step. It never takes a monitor away unless the others are a quorum of those that are left, and adds none while
// one is missing.
func PlanMonitors(w Monitors, f Facts) Plan {
	var p Plan
	if w.Deployed == nil {
		p.wait("Which monitors are deployed cannot be read.")
		return p
	}
	if f.Quorum == nil && w.takeUp(&p) {
		return p
	}
	if len(w.Records) == 0 && (f.Quorum == nil || !w.Formed) {
		w.first(&p, f)
		return p
	}
	if w.startRecorded(&p, f) {
		return p
	}
	if f.Quorum == nil {
		p.wait("The monitors do not answer.")
		return p
	}
	if m, found := w.unrecorded(*f.Quorum); found {
		w.adopt(&p, *f.Quorum, m)
		return p
	}
	if r, why, found := w.surplus(*f.Quorum); found {
		// Without one more, the monitor of a host in maintenance may be missed when the host is off. One that is dead helps nobody, unless it comes back with that host.
		if h, is := w.maintained(); is && !w.host(r.Host).Leaving && (f.Quorum.has(r.Name) || w.host(r.Host).Maintenance) {
			p.wait("Monitor %s is one too many. It is removed after the maintenance of host %s.", r.Name, h.Name)
			return p
		}
		w.remove(&p, *f.Quorum, r, why)
		return p
	}
	w.add(&p, *f.Quorum)
	return p
}

// takeUp puts the monitors on record that a person told of. It reports whether one is still to come.
func (w Monitors) takeUp(p *Plan) bool {
	for _, k := range w.Known {
		if slices.ContainsFunc(w.Records, func(r MonitorRecord) bool { return r.Name == k.Name || r.Host == k.Host }) {
			continue
		}
		if h := w.host(k.Host); h.Address == "" {
			p.wait("Monitor %s is said to be on %s, which is no host of the Cluster, or has no address.", k.Name, k.Host)
		} else {
			p.step(Step{Do: AdoptMonitor, Name: k.Name, Host: h.Name, Address: h.Address, ID: -1, Why: "A person told of it: its Ceph cluster is taken up."})
			return true
		}
	}
	return false
}

// unrecorded is the first monitor of the map that is on no record.
func (w Monitors) unrecorded(q Quorum) (Monitor, bool) {
	for _, m := range q.Monitors {
		if !slices.ContainsFunc(w.Records, func(r MonitorRecord) bool { return r.Name == m.Name }) {
			return m, true
		}
	}
	return Monitor{}, false
}

// adopt puts a monitor of the map on record that is on none, as after a restore of the API server from a backup which is older than the monitor. The Cluster made it if it has a name as the Cluster
// gives them, and the address of a host that has no other monitor. One that runs without a workload of the Cluster is somebody else's.
func (w Monitors) adopt(p *Plan, q Quorum, m Monitor) {
	if i := slices.IndexFunc(w.Swept, func(r MonitorRecord) bool { return r.Name == m.Name }); i >= 0 {
		w.remove(p, q, w.Swept[i], "It was removed before it had joined the others, and joined them before its program ended.")
		return
	}
	const left = "No monitor is changed until that is settled."
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Address == m.Address && m.Address != "" })
	switch {
	case cephname.Number(m.Name) < 0:
		p.wait("Monitor %s has a name that Quarry gives to none: somebody else made it. %s", m.Name, left)
		return
	case i < 0:
		p.wait("Monitor %s is on no record, and no host of the Cluster has its address %s. If its host is yours, list it in spec.hosts; do not remove the monitor before you know whose it is. %s", m.Name, m.Address, left)
		return
	case m.In && !slices.Contains(*w.Deployed, m.Name):
		p.wait("Monitor %s runs on host %s, is on no record, and nothing of the Cluster deploys it. %s", m.Name, w.Hosts[i].Name, left)
		return
	}
	if j := slices.IndexFunc(w.Records, func(r MonitorRecord) bool { return r.Host == w.Hosts[i].Name }); j >= 0 {
		p.wait("Monitor %s is on no record, and has the address of host %s, which has monitor %s. %s", m.Name, w.Hosts[i].Name, w.Records[j].Name, left)
		return
	}
	p.step(Step{Do: AdoptMonitor, Name: m.Name, Host: w.Hosts[i].Name, Address: m.Address, ID: -1, Why: "The monitors know it, and the Cluster has no record of it."})
}

// first has the cluster made. That happens only if there is no record, no workload and no monitor that answers: a second first monitor would be
// another cluster under the same name.
func (w Monitors) first(p *Plan, f Facts) {
	if f.Quorum != nil || len(*w.Deployed) > 0 || w.Formed {
		p.wait("There are monitors, or there were, and the Cluster has no record of them. Nothing is done to them.")
		return
	}
	if w.Unmade != "" {
		p.wait("%s", w.Unmade)
		return
	}
	h, ok := w.free()
	if !ok {
		p.wait("No host can run the first monitor.")
		return
	}
	p.step(Step{Do: StartMonitor, Name: w.Next, Host: h.Name, First: true, ID: -1, Why: "The Cluster has no monitor yet."})
}

// startRecorded deploys a monitor on record whose workload is not there. It makes the cluster only if nobody has ever seen that, and nothing is seen of it.
func (w Monitors) startRecorded(p *Plan, f Facts) bool {
	for _, r := range w.Records {
		if h := w.host(r.Host); slices.Contains(*w.Deployed, r.Name) || h.Leaving || h.Maintenance || !h.Serving {
			continue
		}
		first := len(w.Records) == 1 && f.Quorum == nil && !w.Formed && !w.Exists
		if first && w.Unmade != "" {
			p.wait("%s", w.Unmade)
			return true
		}
		p.step(Step{Do: StartMonitor, Name: r.Name, Host: r.Host, First: first, ID: -1, Why: "The monitor is on record and is not deployed."})
		return true
	}
	return false
}

func (w Monitors) host(name string) Host {
	i := slices.IndexFunc(w.Hosts, func(h Host) bool { return h.Name == name })
	if i < 0 {
		// A host that the Cluster no longer has is gone for good.
		return Host{Name: name, Leaving: true}
	}
	return w.Hosts[i]
}

// surplus is the monitor to remove: one whose host goes for good, first of all one that is not in the quorum, or one more than are wanted.
func (w Monitors) surplus(q Quorum) (r MonitorRecord, why string, found bool) {
	leaving := slices.DeleteFunc(slices.Clone(w.Records), func(r MonitorRecord) bool { return !w.host(r.Host).Leaving })
	slices.SortFunc(leaving, func(a, b MonitorRecord) int {
		return cmp.Or(q.votes(a.Name)-q.votes(b.Name), cmp.Compare(a.Name, b.Name))
	})
	if len(leaving) > 0 {
		r := leaving[0]
		// Its successor comes first where there can be one: then the number of those that may fail stays the same.
		if w.roomy() && q.has(r.Name) && w.staying() < w.Target() {
			return MonitorRecord{}, "", false
		}
		return r, "Its host leaves the Cluster.", true
	}
	if len(w.Records) > w.Target() {
		last := slices.MaxFunc(w.Records, func(a, b MonitorRecord) int {
			return cmp.Or(q.votes(b.Name)-q.votes(a.Name), cmp.Compare(a.Name, b.Name))
		})
		return last, "The Cluster wants fewer monitors.", true
	}
	return MonitorRecord{}, "", false
}

// maintained is a host with a monitor that is in maintenance, and stays.
func (w Monitors) maintained() (Host, bool) {
	for _, r := range w.Records {
		if h := w.host(r.Host); h.Maintenance && !h.Leaving {
			return h, true
		}
	}
	return Host{}, false
}

// staying counts the monitors whose hosts stay.
func (w Monitors) staying() int {
	n := 0
	for _, r := range w.Records {
		if !w.host(r.Host).Leaving {
			n++
		}
	}
	return n
}

// remove takes the monitor away if the others are a quorum without it. One that does its work stays until all that are to stay do theirs.
func (w Monitors) remove(p *Plan, q Quorum, r MonitorRecord, why string) {
	for _, other := range w.Records {
		if q.has(r.Name) && other != r && !q.has(other.Name) {
			p.wait("Monitor %s stays until monitor %s is in the quorum.", r.Name, other.Name)
			return
		}
	}
	mapped, in := 0, 0
	for _, m := range q.Monitors {
		if m.Name != r.Name {
			mapped++
			if m.In {
				in++
			}
		}
	}
	if mapped == 0 || in < majority(mapped) {
		p.wait("Monitor %s stays: without it %d of %d monitors would be in the quorum, and %d have to be.", r.Name, in, mapped, majority(mapped))
		return
	}
	if in < majority(mapped+1) && w.joins(q, r) {
		p.wait("Monitor %s on host %s has not joined the others yet, and is removed once it has: they would wait for one that joins them while it ends. If it cannot reach them, switch its host off.", r.Name, r.Host)
		return
	}
	p.step(Step{Do: RemoveMonitor, Name: r.Name, Host: r.Host, ID: -1, Why: why})
}

// joins reports whether a monitor that the others do not know may join them at any moment.
func (w Monitors) joins(q Quorum, r MonitorRecord) bool {
	return !q.knows(r.Name) && w.host(r.Host).Serving && slices.Contains(*w.Deployed, r.Name) && !slices.Contains(w.Failing, r.Name)
}

// add has one more monitor made if all others are in the quorum.
func (w Monitors) add(p *Plan, q Quorum) {
	for _, r := range w.Records {
		if !q.has(r.Name) {
			p.wait("Monitor %s on host %s is not in the quorum.", r.Name, r.Host)
		}
	}
	if w.staying() >= w.Target() || len(p.Waits) > 0 {
		return
	}
	h, ok := w.free()
	if !ok {
		p.wait("No host can run one more monitor: there are %d, and the Cluster wants %d.", w.staying(), w.Target())
		return
	}
	p.step(Step{Do: StartMonitor, Name: w.Next, Host: h.Name, ID: -1, Why: "The Cluster wants more monitors."})
}

// roomy reports whether a host could take a monitor now, or once it is able to.
func (w Monitors) roomy() bool {
	return slices.ContainsFunc(w.Hosts, func(h Host) bool {
		return h.Serving && !h.Leaving && !h.Maintenance && !slices.ContainsFunc(w.Records, func(r MonitorRecord) bool { return r.Host == h.Name })
	})
}

// free is the first host, by name, that can run a monitor and has none.
func (w Monitors) free() (Host, bool) {
	var free []Host
	for _, h := range w.Hosts {
		taken := slices.ContainsFunc(w.Records, func(r MonitorRecord) bool { return r.Host == h.Name })
		if h.Serving && !h.Unable && !h.Leaving && !h.Maintenance && !taken {
			free = append(free, h)
		}
	}
	if len(free) == 0 {
		return Host{}, false
	}
	return slices.MinFunc(free, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) }), true
}
