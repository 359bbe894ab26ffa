// Package rollout decides which pod of a pool is replaced, because its workload would make another one by now: a server's or a member's of etcd. Pods go one at a
// time, and only while nobody misses one: everything else runs, every volume is whole, and no brick is being moved. It is pure.
package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

const (
	// Settled is for how long every pod has to be ready before the next one is replaced. glusterd2 counts a server as online for 30 s after it went.
	Settled = time.Minute
	// Restart is for how long a pod that was asked to end, or that is new and not ready, counts as one that is being replaced. On a machine that is dead a pod never ends.
	Restart = 2 * time.Minute
)

// Pod is the pod of a workload.
type Pod struct {
	Name string
	// Node is the GlusterNode whose server it is; empty for a member of etcd.
	Node string
	// Current says whether its workload would make the same one.
	Current gluster.Answer
	// Missing: the workload has none.
	Missing bool
	// Made is when it was made, Ended when it was asked to end, and Ready since when it is ready; zero when that is not so.
	Made, Ended, Ready time.Time
	// Idle: no container of it runs, so nobody misses it.
	Idle bool
	// Claims: its claims, and those of the pod in its place, are there and stay. One that was deleted goes with the pod that uses it.
	Claims bool
	// Machine is what is known of the machine that it is on; nil while nobody asked. See Decision.Ask.
	Machine *Machine
}

// Machine is what is known of the machine that a pod is on.
type Machine struct {
	// Takes says whether it takes the pod in its place.
	Takes gluster.Answer
	// Why says why it does not, or why that is not known.
	Why string
}

// Restarting reports whether a pod is just being replaced, by whomever.
func (p Pod) Restarting(now time.Time) bool {
	recent := func(t time.Time) bool { return !t.IsZero() && now.Sub(t) < Restart }
	return recent(p.Ended) || p.Ready.IsZero() && recent(p.Made)
}

// Node is a GlusterNode whose server is ours.
type Node struct {
	Name, Peer string
	State      nodestate.State
	// Answers says whether its server does.
	Answers gluster.Answer
	// Condemned: it is being emptied or removed. Moving: a brick is being moved off it.
	Condemned, Moving bool
}

// Facts is what a decision is made on.
type Facts struct {
	// Pods are those of all members of etcd, and of the servers of all nodes.
	Pods  []Pod
	Nodes []Node
	Pool  gluster.Pool
	// Held says why nothing is replaced, whatever there is; empty when nothing keeps it.
	Held string
	Now  time.Time
}

// Decision is what is done in a pass, and what is told.
type Decision struct {
	// Pod is replaced; empty when none is. Idle: nobody misses it, so that no budget is asked.
	Pod  string
	Idle bool
	// Ask is the pod that would be replaced if its machine takes the next one; empty when no machine has to be known. What is decided then is not complete: ask, and decide again.
	Ask string
	// Condition is PodsCurrent of the cluster, and Nodes have PodCurrent of each node.
	Condition metav1.Condition
	Nodes     map[string]metav1.Condition
	// Wake is when to look again although nothing happened; 0 when something has to.
	Wake time.Duration
}

// Decide chooses the pod that is replaced. One of which no container runs goes first, whatever else is: with it nothing is lost, and a wrong image may be all that
// keeps the pool from being whole.
func Decide(f Facts) Decision {
	var old, unseen []string
	for _, p := range f.Pods {
		switch {
		case p.Missing, p.Current == gluster.Unknown:
			unseen = append(unseen, p.Name)
		case p.Current == gluster.No:
			old = append(old, p.Name)
		}
	}
	var d Decision
	var why string
	switch {
	case len(old) == 0 && len(unseen) > 0:
		d.say(metav1.ConditionUnknown, v1alpha1.ReasonPending, "These pods are not there, or Kubernetes does not say yet whether they are as the spec has them: %s", list(unseen))
	case len(old) == 0:
		d.say(metav1.ConditionTrue, v1alpha1.ReasonPodsCurrent, "All pods are as the spec has them.")
	default:
		d, why = f.choose()
		switch {
		case d.Pod != "":
			d.say(metav1.ConditionFalse, v1alpha1.ReasonPodReplaced, "The pod %s is replaced. Of an earlier template are: %s", d.Pod, list(old))
		default:
			d.say(metav1.ConditionFalse, v1alpha1.ReasonRolloutWaits, "Of an earlier template are: %s They are replaced one at a time. %s", list(old), why)
		}
	}
	d.tell(f, why)
	return d
}

func (d *Decision) say(status metav1.ConditionStatus, reason, format string, args ...any) {
	d.Condition = metav1.Condition{Type: v1alpha1.ConditionPodsCurrent, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// tell makes the conditions of the nodes.
func (d *Decision) tell(f Facts, why string) {
	d.Nodes = map[string]metav1.Condition{}
	for _, p := range f.Pods {
		c := metav1.Condition{Type: v1alpha1.ConditionPodCurrent, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPodsCurrent, Message: "The pod is as the spec has it."}
		switch {
		case p.Node == "":
			continue
		case p.Missing:
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "The node has no pod."
		case p.Current == gluster.Unknown:
			c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Kubernetes does not say yet whether the pod is as it should be."
		case p.Current == gluster.No && p.Name == d.Pod:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonPodReplaced, "The pod is of an earlier template, and is replaced."
		case p.Current == gluster.No:
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonRolloutWaits, strings.TrimSpace("The pod is of an earlier template, and has its turn later. "+why)
		}
		d.Nodes[p.Node] = c
	}
}

// Refused tells why the pod which was chosen stays for now.
func (d *Decision) Refused(why string) {
	d.say(metav1.ConditionFalse, v1alpha1.ReasonRolloutWaits, "The pod %s is of an earlier template, and is not replaced now: %s", d.Pod, why)
	for node, c := range d.Nodes {
		if c.Reason == v1alpha1.ReasonPodReplaced {
			c.Reason, c.Message = v1alpha1.ReasonRolloutWaits, "The pod is of an earlier template, and is not replaced now: "+why
			d.Nodes[node] = c
		}
	}
}

// choose returns the pod that is replaced, or why none is.
func (f Facts) choose() (Decision, string) {
	if f.Held != "" {
		return Decision{}, f.Held
	}
	old := slices.DeleteFunc(slices.Clone(f.Pods), func(p Pod) bool { return p.Missing || p.Current != gluster.No })
	// Members of etcd go before servers, which need them.
	slices.SortStableFunc(old, func(a, b Pod) int { return rank(a) - rank(b) })
	for _, p := range old {
		if p.Idle && p.Ended.IsZero() && p.Claims {
			return Decision{Pod: p.Name, Idle: true}, ""
		}
	}
	why, wake := f.missed()
	if why != "" {
		return Decision{Wake: wake}, why
	}
	for _, p := range old {
		here := f.spared(p)
		switch {
		case here != "":
		case p.Machine == nil:
			return Decision{Ask: p.Name}, fmt.Sprintf("Whether the machine of the pod %s takes pods is not known yet.", p.Name)
		default:
			if here = p.stays(); here == "" {
				return Decision{Pod: p.Name}, ""
			}
		}
		if why == "" {
			why = here
		}
	}
	return Decision{}, why
}

// list names the first ten of many.
func list(names []string) string {
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more.", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ") + "."
}

func rank(p Pod) int {
	if p.Node == "" {
		return 0
	}
	return 1
}
