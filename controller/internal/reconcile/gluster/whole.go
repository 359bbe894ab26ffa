package gluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/rollout"
	"quarry.storage/quarry/controller/internal/decide/gluster/template"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pods"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// whole does what concerns the GlusterCluster itself.
func (r *Reconciler) whole(ctx context.Context, s *scope) error {
	switch {
	case s.cluster == nil:
		return nil
	case !s.cluster.DeletionTimestamp.IsZero():
		return r.end(ctx, s)
	case s.spec.Status != metav1.ConditionTrue:
		return nil
	}
	return errors.Join(r.revert(ctx, s), r.size(ctx, s), r.options(ctx, s), r.drivers(ctx, s))
}

// renew has one pod replaced whose workload would make another one by now, if nobody misses it.
func (r *Reconciler) renew(ctx context.Context, s *scope) error {
	if s.cluster == nil {
		return nil
	}
	// What this pass changed of the workloads is not in what it read before.
	var sets appsv1.StatefulSetList
	if err := r.Live.List(ctx, &sets, client.InNamespace(s.key.Namespace), client.MatchingLabels{v1alpha1.LabelGlusterCluster: s.key.Name}); err != nil {
		return fmt.Errorf("list statefulsets: %w", err)
	}
	s.workloads = byName(sets.Items)
	f := rollout.Facts{Pods: s.running(), Pool: s.pool, Held: s.held(), Now: s.now}
	for _, m := range s.members {
		if m.ours() {
			f.Nodes = append(f.Nodes, rollout.Node{
				Name: m.node.Name, Peer: m.peer(), State: m.standing.State(), Answers: m.answers, Condemned: m.condemned(), Moving: m.node.Spec.Move != nil && !m.node.Spec.Move.Whole,
			})
		}
	}
	asked := r.choose(ctx, s, f)
	if s.within(s.rollout.Wake); s.rollout.Condition.Status == metav1.ConditionUnknown {
		s.within(pauseBusy)
	}
	if s.rollout.Pod == "" {
		return asked
	}
	err := pods.Replace(ctx, r.Client, s.pods[s.rollout.Pod], s.rollout.Idle)
	refused, passes := pods.Refusal(s.pods[s.rollout.Pod], err)
	switch s.acted = refused == ""; {
	case refused != "":
		s.rollout.Refused(refused)
		s.within(pauseBusy)
		if passes {
			return asked
		}
	case err == nil:
		s.tell(corev1.EventTypeNormal, v1alpha1.ReasonPodReplaced, "Replace", s.rollout.Condition.Message)
	}
	return errors.Join(asked, err)
}

// choose decides which pod is replaced. Only the machine of one that would go is asked for: there may be many.
func (r *Reconciler) choose(ctx context.Context, s *scope, f rollout.Facts) error {
	var errs []error
	for s.rollout = rollout.Decide(f); s.rollout.Ask != ""; s.rollout = rollout.Decide(f) {
		i := slices.IndexFunc(f.Pods, func(p rollout.Pod) bool { return p.Name == s.rollout.Ask })
		p := s.pods[s.rollout.Ask]
		var set *appsv1.StatefulSet
		if owner := metav1.GetControllerOf(p); owner != nil {
			set = s.workloads[owner.Name]
		}
		machine, err := pods.Takes(ctx, r.Live, p, set)
		f.Pods[i].Machine = &machine
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// running are the pods of etcd and of the servers of all nodes.
func (s *scope) running() []rollout.Pod {
	var all []rollout.Pod
	add := func(name, node string) {
		all = append(all, pods.Look(name, node, s.workloads[name], s.pods[workload.Pod(name)], s.claims))
	}
	for _, name := range s.etcdMembers() {
		add(name, "")
	}
	for _, m := range s.members {
		if m.ours() && !m.gone {
			add(m.node.Name, m.node.Name)
		}
	}
	return all
}

// held says why no pod is replaced, whatever there is. What was done in this pass is not in the facts yet.
func (s *scope) held() string {
	switch {
	case !s.cluster.DeletionTimestamp.IsZero():
		return "The cluster is being deleted."
	case s.spec.Status != metav1.ConditionTrue:
		return "The spec of the cluster is not valid."
	case s.acted || slices.ContainsFunc(s.members, func(m *member) bool { return m.touched }):
		return "Something else is being changed in the pool."
	}
	return ""
}

// restarting is a pod of etcd, or of a server of the pool, that is just being replaced; empty when none is.
func (s *scope) restarting() string {
	for _, p := range s.running() {
		if m := s.named(p.Node); p.Restarting(s.now) && (m == nil || m.node.Status.Joined) {
			return p.Name
		}
	}
	return ""
}

// nodes are the objects of all members.
func (s *scope) nodes() []*v1alpha1.GlusterNode {
	var all []*v1alpha1.GlusterNode
	for _, m := range s.members {
		if !m.gone {
			all = append(all, m.node)
		}
	}
	return all
}

func (s *scope) named(name string) *member {
	i := slices.IndexFunc(s.members, func(m *member) bool { return m.node.Name == name })
	if i < 0 {
		return nil
	}
	return s.members[i]
}

// revert takes back what a person changed of a template's node (A15).
func (r *Reconciler) revert(ctx context.Context, s *scope) error {
	var errs []error
	sorted := cluster.GetNodes(s.cluster, s.nodes())
	for _, t := range s.cluster.Spec.NodeTemplates {
		for _, n := range sorted.ByTemplate[t.Name] {
			m := s.named(n.Name)
			if to := cluster.Revert(n, t); to != nil && !m.condemned() {
				_, err := kube.Patch(ctx, r.Client, m.node, func(n *v1alpha1.GlusterNode) { n.Spec.NodeAffinity = to.NodeAffinity })
				m.tell(corev1.EventTypeNormal, v1alpha1.ReasonStepTaken, "Revert", "The affinity of the node is that of its template again.")
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// size makes and deletes nodes, as the templates say.
func (r *Reconciler) size(ctx context.Context, s *scope) error {
	s.sizes = map[string]template.Decision{}
	sorted := cluster.GetNodes(s.cluster, s.nodes())
	condemned := ""
	for _, m := range s.members {
		if m.condemned() && !m.gone && m.ours() {
			condemned = m.node.Name
		}
	}
	var errs []error
	for _, t := range s.cluster.Spec.NodeTemplates {
		decision := template.Template{Threshold: t.Threshold, Capacity: uint64(max(t.Storage.Capacity.Value(), 0)), Condemned: condemned} //nolint:gosec // Not negative.
		for _, n := range sorted.ByTemplate[t.Name] {
			decision.Nodes = append(decision.Nodes, s.named(n.Name).counted())
		}
		d := decision.Reconcile()
		s.sizes[t.Name] = d
		errs = append(errs, r.grow(ctx, s, t, d))
		if d.Remove != "" && !s.acted {
			condemned = d.Remove
			errs = append(errs, r.shrink(ctx, s, t, d))
		}
	}
	return errors.Join(append(errs, r.overdue(ctx, s, condemned))...)
}

// counted is a node for who sizes its template.
func (m *member) counted() template.Node {
	// A node that joined and has no size yet is being made until its devices were registered once.
	registered := m.space != nil || m.node.Status.Capacity.Total != nil
	return template.Node{
		Name: m.node.Name, Created: m.node.CreationTimestamp.Time, State: m.standing.State(), Joined: m.node.Status.Joined && registered, Data: m.data, Space: m.space,
	}
}

// grow makes nodes of a template, once etcd serves: before, they could do nothing.
func (r *Reconciler) grow(ctx context.Context, s *scope, t v1alpha1.GlusterNodeTemplate, d template.Decision) error {
	if d.Create == 0 || s.etcd.Status != metav1.ConditionTrue {
		return nil
	}
	for range d.Create {
		n := cluster.NewNode(s.cluster, t, r.Suffix())
		if err := r.Client.Create(ctx, n, kube.FieldOwner); err != nil {
			return fmt.Errorf("create glusternode %s: %w", n.Name, err)
		}
		s.tell(corev1.EventTypeNormal, d.Reason, "Grow", fmt.Sprintf("Node %s of template %s is made. %s", n.Name, t.Name, d.Message))
	}
	s.within(pauseNext)
	return nil
}

func (r *Reconciler) shrink(ctx context.Context, s *scope, t v1alpha1.GlusterNodeTemplate, d template.Decision) error {
	s.within(pauseNext)
	s.tell(corev1.EventTypeNormal, d.Reason, "Shrink", fmt.Sprintf("Template %s: %s", t.Name, d.Message))
	return kube.DeleteUnchanged(ctx, r.Client, s.named(d.Remove).node)
}

// overdue gives up a node that is offline for too long, where the spec says after how long (A6). One at a time, as every removal.
func (r *Reconciler) overdue(ctx context.Context, s *scope, condemned string) error {
	for _, m := range s.members {
		give, wake := gluster.Overdue(s.offline(m), m.standing.State(), s.cluster.Spec.FailOfflineAfter, s.heard, s.now)
		s.within(wake)
		if !give || condemned != "" || s.acted {
			continue
		}
		s.tell(corev1.EventTypeWarning, v1alpha1.ReasonPeerDown, "GiveUp", fmt.Sprintf("Node %s is offline for longer than failOfflineAfter, and is removed.", m.node.Name))
		return kube.DeleteUnchanged(ctx, r.Client, m.node)
	}
	return nil
}

// offline is the node with the time since when it is offline, as the status will say it.
func (s *scope) offline(m *member) *v1alpha1.GlusterNode {
	n := m.node.DeepCopy()
	n.Status.OfflineSince = m.offlineSince(s.now)
	return n
}

// options sets what the spec says, and takes back what it does not say any more.
func (r *Reconciler) options(ctx context.Context, s *scope) error {
	if s.speaker == nil || s.acted {
		return nil
	}
	told, err := s.speaker.api.ClusterOptions(ctx)
	if err != nil {
		s.silence = unsaid(ctx, s.speaker, err)
		return nil
	}
	var have []cluster.Option
	for name, o := range told {
		have = append(have, cluster.Option{Name: name, Value: o.Value, Default: o.Default})
	}
	set, unknown := cluster.Options(s.cluster.Spec.ClusterOptions, have)
	if len(unknown) > 0 {
		s.tell(corev1.EventTypeWarning, v1alpha1.ReasonInvalidSpec, "SetOptions", "The servers do not know these clusterOptions: "+strings.Join(unknown, ", ")+".")
	}
	if len(set) == 0 {
		return nil
	}
	s.acted = true
	if err := s.speaker.api.SetClusterOptions(ctx, set); err != nil {
		return fmt.Errorf("set the options of glustercluster %s: %w", s.key, err)
	}
	return nil
}

func (s *scope) tell(kind, reason, action, message string) {
	s.notes = append(s.notes, notice.Note{Kind: kind, Reason: reason, Action: action, Message: message})
}

func (m *member) tell(kind, reason, action, message string) {
	m.notes = append(m.notes, notice.Note{Kind: kind, Reason: reason, Action: action, Message: message})
}
