// Package ceph decides what is done to a Ceph cluster: which monitors it has, which disks are its OSDs, when one of them leaves, what its pools and
// flags are, and in which order its daemons get another version. It is pure. It knows neither how monitors are asked nor how workloads are made, and it
// takes no step on a fact that nobody could read.
package ceph

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"quarry.storage/quarry/controller/internal/decide/answer"
	"quarry.storage/quarry/pkg/osd"
)

// Answer is what Ceph, or a node, says to a question.
type Answer = answer.Answer

// Answers.
const (
	Unknown = answer.Unknown
	No      = answer.No
	Yes     = answer.Yes
)

// Host is a host of the Cluster. What concerns its workloads and disks comes from Kubernetes and its agent, not from Ceph.
type Host struct {
	Name string
	// Address of its node; empty where Kubernetes knows none.
	Address string
	// Answers: its agent does. Serving: its node and its agent can be worked with now.
	Answers bool
	Serving bool
	// Unable: it cannot run one more daemon of the kind that is asked about now, or nobody knows whether it can. It may be able later, so what is to be replaced waits for it.
	Unable bool
	// Leaving: it goes for good. Maintenance: it goes for a while.
	Leaving, Maintenance bool
}

// Facts is what is known of the whole. A part that could not be read is nil.
type Facts struct {
	// Quorum is what the monitors say of themselves.
	Quorum *Quorum
	// Map is what they say of OSDs, pools and flags.
	Map *Map
	// Groups is how the placement groups are.
	Groups *Groups
	// Daemons are those of all kinds, with the version that runs.
	Daemons *[]Daemon
	// Blocked are the addresses all of whose clients may not read or write.
	Blocked *[]string
	// Dashboard is where the manager that is active says that it serves the dashboard; empty while it serves none.
	Dashboard string
	// Modules are those that every manager has, and that the active one can run; none while nobody can say.
	Modules []string
}

// Quorum is the map of the monitors.
type Quorum struct {
	Monitors []Monitor
	// MinRelease is the major version that every monitor has to have at least.
	MinRelease int
}

// MonitorRecord is a monitor that the Cluster has made, or has begun to make. The record is written before its workload.
type MonitorRecord struct{ Name, Host string }

// knows reports whether a monitor is in the map.
func (q Quorum) knows(name string) bool {
	return slices.ContainsFunc(q.Monitors, func(m Monitor) bool { return m.Name == name })
}

// has reports whether a monitor is in the quorum.
func (q Quorum) has(name string) bool { return q.votes(name) > 0 }

// votes is 1 for a monitor in the quorum, and 0 for any other.
func (q Quorum) votes(name string) int {
	if slices.ContainsFunc(q.Monitors, func(m Monitor) bool { return m.Name == name && m.In }) {
		return 1
	}
	return 0
}

// Monitor is one of the map.
type Monitor struct {
	Name string
	// In: it is in the quorum.
	In bool
	// Address is where the others expect it; empty where that cannot be read.
	Address string
}

// in counts the monitors in the quorum.
func (q Quorum) in() int {
	n := 0
	for _, m := range q.Monitors {
		if m.In {
			n++
		}
	}
	return n
}

// majority is how many of n monitors make a quorum.
func majority(n int) int { return n/2 + 1 }

// Map is that of the OSDs.
type Map struct {
	OSDs  []OSD
	Pools []Pool
	// Flags are those of all OSDs, such as noout, as a person sets and unsets them. HostFlags are those of the OSDs of one host.
	Flags     []string
	HostFlags map[string][]string
	// Groups are the placement groups of pools, by name; a pool of which nobody could read them is missing.
	Groups map[string]PoolGroups
	// Bulk are the pools that have the flag of that name: the autoscaler gives each its whole share of placement groups, whatever is in it.
	Bulk []string
	// Domains are what copies of a pool never share by its rule, such as host or osd; a pool of which nobody could read that, or that has a rule of another kind, is missing.
	Domains map[string]string
	// Hosts are those of the CRUSH map, with OSDs or without.
	Hosts []string
	// RequireRelease is the major version that every OSD has to have at least.
	RequireRelease int
}

// OSD is one of the map.
type OSD struct {
	ID int
	// UUID is empty for one that somebody destroyed: the monitors keep only its number.
	UUID string
	// Host in the CRUSH map; empty for one that never ran.
	Host string
	// Up: its daemon runs. In: data are placed on it. New: it never ran. AutoOut: Ceph itself marked it out, and not a person.
	Up, In, New, AutoOut bool
	// SafeToDestroy is what Ceph says: no placement group needs what is on it. OKToStop: every one keeps enough copies without it.
	SafeToDestroy, OKToStop Answer
	// UsedBytes are taken on it, of TotalBytes. Both are 0 when that is not known.
	UsedBytes, TotalBytes int64
}

func (m Map) byUUID(uuid string) (OSD, bool) {
	i := slices.IndexFunc(m.OSDs, func(o OSD) bool { return o.UUID == uuid && uuid != "" })
	if i < 0 {
		return OSD{}, false
	}
	return m.OSDs[i], true
}

// places counts where copies can be kept: hosts that have an OSD which is up and in, or those OSDs where copies may share a host, but for some OSDs.
func (m Map) places(share bool, without func(OSD) bool) int {
	var names []string
	for _, o := range m.OSDs {
		if o.Up && o.In && o.Host != "" && !without(o) {
			names = append(names, o.place(share))
		}
	}
	slices.Sort(names)
	return len(slices.Compact(names))
}

// place is where no two copies of anything are: the host of the OSD, or the OSD itself where copies may share a host.
func (o OSD) place(share bool) string {
	if share {
		return strconv.Itoa(o.ID)
	}
	return o.Host
}

// Pool is one of the map.
type Pool struct {
	Name          string
	Size, MinSize int
}

// Groups is the state of all placement groups.
type Groups struct {
	// Total of them. Clean are active and have all of their copies where they belong; Inactive serve nothing; Short lack copies, or may lack some. Undersized serve, lack copies for want of a place, and nothing of
	// them moves.
	Total, Clean, Inactive, Short, Undersized int
	// Misplaced and Degraded are objects that are to be moved, and copies that are missing.
	Misplaced, Degraded int64
	// Recovering is how many objects a second are moved, or copied anew; 0 where Ceph does not say.
	Recovering int64
}

// clean reports whether every placement group is there and clean.
func (g *Groups) clean() bool { return g != nil && g.Total > 0 && g.Clean == g.Total }

// Still reports whether every placement group is clean, or lacks copies for want of a place: none is made or moved now.
func (g *Groups) Still() bool { return g != nil && g.Total > 0 && g.Clean+g.Undersized == g.Total }

// Disk is one on record: it is an OSD, or is to become one.
type Disk struct {
	Host, Path string
	// UUID that the OSD of the Cluster on it has.
	UUID string
	// Kind is what the agent says of the disk; osd.Unknown when it could not tell.
	Kind osd.Kind
	// Message is what it said.
	Message string
	// GivenUp: its OSD is to be replaced, and its disk given back: a person approved that, or nobody had to (AutoReplaced). The disks of a host that leaves are not given up by that.
	GivenUp bool
	// At is another host that has the disk now; empty if none is known to.
	At string
	// Missing: the agent of its host answers, and tells of no such disk. MissingFor is how long this controller saw that without a break, in one boot of the host.
	Missing    bool
	MissingFor time.Duration
	// AutoReplaced: it is given up, and no person approved that.
	AutoReplaced bool
	// Outed and Purged: the Cluster has put on record, before it asked for it, that the OSD is marked out, or purged. Both end when the disk is
	// registered anew: what is on it is worth something again. Outed ends when the OSD is brought in, too, and Purged when it is kept.
	Outed, Purged bool
	// Deployed: the workload of its daemon exists, or a pod of it. Ending: the workload is gone, or being deleted, and the pod has not ended.
	Deployed Answer
	Ending   bool
	// Stale: the disk is encrypted, was away, and came back as another device. The pod of its daemon has it open as the device that it was, and only a new pod opens it anew.
	Stale bool
	// Encrypted: it is on record as one that is encrypted, with a key of its own.
	Encrypted bool
	// Locked says why nobody opens the encrypted disk: what the Secret with its key lacks. It is empty for a disk that opens.
	Locked string

	// known: the monitors know the OSD. It is worked out of the map.
	known bool
}

// Plan is what can be done now, and what is waited for.
type Plan struct {
	Steps []Step
	// Waits say what is waited for, each in one sentence for a person.
	Waits []string
}

func (p *Plan) step(s Step) { p.Steps = append(p.Steps, s) }

func (p *Plan) wait(format string, args ...any) {
	p.Waits = append(p.Waits, fmt.Sprintf(format, args...))
}
