// Package preflight decides whether a host can run daemons of Ceph, before anything is done there. It is pure. A fact that nobody could read is a refusal.
package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph/option"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Machine is what is known of a host.
type Machine struct {
	// MemoryBytes are what pods can have there; 0 when that is not known.
	MemoryBytes int64
	// OS and Architecture are what the kubelet says, such as linux and amd64; empty when that is not known.
	OS, Architecture string
	// Clock is how its clock goes; nil when that is not known, and Problem says why.
	Clock   *Clock
	Problem string
}

// Need is the memory of the daemons of one kind.
type Need struct {
	// Name of the kind for a person, such as OSD.
	Name string
	// Count of them, each with so many Bytes.
	Count int
	Bytes int64
}

// Refusal says why no daemon is brought to a host. Its zero value is that daemons can run there.
type Refusal struct {
	// Reason is one of v1alpha1.ReasonXxx.
	Reason string
	// Message goes on with the name of the host before it.
	Message string
}

// IsZero reports whether daemons can run on the host.
func (r Refusal) IsZero() bool { return r == Refusal{} }

// Memory refuses a host where pods can have less memory than its daemons need.
func Memory(m Machine, needs []Need) Refusal {
	total, parts := int64(0), []string(nil)
	for _, n := range needs {
		if n.Count < 1 || n.Bytes < 1 {
			continue
		}
		total += int64(n.Count) * n.Bytes
		parts = append(parts, fmt.Sprintf("%d %s with %s each", n.Count, n.Name, decide.Bytes(n.Bytes)))
	}
	switch list := strings.Join(parts, ", "); {
	case total == 0 || m.MemoryBytes >= total:
		return Refusal{}
	case m.MemoryBytes <= 0:
		return Refusal{v1alpha1.ReasonHostUnread, fmt.Sprintf("does not say how much memory pods can have there, and its daemons need %s (%s)", decide.Bytes(total), list)}
	default:
		return Refusal{v1alpha1.ReasonTooLittleMemory, fmt.Sprintf("has too little memory: its daemons need %s (%s), and pods can have %s there", decide.Bytes(total), list, decide.Bytes(m.MemoryBytes))}
	}
}

// Port says why a host gets no monitor: it has one of another Ceph cluster, by the Members of the others, and both would listen on one port. It is empty for any other host.
func Port(node string, others []*v1alpha1.Member) string {
	for _, m := range others {
		if string(m.Spec.Node) == node && m.Spec.Ceph != nil && m.Spec.Ceph.Monitor != nil {
			return fmt.Sprintf("has a monitor of %s %s, and room for one (port %d)", m.Spec.Of.Kind, m.Spec.Of.Name, cephname.PortMonitor)
		}
	}
	return ""
}

// official is the repository of the images that the Ceph project builds, and built are what it builds them for.
const official = "quay.io/ceph/ceph"

var built = []string{"amd64", "arm64"}

// Platform refuses a host that the image cannot run on. What an image of somebody else is built for only its registry knows: the pods tell then.
func Platform(m Machine, image string) Refusal {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	switch {
	case m.OS == "" || m.Architecture == "":
		return Refusal{v1alpha1.ReasonHostUnread, "does not say which operating system and architecture it has"}
	case m.OS != "linux":
		return Refusal{v1alpha1.ReasonWrongArchitecture, fmt.Sprintf("has the operating system %s, and Ceph runs on linux", m.OS)}
	case name == official && !slices.Contains(built, m.Architecture):
		return Refusal{v1alpha1.ReasonWrongArchitecture, fmt.Sprintf("has the architecture %s, and the image %s is built for %s", m.Architecture, image, strings.Join(built, " and "))}
	}
	return Refusal{}
}

// Clock is how far the clock of a host is ahead of the one that all are compared with: at least Least, at most Most.
type Clock struct{ Least, Most time.Duration }

// apart is the least by which two clocks differ; 0 if they may be the same.
func (c Clock) apart(o Clock) time.Duration { return max(0, c.Least-o.Most, o.Least-c.Most) }

// Clocks refuses a host whose clock surely differs from those of most other hosts by more than Ceph bears. A host whose clock nobody could read is refused, and one that is
// compared with is passed over.
func Clocks(host string, all map[string]Machine, allowed time.Duration) Refusal {
	own := all[host]
	if own.Clock == nil {
		return Refusal{v1alpha1.ReasonHostUnread, "has a clock that nobody could read: " + cmp.Or(own.Problem, "its agent was not asked yet")}
	}
	compared, apart, most, from := 0, 0, time.Duration(0), ""
	for name, m := range all {
		if name == host || m.Clock == nil {
			continue
		}
		compared++
		gap := own.Clock.apart(*m.Clock)
		if gap <= allowed {
			continue
		}
		apart++
		if gap > most || gap == most && name < from {
			most, from = gap, name
		}
	}
	if apart*2 <= compared {
		return Refusal{}
	}
	return Refusal{v1alpha1.ReasonClocksDiffer, fmt.Sprintf("has a clock that differs from those of %d of %d other hosts, from that of %s by %s at least; Ceph bears %s",
		apart, compared, from, most.Round(time.Millisecond), allowed)}
}

// drift is what the monitors of Ceph bear unless an option says otherwise.
const drift = 50 * time.Millisecond

// Allowed is how much clocks may differ by the options of the spec, whose keys are whom an option is for, a dot, and its name.
func Allowed(options map[string]string) time.Duration {
	for _, value := range option.Monitors(options, "mon_clock_drift_allowed") {
		seconds, err := strconv.ParseFloat(value, 64)
		// What no duration holds is no limit that anybody could mean.
		if err == nil && seconds > 0 && seconds < 1e6 {
			return time.Duration(seconds * float64(time.Second))
		}
	}
	return drift
}
