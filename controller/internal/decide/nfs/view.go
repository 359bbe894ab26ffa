package nfs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/class"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

const (
	// Every is how often a share is looked at. With the longest look a server that is gone shows within half a minute.
	Every = 10 * time.Second
	// capacityEvery is how often the size of a share is taken over.
	capacityEvery = 60 * time.Second
	// prepareEvery is how often it is tried whether volumes could still be made.
	prepareEvery = 10 * time.Minute
	// soon is how often it is tried while no agent answers, and grace how long that is nobody's fault.
	soon  = 2 * time.Second
	grace = 30 * time.Second
)

// Profile returns what the engine has to know of shares.
func Profile() backend.Profile {
	return backend.Profile{Driver: backend.Driver{Name: v1alpha1.DriverNFS, Deployment: "quarry-csi-nfs"}}
}

// Look is what one look at a share found.
type Look struct {
	// At is when, Node from where; empty when no agent could be asked.
	At   time.Time
	Node string
	// Prepared is true when the look tried whether volumes can be made.
	Prepared bool
	Report   sharedvolume.Seen
}

// View is one observation of a share, and the decisions on it. There are no members: any agent serves the whole.
type View struct {
	nfs   *v1alpha1.Nfs
	world backend.World
	// look is the last one.
	look Look
	// prepared is when it was tried last whether volumes can be made, measured when the capacity was taken over.
	prepared, measured time.Time
	capacity           *v1alpha1.Space
	// left is what the share of an Nfs that is being deleted has on record; nil while nobody asked.
	left *Left
	// compared is what is known of the volumes; nil while nothing is.
	compared *Compared
	// turn counts the looks at this share, so that repeated attempts reach all agents. Looks at other shares do not move it: with as many of them as agents
	// each share would ask the same agent for ever.
	turn int
	// first is when this controller looked first: until the agents had time to connect, what an earlier one wrote stands.
	first, now time.Time
}

var _ backend.View = (*View)(nil)

// Invalid says why a spec cannot be used; nil when it can. The schema accepts some servers and paths that no share has.
func Invalid(n *v1alpha1.Nfs) *sharedvolume.Problem {
	host, err := sharedvolume.Host(n.Spec.Server)
	if err != nil {
		return &sharedvolume.Problem{Reason: sharedvolume.ReasonInvalid, Message: "spec.server: " + err.Error()}
	}
	if err := sharedvolume.CheckPath(n.Spec.Path); err != nil {
		return &sharedvolume.Problem{Reason: sharedvolume.ReasonInvalid, Message: "spec.path: " + err.Error()}
	}
	if err := sharedvolume.CheckSource(host, n.Spec.Path); err != nil {
		return &sharedvolume.Problem{Reason: sharedvolume.ReasonInvalid, Message: "spec.server, spec.path: " + err.Error()}
	}
	options := make([]string, 0, len(n.Spec.MountOptions))
	for _, o := range n.Spec.MountOptions {
		options = append(options, string(o))
	}
	if _, err := sharedvolume.ParseOptions(options); err != nil {
		return &sharedvolume.Problem{Reason: sharedvolume.ReasonInvalid, Message: "spec.mountOptions: " + err.Error()}
	}
	if slices.Contains(strings.Split(n.Spec.Path, "/"), sharedvolume.MarkDirectory) {
		return &sharedvolume.Problem{
			Reason:  sharedvolume.ReasonInvalid,
			Message: "spec.path: it leads into " + sharedvolume.MarkDirectory + ", where the records of the share of an Nfs are",
		}
	}
	return nil
}

// Due says whether a share has to be looked at now, and whether the look has to try if volumes can be made.
func (v *View) Due(n *v1alpha1.Nfs, now time.Time) (look, prepare bool) {
	if v == nil || v.nfs.Generation != n.Generation {
		return true, true
	}
	prepare = v.look.Report.Problem != nil || now.Sub(v.prepared) >= prepareEvery
	return now.Sub(v.look.At) >= v.every() || now.Before(v.look.At), prepare
}

// every is how long a look stands.
func (v *View) every() time.Duration {
	if p := v.look.Report.Problem; p != nil && p.Reason == v1alpha1.ReasonNoAgent {
		return soon
	}
	return Every
}

// Next returns the view after a look, or the one that stands when there was none.
func (v *View) Next(n *v1alpha1.Nfs, w backend.World, look *Look, now time.Time) *View {
	out := &View{nfs: n, world: w, first: now, now: now}
	if v != nil {
		out.first = v.first
		out.look, out.prepared, out.measured, out.capacity = v.look, v.prepared, v.measured, v.capacity
		out.left, out.turn, out.compared = v.left, v.turn, v.compared
	}
	if look == nil {
		return out
	}
	out.look = *look
	out.turn++
	if p := look.Report.Problem; p != nil {
		out.compared = out.compared.afterProblem(p)
	}
	if r := look.Report; r.Problem == nil {
		if look.Prepared {
			out.prepared = look.At
		}
		if out.capacity == nil || look.At.Sub(out.measured) >= capacityEvery {
			space := backend.MeasuredSpace(r.Total, r.Used, r.Free)
			out.capacity, out.measured = &space, look.At
		}
	}
	return out
}

// Tries is how many agents may be asked in one look, of at most so many. While nobody reaches the share each look asks one, and the looks
// ask all agents in turn: so a dead server costs one wait per look.
func (v *View) Tries(most int) int {
	if v != nil && !v.look.At.IsZero() && v.look.Report.Problem != nil && v.look.Report.Problem.Reason != v1alpha1.ReasonNoAgent {
		return min(1, most)
	}
	return most
}

// Turn is the number of looks that were made at the share: the next one begins with another agent.
func (v *View) Turn() int {
	if v == nil {
		return 0
	}
	return v.turn
}

// Preferred is the node whose agent reached the share last; empty when none did.
func (v *View) Preferred() string {
	if v == nil || v.look.Report.Problem != nil {
		return ""
	}
	return v.look.Node
}

// ShareID returns the recorded identity of a share: that of its volumes, which outranks the one of the status. A status can be lost, and
// one that is computed while the wrong disk is behind the export would be wrong.
func ShareID(n *v1alpha1.Nfs, w backend.World) string {
	var ids []string
	for _, volumes := range w.Volumes {
		for _, v := range volumes {
			if id := v.Attributes[sharedvolume.KeyShareID]; id != "" {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 || slices.Contains(ids, n.Status.ShareID) {
		return n.Status.ShareID
	}
	return slices.Min(ids)
}

// Volumes counts the PersistentVolumes of a share.
func Volumes(w backend.World) int {
	count := 0
	for _, volumes := range w.Volumes {
		count += len(volumes)
	}
	return count
}

// Hosts returns no host: the share is on none.
func (v *View) Hosts() []string { return nil }

// Facts returns nothing: there are no members.
func (v *View) Facts(string) backend.Facts { return backend.Facts{} }

// Decide returns nothing: there are no members.
func (v *View) Decide(backend.Member) backend.Host { return backend.Host{} }

// Whole returns what there is to say about the share.
func (v *View) Whole([]backend.HostHealth) backend.Whole {
	reachable := v.reachable()
	w := backend.Whole{
		Serves: reachable.Status == metav1.ConditionTrue, Pending: "The StorageClass is made once an agent has reached the share.",
		Class:    class.Wish{Parameters: map[string]string{v1alpha1.ParameterNfs: string(v.nfs.UID)}, Binding: storagev1.VolumeBindingImmediate},
		Facts:    []metav1.Condition{reachable, v.volumesPresent()},
		Wake:     max(time.Second, v.look.At.Add(v.every()).Sub(v.now)),
		Capacity: &v1alpha1.Space{},
	}
	if s := v.nfs.Spec.StorageClass; s != nil && s.BindingMode != "" {
		w.Class.Binding = s.BindingMode
	}
	w.Warnings = []metav1.Condition{v.unique()}
	if v.capacity != nil {
		w.Capacity = v.capacity
	} else if old := v.nfs.Status.Capacity.Total; old.Total != nil {
		w.Capacity = &old
	}
	v.leave(&w)
	return w
}

func (v *View) reachable() metav1.Condition {
	problem := v.look.Report.Problem
	switch {
	case problem != nil && problem.Reason == v1alpha1.ReasonNoAgent && v.now.Sub(v.first) < grace:
		if c := meta.FindStatusCondition(v.nfs.Status.Conditions, v1alpha1.ConditionShareReachable); c != nil {
			return *c
		}
		return backend.Condition(v1alpha1.ConditionShareReachable, metav1.ConditionUnknown, v1alpha1.ReasonPending, problem.Message)
	case problem != nil:
		return backend.Condition(v1alpha1.ConditionShareReachable, metav1.ConditionFalse, problem.Reason, problem.Message)
	}
	return backend.Condition(v1alpha1.ConditionShareReachable, metav1.ConditionTrue, v1alpha1.ReasonShareReachable,
		fmt.Sprintf("The share was reached from node %s with NFS %s.", v.look.Node, v.look.Report.Version))
}

// shareID returns the identity that the share was last seen with, as the status has it after this look; empty while nobody has seen it.
func (v *View) shareID() string {
	if v.look.Report.Problem == nil && v.look.Report.ID != "" {
		return v.look.Report.ID
	}
	return v.nfs.Status.ShareID
}

// Elsewhere reports whether an agent on another node may know better.
func Elsewhere(p *sharedvolume.Problem) bool {
	return p.Reason == v1alpha1.ReasonAgentUnreachable || slices.Contains(perNode, p.Reason)
}

// Fill writes what only an Nfs has in its status.
func (v *View) Fill(n *v1alpha1.Nfs) {
	n.Status.VolumeCount = int32(Volumes(v.world))
	if v.look.Report.Problem != nil {
		return
	}
	n.Status.Version, n.Status.CheckedFrom = v.look.Report.Version, v.look.Node
	// The agent has compared it with what is recorded.
	n.Status.ShareID = v.look.Report.ID
}
