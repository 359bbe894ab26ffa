package gluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/disks"
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
	blind := r.disks(ctx, s, m)
	unmade := r.run(ctx, s, m)
	errs := []error{blind, unmade}
	m.plan = node.Reconcile(s.facts(m))
	if s.silence != "" && m.plan.Message != "" {
		m.plan.Message += " " + s.silence
	}
	if why := hindrance(errors.Join(errs...)); why != "" {
		m.plan.Message = strings.TrimSpace(why + " " + m.plan.Message)
	}
	m.node.Status.Joined = m.node.Status.Joined || m.plan.Joined && m.node.Spec.Pool != ""
	if m.conflict || s.speaker == nil {
		return errors.Join(errs...)
	}
	for _, step := range m.plan.Steps {
		errs = append(errs, r.step(ctx, s, m, step))
	}
	return errors.Join(errs...)
}

// step takes a step in the pool, unless something speaks against that now. A disk that is not registered comes after the others from then on.
func (r *Reconciler) step(ctx context.Context, s *scope, m *member, step node.Step) error {
	reason, why, err := r.mayNot(ctx, s, m, step)
	if err != nil {
		return err
	}
	if why != "" {
		if step.Do == node.AddDevice && reason != v1alpha1.ReasonPending {
			r.tryLater(s, m, step.Path)
		}
		m.plan.Refuse(reason, why)
		return nil
	}
	if err = s.take(ctx, m, step); err != nil && step.Do == node.AddDevice {
		r.tryLater(s, m, step.Path)
		reason, why = v1alpha1.ReasonRequestFailed, "did not make a volume group on"
		if servers.IsPending(err) {
			reason, why = v1alpha1.ReasonAnswerLost, "gave no answer, and may still make a volume group on"
		}
		m.plan.Refuse(reason, fmt.Sprintf("glusterd2 %s %s: %v. It is asked again.", why, step.Path, err))
	}
	return err
}

// facts are what is decided on what a node needs.
func (s *scope) facts(m *member) node.Facts {
	pod := s.pods[workload.Pod(m.node.Name)]
	f := node.Facts{
		Node: m.node, Standing: m.standing, Spec: m.spec, Claims: m.claims, Workload: m.answers, Says: m.says.Peer,
		Address: workload.PeerAddress(m.node), Pool: s.pool, Begun: s.workloads[m.node.Name] != nil,
	}
	f.Forgot = s.forgot(m)
	f.Devices, f.Unseen = pods.Has(pod, workload.Devices(m.node))
	if m.hasDevice() && m.ours() {
		disks.Tell(&f, m.disks, pod != nil)
	}
	if m.conflict {
		f.Pool = gluster.Pool{}
	}
	for _, other := range s.members {
		if other != m && other.ours() && !other.conflict {
			f.Others = append(f.Others, other.peer())
		}
	}
	return f
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
	case m.hasDevice() && !m.disksReady(s.workloads[n.Name] != nil):
		return nil
	}
	if err := s.forgotten(n); err != nil {
		return err
	}
	if !n.Status.Joined && !m.condemned() {
		if err := r.makeClaims(ctx, s, m); err != nil {
			return err
		}
	}
	return r.apply(ctx, workload.Server(s.cluster, n, m.without...))
}

// forgotten says that a workload has disks which its node does not have on record any more.
func (s *scope) forgotten(n *v1alpha1.GlusterNode) error {
	if lost := workload.Loses(s.workloads[n.Name], n); len(lost) > 0 {
		return obstructed("The workload of the node has %s, which spec.devices does not say. It is left as it is: write the records again, which its annotation %s has, as docs/gluster.md says.", strings.Join(lost, ", "), v1alpha1.AnnotationDevices)
	}
	return nil
}

// forgot reports whether a node may have lost records of disks: its workload has one that is not on record, or a server that was in the pool has an entry without a record.
func (s *scope) forgot(m *member) bool {
	n := m.node
	return len(workload.Loses(s.workloads[n.Name], n)) > 0 || n.Status.Joined && slices.ContainsFunc(n.Spec.Storage, func(one v1alpha1.GlusterStorage) bool {
		return one.Device != "" && !slices.ContainsFunc(n.Spec.Devices, func(r v1alpha1.GlusterDevice) bool { return r.Device == one.Device })
	})
}

// disks decides which disks of a node of Kubernetes the server has, and writes the records before anything is made on a disk.
func (r *Reconciler) disks(ctx context.Context, s *scope, m *member) error {
	if !m.hasDevice() || !m.ours() || m.conflict {
		return nil
	}
	kept, err := r.keeper().Keep(ctx, r.subject(s, m))
	// A pass that could not look is a break.
	r.miss(s, m, kept.Decision.Missing())
	switch {
	case err != nil:
		return err
	case kept.Dropped:
		return obstructed("The API server does not keep spec.devices: its definition of GlusterNodes is that of an earlier version. Run: kubectl apply --server-side -k deploy/crd")
	case kept.Written && kept.Decision.Withdrawn() != "":
		m.tell(corev1.EventTypeWarning, v1alpha1.ReasonDeviceConflict, "Withdraw", kept.Decision.Withdrawn())
	case kept.Written:
		m.tell(corev1.EventTypeNormal, v1alpha1.ReasonStepTaken, "Allocate", kept.Decision.Condition().Message)
	}
	m.disks, m.without = &kept.Decision, kept.Without
	s.within(kept.Decision.Wake)
	return nil
}

// disksReady reports whether a workload may be made or changed. For the first one all disks have to be allocated; one that comes again has those that are on record.
func (m *member) disksReady(exists bool) bool {
	if m.disks == nil || m.disks.Misplaced() || !exists && m.disks.Undecided() {
		return false
	}
	return exists || m.disks.Condition().Status == metav1.ConditionTrue || m.node.Status.Joined
}

// holdsDisks says why a node gets no other disk now; empty when nothing keeps it.
func (s *scope) holdsDisks(m *member) string {
	switch state := m.standing.State(); {
	case s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero():
		return "the GlusterCluster is being deleted, or does not exist"
	case m.condemned() || m.standing.Lost || state != nodestate.Online && state != nodestate.Offline:
		return fmt.Sprintf("the GlusterNode is %s", state)
	case m.spec.Status != metav1.ConditionTrue || s.spec.Status != metav1.ConditionTrue:
		return "the spec of the GlusterNode or of the GlusterCluster is not valid, or that is not known"
	}
	return ""
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
