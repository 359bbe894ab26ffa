package view

import (
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// managers is how many managers there are where there are as many hosts: one serves, one stands by.
const managers = 2

// shareHost reports whether copies of one object may be on one host.
func (v *View) shareHost() bool {
	c := v.seen.Cluster.Spec.Ceph
	return c != nil && c.FailureDomain == v1alpha1.FailureDomainOSD
}

// daemons sees to those that keep nothing on their nodes: managers, metadata servers, and the idle pods with Ceph's programs.
func (v *View) daemons(p *plan, hosts []ceph.Host, f ceph.Facts) {
	v.spread(p, v.able(hosts, cephname.DaemonManager), cephname.DaemonManager, managers)
	if f.Map != nil && slices.ContainsFunc(f.Map.OSDs, func(o ceph.OSD) bool { return o.Up }) {
		v.spread(p, v.able(hosts, cephname.DaemonMetadata), cephname.DaemonMetadata, v.servers())
	}
	v.tools(p, hosts)
}

// budget has drains of nodes take OSDs only as Ceph does without them. While it is being asked, what it said last stands.
func (v *View) budget(p *plan) {
	w := v.seen.Workloads
	if len(v.of(cephname.DaemonOSD)) == 0 || !v.seen.Current && v.seen.Asking == BeingAsked {
		return
	}
	var rest map[string]ceph.Answer
	if v.seen.Ceph != nil {
		rest = v.seen.Ceph.Rest
	}
	want := ceph.PlanBudget(v.hosts(), rest, v.current())
	if w.Budget != nil && w.Budget.Equal(want) {
		return
	}
	s := v.whole(v1alpha1.ActionSetBudget, "", "No OSD may go: Ceph does not say that it can do without.")
	switch {
	case want.Most > 0:
		s.Why = "One OSD may go: every placement group has all of its copies."
	case len(want.Free) > 0:
		s.Why = "Those OSDs may go that do not run, or all of one host if Ceph can do without them."
	}
	s.Budget = want
	p.step(s)
}

// Hosts returns the hosts of an observation as the rules about Ceph know them.
func Hosts(o Observation) []ceph.Host { return bare(o).hosts() }

// servers is how many metadata servers the spec wants.
func (v *View) servers() int {
	if c := v.seen.Cluster.Spec.Ceph; c != nil && c.MDS > 0 {
		return int(c.MDS)
	}
	return 2
}

// placeKept is how long a daemon that keeps nothing on its node has its place on a host that is away.
const placeKept = 5 * time.Minute

// displaced reports whether a daemon counts no more where it is: it does not run, its host is away without being in maintenance, and that was so for some minutes.
func (v *View) displaced(w Workload, h ceph.Host) bool {
	return !h.Serving && !h.Maintenance && !w.Ready && !w.Away.IsZero() && v.seen.Now.Sub(w.Away) >= placeKept
}

// displacedFrom reports whether the manager or the metadata server on a host counts no more. A monitor keeps its place by its record.
func (v *View) displacedFrom(h ceph.Host, kind string) bool {
	is := func(w Workload) bool { return w.Node == h.Name && v.displaced(w, h) }
	return kind != cephname.DaemonMonitor && v.seen.Workloads != nil && slices.ContainsFunc(v.of(kind), is)
}

// spread has a kind of daemons run on so many hosts. One on a host that goes is removed once another one can take its part: those that stand by have started by then. One on a host that is away
// stays deployed, and another one is made beside it; once the host is back there is one too many.
func (v *View) spread(p *plan, hosts []ceph.Host, kind string, count int) {
	have := v.of(kind)
	var stay, gone []Workload
	for _, w := range have {
		i := slices.IndexFunc(hosts, func(h ceph.Host) bool { return h.Name == w.Node && !h.Leaving })
		switch {
		case i < 0:
			gone = append(gone, w)
		case !v.displaced(w, hosts[i]):
			stay = append(stay, w)
		}
	}
	// Where there are too many, that one stays that serves, and those that run.
	slices.SortStableFunc(stay, running)
	slices.SortStableFunc(stay, v.serving)
	for _, h := range hosts {
		if len(stay) >= count {
			break
		}
		if h.Serving && !h.Unable && !h.Leaving && !h.Maintenance && !slices.ContainsFunc(have, func(w Workload) bool { return w.Node == h.Name }) {
			d := cephpod.Daemon{Kind: kind, ID: cephname.OnNode(h.Name), Node: h.Name}
			v.deploy(p, d, v1alpha1.ActionDeployDaemon, "The Cluster wants it.")
			stay = append(stay, Workload{Kind: kind, ID: d.ID, Node: h.Name})
		}
	}
	v.withdraw(p, kind, gone, slices.ContainsFunc(stay, func(w Workload) bool { return w.Ready }) || count == 0, hosts)
	if len(stay) > count {
		v.fewer(p, kind, stay[count:], count == 0 || stay[0].Ready)
	}
}

// withdraw removes daemons from hosts that leave. While no other one runs they stay as long as a host stays: one that cannot take a daemon now, as its agent is away or it
// has too little memory, may be able later. They also stay while an OSD is on record: where every host leaves, nothing else serves what is on it, or says when it may go.
func (v *View) withdraw(p *plan, kind string, gone []Workload, runs bool, hosts []ceph.Host) {
	later := len(v.disks()) > 0 || slices.ContainsFunc(hosts, func(h ceph.Host) bool { return !h.Leaving })
	for _, w := range gone {
		if !runs && later {
			p.wait("%s.%s on %s stays until another one runs.", kind, w.ID, w.Node)
			continue
		}
		v.drop(p, w, "Its host leaves.")
	}
}

// fewer removes daemons that are too many; none while no other one runs.
func (v *View) fewer(p *plan, kind string, surplus []Workload, runs bool) {
	for _, w := range surplus {
		if !runs {
			p.wait("Surplus %s.%s on %s stays until another one runs.", kind, w.ID, w.Node)
			continue
		}
		v.drop(p, w, "The Cluster wants fewer of them.")
	}
}

// running orders those first that are ready, and else by node.
func running(a, b Workload) int {
	switch {
	case a.Ready == b.Ready:
		return strings.Compare(a.Node, b.Node)
	case a.Ready:
		return -1
	}
	return 1
}

// serving orders the one first that Ceph says is active.
func (v *View) serving(a, b Workload) int {
	active := func(w Workload) bool {
		t := v.seen.Ceph
		return t != nil && t.Daemons != nil && slices.ContainsFunc(*t.Daemons, func(d ceph.Daemon) bool { return d.Active && d.Kind == w.Kind && d.Name == w.ID })
	}
	switch x, y := active(a), active(b); {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

func (v *View) of(kind string) []Workload {
	return slices.DeleteFunc(slices.Clone(v.seen.Workloads.Daemons), func(w Workload) bool { return w.Kind != kind })
}

func (v *View) deploy(p *plan, d cephpod.Daemon, action, why string) {
	s := v.whole(action, "", why)
	d.Image = v.image(d.Kind)
	s.Daemon = d
	p.step(s)
}

// drop removes a daemon. One that is being deleted already is waited for.
func (v *View) drop(p *plan, w Workload, why string) {
	if w.Going {
		v.ending(p, w.Kind, []string{w.Node})
		return
	}
	v.deploy(p, cephpod.Daemon{Kind: w.Kind, ID: w.ID, Node: w.Node}, v1alpha1.ActionRemoveDaemon, why)
}

// tools has the idle pod run where a disk is to become an OSD, and nowhere else.
func (v *View) tools(p *plan, hosts []ceph.Host) {
	have := v.of(cephname.DaemonTools)
	for _, h := range hosts {
		needed := false
		for _, d := range v.disks() {
			needed = needed || d.Host == h.Name && h.Serving && !h.Leaving && d.Deployed == ceph.No && (d.Kind == osd.Empty || d.Kind == osd.Unfinished)
		}
		i := slices.IndexFunc(have, func(w Workload) bool { return w.Node == h.Name })
		switch {
		case needed && i < 0:
			v.deploy(p, cephpod.Daemon{Kind: cephname.DaemonTools, ID: cephname.OnNode(h.Name), Node: h.Name}, v1alpha1.ActionDeployDaemon, "A disk of the host is to become an OSD.")
		case !needed && i >= 0:
			v.drop(p, have[i], "No disk of the host is to become an OSD.")
		}
	}
}

// serve makes the filesystem over its pools, the group of the volumes, and the key of the clients.
func (v *View) serve(p *plan, f ceph.Facts) {
	if f.Map == nil {
		return
	}
	for _, name := range []string{cephname.PoolMetadata, cephname.PoolData} {
		if !slices.ContainsFunc(f.Map.Pools, func(pool ceph.Pool) bool { return pool.Name == name }) {
			return
		}
	}
	t := v.seen.Ceph
	if len(v.of(cephname.DaemonMetadata)) == 0 {
		p.wait("The filesystem waits for a metadata server.")
		return
	}
	if why := v.keepsFilesystem(t); why != "" {
		p.wait("%s", why)
		return
	}
	_, listening := v.monitors()
	var at []string
	for _, m := range listening {
		at = append(at, cephname.Address(m.Address))
	}
	monitors := strings.Join(at, ",")
	// A record that got lost is written again: it alone keeps the volumes when the Cluster is deleted.
	if t.Filesystem == ceph.Yes && t.Group == ceph.Yes && v.seen.Workloads.Client == monitors && noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephServed) {
		return
	}
	s := v.whole(v1alpha1.ActionServeFilesystem, "", "The pools are there.")
	s.Text = monitors
	p.step(s)
}

// keepsFilesystem says why nothing is made of the filesystem now; empty if it may be.
func (v *View) keepsFilesystem(t *Told) string {
	switch {
	case t.Filesystem == ceph.Unknown:
		return "Whether the filesystem is there cannot be read."
	case t.Filesystem == ceph.No && v.named():
		return "The filesystem does not exist, and PersistentVolumes name volumes in it: it is not made anew, since that could overwrite what is left of it in the pools."
	case t.Filesystem == ceph.Yes && t.Group == ceph.Unknown && noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephServed):
		return "Whether the group of the volumes is there cannot be read: no metadata server serves yet, or Ceph did not answer."
	}
	return ""
}

// order is that in which the daemons of a Cluster that is deleted go: each needs those after it.
var order = []string{cephname.DaemonTools, cephname.DaemonMetadata, cephname.DaemonOSD, cephname.DaemonManager, cephname.DaemonMonitor}

// stop takes the daemons away, one kind after the other. It reports whether there are any still. A Deployment that is being deleted is there until its pods have ended.
func (v *View) stop(p *plan) bool {
	for _, kind := range order {
		have, at := v.of(kind), slices.Clone(v.seen.Workloads.Pods[kind])
		for _, d := range have {
			if d.Going {
				at = append(at, d.Node)
				continue
			}
			v.drop(p, d, "The Cluster is being deleted.")
		}
		if len(p.steps) == 0 && len(at) > 0 {
			v.ending(p, kind, at)
		}
		if len(have)+len(at) > 0 {
			return true
		}
	}
	return false
}

// ending tells of the pods of a kind that have not ended, and what ends those whose host does not answer.
func (v *View) ending(p *plan, kind string, at []string) {
	slices.Sort(at)
	at = slices.Compact(at)
	p.wait("Pods of kind %s have not ended yet on %s.", kind, backend.Shorten(at, 5))
	away := slices.DeleteFunc(at, func(n string) bool { return v.seen.Nodes[n].Up() })
	if len(away) > 0 {
		p.wait("No agent answers on %s. Boot such a host. If it stays off, delete its Node from Kubernetes, or taint that with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute: its pods end then.", backend.Shorten(away, 5))
	}
}

func count(m ceph.Map) v1alpha1.CephOSDs {
	n := v1alpha1.CephOSDs{Total: int32(len(m.OSDs))}
	for _, o := range m.OSDs {
		if o.Up {
			n.Up++
		}
		if o.In {
			n.In++
		}
	}
	return n
}
