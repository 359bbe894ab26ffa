// Package member decides the flags and the state of the hosts of a Cluster with storageType lvm.
package member

import (
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Input is what the decision about one host is made on.
type Input struct {
	Host string
	// Wanted is true while the host is in the spec and the Cluster is not being deleted.
	Wanted bool
	// Maintenance is asked for, in the Cluster or on the StorageNode.
	Maintenance bool
	// Node is what its agent reports.
	Node decide.Node
	// Groups of the Cluster on the host.
	Groups []decide.Group
	// Volumes are the names of the PersistentVolumes of the Cluster that live on the host.
	Volumes []string
	// Previous is the member as recorded in the status; nil when it is not.
	Previous *v1alpha1.ClusterMember
}

// Decide returns the member. While it is too early to say whether the agent answers, what was observed before stands.
func Decide(in Input) v1alpha1.ClusterMember {
	var old nodestate.Flags
	if in.Previous != nil {
		old = nodestate.Flags(in.Previous.Flags)
	}
	wish := old
	wish.ShouldQuiesce = in.Maintenance
	wish.ShouldDestroy = old.ShouldDestroy || !in.Wanted
	flags, err := nodestate.Write(old, wish, nodestate.Operator)
	if err != nil {
		// Not reachable while the wish keeps the latch; a refused write leaves the flags as they were.
		flags = old
	}
	seen := flags
	if in.Node.Agent != decide.AgentConnecting || in.Previous == nil {
		seen.IsUp = in.Node.Up()
		seen.HasData = data(in).Counts()
	}
	if flags, err = nodestate.Write(flags, seen, nodestate.Observer); err != nil {
		flags = old
	}
	return v1alpha1.ClusterMember{
		Node:  in.Host,
		State: v1alpha1.MemberState(nodestate.Compute(flags)),
		Flags: v1alpha1.MemberFlags(flags),
	}
}

// data says what is known about the data on a host. Only a report that is current can say that there is none.
func data(in Input) nodestate.Data {
	if len(in.Volumes) > 0 {
		return nodestate.DataPresent
	}
	if !in.Node.Up() || in.Node.LVMError != "" {
		return nodestate.DataUnknown
	}
	for _, g := range in.Groups {
		if len(g.Volumes) > 0 {
			return nodestate.DataPresent
		}
	}
	return nodestate.DataAbsent
}

// Holding names what keeps a member from being torn down: its volumes, ordered.
func Holding(in Input) []string {
	var names []string
	for _, g := range in.Groups {
		for _, v := range g.Volumes {
			names = append(names, g.Name+"/"+v)
		}
	}
	names = append(names, in.Volumes...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Explain says what a member that is to be destroyed waits for; empty when nothing holds it.
func Explain(in Input, m v1alpha1.ClusterMember) string {
	switch {
	case !m.Flags.ShouldDestroy:
		return ""
	case len(Holding(in)) > 0:
		return fmt.Sprintf("is being removed and waits until its volumes are deleted: %s", Shorten(Holding(in), 10))
	case !in.Node.Up():
		return "is being removed and waits for its agent: " + problem(in.Node)
	case in.Previous != nil && in.Wanted && in.Previous.Flags.ShouldDestroy:
		return "is being removed; as the spec lists it again, it is used afresh afterwards"
	}
	return ""
}

func problem(n decide.Node) string {
	if n.Problem == "" {
		return "it does not answer"
	}
	return n.Problem
}

// Shorten joins names with commas, and says how many more there are than shown.
func Shorten(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}
