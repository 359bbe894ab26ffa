package iscsi

import (
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Observation is what a View is made of.
type Observation struct {
	Iscsi *v1alpha1.Iscsi
	World backend.World
	// Hosts are what is known of the nodes. Nothing is known about one that is not in it.
	Hosts map[string]Host
	// Reading is what the LUN says.
	Reading Reading
	// Record is what the Lease of the group says.
	Record writer.Record
	// Chap tells of the credentials.
	Chap Chap
	// Machines are the systemUUIDs of all Nodes, by name; nil when they were not read, as long as Compares is false.
	Machines map[string]string
	// Granted are keys that this process has put on record: the Members of this observation may be older.
	Granted []uint64
	Now     time.Time
}

// Host is what is known of one node.
type Host struct {
	// Agent is how the connection to its agent is.
	Agent decide.AgentState
	// Problem says why the agent is not up; empty when it is.
	Problem string
	// At is when the agent was asked last; zero when it never answered. Failed says why it could not tell; empty when it could.
	At     time.Time
	Failed string
	// Failures is how many times in a row it could not.
	Failures int
	// Initiator and BootID as the agent told, and what it sees of the target.
	Initiator sharedlun.Initiator
	BootID    string
	// Machine is the machine that is in that boot, as its Node says; empty when it is not known, or was not asked for. MachineLate is true while the Node tells of another boot.
	Machine     string
	MachineLate bool
	Seen        sharedlun.Seen
	// Mappings are the devices of the group's volumes, those of zeroing and copying too. They are known if Mapped is true.
	Mappings []sharedlun.Mapping
	Mapped   bool
	// OtherLun says which paths lead to another LUN than the recorded one, as the target itself says; empty when none is known to.
	OtherLun string
	// LoginAt is when it was tried last to log in, RegisteredPaths what the paths were when the key was registered last by this process.
	LoginAt time.Time
	// LoginChap is the version of the credentials that this process logged in with last: the Member of this observation may be older. It is empty when it did not.
	LoginChap       string
	RegisteredPaths string
	// OtherKey is true when the target refused the node's key in this boot, as it has another one for it than those on record.
	OtherKey bool
	// OutOfService is true when a person tainted the Node with node.kubernetes.io/out-of-service.
	OutOfService bool
}

// Up reports whether the agent answers, and told everything that it was asked.
func (h Host) Up() bool { return h.Agent == decide.AgentUp && h.Asked() }

// silent reports whether the agent does not answer, which is not just because the controller was started.
func (h Host) silent() bool {
	return h.Agent == decide.AgentUnreachable || h.Agent == decide.AgentMissing
}

// Asked reports whether what is known of the node is what its agent told.
func (h Host) Asked() bool { return !h.At.IsZero() && h.Failed == "" }

// sessions counts those in a state.
func (h Host) sessions(state sharedlun.SessionState) int {
	n := 0
	for _, s := range h.Seen.Sessions {
		if s.State == state {
			n++
		}
	}
	return n
}

// LoggedIn reports whether a session exists, up or not.
func (h Host) LoggedIn() bool {
	return h.sessions(sharedlun.SessionUp)+h.sessions(sharedlun.SessionDown) > 0
}

// Reads reports whether I/O of the node reaches the target.
func (h Host) Reads() bool { return h.Up() && h.sessions(sharedlun.SessionUp) > 0 }

// shows reports whether the device of a volume is there and serves, or cannot be mended: one that returns errors is made anew once nobody has it open any more.
func (h Host) shows(volumeUUID string) bool {
	return slices.ContainsFunc(h.Mappings, func(m sharedlun.Mapping) bool {
		return m.VolumeUUID == volumeUUID && m.Part == sharedlun.PartShown && !m.Suspended && (!m.Cut || m.InUse)
	})
}

// maps reports whether a device of a volume is there, even if it is one that the volume is zeroed or copied through.
func (h Host) maps(volumeUUID string) bool {
	return slices.ContainsFunc(h.Mappings, func(m sharedlun.Mapping) bool { return m.VolumeUUID == volumeUUID })
}

// strays returns the step that ends what the node has of volumes that the LUN gives to another node, or to none, as after a fence, or that were removed: where no key keeps it from
// writing, it would write into what another one has, even if it only zeroes or copies. What returns errors and is open stays as it is until whoever has it open ends.
func (h host) strays() []backend.Step {
	g := h.view.group()
	if g == nil || !h.Up() || !h.Mapped || !h.view.refusal().IsZero() || h.view.givenUp() {
		return nil
	}
	s := h.step(v1alpha1.ActionUnmapVolumes, "The node has devices of volumes that the LUN says are not its own.")
	// It only ends what was to end before the volumes went to others.
	s.Runs, s.Sequence, s.Again = h.view.seen.Reading.Via, g.Sequence, true
	for _, v := range g.Volumes {
		live := func(m sharedlun.Mapping) bool { return m.VolumeUUID == v.UUID && (m.Reaches() || !m.InUse) }
		if v.HeldBy != h.m.Node && slices.ContainsFunc(h.Mappings, live) {
			s.Volumes = append(s.Volumes, v)
		}
	}
	s.Gone = h.gone(g)
	if len(s.Volumes) == 0 && len(s.Gone) == 0 {
		return nil
	}
	return []backend.Step{s}
}

// gone are the UUIDs of volumes that the node has devices of, and that the group does not have any more. The group was read after the node had told what it has, and no volume gets the
// UUID of another one. While the group lacks what a PersistentVolume names, it may be an older one that somebody brought back: what pods have is the last that is left of such a volume then.
func (h host) gone(g *sharedlun.Group) (out []string) {
	if !h.view.seen.Reading.Good.After(h.At) || len(h.view.missing(g)) > 0 {
		return nil
	}
	for _, m := range h.Mappings {
		has := func(v sharedlun.Volume) bool { return v.UUID == m.VolumeUUID }
		if (m.Reaches() || !m.InUse) && !slices.ContainsFunc(g.Volumes, has) {
			out = append(out, m.VolumeUUID)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unserved names the sessions of a node that iscsid does not serve.
func (h Host) unserved(node string) (out []string) {
	again := "end the pod of the agent there, which starts iscsid anew"
	if h.Initiator.OfHost {
		again = "restart iscsid there"
	}
	for _, s := range h.Seen.Sessions {
		if s.Unserved {
			out = append(out, fmt.Sprintf("%s: iscsid does not serve the session with portal %s, so that it is not connected again once it loses its connection, as after a restart of iscsid while "+
				"another target was away: bring that target back, or remove its Iscsi, and %s", node, s.Portal, again))
		}
	}
	return out
}

// Reading is what the LUN says of itself.
type Reading struct {
	// At is when it was tried last to read it, Good when that had succeeded last, through node Via. Known is true while that is not long ago, and
	// Problem says why the last attempt failed.
	At, Good time.Time
	Via      string
	Known    bool
	Problem  string
	// Older says which nodes saw an earlier state of the LUN in the last attempt, and what to do; empty when none did. Another node may have read it as it was.
	Older string
	// Tried is true when a node was asked in the last attempt, and Failures is how many attempts in a row failed in which one was.
	Tried    bool
	Failures int
	// Contents of the LUN.
	Contents sharedlun.Contents
	// Keys are the registered keys.
	Keys sharedlun.Reservation
}

// Group returns the group; nil when it is not known, or not there.
func (r Reading) Group() *sharedlun.Group {
	if !r.Known {
		return nil
	}
	return r.Contents.Group
}

// Chap tells of the credentials, and has nothing of them.
type Chap struct {
	// Version tells one version of the credentials from another; "none" where none are wanted.
	Version string
	// Problem says why there are none; empty when there are, or none are wanted.
	Problem string
}

// NoChap is the version of no credentials.
const NoChap = "none"

// carry takes over since when what is seen now was seen.
func carry(now, then map[string]time.Time) {
	for name := range now {
		if at := then[name]; !at.IsZero() {
			now[name] = at
		}
	}
}
