package ceph

import (
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/cephname"
)

// NoOut is the flag that keeps Ceph from making new copies of what is on a host that is away for a while.
const NoOut = "noout"

// Flags is what is wanted of the flags.
type Flags struct {
	Hosts []Host
	// Set are the hosts on whose OSDs the Cluster has put the flag, by its record, which it writes before it asks for it.
	Set []string
}

// PlanFlags has the OSDs of hosts in maintenance keep their places, and gives back what the Cluster took. A flag that somebody else set stays.
func PlanFlags(w Flags, f Facts) Plan {
	var p Plan
	if f.Quorum == nil || f.Map == nil {
		p.wait("The monitors do not answer, so no flag is changed.")
		return p
	}
	for _, name := range f.Map.Flags {
		if name == NoOut || slices.Contains(moving, name) {
			p.wait("The flag %s is set for all OSDs, by somebody else.", name)
		}
	}
	for _, h := range w.Hosts {
		w.host(&p, h, *f.Map)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Map.HostFlags)) {
		if slices.Contains(f.Map.Hosts, name) && slices.Contains(f.Map.HostFlags[name], NoOut) && !slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Name == name }) {
			p.wait("The flag %[1]s is set for the OSDs of host %[2]s, which the Cluster does not have: Ceph makes no new copies of what is there. Once nobody needs the flag: ceph osd unset-group %[1]s %[2]s", NoOut, name)
		}
	}
	return p
}

// host is about the flag of one host. One that leaves is to be emptied, whatever else it is in.
func (w Flags) host(p *Plan, h Host, m Map) {
	set, ours := slices.Contains(m.HostFlags[h.Name], NoOut), slices.Contains(w.Set, h.Name)
	has := slices.ContainsFunc(m.OSDs, func(o OSD) bool { return o.Host == h.Name })
	wanted := h.Maintenance && !h.Leaving
	switch {
	case wanted && !set && has:
		p.step(Step{Do: SetNoOut, Host: h.Name, ID: -1, Why: "The host is in maintenance."})
	case !wanted && ours:
		// Even if the flag is not set: whoever was cut off before it was, or took it back by hand, left the record, and a Member with a record never goes.
		p.step(Step{Do: UnsetNoOut, Host: h.Name, ID: -1, Why: "The host is not in maintenance any more."})
	case !wanted && set:
		p.wait("The flag %s is set for the OSDs of host %s, by somebody else.", NoOut, h.Name)
	}
}

// Upkeep is what is wanted of monitors and metadata servers while hosts are in maintenance.
type Upkeep struct {
	Hosts []Host
	// Monitors on record, and Servers of metadata that are deployed: the host of each by its name.
	Monitors []MonitorRecord
	Servers  map[string]string
	// Wanted is how many metadata servers the spec asks for.
	Wanted int
	// Lately: another metadata server was made to serve a moment ago.
	Lately bool
}

// PlanUpkeep tells of a quorum that ends once the hosts in maintenance are off, and has another metadata server serve in place of one on such a host: clients then wait for a second or two, and not until
// Ceph misses the one on a host that was switched off.
func PlanUpkeep(w Upkeep, f Facts) Plan {
	var p Plan
	if f.Quorum == nil {
		return p
	}
	w.quorum(&p, *f.Quorum)
	if f.Daemons == nil || w.Lately {
		return p
	}
	servers := slices.DeleteFunc(slices.Clone(*f.Daemons), func(d Daemon) bool { return d.Kind != cephname.DaemonMetadata || !d.Running })
	another, resting := false, false
	for _, d := range servers {
		if host, deployed := w.Servers[d.Name]; deployed && !d.Active {
			another, resting = another || !w.maintained(host), resting || w.maintained(host)
		}
	}
	i := slices.IndexFunc(servers, func(d Daemon) bool { return d.Active && w.maintained(w.Servers[d.Name]) })
	switch {
	case i < 0:
	case !another:
		text := "Metadata server %s on %s serves, whose host is in maintenance, and none stands by on another host that stays: volumes hang from when %[2]s is off until it is back."
		if w.Wanted == 1 {
			text += " With spec.ceph.mds: 2 one stands by."
		}
		p.wait(text, servers[i].Name, w.Servers[servers[i].Name])
	case resting:
		// Ceph chooses which one serves, and may choose that one, and then the first one again.
		p.wait("Metadata server %s on %s serves, whose host is in maintenance, and so is that of one that stands by: Ceph may choose either. Take one of these hosts out of maintenance, or expect that volumes pause when %[2]s is off.", servers[i].Name, w.Servers[servers[i].Name])
	default:
		name := servers[i].Name
		p.step(Step{Do: FailOver, Name: name, Host: w.Servers[name], ID: -1, Why: "Its host is in maintenance, and another metadata server stands by."})
	}
	return p
}

// quorum tells of monitors of hosts in maintenance without which the others are no majority. It refuses nothing: the hosts may be meant to be off together.
func (w Upkeep) quorum(p *Plan, q Quorum) {
	left, off := 0, []string{}
	for _, m := range q.Monitors {
		i := slices.IndexFunc(w.Monitors, func(r MonitorRecord) bool { return r.Name == m.Name })
		switch {
		case i >= 0 && w.maintained(w.Monitors[i].Host):
			off = append(off, w.Monitors[i].Host)
		case m.In:
			left++
		}
	}
	if len(off) == 0 || left >= majority(len(q.Monitors)) {
		return
	}
	slices.Sort(off)
	are, them := "are", "it is"
	if left == 1 {
		are = "is"
	}
	if len(off) > 1 {
		them = "they are"
	}
	p.wait("With %s in maintenance %d of %d monitors %s left: nothing is served once %s off.", strings.Join(off, " and "), left, len(q.Monitors), are, them)
}

func (w Upkeep) maintained(host string) bool {
	return slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Name == host && h.Maintenance })
}

// Budget says how many OSDs may be away at the same time by somebody's will, such as a drain of their node.
type Budget struct {
	// Most of the OSDs that are not in Free may be away. Those of Free may all go: they do not run, or Ceph can do without all of their host. Ordered.
	Most int
	Free []int
}

// Equal reports whether two budgets allow the same.
func (b Budget) Equal(other Budget) bool {
	return b.Most == other.Most && slices.Equal(b.Free, other.Free)
}

// PlanBudget lets one OSD go while every placement group is clean and has more copies than it needs to serve. Once an OSD is away, or where groups are not clean and a host is in maintenance, it
// lets one host have all of its OSDs go if Ceph says that they may be stopped at once: rest says so, by host. The pod of an OSD that does not run may always go: it serves nothing, and whoever
// drains its host has to get it off. Nothing else goes on a fact that nobody could read.
func PlanBudget(hosts []Host, rest map[string]Answer, f Facts) Budget {
	if f.Map == nil || f.Groups == nil {
		return Budget{}
	}
	down := func(o OSD) bool { return !o.Up }
	needed := slices.ContainsFunc(f.Map.Pools, func(p Pool) bool { return p.Size <= p.MinSize })
	if !slices.ContainsFunc(f.Map.OSDs, OSD.away) && f.Groups.clean() && !needed {
		return Budget{Most: 1, Free: f.Map.which(down)}
	}
	for _, name := range Resting(hosts, *f.Map) {
		if rest[name] == Yes {
			return Budget{Free: f.Map.which(func(o OSD) bool { return down(o) || o.Host == name })}
		}
	}
	return Budget{Free: f.Map.which(down)}
}

// away reports whether an OSD that holds data does not run.
func (o OSD) away() bool { return !o.Up && o.In && !o.New }

// Resting are the hosts of whose OSDs Ceph is asked whether all may be stopped at once, and of which one may: those that have one away that holds data, if there is any such OSD, and else those in
// maintenance. Of a host on which no OSD runs nobody has to ask.
func Resting(hosts []Host, m Map) []string {
	some := slices.ContainsFunc(m.OSDs, OSD.away)
	var out []string
	for _, h := range hosts {
		here := func(o OSD) bool { return o.Host == h.Name }
		runs := slices.ContainsFunc(m.OSDs, func(o OSD) bool { return here(o) && o.Up })
		began := slices.ContainsFunc(m.OSDs, func(o OSD) bool { return here(o) && o.away() })
		if runs && (began || !some && h.Maintenance) {
			out = append(out, h.Name)
		}
	}
	return out
}

// which returns the IDs of the OSDs of a kind, ordered.
func (m Map) which(is func(OSD) bool) []int {
	var out []int
	for _, o := range m.OSDs {
		if is(o) {
			out = append(out, o.ID)
		}
	}
	slices.Sort(out)
	return out
}
