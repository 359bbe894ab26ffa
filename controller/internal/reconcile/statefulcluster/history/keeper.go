// Package history keeps the templates of a StatefulCluster as ControllerRevisions: it reads those of the namespace, lets package decide choose, and
// carries it out.
package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/stateful/blueprint"
	"quarry.storage/quarry/controller/internal/decide/stateful/history"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Keeper keeps the history of StatefulClusters. Its rights are those of the ClusterRole quarry-statefulcluster, so it watches nothing.
type Keeper struct {
	// Client writes.
	Client client.Client
	// Live reads from the API server itself.
	Live client.Reader
}

// Book is the history of one StatefulCluster as it was read, and what to do about it.
type Book struct {
	owner  *v1alpha1.StatefulCluster
	from   *blueprint.Blueprint
	byName map[string]*appsv1.ControllerRevision
	plan   history.Plan
	// Names of the objects by the hashes of their templates.
	Names map[string]string
}

// Collisions is how many names of the template of the spec were taken.
func (b *Book) Collisions() int32 { return b.plan.Collisions }

// Deletes reports whether something is to be deleted.
func (b *Book) Deletes() bool { return len(b.plan.Delete) > 0 }

// Read reads the ControllerRevisions of the namespace, and decides. Live are the hashes that replicas have.
func (k Keeper) Read(ctx context.Context, owner *v1alpha1.StatefulCluster, from *blueprint.Blueprint, live map[string]bool) (*Book, error) {
	var list appsv1.ControllerRevisionList
	if err := k.Live.List(ctx, &list, client.InNamespace(owner.Namespace)); err != nil {
		return nil, fmt.Errorf("list revisions of statefulcluster %s: %w", owner.Name, err)
	}
	b := &Book{owner: owner, from: from, byName: map[string]*appsv1.ControllerRevision{}, Names: map[string]string{}}
	in := from.History()
	in.Live = live
	for i := range list.Items {
		r := &list.Items[i]
		one := history.Revision{Name: r.Name, Number: r.Revision, Owner: ownership(owner, r)}
		one.Hash, one.Template = blueprint.Recall(r.Data)
		in.Revisions = append(in.Revisions, one)
		b.byName[r.Name] = r
	}
	b.plan = history.Decide(in)
	for _, r := range in.Revisions {
		if r.Owner != history.Others && r.Hash != "" && !slices.Contains(b.plan.Delete, r.Name) {
			b.Names[r.Hash] = r.Name
		}
	}
	b.Names[in.Hash] = b.plan.Name
	return b, nil
}

// ownership says whose a revision is. One that is being deleted is nobody's any more, and has its name until it is gone.
func ownership(owner *v1alpha1.StatefulCluster, r *appsv1.ControllerRevision) history.Ownership {
	controller := metav1.GetControllerOf(r)
	switch {
	case !r.DeletionTimestamp.IsZero():
		return history.Others
	case controller != nil && controller.UID == owner.UID:
		return history.Ours
	case controller == nil && r.Labels[v1alpha1.LabelStatefulCluster] == owner.Name:
		return history.Nobodys
	}
	return history.Others
}

// Write carries out what was decided. It can be killed anywhere: what is left is decided again.
func (k Keeper) Write(ctx context.Context, b *Book) error {
	var errs []error
	for _, name := range b.plan.Adopt {
		_, err := kube.Patch(ctx, k.Client, b.byName[name], func(r *appsv1.ControllerRevision) {
			r.OwnerReferences = append(r.OwnerReferences, b.from.Owner())
		})
		errs = append(errs, client.IgnoreNotFound(err))
	}
	switch {
	case b.plan.Create:
		errs = append(errs, k.create(ctx, b))
	case b.plan.Renumber:
		_, err := kube.Patch(ctx, k.Client, b.byName[b.plan.Name], func(r *appsv1.ControllerRevision) { r.Revision = b.plan.Number })
		errs = append(errs, err)
	}
	// The template of now is written before others go.
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, name := range b.plan.Delete {
		errs = append(errs, kube.DeleteUnchanged(ctx, k.Client, b.byName[name]))
	}
	return errors.Join(errs...)
}

func (k Keeper) create(ctx context.Context, b *Book) error {
	r := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.owner.Namespace, Name: b.plan.Name, OwnerReferences: []metav1.OwnerReference{b.from.Owner()},
			Labels: map[string]string{v1alpha1.LabelStatefulCluster: b.owner.Name, appsv1.ControllerRevisionHashLabelKey: b.from.Revision},
		},
		Data: b.from.Remember(), Revision: b.plan.Number,
	}
	if err := k.Client.Create(ctx, r, kube.FieldOwner); err != nil {
		return fmt.Errorf("create revision %s: %w", r.Name, err)
	}
	return nil
}
