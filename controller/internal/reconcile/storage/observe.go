package storage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// observe reads the world afresh: first the API server, then the backend.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	s.world = backend.World{Nodes: map[string]backend.Node{}, Started: s.started}
	for _, read := range []func(context.Context, *scope) error{
		r.readMembers, r.readGlusterNodes, r.readStorages, r.readVolumes, r.readNodes, r.readDriver, r.readClass, r.look,
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
	view, err := s.backend.Observe(ctx, s.storage, s.world, r.last(s.owner, s.backend))
	if err != nil {
		return fmt.Errorf("observe %s %s: %w", s.owner.Kind, s.owner.Name, err)
	}
	s.view = view
	r.remember(s.owner, s.backend, view)
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

// readGlusterNodes reads which devices are on record as those of GlusterNodes. Where nobody knows, only the taking of devices waits: the storage is looked after all the same.
func (r *Reconciler) readGlusterNodes(ctx context.Context, s *scope) error {
	if !s.profile.TakesDevices() {
		return nil
	}
	nodes, err := r.glusterNodes.List(ctx, r.Recorded, r.Records)
	if err != nil {
		s.world.Unread = kube.Unread(err)
		return ctx.Err()
	}
	s.world.Records = disk.RecordsOf(nodes)
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
	for _, n := range s.world.Held() {
		names[n] = true
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
	for n := range names {
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

// volumes are the volumes of a storage by the nodes that they hold, and names of those that are attached, whatever the driver.
type volumes struct {
	backend.World
	attached []string
}

// readVolumes finds the volumes of the storage by the node that they live on, and their attachments.
func (r *Reconciler) readVolumes(ctx context.Context, s *scope) error {
	found, err := s.volumes(ctx, r.Client)
	if err != nil {
		return err
	}
	s.world.Volumes, s.world.Attached, s.attached = found.Volumes, found.Attached, found.attached
	s.used = len(found.Volumes) > 0 || len(found.attached) > 0
	return nil
}

// volumes reads the volumes of the storage.
func (s *scope) volumes(ctx context.Context, c client.Reader) (volumes, error) {
	var all corev1.PersistentVolumeList
	// Read only; copying every volume of the cluster each time would cost more than all the rest.
	if err := c.List(ctx, &all, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return volumes{}, fmt.Errorf("list persistentvolumes: %w", err)
	}
	attached, err := s.attachments(ctx, c, all.Items)
	if err != nil {
		return volumes{}, err
	}
	out := volumes{World: backend.World{Volumes: s.volumesOf(all.Items)}}
	if s.profile.Driver.Attach {
		out.Attached = attached
	}
	for node, at := range attached {
		for _, v := range at {
			out.attached = append(out.attached, fmt.Sprintf("%s (attached to %s)", v.Name, node))
		}
	}
	return out, nil
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
	return ordered(found)
}

// ordered orders volumes by name, for each node.
func ordered(found map[string][]backend.Volume) map[string][]backend.Volume {
	for _, at := range found {
		slices.SortFunc(at, func(a, b backend.Volume) int { return strings.Compare(a.Name, b.Name) })
	}
	return found
}

// attachments returns the attached ones of all volumes that are of the storage, by node. An object that exists counts, even if it says that
// nothing is attached, or is being deleted. One whose volume is not among all may be of any storage of the driver, so it counts.
func (s *scope) attachments(ctx context.Context, c client.Reader, all []corev1.PersistentVolume) (map[string][]backend.Volume, error) {
	others, known := map[string]bool{}, map[string]backend.Volume{}
	for i := range all {
		if v := &all[i]; s.ownsVolume(v) {
			known[v.Name] = backend.VolumeOf(v, s.now)
		} else {
			others[v.Name] = true
		}
	}
	var list storagev1.VolumeAttachmentList
	if err := c.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list volumeattachments: %w", err)
	}
	found := map[string][]backend.Volume{}
	for i := range list.Items {
		a := &list.Items[i].Spec
		if a.Attacher != s.profile.Driver.Name || a.Source.PersistentVolumeName == nil || others[*a.Source.PersistentVolumeName] {
			continue
		}
		v, ok := known[*a.Source.PersistentVolumeName]
		if !ok {
			v.Name = *a.Source.PersistentVolumeName
		}
		found[a.NodeName] = append(found[a.NodeName], v)
	}
	return ordered(found), nil
}

func (r *Reconciler) readDriver(ctx context.Context, s *scope) (err error) {
	s.driver, err = r.Drivers.State(ctx, s.profile.Driver.Name)
	return err
}
