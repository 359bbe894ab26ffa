package cluster

import (
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/controller/internal/decide/host"
	"quarry.storage/quarry/controller/internal/decide/member"
	"quarry.storage/quarry/controller/internal/decide/plan"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// scope holds the facts of one reconcile. Every fact is written in one place, and the status is computed from all at its end.
type scope struct {
	// before is the Cluster as it was read, cluster the one that is changed.
	before, cluster *v1alpha1.Cluster
	world           world
	// hosts, ordered by name.
	hosts   []health.Host
	verdict plan.Verdict
	class   health.Class
	// driver is how the CSI driver of the class is.
	driver health.Driver
	// failures of the last attempts, by host.
	failures map[string]failure
	// running are the hosts that are being worked on: what they hold may change at any moment.
	running map[string]bool
	// done are the hosts whose teardown the agent has confirmed in this pass.
	done map[string]bool
	// blocked says what else holds the deletion.
	blocked string
	// soonest is when something must be tried again; zero when nothing must.
	soonest time.Duration
	// blind is true when the world could not be observed: the status says nothing new then.
	blind, gone, notSupported bool
}

func newScope(c *v1alpha1.Cluster) *scope {
	return &scope{before: c, cluster: c.DeepCopy(), failures: map[string]failure{}, done: map[string]bool{}}
}

func (s *scope) deleting() bool { return !s.cluster.DeletionTimestamp.IsZero() }

func (s *scope) uid() string { return string(s.cluster.UID) }

// next returns when the Cluster is looked at again though nothing happens.
func (s *scope) next() time.Duration {
	if s.soonest > 0 && s.soonest < refresh {
		return s.soonest
	}
	return refresh
}

// within notes that something must be tried again after a while.
func (s *scope) within(d time.Duration) {
	if d > 0 && (s.soonest == 0 || d < s.soonest) {
		s.soonest = d
	}
}

// groupName is what the Cluster's volume group is called.
func (s *scope) groupName() string {
	if l := s.cluster.Spec.LVM; l != nil && l.VolumeGroup != "" {
		return l.VolumeGroup
	}
	return v1alpha1.DefaultVolumeGroupPrefix + s.cluster.Name
}

// wanted says whether the host is in the spec and the Cluster stays.
func (s *scope) wanted(name string) bool {
	return !s.deleting() && slices.Contains(s.cluster.Spec.Hosts, v1alpha1.HostName(name))
}

// names returns every host that the Cluster uses, used or may have used: from the spec, the status and the disks.
func (s *scope) names(agents Agents) []string {
	var names []string
	for _, h := range s.cluster.Spec.Hosts {
		names = append(names, string(h))
	}
	for _, m := range s.before.Status.Members {
		names = append(names, m.Node)
	}
	for _, c := range s.before.Status.Config {
		names = append(names, c.NodeName)
	}
	names = append(names, agents.Holders(s.uid())...)
	slices.Sort(names)
	return slices.Compact(names)
}

// assess decides about every host, and which steps run.
func (s *scope) assess(agents Agents) {
	names := s.names(agents)
	nodes := make(map[string]decide.Node, len(names))
	for _, n := range names {
		nodes[n] = agents.Node(n)
	}
	s.hosts = s.hosts[:0]
	var steps []decide.Step
	for _, n := range names {
		h, todo := s.host(n, nodes)
		s.hosts = append(s.hosts, h)
		steps = append(steps, todo...)
	}
	s.verdict = plan.Approve(s.cluster.Spec.Approval, steps, s.cluster.Status.Plan, s.cluster.Annotations[v1alpha1.AnnotationApprove],
		func(host string) bool { return !nodes[host].Up() && nodes[host].Name != "" })
	s.noteSteps(steps)
}

// host decides about one host and returns the steps it needs.
func (s *scope) host(name string, nodes map[string]decide.Node) (health.Host, []decide.Step) {
	node := nodes[name]
	groups := node.GroupsOf(s.uid())
	slices.SortStableFunc(groups, func(a, b decide.Group) int { return rank(a, s.groupName()) - rank(b, s.groupName()) })
	in := member.Input{
		Host: name, Wanted: s.wanted(name), Maintenance: s.maintenance(name), Node: node, Groups: groups,
		Volumes: s.world.volumes[name], Previous: s.previous(name),
	}
	h := health.Host{
		Name: name, Node: node, Groups: groups, Recorded: s.recorded(name), Last: s.instance(name), Member: member.Decide(in),
	}
	p := plan.Host{
		Name: name, Owner: s.uid(), GroupName: s.groupName(), Node: node, Groups: groups,
		ThinPool: decide.ThinPoolOf(s.cluster.Spec.LVM),
	}
	if h.Member.Flags.ShouldDestroy {
		h.Waits = member.Explain(in, h.Member)
		p.Teardown = h.Member.State == v1alpha1.MemberState(nodestate.Abandoned)
		steps := p.Steps()
		h.Removed = s.done[name] || s.nothingLeft(in, h, len(steps))
		return h, steps
	}
	h.Invalid = host.Judge(host.Of(s.cluster), name, s.world.nodes[name] != nil, s.world.claims)
	if h.Invalid == nil && node.Up() {
		h.Choice = device.Select(s.selection(name, groups, nodes))
		p.Choice = h.Choice
		return h, p.Steps()
	}
	return h, nil
}

// nothingLeft says whether a host that is to be destroyed needs nothing more: it was torn down, was never used, or is a machine
// that Kubernetes does not know any more, without volumes. In the last case its disks keep what is on them, and our tag.
func (s *scope) nothingLeft(in member.Input, h health.Host, steps int) bool {
	if len(in.Volumes) > 0 || h.Node.Agent == decide.AgentConnecting || s.running[h.Name] {
		return false
	}
	if h.Node.Up() {
		return h.Member.State == v1alpha1.MemberState(nodestate.Abandoned) && steps == 0
	}
	unused := len(h.Recorded) == 0 && len(h.Groups) == 0
	return unused || s.world.nodes[h.Name] == nil && h.Node.Agent == decide.AgentMissing
}

// selection puts together what the choice of devices is made on.
func (s *scope) selection(name string, groups []decide.Group, nodes map[string]decide.Node) device.Input {
	in := device.Input{Host: name, Claim: claimOf(s.cluster, name), Node: nodes[name]}
	if len(groups) > 0 {
		in.Group = &groups[0]
	}
	for i := range s.world.others {
		in.Rivals = append(in.Rivals, claimOf(&s.world.others[i], name))
	}
	in.Elsewhere = func(path string) bool {
		for _, h := range s.cluster.Spec.Hosts {
			if string(h) == name {
				continue
			}
			n := nodes[string(h)]
			if _, ok := n.Device(path); ok || !n.Up() {
				return true
			}
		}
		return false
	}
	return in
}

// noteSteps writes down on every host what is left to do, and why the last attempt failed.
func (s *scope) noteSteps(steps []decide.Step) {
	left, runs := map[string]int{}, map[string]bool{}
	for _, step := range steps {
		left[step.Host]++
	}
	for _, step := range s.verdict.Run {
		runs[step.Host] = true
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		h.Steps = left[h.Name]
		h.Held = h.Steps > 0 && !runs[h.Name]
		if f, ok := s.failures[h.Name]; ok && h.Steps > 0 {
			h.Failure, h.FailureReason = f.message, f.reason
		}
		if h.Node.Agent == decide.AgentConnecting {
			s.within(5 * time.Second)
		}
		if h.Removed && s.wanted(h.Name) {
			// Listed again while it was being removed: it begins afresh.
			s.within(time.Second)
		}
	}
}

func rank(g decide.Group, name string) int {
	if g.Name == name {
		return 0
	}
	return 1
}
