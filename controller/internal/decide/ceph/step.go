package ceph

import "fmt"

// Action is what a step does.
type Action string

// Actions that the monitors perform are marked as theirs; the others are performed on workloads, or by agents.
const (
	// StartMonitor deploys a monitor on a host. It joins the others by itself; the first one makes the cluster.
	StartMonitor Action = "StartMonitor"
	// RemoveMonitor takes a monitor out of the map (the monitors'), and then its workload away.
	RemoveMonitor Action = "RemoveMonitor"
	// AdoptMonitor puts a monitor of the map on record, AdoptOSD an OSD: the Cluster lost the record of it.
	AdoptMonitor Action = "AdoptMonitor"
	AdoptOSD     Action = "AdoptOSD"

	// RegisterOSD has the monitors give the OSD a number (the monitors').
	RegisterOSD Action = "RegisterOSD"
	// PrepareOSD makes the disk the OSD.
	PrepareOSD Action = "PrepareOSD"
	// StartOSD deploys its daemon, StopOSD takes it away.
	StartOSD Action = "StartOSD"
	StopOSD  Action = "StopOSD"
	// OutOSD has the data moved off the OSD, InOSD takes that back (the monitors').
	OutOSD Action = "OutOSD"
	InOSD  Action = "InOSD"
	// PurgeOSD has the monitors forget the OSD for ever (the monitors').
	PurgeOSD Action = "PurgeOSD"
	// ZapOSD makes its disk clean.
	ZapOSD Action = "ZapOSD"
	// RemoveHost takes a host without OSDs out of the CRUSH map (the monitors').
	RemoveHost Action = "RemoveHost"

	// CreatePool makes a pool, SetSize and SetMinSize change it (the monitors').
	CreatePool Action = "CreatePool"
	SetSize    Action = "SetSize"
	SetMinSize Action = "SetMinSize"
	// SetScale says who chooses how many placement groups a pool has, SetGroups how many those are, and UnsetBulk that it is none of those which hold most of the data (the monitors').
	SetScale  Action = "SetScale"
	SetGroups Action = "SetGroups"
	UnsetBulk Action = "UnsetBulk"

	// ReplaceOSD gives up an OSD that died. A person approves it, or the spec does for OSDs of which nothing can be lost: KeepOSD takes only that back.
	ReplaceOSD Action = "ReplaceOSD"
	KeepOSD    Action = "KeepOSD"

	// SetNoOut and UnsetNoOut are about the OSDs of a host (the monitors').
	SetNoOut   Action = "SetNoOut"
	UnsetNoOut Action = "UnsetNoOut"

	// FailOver has another metadata server serve in place of one (the monitors').
	FailOver Action = "FailOver"

	// BlockClient and UnblockClient are about all clients at an address of a node (the monitors').
	BlockClient   Action = "BlockClient"
	UnblockClient Action = "UnblockClient"

	// ReplaceDaemon gives a daemon another image, and so restarts it.
	ReplaceDaemon Action = "ReplaceDaemon"
	// RequireRelease keeps OSDs of an earlier major version out (the monitors').
	RequireRelease Action = "RequireRelease"
)

// Actions are all of them.
var Actions = []Action{
	StartMonitor, RemoveMonitor, AdoptMonitor, AdoptOSD, RegisterOSD, PrepareOSD, StartOSD, StopOSD, OutOSD, InOSD, PurgeOSD, ZapOSD, RemoveHost, CreatePool, SetSize, SetMinSize,
	SetScale, SetGroups, UnsetBulk, ReplaceOSD, KeepOSD, SetNoOut, UnsetNoOut, FailOver, BlockClient, UnblockClient, ReplaceDaemon, RequireRelease,
}

// Step is one change. It can be repeated: what it asks for is a state.
type Step struct {
	Do Action
	// Host that it happens on, or whose flag it is.
	Host string
	// Name of the monitor, the pool or the daemon; the address of clients. Address is that of a monitor which is put on record.
	Name, Address string
	// ID and UUID of the OSD; ID is -1 for one that has none yet. Path is that of its disk.
	ID   int
	UUID string
	Path string
	// Mode of the autoscaler. Bulk: the pool that is made is to hold most of the data.
	Mode string
	Bulk bool
	// Value is the size of a pool, how many placement groups it has, or a major version.
	Value int
	// Boot and Machine of the node whose clients are blocked, or let in.
	Boot, Machine string
	// Let: it is on record already that the clients are let in.
	Let bool
	// First: the monitor makes the cluster. It is true for one only, ever.
	First bool
	// Fresh: Ceph has never seen the OSD run.
	Fresh bool
	// Loses says what is lost, or is less safe afterwards, so that a person has to approve the step; empty when that is nothing.
	Loses string
	// Why is the reason, one sentence.
	Why string
}

// String is the step on one line.
func (s Step) String() string {
	out := string(s.Do)
	switch {
	case s.ofOSD() && s.ID < 0:
		out += " OSD " + s.UUID
	case s.ofOSD():
		out += fmt.Sprintf(" osd.%d (%s)", s.ID, s.UUID)
	}
	for _, part := range []string{s.Name, s.Host, s.Address, s.Mode} {
		if part != "" {
			out += " " + part
		}
	}
	if s.Value > 0 {
		out += fmt.Sprintf(" %d", s.Value)
	}
	return out
}

// ofOSD reports whether the step is about an OSD.
func (s Step) ofOSD() bool {
	switch s.Do {
	case RegisterOSD, PrepareOSD, StartOSD, StopOSD, OutOSD, InOSD, PurgeOSD, ZapOSD, ReplaceOSD, KeepOSD, AdoptOSD:
		return true
	}
	return false
}

// About names for a person what the step is about, and the host that it is on. It is empty for a step that does nothing.
func (s Step) About() string {
	switch s.Do {
	case StartMonitor, RemoveMonitor, AdoptMonitor:
		return fmt.Sprintf("Monitor %s on host %s", s.Name, s.Host)
	case FailOver:
		return fmt.Sprintf("Metadata server %s on host %s", s.Name, s.Host)
	case ReplaceDaemon:
		return fmt.Sprintf("%s on host %s", s.Name, s.Host)
	case CreatePool, SetSize, SetMinSize, SetScale, SetGroups, UnsetBulk:
		return "Pool " + s.Name
	case RemoveHost, SetNoOut, UnsetNoOut:
		return "Host " + s.Host
	case BlockClient, UnblockClient:
		return fmt.Sprintf("Clients at %s of node %s", s.Name, s.Host)
	case RequireRelease:
		return fmt.Sprintf("OSDs before version %d", s.Value)
	}
	switch {
	case !s.ofOSD():
		return ""
	case s.ID < 0:
		return fmt.Sprintf("The OSD on disk %s of host %s", s.Path, s.Host)
	}
	return fmt.Sprintf("osd.%d on disk %s of host %s", s.ID, s.Path, s.Host)
}

// weakens reports whether less serves once the step was taken, or may not be taken back. What Ceph says of the next such step is worth something only
// after this one.
func (s Step) weakens() bool {
	switch s.Do {
	case RemoveMonitor, StopOSD, PurgeOSD, ReplaceDaemon, SetMinSize, SetSize, RequireRelease:
		return true
	case StartMonitor:
		// From one monitor to two the quorum has to be larger.
		return !s.First
	}
	return false
}

// Together puts plans that were made of the same facts into one: of all steps after which less serves it keeps the first, and says that the others wait.
func Together(plans ...Plan) Plan {
	var out Plan
	weak := ""
	for _, p := range plans {
		for _, s := range p.Steps {
			switch {
			case !s.weakens():
				out.step(s)
			case weak == "":
				weak = s.String()
				out.step(s)
			default:
				out.wait("%s waits for %s.", s, weak)
			}
		}
		out.Waits = append(out.Waits, p.Waits...)
	}
	return out
}
