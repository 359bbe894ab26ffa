package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// makeMembers makes the Members that are missing: of hosts that the spec wants and that may be used, and of hosts that hold a part of the
// storage or a volume of it, wanted or not. No ownerReference ties them to the storage: one to a UID that is gone would let the
// garbage collector condemn every host.
func (r *Reconciler) makeMembers(ctx context.Context, s *scope) error {
	if s.profile.Members == nil {
		return nil
	}
	var errs []error
	made := false
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object != nil {
			errs = append(errs, s.fail(h, r.keepLatch(ctx, h.Object)), s.fail(h, r.noteReport(ctx, s, h)))
			continue
		}
		if h.Invalid != nil && h.Invalid.Reason == v1alpha1.ReasonNameTaken {
			continue
		}
		needed := s.holds(h.Node) || len(s.world.On(h.Node)) > 0
		if !needed && (!s.wanted(h.Node) || h.Invalid != nil) {
			continue
		}
		m, err := r.makeMember(ctx, s, h.Node)
		if err != nil {
			errs = append(errs, s.fail(h, err))
			continue
		}
		s.members[h.Node] = m
		s.world.Members = append(s.world.Members, m)
		made = true
	}
	if made {
		// The backend decides with the Members that exist now.
		if err := r.again(ctx, s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// keepLatch puts the finalizer back that makes a deletion a latch. One that is being deleted can get none any more.
func (r *Reconciler) keepLatch(ctx context.Context, m *v1alpha1.Member) error {
	if !m.DeletionTimestamp.IsZero() {
		return nil
	}
	_, err := kube.AddFinalizer(ctx, r.Client, m, v1alpha1.FinalizerMember)
	return err
}

// noteReport takes the mark off a Member that its node may have been used before, once the agent says that nothing is there, or what is there is on record.
func (r *Reconciler) noteReport(ctx context.Context, s *scope, h *backend.HostHealth) error {
	marked := h.Object != nil && h.Object.Annotations[v1alpha1.AnnotationUnreported] != ""
	absent := h.Facts.Up && h.Facts.Data == nodestate.DataAbsent && !s.holds(h.Node)
	if !marked || h.Unreported() && !absent {
		return nil
	}
	_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) { delete(m.Annotations, v1alpha1.AnnotationUnreported) })
	return err
}

func (r *Reconciler) makeMember(ctx context.Context, s *scope, node string) (*v1alpha1.Member, error) {
	m := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: s.owner.MemberName(node), Finalizers: []string{v1alpha1.FinalizerMember}},
		Spec:       v1alpha1.MemberSpec{Of: s.owner.API(), Node: v1alpha1.HostName(node)},
	}
	if s.usedBefore(node) {
		m.Annotations = map[string]string{v1alpha1.AnnotationUnreported: "true"}
	}
	err := r.Client.Create(ctx, m)
	if err == nil {
		return m, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create member %s: %w", m.Name, err)
	}
	// The cache is behind, or the name is taken. The API server knows.
	have := &v1alpha1.Member{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), have); err != nil {
		return nil, fmt.Errorf("get member %s: %w", m.Name, err)
	}
	if !s.owner.Owns(have) || string(have.Spec.Node) != node {
		return nil, fmt.Errorf("member %s exists and belongs to %s %s with UID %s", m.Name, have.Spec.Of.Kind, have.Spec.Of.Name, have.Spec.Of.UID)
	}
	return have, nil
}

// record writes the record of a member's group when the backend wants another one.
func (r *Reconciler) record(ctx context.Context, h *backend.HostHealth) error {
	want := h.Decided.Record
	if want == nil || h.Object == nil || equality.Semantic.DeepEqual(h.Object.Spec.Group, want) {
		return nil
	}
	_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) { m.Spec.Group = want.DeepCopy() })
	return err
}

// leave deletes the Members that are to be removed. A backend that moves data moves that of one member at a time.
func (r *Reconciler) leave(ctx context.Context, s *scope) error {
	var errs []error
	deleted := false
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Leaving.Delete || h.Object == nil || s.running[h.Node] {
			continue
		}
		inTurn := s.profile.MovesData && !s.deleting() && h.Leaving.Reason != v1alpha1.ReasonLost
		if inTurn && s.condemned() {
			break
		}
		err := s.fail(h, r.deleteMember(ctx, s, h))
		errs = append(errs, err)
		deleted = deleted || err == nil
		if inTurn {
			break
		}
	}
	if deleted {
		s.assess()
	}
	return errors.Join(errs...)
}

// condemned reports whether a Member is being deleted.
func (s *scope) condemned() bool {
	return slices.ContainsFunc(s.world.Members, func(m *v1alpha1.Member) bool { return !m.DeletionTimestamp.IsZero() })
}

// deleteMember deletes a Member. The decision was made on what the cache said, and a deletion is never taken back: so it is made once more
// on what the API server itself says of the storage, the Member, the node and the volumes, and the deletion is of exactly that Member.
func (r *Reconciler) deleteMember(ctx context.Context, s *scope, h *backend.HostHealth) error {
	if want := h.Decided.Record; want != nil && want.UUID != "" {
		// Volumes that tell of the group may be deleted as soon as the Member is.
		if err := r.record(ctx, h); err != nil {
			return err
		}
	}
	owner, live := r.New(), &v1alpha1.Member{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: s.owner.Name}, owner); err != nil {
		return fmt.Errorf("get %s %s before deleting member %s: %w", s.owner.Kind, s.owner.Name, h.Object.Name, err)
	}
	if owner.GetUID() != s.owner.UID {
		return fmt.Errorf("%s %s was replaced: member %s is not deleted", s.owner.Kind, s.owner.Name, h.Object.Name)
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(h.Object), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.UID != h.Object.UID {
		return nil
	}
	node, err := nodeOf(ctx, r.Live, h.Node)
	if err != nil {
		return err
	}
	world, err := s.volumes(ctx, r.Live)
	if err != nil {
		return err
	}
	if now := s.live(owner, live, node); !now.departure(now.judgement(h), node, world.On(h.Node)).Delete {
		return nil
	}
	if err := kube.DeleteUnchanged(ctx, r.Client, live); err != nil {
		return err
	}
	// The rest of this pass goes on with what became of it: its finalizer keeps it.
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(h.Object), live); err != nil || live.UID != h.Object.UID {
		return client.IgnoreNotFound(err)
	}
	*h.Object = *live
	return nil
}

// dismiss gives the Members free of which nothing is left, after the label of their node.
func (r *Reconciler) dismiss(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Removed {
			continue
		}
		if s.blocked != "" {
			// It stays for now, and counts.
			h.Removed = false
			continue
		}
		if err := r.dismissMember(ctx, s, h); err != nil {
			// The Member stays until nothing is left of it.
			h.Removed = false
			errs = append(errs, s.fail(h, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) dismissMember(ctx context.Context, s *scope, h *backend.HostHealth) error {
	if left, err := r.stillNeeded(ctx, s, h); left || err != nil {
		return err
	}
	if err := r.rememberLost(ctx, s, h); err != nil {
		return err
	}
	if err := r.unlabel(ctx, s, h); err != nil {
		return err
	}
	if !slices.Contains(h.Object.Finalizers, v1alpha1.FinalizerMember) {
		return nil
	}
	if err := kube.RemoveFinalizer(ctx, r.Client, h.Object, v1alpha1.FinalizerMember); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.written, h.Object.UID)
	r.mu.Unlock()
	r.Told.Forget(h.Object.UID)
	r.Watched.Forget(h.Object.UID)
	s.notes = append(s.notes, notice.Removed(h.Node))
	if s.wanted(h.Node) {
		s.within(1)
	}
	return nil
}

// stillNeeded asks the API server itself whether the Member must stay: the cache may not know of a volume or of the node yet.
func (r *Reconciler) stillNeeded(ctx context.Context, s *scope, h *backend.HostHealth) (bool, error) {
	node, err := nodeOf(ctx, r.Live, h.Node)
	if err != nil {
		return true, err
	}
	live, err := s.volumes(ctx, r.Live)
	if err != nil || s.nothingLeft(*h, node, live.On(h.Node)) {
		return err != nil, err
	}
	h.Removed, h.Holding = false, holding(h.Facts, live.On(h.Node))
	s.within(time.Second)
	return true, nil
}

// rememberLost records the group of a lost member before the Member goes: should its disks come back, they are foreign.
func (r *Reconciler) rememberLost(ctx context.Context, s *scope, h *backend.HostHealth) error {
	if !s.lost(*h) || h.Object.Spec.Group == nil || h.Object.Spec.Group.UUID == "" || s.deleting() {
		return nil
	}
	uuid, before := h.Object.Spec.Group.UUID, copyOf(s.storage)
	if moved, _ := backend.Heir(h.Object, s.hosts); moved {
		// Another host has it by now: it is not lost with this one.
		return nil
	}
	groups := backend.WithLost(s.storage.StorageStatus().LostGroups, uuid)
	s.storage.StorageStatus().LostGroups = groups
	if err := r.keepLost(ctx, s); err != nil {
		return fmt.Errorf("record the lost group %s of member %s: %w", uuid, h.Object.Name, err)
	}
	before.SetResourceVersion(s.storage.GetResourceVersion())
	if _, err := kube.WriteStatus(ctx, r.Client, before, s.storage); err != nil {
		return fmt.Errorf("record the lost group %s of member %s: %w", uuid, h.Object.Name, err)
	}
	s.before.StorageStatus().LostGroups = slices.Clone(groups)
	return nil
}

// keepLost writes the lost groups where a restore does not lose them.
func (r *Reconciler) keepLost(ctx context.Context, s *scope) error {
	groups := strings.Join(s.storage.StorageStatus().LostGroups, ",")
	if groups == "" || s.storage.GetAnnotations()[v1alpha1.AnnotationLostGroups] == groups {
		return nil
	}
	_, err := kube.Patch(ctx, r.Client, s.storage, func(o v1alpha1.Storage) { annotate(o, groups, v1alpha1.AnnotationLostGroups) })
	return err
}
