package iscsi

import (
	"fmt"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Step is one change of sessions, keys, devices, or of the group.
type Step struct {
	// Node that it happens on; empty for a step of the whole, which runs on Runs. A step of a node reads the LUN once more through Runs, or has the node's key preempted through it.
	Node, Runs string
	// Does is one of the constants v1alpha1.ActionXxx.
	Does string
	// Owner names the Iscsi, and Member the Member of the node, or of the victim.
	Owner, Member string
	// Target that is logged in to or out of. Renew is true for other credentials, whose version is Chap.
	Target sharedlun.Target
	Renew  bool
	Chap   string
	// Initiator is the name that goes on record with a key. Last is true when the last key of all may go, too.
	Initiator string
	Last      bool
	// Ref names the group, BootID the boot that a key is for, or that the node reports of which earlier keys are preempted, Paths the paths that it is registered on, or that stay as they are when sessions are made.
	Ref           sharedlun.Ref
	BootID, Paths string
	// RecordOnly is true when the key stays on record alone: on a target without reservations, and where nodes run that were let in without. Exchange is true when the node gets a key for the
	// boot in which it was let in without one.
	RecordOnly, Exchange bool
	// Reserve is true when the LUN is reserved once the key is registered, Own when the node has volumes mapped that the LUN says are its own.
	Reserve, Own bool
	// Volumes that are mapped, unmapped or released, and the sequence number of the report that has them.
	Volumes  []sharedlun.Volume
	Sequence uint64
	// Gone are the UUIDs of volumes that the group does not have any more, and whose devices are unmapped.
	Gone []string
	// Victim is the node that is fenced, Key its key. Vouched is true when a person vouches by approval that it is off.
	Victim, Key string
	Vouched     bool
	// GroupGone is true when the key is taken off of a node that has nothing to lose: the group was removed with the Iscsi.
	GroupGone bool
	// Keys are preempted that no Member has, or one of them is replaced by the key that a node registers; 16 hexadecimal digits each. Boots are readers that are forgotten; whatever Volumes they are of.
	Keys  []string
	Boots []sharedlun.Boot
	// Proven is true when Keys are on record as granted to the very machine that the node is: of a boot of it that is over.
	Proven bool
	// Wipe is the digest of what is lost by making the group, Lost what that is.
	Wipe, Lost string
	// Again is true for a step that brings back what the node had, such as its sessions after a boot.
	Again bool
	// Why is the reason, one sentence. Consent is what whoever approves it vouches for, or agrees to lose; empty when that is nothing.
	Why, Consent string
}

var _ backend.Step = Step{}

// Host returns the host that it happens on.
func (s Step) Host() string { return s.Node }

// Via returns the host that a step of the whole runs on.
func (s Step) Via() string {
	if s.Node != "" {
		return ""
	}
	return s.Runs
}

// Action returns the action.
func (s Step) Action() string { return s.Does }

// Destroys reports whether the step needs a person: it loses what somebody else wrote, takes keys off that may be anybody's, or believes that a node is off.
func (s Step) Destroys() bool { return s.Wipe != "" || s.Vouches() }

// Vouches reports whether whoever approves says how things are then: that a node is off, or that nobody uses the LUN with some keys.
func (s Step) Vouches() bool { return s.Vouched || len(s.Keys) > 0 && !s.Proven }

// Later reports whether no node can take the step now.
func (s Step) Later() bool { return s.Node == "" && s.Runs == "" }

// Digest identifies the step by what it does to what. Which host a step of the whole runs on does not matter.
func (s Step) Digest() string {
	names := make([]string, 0, len(s.Volumes))
	for _, v := range s.Volumes {
		names = append(names, v.UUID+"@"+v.HeldBy)
	}
	names = append(names, s.Gone...)
	word := ""
	if s.Vouches() {
		// It covers what a person read.
		word = s.Why + " " + s.Consent
	}
	return backend.Digest([]any{
		word, s.Node, s.Does, s.Owner, s.Target.IQN, s.Target.Portals, s.Renew, s.Chap, s.Ref.Lun.WWID, s.Ref.Lun.Serial, s.Ref.OwnerUID, s.Ref.UUID, s.BootID, s.Initiator, s.Last,
		s.RecordOnly, s.Exchange, s.Reserve, s.Own, names, s.Victim, s.Key, s.Vouched, s.GroupGone, s.Wipe, s.Keys, s.Boots, s.Proven,
	})
}

// API returns the step as a status shows it.
func (s Step) API() v1alpha1.PlanStep {
	out := v1alpha1.PlanStep{Host: s.Node, Action: s.Does, Digest: s.Digest(), Reason: s.Why, Consent: s.Consent}
	if s.Ref.Lun.WWID != "" {
		out.Devices = []string{fmt.Sprintf("%s (%s, %d bytes)", s.Ref.Lun.WWID, s.Ref.Lun.Serial, s.Ref.Lun.SizeBytes)}
		out.VolumeGroup = sharedlun.GroupName(s.Ref.OwnerUID)
	}
	for _, v := range s.Volumes {
		out.Volumes = append(out.Volumes, v.Name)
	}
	out.Volumes = append(out.Volumes, s.Gone...)
	return out
}

// Told returns the event about a step that was taken, of those that end what somebody else can do.
func (s Step) Told() (reason, message string) {
	switch s.Does {
	case v1alpha1.ActionFenceNode:
		if s.GroupGone {
			return v1alpha1.ReasonFenced, "The key of node " + s.Victim + " is off the LUN. " + s.Why
		}
		how := "Node " + s.Victim + " is fenced: its key is off the LUN, so that it cannot write. "
		if s.Vouched && s.Key == "" {
			how = "Node " + s.Victim + " counts as fenced, by the word of a person, as long as every key on the LUN is that of another member. "
		} else if s.RecordOnly {
			how = "Node " + s.Victim + " counts as fenced, by the word of a person: the target keeps no reservations. "
		}
		return v1alpha1.ReasonFenced, how + "Its volumes are free for other nodes. " + s.Why
	case v1alpha1.ActionPreemptKeys:
		return v1alpha1.ReasonKeysPreempted, "Keys were taken off the LUN: " + backend.Shorten(s.Keys, maxNamed) + ". " + s.Why
	case v1alpha1.ActionForgetReaders:
		var names []string
		for _, v := range s.Volumes {
			names = append(names, v.Name)
		}
		return v1alpha1.ReasonReadersForgotten, "Node " + s.Victim + " counts no longer as one that may read these volumes, by the word of a person: " + backend.Shorten(names, maxNamed) + "."
	case v1alpha1.ActionCreateSharedGroup:
		if s.Wipe != "" {
			return v1alpha1.ReasonLunWiped, "LUN " + s.Ref.Lun.WWID + " has the volume group now. What was on it is lost: " + s.Lost
		}
	}
	return "", ""
}

// Restores reports whether the step only brings back what a node had before it was booted, or ends what was begun: no approval is asked for it anew.
func (s Step) Restores() bool { return s.Again }

// step begins a step on the node.
func (h host) step(does, why string) Step {
	ref, _ := h.view.Ref()
	s := Step{Node: h.m.Node, Does: does, Owner: h.view.seen.Iscsi.Name, Ref: ref, Why: why}
	if h.m.Object != nil {
		s.Member = h.m.Object.Name
	}
	return s
}
