package statefulcluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/nodes"
	"quarry.storage/quarry/controller/internal/decide/stateful/record"
	"quarry.storage/quarry/controller/internal/decide/stateful/replica"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// readNodes reads all nodes from the cache. Before something is done, those that our pods are on are read from the API server itself: one that just
// came back loses nothing. All are, if a replica without a place may be on any of them.
func (r *Reconciler) readNodes(ctx context.Context, s *scope) error {
	from := r.Workloads
	all := s.confirmed && slices.ContainsFunc(s.identities, adrift)
	if all {
		from = r.Live
	}
	var list corev1.NodeList
	if err := from.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	s.nodes = make(nodes.Nodes, len(list.Items))
	for i := range list.Items {
		s.nodes[list.Items[i].Name] = nodes.Of(&list.Items[i])
	}
	if !s.confirmed || all {
		return nil
	}
	for name := range s.named() {
		found := &corev1.Node{}
		err := r.Live.Get(ctx, types.NamespacedName{Name: name}, found)
		switch {
		case apierrors.IsNotFound(err):
			delete(s.nodes, name)
		case err != nil:
			return fmt.Errorf("get node %s: %w", name, err)
		default:
			s.nodes[name] = nodes.Of(found)
		}
	}
	return nil
}

// adrift reports whether only the volumes of a replica tell where it is.
func adrift(i *record.Identity) bool {
	return i.Fate == "" && len(i.Claims) > 0 && (i.Pod == nil || i.Pod.Spec.NodeName == "")
}

// named returns the nodes that our pods are on.
func (s *scope) named() map[string]bool {
	out := map[string]bool{}
	for i := range s.pods {
		if name := s.pods[i].Spec.NodeName; name != "" {
			out[name] = true
		}
	}
	return out
}

// missing are the nodes that do not exist, and that our pods are on or that hold a part of a storage or the volumes of a replica: Kubernetes removes the pods of a node
// that does not exist within a minute, and nothing would tell of it any more. A Member of a node that is gone for good stays until a person says that it is lost, and a replica
// until it is given up or its claims are deleted.
func (r *Reconciler) missing(ctx context.Context, s *scope) ([]string, error) {
	names := s.named()
	for i := range s.members {
		names[string(s.members[i].Spec.Node)] = true
	}
	if err := r.nameHolders(ctx, s, names); err != nil {
		return nil, err
	}
	var out []string
	for name := range names {
		if _, ok := s.nodes[name]; !ok {
			out = append(out, name)
		}
	}
	return out, nil
}

// nameHolders adds the nodes that do not exist and that hold volumes of other drivers, of replicas of any StatefulCluster that wants some. Volumes of Quarry's own drivers are held by Members.
func (r *Reconciler) nameHolders(ctx context.Context, s *scope, names map[string]bool) error {
	var clusters v1alpha1.StatefulClusterList
	if err := r.Client.List(ctx, &clusters, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list statefulclusters: %w", err)
	}
	wanted := map[string]bool{}
	for i := range clusters.Items {
		c := &clusters.Items[i]
		wanted[string(c.UID)] = c.Spec.Replicas == nil || *c.Spec.Replicas > 0
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.Workloads.List(ctx, &claims, client.HasLabels{v1alpha1.LabelStatefulCluster}, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list claims of replicas: %w", err)
	}
	for _, c := range record.Held(claims.Items, func(uid string) bool { return wanted[uid] }) {
		made := c.Annotations[record.AnnotationSelectedNode]
		if _, exists := s.nodes[made]; exists {
			continue
		}
		v := &corev1.PersistentVolume{}
		err := r.Client.Get(ctx, types.NamespacedName{Name: c.Spec.VolumeName}, v)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("get persistentvolume %s: %w", c.Spec.VolumeName, err)
		case err != nil || v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil:
		case v.Spec.CSI != nil && strings.HasSuffix(v.Spec.CSI.Driver, "."+v1alpha1.Group):
		default:
			if name := s.nodes.Missing(made, v.Spec.NodeAffinity.Required); name != "" {
				names[name] = true
			}
		}
	}
	return nil
}

// place tells how the node of a replica is: of the one that its pod runs on, else of those that its volumes keep it on.
func (r *Reconciler) place(ctx context.Context, s *scope, i *record.Identity, out *replica.Replica) error {
	if i.Pod != nil && i.Pod.Spec.NodeName != "" {
		out.Node = replica.NodeGone
		if known, ok := s.nodes[i.Pod.Spec.NodeName]; ok {
			out.Node = known.State
		}
	}
	return r.hold(ctx, s, i, out)
}
