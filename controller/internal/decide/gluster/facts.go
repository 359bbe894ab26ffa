// Package gluster has what is known of a pool of glusterd2 servers, and the flags of its nodes. Packages below decide: how many nodes a template has
// (template), what a node needs to serve (node), how it is emptied (drain), and in which order it is removed (removal). All of it is pure: no package here
// knows how servers are asked, and none takes a step on a fact that nobody could read. The reconciler is reconcile/gluster.
//
// What glusterd2 really says is recorded; a case is named as its file begins, such as w030. Where documents say something else, the recording counts.
package gluster

import (
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/answer"
)

// Answer is what somebody says to a question.
type Answer = answer.Answer

// Answers.
const (
	Unknown = answer.Unknown
	No      = answer.No
	Yes     = answer.Yes
)

// Of is the answer that a known fact gives.
func Of(is bool) Answer { return answer.Of(is) }

// Pool is what the servers say of themselves. A list that could not be read, or not to its end, is nil.
type Pool struct {
	Peers     *[]Peer
	Volumes   *[]Volume
	Snapshots *[]Volume
	Devices   *[]Device
	// Named are the volumes that PersistentVolumes name. They come from Kubernetes, and not from the servers.
	Named *[]Named
}

// Peer is a member of the pool.
type Peer struct {
	// ID is what spec.peer of the GlusterNode says for our nodes: the server is started with it, and keeps it when the object is restored under another UID.
	ID string
	// Addresses of the port for other members.
	Addresses []string
	// Zone is the ID where none was given.
	Zone string
	// Online is what the lease in etcd says. It is up to 30 s late after a crash, and may be wrong for a moment after etcd was away (a138, k020).
	Online bool
}

// Device is one that a peer registered. It stays listed after its peer left (x009).
type Device struct {
	Peer, Path string
	Enabled    bool
	// Free and Total are bytes; Total is 0 when it is not known. glusterd2 gives no space of replaced bricks back (w034), and Used may wrap around zero (w038), so nobody reads that.
	Free, Total uint64
}

// Volume is a volume, or a snapshot, which is a volume with bricks of its own.
type Volume struct {
	Name, ID   string
	Started    bool
	Subvolumes []Subvolume
	// SelfHeal tells whether the daemon that copies data to bricks that lack them is enabled. It is off by default for some volumes (v080).
	SelfHeal Answer
	// Heal is nil when nobody could say of every brick of a started volume: a brick that is down has no numbers (w004, w005).
	Heal *Heal
}

// Subvolume is a set of bricks that keep the same data. Files are spread over the subvolumes of a volume.
type Subvolume struct {
	Kind   Kind
	Bricks []Brick
}

// Kind says how a subvolume keeps its data.
type Kind int

// Kinds. One that we do not know counts as one that cannot be moved.
const (
	OtherKind Kind = iota
	// Distribute has one copy.
	Distribute
	// Replicate has several.
	Replicate
	// Disperse has several parts, of which some may be missing.
	Disperse
)

// Brick is a directory on a peer.
type Brick struct {
	ID, Peer, Path string
	// Arbiter has names and no content.
	Arbiter bool
	Online  Answer
	// Size of the filesystem that the brick is in; nil when it is not known.
	Size *Size
}

// Space is what the devices of a node have, in bytes.
type Space struct{ Free, Total uint64 }

// Size is that of a filesystem, in bytes.
type Size struct{ Capacity, Used uint64 }

// Heal is what is left to be healed in a volume.
type Heal struct{ Pending, SplitBrain uint64 }

// Clean reports whether nothing is.
func (h Heal) Clean() bool { return h == Heal{} }

// Peer returns a member of the pool. The answer is unknown when the list could not be read.
func (p Pool) Peer(id string) (Peer, Answer) {
	if p.Peers == nil || id == "" {
		return Peer{}, Unknown
	}
	for _, one := range *p.Peers {
		if SameID(one.ID, id) {
			return one, Yes
		}
	}
	return Peer{}, No
}

// Online says whether a node is online: one that is not in the list is not.
func (p Pool) Online(id string) Answer {
	peer, known := p.Peer(id)
	if known != Yes {
		return known
	}
	return Of(peer.Online)
}

// SameID reports whether two IDs are the same. glusterd2 itself compares them as text, in small letters (a018).
func SameID(a, b string) bool { return a != "" && strings.EqualFold(a, b) }

// Volume returns a volume by its name.
func (p Pool) Volume(name string) (Volume, Answer) {
	if p.Volumes == nil {
		return Volume{}, Unknown
	}
	i := slices.IndexFunc(*p.Volumes, func(v Volume) bool { return v.Name == name })
	if i < 0 {
		return Volume{}, No
	}
	return (*p.Volumes)[i], Yes
}

// Sound reports whether a volume is told as a whole: it has bricks, and each has an ID and a peer. Anything else is no answer.
func (v Volume) Sound() bool {
	if v.Name == "" || len(v.Subvolumes) == 0 {
		return false
	}
	for _, s := range v.Subvolumes {
		if len(s.Bricks) == 0 || slices.ContainsFunc(s.Bricks, func(b Brick) bool { return b.ID == "" || b.Peer == "" }) {
			return false
		}
	}
	return true
}

// Bricks returns all bricks, in their order.
func (v Volume) Bricks() []Brick {
	var all []Brick
	for _, s := range v.Subvolumes {
		all = append(all, s.Bricks...)
	}
	return all
}

// At returns the brick at a position.
func (v Volume) At(subvolume, position int) (Brick, bool) {
	if subvolume < 0 || subvolume >= len(v.Subvolumes) || position < 0 || position >= len(v.Subvolumes[subvolume].Bricks) {
		return Brick{}, false
	}
	return v.Subvolumes[subvolume].Bricks[position], true
}
