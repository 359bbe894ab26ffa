package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"
)

// Unfit says why a node is not known to have room for a pod beside those that are there, or which of these keeps it away, as the rest of a sentence that begins with
// the node; empty when it fits. Lower priorities are not made to leave.
func (n Node) Unfit(p *corev1.Pod, there []*corev1.Pod) string {
	there = slices.DeleteFunc(slices.Clone(there), Ended)
	used := map[corev1.ResourceName]*resource.Quantity{corev1.ResourcePods: resource.NewQuantity(int64(len(there)), resource.DecimalSI)}
	for _, o := range there {
		for name, q := range helper.PodRequests(o, helper.PodResourcesOptions{UseStatusResources: true}) {
			if used[name] == nil {
				used[name] = &resource.Quantity{}
			}
			used[name].Add(q)
		}
	}
	need := helper.PodRequests(p, helper.PodResourcesOptions{})
	need[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	for _, name := range slices.Sorted(maps.Keys(need)) {
		q := need[name]
		asked := q.DeepCopy()
		if used[name] != nil {
			q.Add(*used[name])
		}
		// What the node does not tell of is not known to be there.
		have, told := n.Allocatable[name]
		switch {
		case asked.IsZero():
		case !told:
			return fmt.Sprintf("does not tell that it has %s", name)
		case have.Cmp(q) < 0:
			have = have.DeepCopy()
			have.Sub(q)
			have.Add(asked)
			return fmt.Sprintf("is short of %s: %s asked for, and %s left", name, &asked, &have)
		}
	}
	if i := slices.IndexFunc(there, func(o *corev1.Pod) bool { return n.repels(o, p) }); i >= 0 {
		return fmt.Sprintf("has pod %s/%s, whose anti-affinity keeps it away", there[i].Namespace, there[i].Name)
	}
	wanted := hostPorts(p)
	for _, o := range there {
		for _, used := range hostPorts(o) {
			if slices.ContainsFunc(wanted, used.collides) {
				return fmt.Sprintf("has pod %s/%s, which has the host port %d that the template asks for", o.Namespace, o.Name, used.port)
			}
		}
	}
	if len(p.Spec.ResourceClaims) > 0 {
		return "is not known to have what the ResourceClaims of the template ask for: they are not looked at"
	}
	return ""
}

// hostPort is a port of a node that a pod takes.
type hostPort struct {
	port     int32
	protocol corev1.Protocol
	// ip is empty for every address of the node.
	ip string
}

// collides reports whether a node cannot give both.
func (h hostPort) collides(other hostPort) bool {
	return h.port == other.port && h.protocol == other.protocol && (h.ip == other.ip || h.ip == "" || other.ip == "")
}

// hostPorts are those that a pod takes while it runs, as the scheduler counts them: of its containers, and of the init containers that stay. In the network of the node every
// port of a container is one.
func hostPorts(p *corev1.Pod) (out []hostPort) {
	take := func(c corev1.Container) {
		for _, port := range c.Ports {
			number := port.HostPort
			if p.Spec.HostNetwork {
				number = cmp.Or(number, port.ContainerPort)
			}
			if number == 0 {
				continue
			}
			h := hostPort{port: number, protocol: cmp.Or(port.Protocol, corev1.ProtocolTCP), ip: port.HostIP}
			if h.ip == "0.0.0.0" || h.ip == "::" {
				h.ip = ""
			}
			out = append(out, h)
		}
	}
	for _, c := range p.Spec.Containers {
		take(c)
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			take(c)
		}
	}
	return out
}

// repels reports whether a pod on this node lets none like another one be beside it. A rule that cannot be understood lets none.
func (n Node) repels(there, p *corev1.Pod) bool {
	if there.Spec.Affinity == nil || there.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	apart, ok := required(there, there.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	return !ok || slices.ContainsFunc(apart, func(r rule) bool {
		_, in := n.Labels[r.key]
		return in && r.about(p)
	})
}

// Shortest says in a sentence why the first of the nodes that come closest to taking a replica does not: those with room for its claims, by what their pods leave; then
// those that take pods like it; then the others, by the rules of the template. The nodes that the replica is on matter last.
func Shortest(on map[string]bool, short map[string]string, takers Nodes, why map[string]string) string {
	claims := map[string]string{}
	for name := range takers {
		claims[name] = "is not known to have room for its claims"
	}
	for _, group := range []map[string]string{short, claims, why} {
		for _, name := range slices.Sorted(maps.Keys(group)) {
			if !on[name] {
				return fmt.Sprintf("Node %s %s.", name, group[name])
			}
		}
	}
	return "There is no node beside its own."
}
