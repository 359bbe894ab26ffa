package ceph

import (
	"fmt"
	"slices"
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
	case !wanted && set && ours:
		p.step(Step{Do: UnsetNoOut, Host: h.Name, ID: -1, Why: "The host is not in maintenance any more."})
	case !wanted && set:
		p.wait("The flag %s is set for the OSDs of host %s, by somebody else.", NoOut, h.Name)
	}
}

// MayRest says why a host cannot be switched off now; empty if it can. Its OSDs have to be ones that placement groups can do without, all at once,
// and the monitors a quorum without its own.
func MayRest(host string, records []MonitorRecord, together Answer, f Facts) string {
	switch {
	case f.Quorum == nil || f.Map == nil:
		return "The monitors do not answer."
	case together != Yes:
		return fmt.Sprintf("Placement groups may not have enough copies without the OSDs of host %s (ok to stop: %s).", host, together)
	}
	in := 0
	for _, m := range f.Quorum.Monitors {
		if m.In && !slices.Contains(records, MonitorRecord{Name: m.Name, Host: host}) {
			in++
		}
	}
	if n := len(f.Quorum.Monitors); in < majority(n) {
		return fmt.Sprintf("Without host %s %d of %d monitors are in the quorum, and %d have to be.", host, in, n, majority(n))
	}
	return ""
}
