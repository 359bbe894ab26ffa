package storage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// observe reads the world afresh: first the API server, then the backend.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	s.world = backend.World{Nodes: map[string]backend.Node{}, Volumes: map[string][]backend.Volume{}, Started: s.started}
	for _, read := range []func(context.Context, *scope) error{
		r.readMembers, r.readStorages, r.readVolumes, r.readNodes, r.readDriver, r.readClass, r.look,
	} {
		if err := read(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// look observes the backend, and the nodes that only the backend knows of.
func (r *Reconciler) look(ctx context.Context, s *scope) error {
	ctx, cancel := context.WithTimeout(ctx, observeDeadline)
	defer cancel()
	view, err := s.backend.Observe(ctx, s.storage, s.world, r.last(s.owner))
	if err != nil {
		return fmt.Errorf("observe %s %s: %w", s.owner.Kind, s.owner.Name, err)
	}
	s.view = view
	r.remember(s.owner, view)
	for _, n := range view.Hosts() {
		if err := r.readNode(ctx, s, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) readMembers(ctx context.Context, s *scope) error {
	var list v1alpha1.MemberList
	if err := r.Client.List(ctx, &list); err != nil {
		return fmt.Errorf("list members: %w", err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		if !s.owner.Owns(m) {
			s.world.OtherMembers = append(s.world.OtherMembers, m)
			continue
		}
		node := string(m.Spec.Node)
		s.world.Members = append(s.world.Members, m)
		s.members[node] = s.owner.Prefer(s.members[node], m)
		s.approvals[node] = s.members[node].Annotations[v1alpha1.AnnotationApprove]
	}
	slices.SortFunc(s.world.Members, func(a, b *v1alpha1.Member) int { return strings.Compare(string(a.Spec.Node), string(b.Spec.Node)) })
	return nil
}

func (r *Reconciler) readStorages(ctx context.Context, s *scope) error {
	for _, list := range v1alpha1.StorageLists() {
		if err := r.Client.List(ctx, list); err != nil {
			return fmt.Errorf("list storages: %w", err)
		}
		for _, o := range list.Storages() {
			if o.GetUID() == s.owner.UID {
				continue
			}
			s.world.Others = append(s.world.Others, o)
			if c, ok := r.claimant(o, s.world.OtherMembers); ok {
				s.claimants = append(s.claimants, c)
			}
		}
	}
	s.self, _ = r.claimant(s.storage, s.world.Members)
	return nil
}

// claimant returns what matters of a storage when hosts are shared out.
func (r *Reconciler) claimant(o v1alpha1.Storage, members []*v1alpha1.Member) (backend.Claimant, bool) {
	p, ok := r.Profiles(o)
	if !ok {
		return backend.Claimant{}, false
	}
	c := backend.Claimant{
		Owner: backend.OwnerOf(o), Type: p.Type, Exclusive: p.Exclusive, Created: o.GetCreationTimestamp().Time,
		Deleting: !o.GetDeletionTimestamp().IsZero(), Spec: o.Common(),
	}
	for _, m := range members {
		if c.Owner.Owns(m) {
			c.Members = append(c.Members, string(m.Spec.Node))
		}
	}
	return c, true
}

// readNodes reads the nodes that the spec names or selects, and those of Members and volumes.
func (r *Reconciler) readNodes(ctx context.Context, s *scope) error {
	names := map[string]bool{}
	for _, h := range s.common.Hosts {
		names[string(h)] = true
	}
	for n := range s.members {
		names[n] = true
	}
	for n := range s.world.Volumes {
		names[n] = n != ""
	}
	if s.common.Selector != nil && backend.Unreadable(s.common) == "" {
		selector, err := metav1.LabelSelectorAsSelector(s.common.Selector)
		if err != nil {
			return fmt.Errorf("read spec.hostSelector: %w", err)
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := r.Client.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			names[list.Items[i].Name] = true
		}
	}
	for n, ok := range names {
		if !ok {
			continue
		}
		if err := r.readNode(ctx, s, n); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) readNode(ctx context.Context, s *scope, name string) error {
	if _, ok := s.world.Nodes[name]; ok {
		return nil
	}
	out, err := nodeOf(ctx, r.Client, name)
	if err != nil {
		return err
	}
	s.world.Nodes[name] = out
	return nil
}

// nodeOf reads what matters of a Kubernetes node, and of its StorageNode.
func nodeOf(ctx context.Context, c client.Reader, name string) (backend.Node, error) {
	node := &metav1.PartialObjectMetadata{}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err := c.Get(ctx, types.NamespacedName{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		return backend.Node{}, fmt.Errorf("get node %s: %w", name, err)
	}
	out := backend.Node{Name: name, Exists: err == nil, Labels: node.Labels}
	var sn v1alpha1.StorageNode
	err = c.Get(ctx, types.NamespacedName{Name: name}, &sn)
	if client.IgnoreNotFound(err) != nil {
		return backend.Node{}, fmt.Errorf("get storagenode %s: %w", name, err)
	}
	out.Maintenance = err == nil && sn.Spec.Maintenance
	return out, nil
}

// readVolumes finds the volumes of the storage by the node that they live on, and their attachments.
func (r *Reconciler) readVolumes(ctx context.Context, s *scope) error {
	all, err := listVolumes(ctx, r.Client)
	if err != nil {
		return err
	}
	s.world.Volumes = s.volumesOf(all)
	s.attached, err = s.attachments(ctx, r.Client, all)
	s.used = len(s.world.Volumes) > 0 || len(s.attached) > 0
	return err
}

func listVolumes(ctx context.Context, c client.Reader) ([]corev1.PersistentVolume, error) {
	var list corev1.PersistentVolumeList
	// Read only; copying every volume of the cluster each time would cost more than all the rest.
	if err := c.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list persistentvolumes: %w", err)
	}
	return list.Items, nil
}

// volumes reads the volumes of the storage by the node that they live on.
func (s *scope) volumes(ctx context.Context, c client.Reader) (map[string][]backend.Volume, error) {
	all, err := listVolumes(ctx, c)
	if err != nil {
		return nil, err
	}
	return s.volumesOf(all), nil
}

// volumesOf returns those of all volumes that are of the storage, by the node that they live on.
func (s *scope) volumesOf(all []corev1.PersistentVolume) map[string][]backend.Volume {
	found := map[string][]backend.Volume{}
	for i := range all {
		v := &all[i]
		if !s.ownsVolume(v) {
			continue
		}
		s.within(backend.ExpectedIn(v, s.now))
		nodes := s.profile.Driver.Places(v)
		if len(nodes) == 0 {
			nodes = []string{""}
		}
		for _, n := range nodes {
			found[n] = append(found[n], backend.VolumeOf(v, s.now))
		}
	}
	for _, volumes := range found {
		slices.SortFunc(volumes, func(a, b backend.Volume) int { return strings.Compare(a.Name, b.Name) })
	}
	return found
}

// ownsVolume reports whether a volume is of the storage: by its class, or by what the driver recorded when it was made. A volume may have
// been made through another class, or restored without one.
func (s *scope) ownsVolume(v *corev1.PersistentVolume) bool {
	if v.Spec.CSI == nil || v.Spec.CSI.Driver != s.profile.Driver.Name {
		return false
	}
	if v.Spec.StorageClassName == s.owner.Name || strings.HasPrefix(v.Spec.CSI.VolumeHandle, string(s.owner.UID)+"/") {
		return true
	}
	return slices.Contains(slices.Collect(maps.Values(v.Spec.CSI.VolumeAttributes)), string(s.owner.UID))
}

// attachments names the attached ones of all volumes that are of the class. One whose volume is not among them may be of any class of the
// driver, so it counts.
func (s *scope) attachments(ctx context.Context, c client.Reader, all []corev1.PersistentVolume) ([]string, error) {
	others := map[string]bool{}
	for i := range all {
		if v := &all[i]; !s.ownsVolume(v) {
			others[v.Name] = true
		}
	}
	var list storagev1.VolumeAttachmentList
	if err := c.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list volumeattachments: %w", err)
	}
	var names []string
	for i := range list.Items {
		a := &list.Items[i]
		if a.Spec.Attacher != s.profile.Driver.Name || a.Spec.Source.PersistentVolumeName == nil {
			continue
		}
		if name := *a.Spec.Source.PersistentVolumeName; !others[name] {
			names = append(names, fmt.Sprintf("%s (attached to %s)", name, a.Spec.NodeName))
		}
	}
	return names, nil
}

func (r *Reconciler) readDriver(ctx context.Context, s *scope) (err error) {
	s.driver, err = r.Drivers.State(ctx, s.profile.Driver.Name)
	return err
}
