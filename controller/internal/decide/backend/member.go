package backend

import (
	"slices"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// DefaultRemovalDelay is how long a member that leaves stays, unless the spec says otherwise.
const DefaultRemovalDelay = 5 * time.Minute

// FlagsOf decides the flags of a member. While it is too early to say whether the host answers, what was observed before stands. The
// latch is the deletion of the object: no status can set it, and none can take it back.
func FlagsOf(m *v1alpha1.Member, facts Facts, quiesce bool, volumes int) nodestate.Flags {
	flags := nodestate.Of(false, true, false, false)
	destroy := false
	if m != nil {
		destroy = !m.DeletionTimestamp.IsZero()
		if old := m.Status.Flags; old != nil {
			flags = nodestate.Of(old.IsUp, old.HasData, false, false)
		}
	}
	known := m != nil && m.Status.Flags != nil
	if !facts.TooEarly || !known {
		data := facts.Data
		if volumes > 0 {
			data = nodestate.DataPresent
		}
		flags = flags.Observe(facts.Up, data)
	} else if volumes > 0 {
		// A status may be older than the volumes.
		flags = flags.Observe(flags.IsUp(), nodestate.DataPresent)
	}
	flags, err := flags.Wish(quiesce, destroy)
	if err != nil {
		// Not reachable: the flags above are made without the latch. Should that change, the member stays condemned.
		return flags.Condemn()
	}
	return flags
}

// APIFlags returns flags as a status shows them.
func APIFlags(f nodestate.Flags) *v1alpha1.MemberFlags {
	return &v1alpha1.MemberFlags{
		IsUp: f.IsUp(), HasData: f.HasData(), ShouldQuiesce: f.ShouldQuiesce(), ShouldDestroy: f.ShouldDestroy(),
	}
}

// Lost reports whether a person said that the member's host and what it holds are gone. Only the UID of this very object counts,
// so that the word about an earlier member of the name never serves for a later one.
func Lost(m *v1alpha1.Member) bool {
	return m != nil && m.Spec.Lost != "" && m.Spec.Lost == string(m.UID)
}

const (
	// maxLost is the number of lost groups that a storage remembers.
	maxLost = 64
	// maxUUID is more than the length of any UUID: a person may have written something else into the annotation.
	maxUUID = 64
)

// LostGroups returns the groups of members that were declared lost, the oldest first: those in the annotation, which every backup has, and
// those in the status.
func LostGroups(s v1alpha1.Storage) []string {
	return WithLost(strings.Split(s.GetAnnotations()[v1alpha1.AnnotationLostGroups], ","), s.StorageStatus().LostGroups...)
}

// WithLost adds groups to those that are remembered, unless they are among them. The oldest are forgotten where there is no room.
func WithLost(have []string, more ...string) []string {
	var out []string
	for _, uuid := range append(slices.Clone(have), more...) {
		if uuid = strings.TrimSpace(uuid); uuid != "" && len(uuid) <= maxUUID && !slices.Contains(out, uuid) {
			out = append(out, uuid)
		}
	}
	return out[max(0, len(out)-maxLost):]
}

// Heir says what became of the group of a lost member that other members have on record too: its disks were moved and imported there. moved is
// true when one of them reports the group as its own: it is not lost with this one. unsure names those of which nobody can say whether they
// have it. It is lost if there is neither: a record alone is no proof, for the disks may have been moved back since.
func Heir(lost *v1alpha1.Member, hosts []HostHealth) (moved bool, unsure string) {
	uuid := recordedUUID(lost)
	if uuid == "" {
		return false, ""
	}
	var silent []string
	for _, h := range hosts {
		if h.Object != nil && h.Object.UID == lost.UID {
			continue
		}
		// One that is seen, and will be on record a moment later, is there too.
		seen := h.Facts.Up && h.Decided.Record != nil && h.Decided.Record.UUID == uuid
		switch {
		case seen || h.Facts.Recorded && recordedUUID(h.Object) == uuid:
			moved = true
		case recordedUUID(h.Object) != uuid:
		case h.Facts.TooEarly, h.Facts.Unsure, !h.Facts.Up && !Lost(h.Object):
			silent = append(silent, "member "+h.Object.Name+" on node "+h.Node)
		}
	}
	if moved {
		return true, ""
	}
	return false, Shorten(silent, 10)
}

// recordedUUID is the UUID of the group that a Member has on record; empty when it has none.
func recordedUUID(m *v1alpha1.Member) string {
	if m == nil || m.Spec.Group == nil {
		return ""
	}
	return m.Spec.Group.UUID
}

// Leaving is what is decided about a member that the spec does not want.
type Leaving struct {
	// Active is true while the member leaves.
	Active bool
	// Since is when it began to leave.
	Since time.Time
	// Reason and Message of the condition.
	Reason, Message string
	// Delete is true when the Member is to be deleted now.
	Delete bool
	// Wake is when to look again; 0 when nothing but an event can change the decision.
	Wake time.Duration
}

// LostMessage says why a member leaves that is declared lost.
const LostMessage = "A person said that the node and what it holds are lost."

// unreportedText says how a member goes whose node may have been used before it was made.
const unreportedText = "The node may have been used before this Member was made, and its agent has not reported since. " +
	"If the node is gone for ever, delete its Node, or declare the Member lost"

// Departure is what the decision about leaving is made on.
type Departure struct {
	// Unwanted says why the spec does not want the host; empty reason while it does.
	Reason, Message string
	// Since is when the member began to leave; zero when it did not yet.
	Since time.Time
	// Started is when this leader began: a delay never counts time in which nobody looked.
	Started, Now time.Time
	Delay        time.Duration
	// Maintenance is true while it is asked for, WasMaintenance when it was in the pass before.
	Maintenance, WasMaintenance bool
	// MovesData is true for a backend that moves data away by itself.
	MovesData bool
	// Empty is true when the member is known to hold no data.
	Empty bool
	// Unreported is true while its node may have been used before it was made, and nobody says what is there.
	Unreported bool
	// Holding names what it holds, for the message. Attached is true for a driver that attaches: what it holds is attached to it.
	Holding  []string
	Attached bool
	// Lost is a person's word that the host is gone. It is obeyed at once.
	Lost bool
}

// Leave decides about a member that is not being deleted yet.
func (d Departure) Leave() Leaving {
	if d.Lost {
		return Leaving{Active: true, Since: first(d.Since, d.Now), Reason: v1alpha1.ReasonLost, Message: LostMessage, Delete: true}
	}
	if d.Reason == "" {
		return Leaving{}
	}
	l := Leaving{Active: true, Since: first(d.Since, d.Now), Reason: d.Reason}
	if d.WasMaintenance && !d.Maintenance {
		// Who ends the maintenance has the whole delay to take the host back.
		l.Since = d.Now
	}
	from := l.Since
	if from.Before(d.Started) {
		from = d.Started
	}
	left := from.Add(d.Delay).Sub(d.Now)
	if d.Since.IsZero() {
		// Whatever the delay is: that the member leaves is shown, and can be taken back, before it is condemned.
		left = max(left, time.Nanosecond)
	}
	switch {
	case d.Maintenance:
		l.Message = d.Message + " It is under maintenance: it is removed after that, unless it is taken back."
	case left > 0:
		l.Wake = left
		l.Message = d.Message + " It is removed after " + d.Delay.String() + ", unless it is taken back."
	case d.MovesData || d.Empty:
		l.Delete = true
		l.Message = d.Message + " It is being removed."
	case len(d.Holding) > 0:
		l.Message = d.Message + " It is removed once its volumes are " + freed(d.Attached) + ": " + Shorten(d.Holding, 10)
	default:
		l.Message = d.Message + " It is removed once it is known to hold no data."
		if d.Unreported {
			l.Message += " " + unreportedText + "."
		}
	}
	return l
}

// freed says what has to become of volumes before they hold a member no more.
func freed(attached bool) string {
	if attached {
		return "detached"
	}
	return "deleted"
}

func first(a, b time.Time) time.Time {
	if a.IsZero() {
		return b
	}
	return a
}
