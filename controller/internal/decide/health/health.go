// Package health decides how a Cluster is: the finding on each of its hosts, and from these its conditions, phase, message
// and capacity.
package health

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/controller/internal/decide/host"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Host is all that is known and decided about one host.
type Host struct {
	Name string
	// Member with flags and state; Waits says what a member to be destroyed waits for.
	Member v1alpha1.ClusterMember
	Waits  string
	// Invalid is why the host may not be used; nil when it may.
	Invalid *host.Invalid
	// Node is what its agent reports.
	Node decide.Node
	// Groups of the Cluster on the host.
	Groups []decide.Group
	// Choice of devices.
	Choice device.Choice
	// Recorded are its devices in the status.
	Recorded []string
	// Last is its instance in the status; nil when there is none.
	Last *v1alpha1.Instance
	// Steps is the number of steps that are left, Held whether they wait for approval.
	Steps int
	Held  bool
	// Failure is why the last step failed, FailureReason the reason for a condition; empty when it did not.
	Failure, FailureReason string
	// Removed is true when the host was torn down and nothing is left to show.
	Removed bool
}

// Kind sorts findings.
type Kind int

// Kinds of findings, from good to bad.
const (
	// Well: nothing to say, or nothing that anybody must act on.
	Well Kind = iota
	// Busy: work is under way.
	Busy
	// Waiting: somebody must approve.
	Waiting
	// Bad: something is wrong with the host.
	Bad
)

// Finding is what there is to say about a host.
type Finding struct {
	Kind Kind
	// Reason of a condition.
	Reason string
	// Message for a person; may be set when all is well.
	Message string
}

// Finding says how the host is. The first thing that is wrong counts.
func (h Host) Finding() Finding {
	for _, judge := range []func(Host) (Finding, bool){invalid, leaving, agent, failure, partial, empty, named, under} {
		if f, ok := judge(h); ok {
			return f
		}
	}
	return Finding{}
}

// Holds says whether the host has, or had when it was last seen, its part of the volume group.
func (h Host) Holds() bool { return len(h.Groups) > 0 || len(h.Recorded) > 0 && !h.Node.Up() }

func invalid(h Host) (Finding, bool) {
	if h.Invalid == nil || h.Member.Flags.ShouldDestroy {
		return Finding{}, false
	}
	return Finding{Bad, h.Invalid.Reason, h.Invalid.Message}, true
}

func leaving(h Host) (Finding, bool) {
	switch {
	case !h.Member.Flags.ShouldDestroy:
		return Finding{}, false
	case h.Failure != "":
		return Finding{Bad, h.FailureReason, h.Failure}, true
	case h.Waits != "" && !h.Node.Up():
		return Finding{Bad, v1alpha1.ReasonAgentUnreachable, h.Waits}, true
	case h.Waits != "":
		return Finding{Bad, v1alpha1.ReasonVolumesExist, h.Waits}, true
	case h.Held:
		return Finding{Waiting, v1alpha1.ReasonApprovalRequired, "its removal waits for approval"}, true
	}
	return Finding{Busy, v1alpha1.ReasonDisksPreparing, "is being removed"}, true
}

func agent(h Host) (Finding, bool) {
	if h.Node.Up() {
		return Finding{}, false
	}
	if h.Member.State == v1alpha1.MemberState(nodestate.Quiesced) {
		return Finding{Well, "", "is under maintenance and not reachable"}, true
	}
	switch h.Node.Agent {
	case decide.AgentConnecting:
		if h.Holds() {
			return Finding{Well, "", h.Member.Message}, true
		}
		return Finding{Busy, v1alpha1.ReasonPending, "the connection to the agent is being made"}, true
	case decide.AgentMissing:
		return Finding{Bad, v1alpha1.ReasonAgentMissing, sentence(h.Node.Problem, "no agent runs on this node")}, true
	default:
		return Finding{Bad, v1alpha1.ReasonAgentUnreachable, sentence(h.Node.Problem, "the agent does not answer")}, true
	}
}

func failure(h Host) (Finding, bool) {
	if h.Failure != "" {
		return Finding{Bad, h.FailureReason, h.Failure}, true
	}
	if h.Node.LVMError != "" {
		return Finding{Bad, v1alpha1.ReasonStepFailed, "LVM cannot be run: " + h.Node.LVMError}, true
	}
	return Finding{}, false
}

func partial(h Host) (Finding, bool) {
	for _, g := range h.Groups {
		if g.Partial {
			return Finding{Bad, v1alpha1.ReasonPartial, fmt.Sprintf(
				"a disk of volume group %s is missing; nothing is changed on it until the disk is back", g.Name)}, true
		}
	}
	return Finding{}, false
}

// empty is the host that has nothing and gets nothing: every device is listed with what speaks against it.
func empty(h Host) (Finding, bool) {
	if len(h.Groups) > 0 || h.Steps > 0 {
		return Finding{}, false
	}
	refused := append(append([]device.Refused{}, h.Choice.Problems...), h.Choice.Refused...)
	if len(refused) == 0 {
		return Finding{Bad, v1alpha1.ReasonNoCleanDevice, "no device is chosen by spec.devices"}, true
	}
	reason := refused[0].Reason
	for _, r := range refused {
		if r.Reason != reason {
			reason = v1alpha1.ReasonNoCleanDevice
		}
	}
	if reason == v1alpha1.ReasonDeviceRefused {
		reason = v1alpha1.ReasonNoCleanDevice
	}
	return Finding{Bad, reason, "no clean device: " + join(refused)}, true
}

// named are the devices that the user asked for by name and does not get.
func named(h Host) (Finding, bool) {
	if len(h.Choice.Problems) == 0 {
		return Finding{}, false
	}
	return Finding{Bad, h.Choice.Problems[0].Reason, join(h.Choice.Problems)}, true
}

func under(h Host) (Finding, bool) {
	switch {
	case h.Steps == 0:
		return Finding{}, false
	case h.Held:
		return Finding{Waiting, v1alpha1.ReasonApprovalRequired, "changes of its disks wait for approval"}, true
	}
	return Finding{Busy, v1alpha1.ReasonDisksPreparing, "its disks are being prepared"}, true
}

func join(refused []device.Refused) string {
	parts := make([]string, 0, len(refused))
	for _, r := range refused {
		parts = append(parts, r.String())
	}
	return strings.Join(parts, "; ")
}

func sentence(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
