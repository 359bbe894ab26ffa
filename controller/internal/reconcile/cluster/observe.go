package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/device"
	"quarry.storage/quarry/controller/internal/decide/host"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// world is what the API server says about everything that matters to one Cluster.
type world struct {
	// nodes are the Kubernetes nodes of the hosts; a host without one is absent.
	nodes map[string]*metav1.PartialObjectMetadata
	// maintenance are the nodes whose StorageNode asks for maintenance.
	maintenance map[string]bool
	// others are the other Clusters, claims what matters of them when hosts are shared out.
	others []v1alpha1.Cluster
	claims []host.Cluster
	// volumes are the names of the PersistentVolumes of the Cluster by node; unplaced are those without a node.
	volumes  map[string][]string
	unplaced []string
	// used is true while a volume of the class exists, or is attached.
	used bool
}

// observe reads the world afresh.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	s.world = world{nodes: map[string]*metav1.PartialObjectMetadata{}, maintenance: map[string]bool{}, volumes: map[string][]string{}}
	for _, read := range []func(context.Context, *scope) error{r.readClusters, r.readNodes, r.readVolumes, r.readAttachments, r.readDriver} {
		if err := read(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) readClusters(ctx context.Context, s *scope) error {
	var list v1alpha1.ClusterList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	for _, c := range list.Items {
		if c.UID == s.cluster.UID {
			continue
		}
		s.world.others = append(s.world.others, c)
		s.world.claims = append(s.world.claims, host.Of(&c))
	}
	return nil
}

func (r *Reconciler) readNodes(ctx context.Context, s *scope) error {
	for _, name := range s.names(r.Agents) {
		node := &metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		err := r.Client.Get(ctx, types.NamespacedName{Name: name}, node)
		switch {
		case err == nil:
			s.world.nodes[name] = node
		case !apierrors.IsNotFound(err):
			return fmt.Errorf("get node %s: %w", name, err)
		}
		var sn v1alpha1.StorageNode
		err = r.Client.Get(ctx, types.NamespacedName{Name: name}, &sn)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get storagenode %s: %w", name, err)
		}
		s.world.maintenance[name] = err == nil && sn.Spec.Maintenance
	}
	return nil
}

// readVolumes finds the volumes of the Cluster's class by the node that they live on.
func (r *Reconciler) readVolumes(ctx context.Context, s *scope) error {
	var list corev1.PersistentVolumeList
	// Read only; copying every volume of the cluster each time would cost more than all the rest.
	if err := r.Client.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return fmt.Errorf("list persistentvolumes: %w", err)
	}
	for i := range list.Items {
		v := &list.Items[i]
		if v.Spec.StorageClassName != s.cluster.Name || v.Spec.CSI == nil || v.Spec.CSI.Driver != v1alpha1.DriverLVM {
			continue
		}
		s.world.used = true
		nodes := nodesOf(v)
		for _, n := range nodes {
			s.world.volumes[n] = append(s.world.volumes[n], describe(v))
		}
		if len(nodes) == 0 {
			s.world.unplaced = append(s.world.unplaced, describe(v))
		}
	}
	for _, names := range s.world.volumes {
		slices.Sort(names)
	}
	slices.Sort(s.world.unplaced)
	return nil
}

// describe names a volume, and the claim that it is bound to.
func describe(v *corev1.PersistentVolume) string {
	if c := v.Spec.ClaimRef; c != nil {
		return fmt.Sprintf("%s (claim %s/%s)", v.Name, c.Namespace, c.Name)
	}
	return v.Name
}

// nodesOf returns the nodes that a volume can be used on.
func nodesOf(v *corev1.PersistentVolume) []string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return nil
	}
	var nodes []string
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if e.Key == v1alpha1.TopologyHost && e.Operator == corev1.NodeSelectorOpIn {
				nodes = append(nodes, e.Values...)
			}
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (s *scope) maintenance(name string) bool {
	return s.world.maintenance[name] || slices.Contains(s.cluster.Spec.Maintenance, v1alpha1.HostName(name))
}

func (s *scope) previous(name string) *v1alpha1.ClusterMember {
	for i := range s.before.Status.Members {
		if s.before.Status.Members[i].Node == name {
			return &s.before.Status.Members[i]
		}
	}
	return nil
}

func (s *scope) recorded(name string) []string {
	for _, c := range s.before.Status.Config {
		if c.NodeName == name {
			return c.BlockDevices
		}
	}
	return nil
}

func (s *scope) instance(name string) *v1alpha1.Instance {
	for i := range s.before.Status.Capacity.Instances {
		if s.before.Status.Capacity.Instances[i].Host == name {
			return &s.before.Status.Capacity.Instances[i]
		}
	}
	return nil
}

// claimOf returns what a Cluster wants of the devices of a host.
func claimOf(c *v1alpha1.Cluster, name string) device.Claim {
	idle := !c.DeletionTimestamp.IsZero() || c.Spec.StorageType != v1alpha1.StorageTypeLVM ||
		!slices.Contains(c.Spec.Hosts, v1alpha1.HostName(name))
	for _, m := range c.Status.Members {
		idle = idle || m.Node == name && m.Flags.ShouldDestroy
	}
	return device.Claim{
		Name: c.Name, UID: string(c.UID), Created: c.CreationTimestamp.Time, Selector: c.Spec.Devices, Host: name, Idle: idle,
	}
}
