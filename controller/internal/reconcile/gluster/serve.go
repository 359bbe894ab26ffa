package gluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pods"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// stand decides how every node stands, before anything is done about any.
func (r *Reconciler) stand(s *scope) {
	for _, m := range s.members {
		p, online := s.told(m), gluster.Unknown
		if !m.conflict {
			online = s.pool.Online(m.peer())
		}
		m.claims, m.neverRan = s.claimsOf(m), s.neverRan(m)
		m.data, m.holding, m.bricks = p.Data(m.peer())
		if data, holding, bricks := s.pool.Data(m.peer()); data == nodestate.DataPresent {
			// What the pool lists counts, whatever the server says of itself.
			m.data, m.holding, m.bricks = data, holding, bricks
		}
		if m.neverRan {
			m.data = nodestate.DataAbsent
		}
		if !m.ours() {
			// Somebody else's server: whether it answers is all that is known, and nothing is ever taken off it.
			online, m.data = m.answers, nodestate.DataAbsent
		}
		if space, err := node.GetFreeSpace(p, m.peer(), workload.Devices(m.node)); err == nil && m.ours() {
			m.space = &space
		}
		m.standing = gluster.Stand(m.node, gluster.Sight{Online: online, Answers: m.answers, Silent: s.silent(), Data: m.data, Started: r.Started, Now: s.now})
		s.within(m.standing.Wake)
	}
}

// claimsOf says whether all claims of a node are bound.
func (s *scope) claimsOf(m *member) gluster.Answer {
	names := []string{workload.StateClaim(m.node.Name)}
	for _, one := range m.node.Spec.Storage {
		if one.PVCName != "" {
			names = append(names, one.PVCName)
		}
	}
	for _, name := range names {
		if c := s.claims[name]; c == nil || c.Status.Phase != corev1.ClaimBound {
			return gluster.No
		}
	}
	return gluster.Yes
}

// neverRan reports whether it is known that no server of a node ever ran: the claim with its state exists and was never bound, or nothing that was made for the node exists.
func (s *scope) neverRan(m *member) bool {
	n := m.node
	if !m.ours() || m.conflict || n.Status.Joined || m.says.Peer != "" || s.pods[workload.Pod(n.Name)] != nil {
		return false
	}
	if c := s.claims[workload.StateClaim(n.Name)]; c != nil {
		return c.Spec.VolumeName == "" && c.Status.Phase != corev1.ClaimBound && c.Status.Phase != corev1.ClaimLost
	}
	// Without any claim that was made for it, nothing is removed with it either.
	return s.workloads[n.Name] == nil && len(s.claimsMade(m)) == 0
}

// serve has a node run, join, and its devices registered.
func (r *Reconciler) serve(ctx context.Context, s *scope, m *member) error {
	unmade := r.run(ctx, s, m)
	errs := []error{unmade}
	f := node.Facts{
		Node: m.node, Standing: m.standing, Spec: m.spec, Claims: m.claims, Workload: m.answers, Says: m.says.Peer,
		Address: workload.PeerAddress(m.node), Pool: s.pool,
	}
	f.Devices, f.Unseen = pods.Has(s.pods[workload.Pod(m.node.Name)], workload.Devices(m.node))
	if m.conflict {
		f.Pool = gluster.Pool{}
	}
	for _, other := range s.members {
		if other != m && other.ours() && !other.conflict {
			f.Others = append(f.Others, other.peer())
		}
	}
	m.plan = node.Reconcile(f)
	if s.silence != "" && m.plan.Message != "" {
		m.plan.Message += " " + s.silence
	}
	if why := hindrance(unmade); why != "" {
		m.plan.Message = strings.TrimSpace(why + " " + m.plan.Message)
	}
	m.node.Status.Joined = m.node.Status.Joined || m.plan.Joined && m.node.Spec.Pool != ""
	if m.conflict || s.speaker == nil {
		return errors.Join(errs...)
	}
	for _, step := range m.plan.Steps {
		errs = append(errs, s.take(ctx, m, step))
	}
	return errors.Join(errs...)
}

// take takes a step in the pool.
func (s *scope) take(ctx context.Context, m *member, step node.Step) error {
	if s.acted && step.Do == node.Join {
		// One at a time: a server takes in no other one meanwhile.
		return nil
	}
	m.touched = true
	var err error
	speaker := s.speaker.api
	switch step.Do {
	case node.Join:
		via := s.find(step.Via)
		if via == nil || via.api == nil {
			return nil
		}
		s.acted = true
		_, err = via.api.AddPeer(ctx, []string{step.Address}, step.Zone, nil)
	case node.SetZone:
		err = speaker.EditPeer(ctx, m.peer(), step.Zone, nil)
	case node.AddDevice:
		err = speaker.AddDevice(ctx, m.peer(), step.Path)
	case node.EnableDevice, node.DisableDevice:
		err = speaker.EnableDevice(ctx, m.peer(), step.Path, step.Do == node.EnableDevice)
	}
	// What is there already was done before, without an answer maybe. The next pass looks.
	if err != nil && servers.KindOf(err) != servers.Exists {
		return fmt.Errorf("%s of node %s: %w", step.Do, m.node.Name, err)
	}
	return nil
}

// run makes the claims and the workload of a node. Those of a node that was a member of the pool are never made again: what is gone then is its data.
func (r *Reconciler) run(ctx context.Context, s *scope, m *member) error {
	n := m.node
	switch {
	case !m.ours(), m.conflict, s.cluster == nil, m.spec.Status != metav1.ConditionTrue, s.spec.Status != metav1.ConditionTrue,
		gluster.Left(n), m.standing.Lost, m.condemned() && s.workloads[n.Name] == nil && s.claims[workload.StateClaim(n.Name)] == nil:
		return nil
	case s.workloads[n.Name] == nil && (s.etcd.Status != metav1.ConditionTrue || s.cluster.Annotations[annotationEtcd] == ""):
		// Without etcd a server begins a store of its own, or ends.
		return nil
	}
	if !n.Status.Joined && !m.condemned() {
		if err := r.makeClaims(ctx, s, m); err != nil {
			return err
		}
	}
	return r.apply(ctx, workload.Server(s.cluster, n))
}

func (r *Reconciler) makeClaims(ctx context.Context, s *scope, m *member) error {
	n := m.node
	var errs []error
	if s.claims[workload.StateClaim(n.Name)] == nil {
		errs = append(errs, r.make(ctx, workload.State(s.cluster, n)))
	}
	if t := s.template(n); t != nil && s.claims[n.Name] == nil {
		errs = append(errs, r.make(ctx, workload.Mark(cluster.NewClaim(n, *t), n)))
	}
	return errors.Join(errs...)
}

// template is the template that a node was made from; nil if there is none any more.
func (s *scope) template(n *v1alpha1.GlusterNode) *v1alpha1.GlusterNodeTemplate {
	name := n.Annotations[v1alpha1.AnnotationTemplate]
	if s.cluster == nil || name == "" || !ownClaim(n) {
		return nil
	}
	for i := range s.cluster.Spec.NodeTemplates {
		if t := &s.cluster.Spec.NodeTemplates[i]; t.Name == name {
			return t
		}
	}
	return nil
}

// ownClaim reports whether a node stores on a claim of its own name, as those of templates do.
func ownClaim(n *v1alpha1.GlusterNode) bool {
	return len(n.Spec.Storage) > 0 && n.Spec.Storage[0].PVCName == n.Name
}
