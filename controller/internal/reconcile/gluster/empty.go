package gluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	"quarry.storage/quarry/controller/internal/decide/gluster/removal"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pool"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// empty empties and removes the nodes that are deleted.
func (r *Reconciler) empty(ctx context.Context, s *scope) error {
	var errs []error
	for _, m := range s.members {
		if !m.condemned() && m.node.Spec.Lost != "" && m.standing.Lost {
			// A person's word that the node is gone also deletes it.
			errs = append(errs, kube.DeleteUnchanged(ctx, r.Client, m.node))
			continue
		}
		if !m.condemned() {
			continue
		}
		if m.conflict {
			m.removed = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPeerConflict, Message: "Nobody can say whose bricks those of the node are. Nothing of it is removed: " + m.spec.Message}
			continue
		}
		unfilled, err := r.drain(ctx, s, m)
		errs = append(errs, err)
		if err == nil {
			errs = append(errs, r.remove(ctx, s, m, unfilled))
		}
	}
	return errors.Join(errs...)
}

// drain moves the bricks off a node that is failed. Of one that is lost it has what was moved already filled, and returns why that is not over.
func (r *Reconciler) drain(ctx context.Context, s *scope, m *member) (*removal.Unfilled, error) {
	f := drain.Facts{Pool: s.pool, Restarting: s.restarting(), Started: r.Started, Now: s.now}
	for _, one := range s.members {
		f.Nodes = append(f.Nodes, one.drain())
	}
	var d drain.Decision
	switch state := m.standing.State(); {
	case m.standing.Lost && !gluster.Left(m.node):
		if d = drain.DecideLost(m.node.Name, f); d.Action == drain.Rest || !s.othersLeft(m) {
			return nil, nil
		}
	case state == nodestate.Failed:
		if d = drain.Decide(m.node.Name, f); d.Action == drain.Rest && m.data == nodestate.DataUnknown {
			d.Status, d.Reason = metav1.ConditionUnknown, v1alpha1.ReasonPoolUnknown
			d.Message = "The pool knows nothing of the node, and its own server does not say what it has. Bring it up, or set spec.lost to the UID of the GlusterNode if it is gone for ever."
		}
	default:
		m.drained = &metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonDrained, Message: "The node holds no brick."}
		return nil, nil
	}
	s.within(d.Wake)
	m.drained = &metav1.Condition{Status: d.Status, Reason: d.Reason, Message: d.Message}
	return &removal.Unfilled{Reason: d.Reason, Message: d.Message}, r.move(ctx, s, m, d)
}

// othersLeft reports whether a node is left that could fill what was moved off a lost one.
func (s *scope) othersLeft(m *member) bool {
	for _, other := range s.members {
		if other != m && other.ours() && !other.standing.Lost && !gluster.Left(other.node) {
			return true
		}
	}
	return false
}

// move does what was decided about a brick: the record first, then the request, then what was said to it.
func (r *Reconciler) move(ctx context.Context, s *scope, m *member, d drain.Decision) error {
	if d.Move == nil || s.acted || m.touched {
		return nil
	}
	var owner servers.API
	if d.Action == drain.Ask {
		if owner = s.owner(m, d); owner == nil {
			return nil
		}
	}
	s.acted = true
	if err := r.record(ctx, m, d.Move); err != nil {
		return err
	}
	if d.Action != drain.Ask {
		return nil
	}
	answered, err := pool.Ask(ctx, owner, d, *s.pool.Peers)
	m.tell(corev1.EventTypeNormal, d.Reason, "Move", d.Message)
	// What was said is written even if this pass is being ended: it saves ten minutes of waiting.
	err = errors.Join(err, r.record(context.WithoutCancel(ctx), m, &answered))
	if err != nil {
		return fmt.Errorf("empty node %s: %w", m.node.Name, err)
	}
	return nil
}

// owner is the server that a request goes to: a brick is replaced by its owner alone (w027), and everything else by who speaks.
func (s *scope) owner(m *member, d drain.Decision) servers.API {
	if d.Move.Request != v1alpha1.GlusterReplaceBrick {
		if s.speaker == nil {
			return nil
		}
		return s.speaker.api
	}
	if !m.itself() {
		return nil
	}
	return m.api
}

func (r *Reconciler) record(ctx context.Context, m *member, move *v1alpha1.GlusterMove) error {
	_, err := kube.Patch(ctx, r.Client, m.node, func(n *v1alpha1.GlusterNode) { n.Spec.Move = move.DeepCopy() })
	return err
}

// remove takes the next step of a removal.
func (r *Reconciler) remove(ctx context.Context, s *scope, m *member, unfilled *removal.Unfilled) error {
	f := removal.Facts{
		Node: m.node, Standing: m.standing, Pool: s.pool, Workload: s.runs(m), Claims: s.holds(m), Ending: s.ending(s.claimsMade(m), m.node.Name), NeverRan: m.neverRan, Unfilled: unfilled,
	}
	if m.own != nil && m.node.Spec.Pool == "" && s.speaker == nil {
		f.Pool = *m.own
	}
	for _, other := range s.members {
		if other != m && other.ours() {
			f.Others = append(f.Others, removal.Peer{ID: other.peer(), State: other.standing.State()})
		}
	}
	if s.speaker != nil && s.speaker != m {
		look, err := pool.LookFor(ctx, s.speaker.api, m.peer())
		if err != nil {
			s.silence = unsaid(ctx, s.speaker, err)
		}
		f.Look = look
	}
	d := removal.Decide(f)
	m.removed = &metav1.Condition{Status: d.Status, Reason: d.Reason, Message: d.Message}
	if d.Step == removal.Wait || s.acted || m.touched {
		return nil
	}
	return r.removeBy(ctx, s, m, d)
}

func (r *Reconciler) removeBy(ctx context.Context, s *scope, m *member, d removal.Decision) error {
	s.acted = true
	m.tell(corev1.EventTypeNormal, d.Reason, "Remove", d.Message)
	switch d.Step {
	case removal.RemovePeer:
		via := s.find(d.Via)
		if via == nil || via.api == nil {
			return nil
		}
		// Whatever it answers: the next pass looks whether the peer is gone.
		if err := via.api.RemovePeer(ctx, m.peer()); err != nil && servers.KindOf(err) != servers.Absent {
			return fmt.Errorf("remove node %s from the pool: %w", m.node.Name, err)
		}
	case removal.RecordLeft:
		_, err := kube.Patch(ctx, r.Client, m.node, func(n *v1alpha1.GlusterNode) {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1alpha1.AnnotationPeerLeft, string(n.UID))
		})
		return err
	case removal.DeleteWorkload:
		if w := s.workloads[m.node.Name]; w != nil {
			return kube.Delete(ctx, r.Client, w, client.PropagationPolicy(metav1.DeletePropagationForeground))
		}
	case removal.DeleteClaims:
		var errs []error
		for _, c := range s.claimsMade(m) {
			errs = append(errs, kube.Delete(ctx, r.Client, c))
		}
		return errors.Join(errs...)
	case removal.DropFinalizer:
		if len(m.node.Spec.Devices) > 0 && s.cluster != nil {
			// The node is gone in a moment, and people look at what stays.
			s.tell(corev1.EventTypeNormal, d.Reason, "Remove", fmt.Sprintf("Node %s is removed. %s", m.node.Name, d.Message))
		}
		m.gone = true
		r.forget(m.node.UID)
		return kube.RemoveFinalizer(ctx, r.Client, m.node, v1alpha1.FinalizerGlusterNode)
	}
	return nil
}

// runs says whether the workload of a node exists, or its pod still does.
func (s *scope) runs(m *member) gluster.Answer {
	set := s.workloads[m.node.Name]
	if set != nil && set.Labels[v1alpha1.LabelGlusterNode] != m.node.Name {
		set = nil
	}
	return gluster.Of(set != nil || s.pods[workload.Pod(m.node.Name)] != nil)
}

// ending is what was asked to go already of workloads with their pods, and of claims once no pod is left; nil when something has to be asked.
func (s *scope) ending(claims []*corev1.PersistentVolumeClaim, workloads ...string) *gluster.Ending {
	var first *gluster.Ending
	for _, name := range workloads {
		w, p := s.workloads[name], s.pods[workload.Pod(name)]
		switch {
		case w == nil && p == nil:
			continue
		case w != nil && w.DeletionTimestamp.IsZero():
			return nil
		}
		e := &gluster.Ending{Workload: name}
		if w != nil {
			e.Since = asked(w)
		}
		if p != nil {
			e.Pod, e.Machine, e.Orphan = p.Name, p.Spec.NodeName, w == nil && p.DeletionTimestamp.IsZero()
			if !p.DeletionTimestamp.IsZero() {
				e.Since = asked(p)
			}
		}
		if first == nil {
			first = e
		}
	}
	if first != nil || len(claims) == 0 {
		return first
	}
	return s.leaving(claims)
}

// asked is when somebody asked an object to go: what it says is when its grace is over.
func asked(o client.Object) time.Time {
	at, grace := o.GetDeletionTimestamp().Time, o.GetDeletionGracePeriodSeconds()
	if grace != nil {
		at = at.Add(-time.Duration(*grace) * time.Second)
	}
	return at
}

// leaving are claims of which each was deleted already; nil when one was not.
func (s *scope) leaving(claims []*corev1.PersistentVolumeClaim) *gluster.Ending {
	e := &gluster.Ending{Since: s.now}
	for _, c := range claims {
		if c.DeletionTimestamp.IsZero() {
			return nil
		}
		e.Claims = append(e.Claims, c.Name)
		if at := asked(c); at.Before(e.Since) {
			e.Since = at
		}
	}
	return e
}

// holds says whether claims that were made for a node exist.
func (s *scope) holds(m *member) gluster.Answer { return gluster.Of(len(s.claimsMade(m)) > 0) }

// claimsMade are the claims that were made for a node, and carry that. Those that a person made stay.
func (s *scope) claimsMade(m *member) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for _, name := range []string{workload.StateClaim(m.node.Name), m.node.Name} {
		if c := s.claims[name]; c != nil && c.Labels[v1alpha1.LabelGlusterNode] == m.node.Name && gluster.SameID(c.Annotations[v1alpha1.AnnotationPeer], m.peer()) {
			all = append(all, c)
		}
	}
	return all
}
