package nfs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// Left is what the share of an Nfs that is being deleted still has on record. No PersistentVolume names any of it.
type Left struct {
	// At is when it was read, Node from where; empty when no agent could be asked.
	At   time.Time
	Node string
	// Share is the share that was read.
	Share sharedvolume.Share
	// Problem says why it could not be read; empty when it could.
	Problem string
	Records []sharedvolume.Directory
}

// leftEvery is how often the records are read while they hold a deletion up.
const leftEvery = time.Second

// WantsLeft reports whether the records on the share have to be read before an Nfs may go, and which share that is. A share that was never
// prepared has none. A person who sets the annotation AnnotationRemove to the UID of the Nfs lets it go whatever is there.
func (v *View) WantsLeft(n *v1alpha1.Nfs, w backend.World, now time.Time) (sharedvolume.Share, bool) {
	share := ShareOf(n)
	share.ID = cmp.Or(ShareID(n, w), n.Status.ShareID)
	if v != nil && v.look.Report.Problem == nil {
		share.ID = cmp.Or(share.ID, v.look.Report.ID)
	}
	switch {
	case n.DeletionTimestamp.IsZero(), Volumes(w) > 0, share.ID == "", released(n):
		return share, false
	case v == nil || v.left == nil:
		return share, true
	case v.left.Problem != "":
		// After every look at the share it is tried once more.
		return share, v.look.At.After(v.left.At)
	}
	return share, now.Sub(v.left.At) >= leftEvery || now.Before(v.left.At)
}

// Away is why nobody has to try to read the records now: the look that was made just before did not reach the share. It is empty when
// that is worth trying.
func (v *View) Away() string {
	if p := v.look.Report.Problem; p != nil && (Elsewhere(p) || p.Reason == v1alpha1.ReasonNoAgent) {
		return p.Message
	}
	return ""
}

func released(n *v1alpha1.Nfs) bool { return n.Annotations[v1alpha1.AnnotationRemove] == string(n.UID) }

// WithLeft returns the view with what was left on record.
func (v *View) WithLeft(l *Left) *View {
	out := *v
	out.left = l
	return &out
}

// leave decides what becomes of what is left: what was begun of a volume that was never made is removed. A directory that was made holds the
// deletion up, even if it is being removed: in the ordinary course a PersistentVolume is there until the removal is over, and somebody who
// took it away may want what is left. So does a share that nobody can read.
func (v *View) leave(out *backend.Whole) {
	l := v.left
	if l == nil || v.nfs.DeletionTimestamp.IsZero() || Volumes(v.world) > 0 || released(v.nfs) {
		return
	}
	way := fmt.Sprintf("to delete the Nfs all the same and leave the share as it is: kubectl annotate --overwrite nfs.%s %s %s=%s",
		v1alpha1.Group, v.nfs.Name, v1alpha1.AnnotationRemove, v.nfs.UID)
	if l.Problem != "" {
		out.Holding = []string{"what the share has on record, which cannot be read (" + strings.TrimSuffix(l.Problem, ".") + "; " + way + ")"}
		return
	}
	for _, r := range l.Records {
		if r.NeverMade || r.State == sharedvolume.Making {
			out.Steps = append(out.Steps, Step{Node: l.Node, Share: l.Share, Volume: r.Name, Directory: r.Directory})
			continue
		}
		out.Holding = append(out.Holding, fmt.Sprintf("directory %q of volume %s, which has no PersistentVolume%s", r.Directory, r.Name, rest(r)))
	}
	if len(out.Holding) > 0 {
		slices.Sort(out.Holding)
		out.Holding = append(out.Holding[:min(len(out.Holding), maxNamed)], way)
	}
	if len(out.Steps) > 0 {
		out.Wake = leftEvery
	}
}

// rest says where what is left of a directory is whose removal has begun; empty while it has not.
func rest(r sharedvolume.Directory) string {
	switch {
	case r.State != sharedvolume.Removing:
		return ""
	case r.OnDelete == sharedvolume.Delete:
		return fmt.Sprintf(" and whose deletion has begun (what is left of it is in %s on the share, or still at its place)", r.Discarded())
	}
	return fmt.Sprintf(" and whose deletion (onDelete %s) has begun (it is at its place, or archived beside it)", r.OnDelete)
}

// maxNamed is how many directories are named, so that the way out is named as well.
const maxNamed = 5

// Step removes what is left of a volume that was never made.
type Step struct {
	// Node is the host that it runs on.
	Node string
	// Share and Volume say what is removed, Directory where it was to be.
	Share             sharedvolume.Share
	Volume, Directory string
}

var _ backend.Step = Step{}

// Host returns nothing: a share is on no host.
func (s Step) Host() string { return "" }

// Via returns the host that the step runs on.
func (s Step) Via() string { return s.Node }

// Action returns the action of the step.
func (s Step) Action() string { return v1alpha1.ActionFinishRemoval }

// Destroys returns false: nobody was ever given what is removed.
func (s Step) Destroys() bool { return false }

// Vouches returns false: nobody has to vouch for anything.
func (s Step) Vouches() bool { return false }

// Later returns false: the step can run now.
func (s Step) Later() bool { return false }

// Digest identifies the step by the volume. Any host may run it.
func (s Step) Digest() string {
	return backend.Digest([]string{s.Share.Owner, s.Action(), s.Volume})
}

// API returns the step as a status shows it.
func (s Step) API() v1alpha1.PlanStep {
	return v1alpha1.PlanStep{
		Action: s.Action(), Digest: s.Digest(),
		Reason: fmt.Sprintf("The directory %q was being made for volume %s, which nobody was ever given.", s.Directory, s.Volume),
	}
}
