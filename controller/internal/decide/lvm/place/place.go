package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/volumeid"
)

// Request is a volume that needs a place.
type Request struct {
	Class Class
	// Name in LVM.
	Name     string
	Range    volume.Range
	Topology volume.Topology
	// Source of its content; nil for none.
	Source *volumeid.ID
}

// Choice is a host to make a volume on, and the size to ask for there.
type Choice struct {
	Host Host
	Size int64
}

// Choose returns the hosts to try, in order. A volume that is there already, as far as anybody knows, stays where it is.
func Choose(r Request, hosts []Host) ([]Choice, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if h, ok := r.holder(hosts); ok {
		return r.again(h)
	}
	hidden := r.hidden(hosts)
	if r.Class.Deleting && !hidden {
		return nil, volume.Refuse(volume.Precondition, "Cluster %s is being deleted and takes no new volumes", r.Class.Cluster)
	}
	allowed, problems, wait := r.candidates(hosts)
	if wait && len(allowed) > 0 {
		// The volume may be there already, made by a call that was cut off: making it elsewhere would make it twice.
		return nil, volume.Refuse(volume.Unavailable, "it is too early to say whether volume %s exists: %s", r.Name, shorten(problems))
	}
	if len(allowed) > 0 && !r.Class.Deleting {
		return r.sized(allowed)
	}
	kind := volume.Exhausted
	if hidden || wait || r.soon(hosts) {
		// To say that there is no room would send the claim to another node.
		kind = volume.Unavailable
	}
	return nil, volume.Refuse(kind, "no allowed host of Cluster %s takes new volumes: %s", r.Class.Cluster, shorten(problems))
}

// hidden reports whether nobody can look into the group of an allowed host. A call may have made the volume there and not said so: unknown is not
// absent, and any final error would let the claim go to another node, or be given up with the volume left behind.
func (r Request) hidden(hosts []Host) bool {
	return slices.ContainsFunc(hosts, func(h Host) bool { return h.Hidden && r.Topology.Allows(h.Node.Name) })
}

// soon reports whether an allowed host may take the volume in a moment. A copy can be made beside its source only, and is brought there once.
func (r Request) soon(hosts []Host) bool {
	return slices.ContainsFunc(hosts, func(h Host) bool {
		return (h.Soon || r.Source != nil && r.Source.Node == h.Node.Name) && r.Topology.Allows(h.Node.Name)
	})
}

func (r Request) check() error {
	if err := r.Range.Check(); err != nil {
		return err
	}
	switch {
	case r.Source == nil:
		return nil
	case r.Source.Group != r.Class.Group:
		return volume.Refuse(volume.Invalid, "source %s is not of Cluster %s: content is copied within one volume group", r.Source, r.Class.Cluster)
	case r.Class.Thin.Pool == "":
		return volume.Refuse(volume.Invalid, "volumes of Cluster %s are linear: only thin volumes have snapshots and clones", r.Class.Cluster)
	}
	return nil
}

// holder returns the host that has the volume already, the ones where it may be first.
func (r Request) holder(hosts []Host) (Host, bool) {
	has := func(h Host) bool { return h.Has(r.Name) && !h.Stray }
	i := slices.IndexFunc(hosts, func(h Host) bool { return has(h) && r.Topology.Allows(h.Node.Name) })
	if i < 0 {
		i = slices.IndexFunc(hosts, has)
	}
	if i < 0 {
		return Host{}, false
	}
	return hosts[i], true
}

// again chooses the host that has the volume already.
func (r Request) again(h Host) ([]Choice, error) {
	switch {
	case !h.Node.Up():
		// Whether it was ever used can be asked there only.
		return nil, volume.Refuse(volume.Unavailable, "volume %s was made on node %s, which does not answer: %s", r.Name, h.Node.Name, h.Node.Problem)
	case !r.Topology.Allows(h.Node.Name):
		return nil, volume.Refuse(volume.Conflict, "volume %s exists on node %s, where it may not be, and it may have been used", r.Name, h.Node.Name)
	case r.Source != nil && r.Source.Node != h.Node.Name:
		return nil, volume.Refuse(volume.Conflict, "volume %s exists on node %s, with other content than that of %s", r.Name, h.Node.Name, r.Source)
	}
	return r.sized([]Host{h})
}

// candidates returns the hosts that take the volume, in order, and what is wrong with the others. wait is true when one of those
// may take it soon.
func (r Request) candidates(hosts []Host) (allowed []Host, problems []string, wait bool) {
	for _, h := range r.ordered(hosts) {
		problem := h.problem()
		if _, err := r.handle(h); problem == "" && err != nil {
			problem = err.Error()
		}
		if problem == "" && r.Source != nil && r.Source.Node != h.Node.Name {
			problem = "the source is on node " + r.Source.Node
		}
		if problem == "" {
			allowed = append(allowed, h)
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: %s", h.Node.Name, problem))
		wait = wait || h.Unknown || h.Node.Agent == decide.AgentConnecting
	}
	return allowed, problems, wait
}

// maxHandle is the longest handle, in bytes, that the specification of CSI has.
const maxHandle = 128

// handle returns the handle that the volume has on a host. Volumes with a longer one, of a time before this was looked at, are served.
func (r Request) handle(h Host) (volumeid.ID, error) {
	id := volumeid.ID{Node: h.Node.Name, Group: r.Class.Group, Name: r.Name}
	if n := len(id.String()); n > maxHandle {
		return id, fmt.Errorf("the handle %s would have %d bytes, at most %d are possible: shorten the name of the node or of the group", id, n, maxHandle)
	}
	return id, nil
}

// ordered returns the hosts in the order in which they are tried: as the topology says, or the ones with the most room first. A node
// that is no host is one without anything.
func (r Request) ordered(hosts []Host) []Host {
	order := r.Topology.Order()
	if len(order) == 0 {
		out := slices.Clone(hosts)
		slices.SortStableFunc(out, func(a, b Host) int {
			return cmp.Or(cmp.Compare(Room(r.Class, b).Available, Room(r.Class, a).Available), cmp.Compare(a.Node.Name, b.Node.Name))
		})
		return out
	}
	var out []Host
	for _, name := range order {
		i := slices.IndexFunc(hosts, func(h Host) bool { return h.Node.Name == name })
		if i < 0 {
			out = append(out, Host{Node: decide.Node{Name: name}, State: "not a host of the Cluster"})
			continue
		}
		out = append(out, hosts[i])
	}
	return out
}

// sized adds the sizes. Of several hosts, the ones after the first are tried only if there is room as far as anybody knows.
func (r Request) sized(hosts []Host) ([]Choice, error) {
	var out []Choice
	var first error
	for _, h := range hosts {
		size, err := r.Range.Size(h.Group.ExtentBytes)
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		if len(out) == 0 || r.unbounded() || Room(r.Class, h).Available >= size {
			out = append(out, Choice{Host: h, Size: size})
		}
	}
	if len(out) == 0 {
		return nil, first
	}
	return out, nil
}

// unbounded reports whether a volume may be larger than what is left in its pool.
func (r Request) unbounded() bool { return r.Class.Thin.Pool != "" && r.Class.Thin.Percent == 0 }

// shorten joins problems, and says how many more there are than shown.
func shorten(problems []string) string {
	const limit = 5
	switch {
	case len(problems) == 0:
		return "it has no hosts"
	case len(problems) > limit:
		return fmt.Sprintf("%s; and %d more", strings.Join(problems[:limit], "; "), len(problems)-limit)
	}
	return strings.Join(problems, "; ")
}
