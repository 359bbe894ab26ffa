package gluster

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Debounce is for how long glusterd2 has to say without a break that a node is up, or down, before its flag follows. The lease behind it ends 25 to 30 s
// after a crash, and is gone for a moment after etcd was away. While nobody speaks for the pool, the word of Kubernetes that a server does not run counts.
const Debounce = time.Minute

// Data says whether a node holds bricks of volumes or snapshots, which these are, and how many bricks. glusterd2 lets a node go that holds bricks of
// snapshots, so these count here. A list that is missing, cut, not sound or short of a volume that a PersistentVolume names leaves it unknown, unless a brick
// is seen anyway.
func (p Pool) Data(peer string) (data nodestate.Data, holding []string, bricks int) {
	_, unlisted := p.Unlisted()
	whole := peer != "" && unlisted == No
	for _, list := range []struct {
		what string
		all  *[]Volume
	}{{"volume ", p.Volumes}, {"snapshot ", p.Snapshots}} {
		if list.all == nil {
			whole = false
			continue
		}
		for _, v := range *list.all {
			whole = whole && v.Sound()
			n := 0
			for _, b := range v.Bricks() {
				if SameID(b.Peer, peer) {
					n++
				}
			}
			if n > 0 {
				holding, bricks = append(holding, list.what+v.Name), bricks+n
			}
		}
	}
	slices.Sort(holding)
	switch {
	case bricks > 0:
		return nodestate.DataPresent, holding, bricks
	case whole:
		return nodestate.DataAbsent, nil, 0
	}
	return nodestate.DataUnknown, nil, 0
}

// Sight is what was seen of a node in one pass.
type Sight struct {
	// Online is what glusterd2 says, and Answers whether the node's own server answers.
	Online, Answers Answer
	// Silent: nobody speaks for the pool, so that Answers is all that is known. Kubernetes says it of a server that does not answer.
	Silent bool
	// Data is what Pool.Data says.
	Data nodestate.Data
	// Started is when this leader began: time in which nobody looked does not count.
	Started, Now time.Time
}

// Standing is how a node stands.
type Standing struct {
	Flags nodestate.Flags
	// OtherSince is the record of that name.
	OtherSince *metav1.Time
	// Lost: a person's word that the node is gone counts. LostRefused says why it does not.
	Lost        bool
	LostRefused string
	// Wake is when the flag may follow; 0 when nothing but another sight can change it.
	Wake time.Duration
}

// State is the state of the node.
func (s Standing) State() nodestate.State { return nodestate.Compute(s.Flags) }

// Stand decides the flags of a node. Its deletion is the latch: no status sets it, and nothing takes it back.
func Stand(n *v1alpha1.GlusterNode, sight Sight) Standing {
	var s Standing
	up, known := false, n.Status.Flags != nil
	if known {
		up = n.Status.Flags.IsUp
	}
	s.OtherSince = n.Status.OtherSince
	up = s.follow(up, known, sight)

	s.Lost, s.LostRefused = lost(n, sight)
	s.Flags = nodestate.Of(false, true, false, false).Observe(up, data(n, sight, s.Lost))
	flags, err := s.Flags.Wish(n.Spec.DesiredState == v1alpha1.GlusterDisabled, !n.DeletionTimestamp.IsZero())
	if err != nil {
		// Not reachable: the flags above are made without the latch. Should that change, the node stays condemned.
		flags = s.Flags.Condemn()
	}
	s.Flags = flags
	return s
}

// follow is the flag isUp after a sight. What nobody could see changes nothing, and ends the time in which the same was seen.
func (s *Standing) follow(up, known bool, sight Sight) bool {
	seen := sight.Online == Yes
	switch {
	case sight.Online == Unknown && !sight.gone(), known && seen == up:
		s.OtherSince = nil
		return up
	case !known:
		s.OtherSince = nil
		return seen
	}
	since := sight.Now
	if s.OtherSince != nil && !s.OtherSince.After(sight.Now) {
		since = s.OtherSince.Time
	}
	if since.Before(sight.Started) {
		since = sight.Started
	}
	if left := Debounce - sight.Now.Sub(since); left > 0 {
		s.OtherSince, s.Wake = &metav1.Time{Time: since}, left
		return up
	}
	s.OtherSince = nil
	return seen
}

// gone reports whether a node is down as far as anybody knows: the pool is silent, and Kubernetes says that the server does not run.
func (s Sight) gone() bool { return s.Silent && s.Online == Unknown && s.Answers == No }

// data is what counts as data of a node.
func data(n *v1alpha1.GlusterNode, sight Sight, lost bool) nodestate.Data {
	switch {
	case lost:
		// What was there is gone, by a person's word, while glusterd2 still lists the bricks.
		return nodestate.DataAbsent
	case sight.Data == nodestate.DataAbsent && moving(n):
		// What was moved is not known to be whole elsewhere: the old bricks on the node may be the only copy.
		return nodestate.DataPresent
	case sight.Data == nodestate.DataUnknown && Left(n):
		return nodestate.DataAbsent
	}
	return sight.Data
}

// moving reports whether a brick was moved off a node, or is being moved, and its data are not known to be whole elsewhere.
func moving(n *v1alpha1.GlusterNode) bool {
	return n.Spec.Move != nil && !n.Spec.Move.Whole
}

// PeerOf returns the ID of a node's server in the pool, as it is on record. Without a record it is empty, and whatever depends on it is unknown: a node that was
// restored has another UID than the bricks that are its own are listed under.
func PeerOf(n *v1alpha1.GlusterNode) string { return n.Spec.Peer }

// Left reports whether it is on record that the node's server is no member of the pool any more.
func Left(n *v1alpha1.GlusterNode) bool {
	return n.UID != "" && n.Annotations[v1alpha1.AnnotationPeerLeft] == string(n.UID)
}

// lost reports whether a person's word that a node is gone counts, or why not. Only the UID of this very object does.
func lost(n *v1alpha1.GlusterNode, sight Sight) (yes bool, refused string) {
	word := strings.TrimSpace(n.Spec.Lost)
	switch {
	case word == "":
		return false, ""
	case word != string(n.UID):
		return false, "spec.lost is not the UID of this GlusterNode."
	case sight.Online == Yes:
		return false, "glusterd2 says that the node is online."
	case sight.Answers == Yes:
		return false, "The server of the node answers."
	case n.Status.Flags != nil && n.Status.Flags.IsUp && sight.Online == No:
		return false, "glusterd2 says for less than a minute that the node is down."
	case n.Status.Flags != nil && n.Status.Flags.IsUp && sight.gone():
		return false, "No server speaks for the pool, and Kubernetes says for less than a minute that the node is down."
	case sight.Online == Unknown && sight.Answers == Unknown:
		return false, "Nobody could ask the pool or the node."
	}
	return true, ""
}

// Overdue reports whether a node that is offline is to be given up (A6): only if the cluster says after how long, and never one under maintenance. heard is since
// when this leader has heard the pool without a break, zero while nobody speaks: all servers are down then, and none of them is at fault. A node that never joined and
// names a disk of a machine may wait for that, or for a person who writes its record again. wake is when it may be.
func Overdue(n *v1alpha1.GlusterNode, state nodestate.State, after *metav1.Duration, heard, now time.Time) (give bool, wake time.Duration) {
	if heard.IsZero() || after == nil || after.Duration <= 0 || state != nodestate.Offline || n.Status.OfflineSince == nil || n.Spec.External != nil || waitsForDisk(n) {
		return false, 0
	}
	since := n.Status.OfflineSince.Time
	if since.Before(heard) {
		since = heard
	}
	if left := after.Duration - now.Sub(since); left > 0 {
		return false, left
	}
	return true, 0
}

// waitsForDisk reports whether a server may never have been made because a disk of its machine is not allocated.
func waitsForDisk(n *v1alpha1.GlusterNode) bool {
	return !n.Status.Joined && slices.ContainsFunc(n.Spec.Storage, func(s v1alpha1.GlusterStorage) bool { return s.Device != "" })
}
