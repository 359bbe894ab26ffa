package gluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/spec"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/disks"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pods"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// look reads what there is of the pool in Kubernetes, and puts on record what has to be before anything is made.
func (r *Reconciler) look(ctx context.Context, s *scope) error {
	if err := r.readAll(ctx, s); err != nil {
		return err
	}
	if s.cluster != nil && s.cluster.DeletionTimestamp.IsZero() {
		if _, err := kube.AddFinalizer(ctx, r.Client, s.cluster, v1alpha1.FinalizerGlusterCluster); err != nil {
			return err
		}
	}
	for _, m := range s.members {
		if err := r.note(ctx, s, m); err != nil {
			return err
		}
	}
	return r.check(ctx, s)
}

func (r *Reconciler) readAll(ctx context.Context, s *scope) error {
	here := []client.ListOption{client.InNamespace(s.key.Namespace)}
	ours := append(slices.Clone(here), client.MatchingLabels{v1alpha1.LabelGlusterCluster: s.key.Name})
	var claims corev1.PersistentVolumeClaimList
	if err := r.Live.List(ctx, &claims, here...); err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	var sets appsv1.StatefulSetList
	if err := r.Live.List(ctx, &sets, ours...); err != nil {
		return fmt.Errorf("list statefulsets: %w", err)
	}
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, ours...); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	s.claims, s.workloads, s.pods = byName(claims.Items), byName(sets.Items), byName(pods.Items)
	return nil
}

func byName[T any, P interface {
	*T
	GetName() string
}](items []T) map[string]P {
	out := map[string]P{}
	for i := range items {
		p := P(&items[i])
		out[p.GetName()] = p
	}
	return out
}

// note puts the finalizer on a node, and on record who its server is: what its claims say if they were there first, and its own UID otherwise.
func (r *Reconciler) note(ctx context.Context, s *scope, m *member) error {
	n := m.node
	peer := n.Spec.Peer
	if m.ours() && peer == "" {
		peer = string(n.UID)
		for _, name := range []string{workload.StateClaim(n.Name), n.Name} {
			if c := s.claims[name]; c != nil && c.Labels[v1alpha1.LabelGlusterNode] == n.Name && c.Annotations[v1alpha1.AnnotationPeer] != "" {
				peer = c.Annotations[v1alpha1.AnnotationPeer]
				break
			}
		}
	}
	_, err := kube.Patch(ctx, r.Client, n, func(n *v1alpha1.GlusterNode) {
		if n.DeletionTimestamp.IsZero() {
			controllerutil.AddFinalizer(n, v1alpha1.FinalizerGlusterNode)
		}
		n.Spec.Peer = peer
	})
	return err
}

// check looks up what the specs name.
func (r *Reconciler) check(ctx context.Context, s *scope) error {
	l := spec.Lookups{Secrets: map[types.NamespacedName]gluster.Answer{}, StorageClasses: map[string]gluster.Answer{}, Clusters: map[string]gluster.Answer{s.key.Name: gluster.Of(s.cluster != nil)}}
	if s.cluster != nil {
		classes := []string{workload.StateClass(s.cluster, nil)}
		for _, t := range s.cluster.Spec.NodeTemplates {
			classes = append(classes, t.Storage.StorageClassName)
		}
		for _, name := range classes {
			if name != "" {
				l.StorageClasses[name] = exists(r.Live.Get(ctx, types.NamespacedName{Name: name}, &storagev1.StorageClass{}))
			}
		}
		for _, name := range spec.Secrets(s.cluster) {
			l.Secrets[name] = exists(r.Live.Get(ctx, name, &corev1.Secret{}))
		}
		l.Homeless = workload.StateClass(s.cluster, nil) == ""
		s.spec = spec.ValidateCluster(s.cluster, l)
	}
	if slices.ContainsFunc(s.members, (*member).hasDevice) {
		s.labels = r.labelsOfNodes(ctx)
		l.Nodes = s.labels
	}
	for _, m := range s.members {
		for _, name := range spec.NodeSecrets(m.node) {
			l.Secrets[name] = exists(r.Live.Get(ctx, name, &corev1.Secret{}))
		}
		l.Homeless = s.cluster != nil && workload.StateClass(s.cluster, m.node) == "" && s.claims[workload.StateClaim(m.node.Name)] == nil
		l.Unfit, l.Rivals = s.unfit(m), s.rivals(m)
		m.spec = spec.ValidateNode(m.node, l)
		m.conflict = len(l.Rivals) > 0 || s.otherState(m)
	}
	return nil
}

// labelsOfNodes are those of the nodes of Kubernetes, by their names; nil when nobody could list them.
func (r *Reconciler) labelsOfNodes(ctx context.Context) map[string]map[string]string {
	var list corev1.NodeList
	if err := r.Live.List(ctx, &list); err != nil {
		return nil
	}
	all := map[string]map[string]string{}
	for i := range list.Items {
		all[list.Items[i].Name] = list.Items[i].Labels
	}
	return all
}

// hasDevice reports whether the node stores on a device of a node of Kubernetes.
func (m *member) hasDevice() bool {
	return slices.ContainsFunc(m.node.Spec.Storage, func(o v1alpha1.GlusterStorage) bool { return o.Device != "" })
}

// exists is what a read says.
func exists(err error) gluster.Answer {
	switch {
	case err == nil:
		return gluster.Yes
	case apierrors.IsNotFound(err):
		return gluster.No
	}
	return gluster.Unknown
}

// unfit says of the claims of a node why they cannot be a device.
func (s *scope) unfit(m *member) map[string]string {
	out := map[string]string{}
	for _, one := range m.node.Spec.Storage {
		c := s.claims[one.PVCName]
		switch {
		case one.PVCName == "":
		case s.otherState(m):
			// The claim with the state is no device, but as much in the way: every device of the node would be of another server.
			state := s.claims[workload.StateClaim(m.node.Name)]
			out[one.PVCName] = fmt.Sprintf("the claim %s has the state of peer %q, and on record is %q", state.Name, state.Annotations[v1alpha1.AnnotationPeer], m.peer())
		case c != nil:
			out[one.PVCName] = s.taken(m, c)
		}
	}
	return out
}

// taken says why a claim cannot be a device of a node; empty when it can.
func (s *scope) taken(m *member, c *corev1.PersistentVolumeClaim) string {
	peer := c.Annotations[v1alpha1.AnnotationPeer]
	switch {
	case c.Spec.VolumeMode == nil || *c.Spec.VolumeMode != corev1.PersistentVolumeBlock:
		return "its volume has a filesystem, and glusterd2 needs one in block mode"
	case peer != "" && !gluster.SameID(peer, m.peer()):
		return "the bricks on it are those of peer " + peer
	case peer != "" || m.node.Status.Joined:
		// It is this one's, whoever else names it.
		return ""
	}
	for _, other := range s.members {
		if other != m && slices.ContainsFunc(other.node.Spec.Storage, func(o v1alpha1.GlusterStorage) bool { return o.PVCName == c.Name }) {
			return "node " + other.node.Name + " has it, too"
		}
	}
	return ""
}

// otherState reports whether the claim with the state of a node's server is of another server.
func (s *scope) otherState(m *member) bool {
	c := s.claims[workload.StateClaim(m.node.Name)]
	return m.ours() && c != nil && !gluster.SameID(c.Annotations[v1alpha1.AnnotationPeer], m.peer())
}

// rivals are other nodes with the same record of who their server is.
func (s *scope) rivals(m *member) []string {
	var names []string
	for _, other := range s.members {
		if other != m && m.peer() != "" && gluster.SameID(other.peer(), m.peer()) {
			names = append(names, other.node.Name)
		}
	}
	return names
}

func (r *Reconciler) keeper() disks.Keeper {
	return disks.Keeper{Client: r.Client, Live: r.Live, Agents: r.Agents, Now: r.Now}
}

// subject is a node with disks of a node of Kubernetes for who keeps their records.
func (r *Reconciler) subject(s *scope, m *member) disks.Subject {
	name := m.node.Name
	return disks.Subject{
		Node: m.node, Nodes: s.labels, Registered: s.registered(m), Absent: s.absent(m), Held: s.holdsDisks(m),
		Pod: r.saw(s, m, pods.Server(s.workloads[name], s.pods[workload.Pod(name)])), Seen: r.seenSince(s, m), Missing: r.missingSince(m), Tried: r.triedAt(m),
	}
}

// triedAt is when glusterd2 was last told of disks of a node in vain.
func (r *Reconciler) triedAt(m *member) map[v1alpha1.DevicePath]time.Time {
	all, _ := r.tried.Load(m.node.UID)
	at, _ := all.(map[v1alpha1.DevicePath]time.Time)
	return at
}

// tryLater remembers that glusterd2 was told of a disk in vain, by its path in the pod.
func (r *Reconciler) tryLater(s *scope, m *member, path string) {
	at := map[v1alpha1.DevicePath]time.Time{}
	for _, one := range m.node.Spec.Devices {
		if when, ever := r.triedAt(m)[one.Device]; ever {
			at[one.Device] = when
		}
		if workload.Disk(one) == path {
			at[one.Device] = s.now
		}
	}
	r.tried.Store(m.node.UID, at)
}

// mayNot says why a step is not taken; empty when it is. It looks once more before glusterd2 is told of a disk of a node of Kubernetes: the facts of the pass are of before.
func (r *Reconciler) mayNot(ctx context.Context, s *scope, m *member, step node.Step) (reason, why string, err error) {
	if step.Do != node.AddDevice {
		return "", "", nil
	}
	for _, one := range m.node.Spec.Devices {
		if workload.Disk(one) != step.Path {
			continue
		}
		may, reason, why, err := r.keeper().MayRegister(ctx, r.subject(s, m), one)
		if may || err != nil {
			return "", "", err
		}
		return reason, fmt.Sprintf("glusterd2 is not told of %s: %s.", one.Device, strings.TrimSuffix(why, ".")), nil
	}
	return "", "", nil
}
