package cluster

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster/template"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Observed is what the conditions of a cluster are made of.
type Observed struct {
	Cluster *v1alpha1.GlusterCluster
	Nodes   []*v1alpha1.GlusterNode
	// Silence says why nobody speaks for the pool; empty when somebody does.
	Silence string
	// Spec, Etcd and Drivers are the conditions of these.
	Spec, Etcd, Drivers metav1.Condition
	// Sizes are the decisions about the templates, by name.
	Sizes map[string]template.Decision
	// Deleting is the decision about a cluster that is deleted; nil for any other.
	Deleting *Decision
}

// Summary are the conditions of a cluster, and the state that they sum up to.
type Summary struct {
	State      v1alpha1.GlusterClusterState
	Conditions []metav1.Condition
	States     v1alpha1.MemberStates
}

// Summarize makes the conditions. Ready needs a valid spec, etcd, drivers, and every node online or under maintenance; it is Unknown while one of these is, and
// none is False.
func Summarize(o Observed) Summary {
	var s Summary
	nodes := o.nodes(&s.States)
	must := []metav1.Condition{
		named(v1alpha1.ConditionSpecValid, o.Spec), named(v1alpha1.ConditionEtcdReady, o.Etcd), nodes, named(v1alpha1.ConditionCSIReady, o.Drivers),
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "The pool serves."}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		i := slices.IndexFunc(must, func(c metav1.Condition) bool { return c.Status == status })
		if i >= 0 {
			ready.Status, ready.Reason, ready.Message = status, must[i].Reason, must[i].Message
			break
		}
	}
	if o.Deleting != nil {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, o.Deleting.Reason, o.Deleting.Message
	}
	sized := o.sized()
	s.Conditions = append(must, sized)
	if o.Cluster.Spec.Replication != nil {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReplicationConfigured, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotYetSupported,
			Message: "spec.replication is checked, and nothing is replicated.",
		})
	}
	s.Conditions = append(s.Conditions, ready)
	s.State = o.state(ready, sized)
	return s
}

func named(condition string, c metav1.Condition) metav1.Condition {
	if c.Status == "" {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Nobody has looked yet."
	}
	c.Type = condition
	return c
}

// nodes counts the nodes by state, and says which does not serve.
func (o Observed) nodes(count *v1alpha1.MemberStates) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionNodesReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "All nodes serve."}
	var down, unseen []string
	for _, n := range o.Nodes {
		switch nodestate.State(n.Status.State) {
		case nodestate.Online:
			count.Online++
		case nodestate.Offline:
			count.Offline++
			down = append(down, n.Name)
		case nodestate.Quiesced:
			count.Quiesced++
		case nodestate.Failed:
			count.Failed++
		case nodestate.Abandoned:
			count.Abandoned++
		default:
			unseen = append(unseen, n.Name)
		}
	}
	switch {
	case len(o.Nodes) == 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonPending, "There are no nodes."
	case o.Silence != "":
		// What the nodes were seen to be before is no sign that they serve.
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown, o.Silence
		if len(down) > 0 {
			c.Message += " Offline: " + list(down)
		}
	case len(down) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonPeerDown, "Offline: "+list(down)
	case len(unseen) > 0:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "Not looked at yet: "+list(unseen)
	}
	return c
}

func list(names []string) string {
	slices.Sort(names)
	if len(names) > 10 {
		return fmt.Sprintf("%s and %d more.", strings.Join(names[:10], ", "), len(names)-10)
	}
	return strings.Join(names, ", ") + "."
}

// Sentences are the first ten of many, and how many there are besides: a condition takes 32768 bytes.
func Sentences(all []string) []string {
	if len(all) <= 10 {
		return all
	}
	return append(slices.Clone(all[:10]), fmt.Sprintf("The same is so of %d more.", len(all)-10))
}

// sized says which templates have another number of nodes than wanted.
func (o Observed) sized() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionTemplatesSized, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonTemplateSized, Message: "Every template has the nodes that it should."}
	var told []string
	for _, t := range o.Cluster.Spec.NodeTemplates {
		d, known := o.Sizes[t.Name]
		switch {
		case !known:
			c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPending
			told = append(told, t.Name+": Nobody has looked yet.")
		case !d.Sized:
			if c.Status == metav1.ConditionTrue {
				c.Status, c.Reason = metav1.ConditionFalse, d.Reason
			}
			told = append(told, t.Name+": "+d.Message)
		}
	}
	var stay []string
	for _, n := range GetNodes(o.Cluster, o.Nodes).Orphaned {
		stay = append(stay, fmt.Sprintf("Node %s stays, and the spec has no template %s any more. Delete the GlusterNode if it should go.", n.Name, n.Annotations[v1alpha1.AnnotationTemplate]))
	}
	told = append(told, Sentences(stay)...)
	if len(told) > 0 {
		c.Message = strings.Join(told, " ")
	}
	return c
}

// state sums up the conditions for a person.
func (o Observed) state(ready, sized metav1.Condition) v1alpha1.GlusterClusterState {
	invalid := o.Spec.Status == metav1.ConditionFalse
	began := slices.ContainsFunc(o.Nodes, func(n *v1alpha1.GlusterNode) bool { return n.Status.Joined })
	switch {
	case o.Deleting != nil:
		return v1alpha1.GlusterDeleting
	case invalid, ready.Status == metav1.ConditionFalse && o.Etcd.Status == metav1.ConditionFalse && began:
		return v1alpha1.GlusterFailed
	case ready.Status != metav1.ConditionTrue && !began:
		return v1alpha1.GlusterCreating
	case ready.Status != metav1.ConditionTrue, sized.Status != metav1.ConditionTrue:
		return v1alpha1.GlusterWarning
	}
	return v1alpha1.GlusterRunning
}
