// Package existence decides whether a Ceph cluster exists although no record says so, as after a restore of the API server from a backup that is older than its monitors: a monitor that
// knows no other would make a second one beside what is on the disks. It is pure.
package existence

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide/backend"
)

// Sign is a disk that may carry an OSD of the Ceph cluster.
type Sign struct {
	Node, Path string
	// Carries is the UUID of the OSD of the Ceph cluster that the disk carries; empty if its agent tells of none.
	Carries string
	// Looked: an agent has said what is on the disk, even if that is that nobody can tell. Blind: it is of an earlier version, and does not say what the disk carries.
	Looked, Blind bool
	// Unclear: nobody can tell what the disk carries, and Why says why.
	Unclear bool
	Why     string
	// Recorded: a Member has the disk on record. Kept: a person keeps it out of all storages.
	Recorded, Kept bool
}

// Host is one that the spec wants, or that has a Member.
type Host struct {
	Name string
	// Known: Kubernetes has a node of that name. Up: its agent tells what is on its disks.
	Known, Up bool
	// Leaving: a person has given the host up, so that its silence leaves no doubt. What its disks carry counts.
	Leaving bool
}

// Evidence is what is known of a Ceph cluster that is on no record.
type Evidence struct {
	// Named: PersistentVolumes name volumes in it.
	Named bool
	Signs []Sign
	Hosts []Host
}

// Finding is what follows from it.
type Finding struct {
	// Proof says by what the Ceph cluster exists; empty if nothing says so.
	Proof string
	// Doubt says why nobody can tell yet; empty if it does not exist. Wipes: a person who consents to the wipe of a disk settles that.
	Doubt string
	Wipes bool
}

const unknown = "No monitor makes the Ceph cluster before it is known that none exists: "

// Of says whether the Ceph cluster exists. Of a host that does not answer nobody knows what is on its disks.
func Of(e Evidence) Finding {
	if e.Named {
		return Finding{Proof: "PersistentVolumes name volumes in it"}
	}
	var f Finding
	for _, s := range e.Signs {
		if s.Carries != "" {
			return Finding{Proof: fmt.Sprintf("disk %s of %s carries an OSD of it", s.Path, s.Node)}
		}
		f = f.with(doubt(s))
	}
	for _, h := range e.Hosts {
		switch {
		case h.Up || h.Leaving:
		case !h.Known:
			f = f.with(Finding{Doubt: fmt.Sprintf(unknown+"host %s is no node of Kubernetes, and its disks may carry OSDs of it. Start the node, or take it off spec.hosts.", h.Name)})
		default:
			f = f.with(Finding{Doubt: fmt.Sprintf(unknown+"the agent of %s does not answer. If the host is gone for good, take it off spec.hosts.", h.Name)})
		}
	}
	if len(e.Hosts) == 0 {
		f = f.with(Finding{Doubt: unknown + "the spec has no host yet whose disks could be looked at."})
	}
	return f
}

// with adds a doubt. One that no consent settles outranks the others.
func (f Finding) with(more Finding) Finding {
	if more.Doubt == "" || f.Doubt != "" && (more.Wipes || !f.Wipes) {
		return f
	}
	return more
}

// doubt says why a disk may carry an OSD; nothing if it carries none.
func doubt(s Sign) Finding {
	switch {
	case s.Blind:
		return Finding{Doubt: fmt.Sprintf(unknown+"the agent of %s is of an earlier version, and cannot say what disk %s carries. Update it.", s.Node, s.Path)}
	case !s.Looked:
		return Finding{Doubt: fmt.Sprintf(unknown+"the agent of %s has not said what is on disk %s.", s.Node, s.Path)}
	case !s.Unclear || s.Kept:
		return Finding{}
	case s.Recorded:
		return Finding{Doubt: fmt.Sprintf(unknown+"disk %s of %s is on record, and may carry an OSD of it. %s Put it back if it is away, or name it in spec.retire of the Member.", s.Path, s.Node, backend.Sentence(s.Why, "Nobody can say what it carries."))}
	}
	return Finding{Wipes: true, Doubt: fmt.Sprintf(unknown+"disk %s of %s may carry an OSD of it. %s Clear it, have it wiped, take it out, or name it in spec.retire of the Member.", s.Path, s.Node, backend.Sentence(s.Why, "Nobody can say what it carries."))}
}
