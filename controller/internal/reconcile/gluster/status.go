package gluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// writeStatus writes the statuses of the nodes and of the cluster that changed, and tells people of it.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.blind != nil {
		// What was seen before stays, as nobody knows better.
		return nil
	}
	var errs []error
	for _, m := range s.members {
		s.fill(m)
		if m.gone {
			kube.Emit(r.Events, m.node, m.notes...)
			continue
		}
		_, err := kube.WriteStatus(ctx, r.Client, m.before, m.node)
		errs = append(errs, err)
		if was, is := m.before.Status.State, m.node.Status.State; was != is && was != "" {
			m.tell(eventKind(is), v1alpha1.ReasonMemberStateChanged, "Reconcile", fmt.Sprintf("The node is %s, and was %s. %s", is, was, m.node.Status.Message))
		}
		kube.Emit(r.Events, m.node, m.notes...)
	}
	recordStates(s)
	if s.cluster == nil {
		return errors.Join(errs...)
	}
	s.sum()
	if s.deleting == nil || s.deleting.Step != cluster.DropFinalizer {
		_, err := kube.WriteStatus(ctx, r.Client, s.before, s.cluster)
		errs = append(errs, err)
	}
	if was, is := s.before.Status.State, s.cluster.Status.State; was != is && was != "" {
		ready := meta.FindStatusCondition(s.cluster.Status.Conditions, v1alpha1.ConditionReady)
		kind := corev1.EventTypeNormal
		if is == v1alpha1.GlusterFailed || is == v1alpha1.GlusterWarning {
			kind = corev1.EventTypeWarning
		}
		s.tell(kind, ready.Reason, "Reconcile", fmt.Sprintf("The cluster is %s, and was %s. %s", is, was, ready.Message))
	}
	kube.Emit(r.Events, s.cluster, s.notes...)
	return errors.Join(errs...)
}

// denied tells that the pool cannot be looked at, for want of a right. What was seen before stays. In a namespace that is being deleted rights may be the first to
// go, and then nothing is left to be looked at either.
func (r *Reconciler) denied(ctx context.Context, s *scope, err error) (ctrl.Result, error) {
	over, failed := r.namespaceEnds(ctx, s)
	switch {
	case failed != nil:
		return ctrl.Result{}, errors.Join(err, failed)
	case over:
		return kube.Retry(ctx, ctrl.Result{RequeueAfter: pauseBusy}, r.perish(ctx, s))
	case s.cluster == nil:
		return ctrl.Result{}, err
	}
	c := lacking(s.cluster, err)
	meta.SetStatusCondition(&s.cluster.Status.Conditions, c)
	c.Type = v1alpha1.ConditionReady
	meta.SetStatusCondition(&s.cluster.Status.Conditions, c)
	_, failed = kube.WriteStatus(ctx, r.Client, s.before, s.cluster)
	return ctrl.Result{}, errors.Join(err, failed)
}

func eventKind(is v1alpha1.MemberState) string {
	if nodestate.State(is) == nodestate.Offline {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// fill computes the status of a node.
func (s *scope) fill(m *member) {
	n, f := m.node, m.standing.Flags
	st := &n.Status
	st.OfflineSince = m.offlineSince(s.now)
	st.ObservedGeneration, st.State, st.OtherSince = n.Generation, v1alpha1.MemberState(m.standing.State()), m.standing.OtherSince
	st.Flags = &v1alpha1.MemberFlags{IsUp: f.IsUp(), HasData: f.HasData(), ShouldQuiesce: f.ShouldQuiesce(), ShouldDestroy: f.ShouldDestroy()}
	if m.data != nodestate.DataUnknown {
		// A list that could not be read says nothing new.
		st.Bricks, st.Holding = int32(min(m.bricks, math.MaxInt32)), m.holding[:min(len(m.holding), 10)] //nolint:gosec // Bounded.
	}
	if m.space != nil && m.space.Total > 0 {
		st.Capacity = space(*m.space)
	}
	conditions := m.plan.Conditions
	if c, told := s.rollout.Nodes[n.Name]; told {
		conditions = append(slices.Clone(conditions), c)
	}
	st.Message = m.plan.Message
	for condition, c := range map[string]*metav1.Condition{v1alpha1.ConditionDrained: m.drained, v1alpha1.ConditionRemoved: m.removed} {
		if c != nil {
			c.Type = condition
			conditions = append(conditions, *c)
		}
	}
	for _, c := range []*metav1.Condition{m.drained, m.removed} {
		if c != nil && c.Status != metav1.ConditionTrue {
			st.Message = c.Message
			break
		}
	}
	if m.standing.LostRefused != "" {
		st.Message = "spec.lost does not count: " + m.standing.LostRefused + " " + st.Message
	}
	for _, c := range conditions {
		c.ObservedGeneration = n.Generation
		meta.SetStatusCondition(&st.Conditions, c)
	}
}

// offlineSince is since when a node is offline.
func (m *member) offlineSince(now time.Time) *metav1.Time {
	switch {
	case m.standing.State() != nodestate.Offline:
		return nil
	case m.node.Status.OfflineSince != nil:
		return m.node.Status.OfflineSince
	}
	return &metav1.Time{Time: now}
}

func space(s gluster.Space) v1alpha1.Space {
	of := func(n uint64) *resource.Quantity {
		return resource.NewQuantity(int64(min(n, math.MaxInt64)), resource.BinarySI) //nolint:gosec // Bounded.
	}
	return v1alpha1.Space{Total: of(s.Total), Free: of(s.Free), Used: of(s.Total - min(s.Free, s.Total))}
}

// sum computes the status of the cluster.
func (s *scope) sum() {
	c := s.cluster
	nodes := s.nodes()
	summary := cluster.Summarize(cluster.Observed{
		Cluster: c, Nodes: nodes, Silence: s.quiet(), Spec: s.spec, Etcd: s.etcd, Drivers: s.drivers, Sizes: s.sizes, Deleting: s.deleting,
	})
	st := &c.Status
	st.ObservedGeneration, st.State, st.Nodes, st.NodeStates = c.Generation, summary.State, int32(min(len(nodes), math.MaxInt32)), &summary.States //nolint:gosec // Bounded.
	if s.pool.Volumes != nil {
		st.Volumes = int32(min(len(*s.pool.Volumes), math.MaxInt32)) //nolint:gosec // Bounded.
	}
	var total gluster.Space
	for _, m := range s.members {
		if m.space != nil && !m.gone {
			total.Free, total.Total = total.Free+m.space.Free, total.Total+m.space.Total
		}
	}
	if total.Total > 0 {
		st.Capacity = space(total)
	}
	st.Templates = s.templates()
	conditions := summary.Conditions
	if s.rollout.Condition.Type != "" {
		conditions = append(conditions, s.rollout.Condition)
	}
	for _, one := range conditions {
		one.ObservedGeneration = c.Generation
		meta.SetStatusCondition(&st.Conditions, one)
	}
	if c.Spec.Replication == nil {
		meta.RemoveStatusCondition(&st.Conditions, v1alpha1.ConditionReplicationConfigured)
	}
}

// quiet says why nobody speaks for the pool; empty when somebody does, or no server is ours.
func (s *scope) quiet() string {
	if !s.silent() || !slices.ContainsFunc(s.members, (*member).ours) {
		return ""
	}
	if s.silence == "" {
		return "No server of the pool could be asked."
	}
	return strings.TrimSpace(s.silence)
}

// templates tells of the nodes of each template.
func (s *scope) templates() []v1alpha1.GlusterTemplateStatus {
	var all []v1alpha1.GlusterTemplateStatus
	sorted := cluster.GetNodes(s.cluster, s.nodes())
	for _, t := range s.cluster.Spec.NodeTemplates {
		one := v1alpha1.GlusterTemplateStatus{Name: t.Name, Message: s.sizes[t.Name].Message}
		free, known, drifts := uint64(0), true, []string(nil)
		for _, n := range sorted.ByTemplate[t.Name] {
			m := s.named(n.Name)
			if m.condemned() {
				one.Condemned++
				continue
			}
			if one.Nodes++; m.space == nil {
				known = false
			} else {
				free += m.space.Free
			}
			if drifted := cluster.Drifted(n, t); drifted != "" {
				drifts = append(drifts, drifted)
			}
		}
		one.Message = strings.Join(append([]string{one.Message}, cluster.Sentences(drifts)...), " ")
		if known {
			one.Free = resource.NewQuantity(int64(min(free, math.MaxInt64)), resource.BinarySI) //nolint:gosec // Bounded.
		}
		all = append(all, one)
	}
	return all
}

var nodeStates = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "quarry_glustercluster_nodes", Help: "Number of GlusterNodes of a GlusterCluster by state.",
}, []string{"namespace", "name", "state"})

func init() { metrics.Registry.MustRegister(nodeStates) }

func recordStates(s *scope) {
	for _, state := range []nodestate.State{nodestate.Online, nodestate.Offline, nodestate.Quiesced, nodestate.Failed, nodestate.Abandoned} {
		n := 0
		for _, m := range s.members {
			if !m.gone && m.standing.State() == state {
				n++
			}
		}
		nodeStates.WithLabelValues(s.key.Namespace, s.key.Name, string(state)).Set(float64(n))
	}
}

func forgetMetrics(key types.NamespacedName) {
	nodeStates.DeletePartialMatch(prometheus.Labels{"namespace": key.Namespace, "name": key.Name})
}
