package harborcluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// child is what there is of one child.
type child struct {
	// object as the API server has it; nil when there is none that can be used.
	object *unstructured.Unstructured
	// created is true when it was made just now.
	created bool
	// obstacle says why there is no object.
	obstacle harbor.State
}

// ensure brings a child to its desired values and returns it as it is then. Without touch it only looks.
func (r *Reconciler) ensure(ctx context.Context, s *scope, want *unstructured.Unstructured, touch bool) (child, error) {
	have, err := r.look(ctx, s, want)
	switch {
	case err != nil || have.obstacle.Status != "":
		return have, err
	case !touch && have.object == nil:
		return child{obstacle: harbor.Pending(v1alpha1.ReasonHarborWaiting, describe(want)+" does not exist yet.")}, nil
	case !touch:
		return have, nil
	}
	harbor.Keep(s.cluster, want, have.object)
	all, _ := r.applied.LoadOrStore(client.ObjectKeyFromObject(s.cluster), &sync.Map{})
	last, kind := all.(*sync.Map), want.GroupVersionKind()
	now := application{definition: r.definitions.version(kind), content: digest(want)}
	if have.object != nil {
		now.uid, now.version = have.object.GetUID(), have.object.GetResourceVersion()
		if then, ok := last.Load(kind.String() + " " + want.GetName()); ok && then == now {
			return have, nil
		}
	}
	if err := kube.ApplyChild(ctx, r.Client, want, have.object); err != nil {
		return child{}, err
	}
	now.uid, now.version = want.GetUID(), want.GetResourceVersion()
	last.Store(kind.String()+" "+want.GetName(), now)
	return child{object: want, created: have.object == nil}, nil
}

// application is what was applied last to a child, and what the child and its definition were then. To apply the same to a child that nobody changed since changes
// nothing, unless the definition has fields by now that it dropped before.
type application struct {
	uid                 types.UID
	version, definition string
	content             [sha256.Size]byte
}

// digest tells apart what builders make. That is maps, lists, strings, numbers and booleans: all of them can be written as JSON.
func digest(o *unstructured.Unstructured) [sha256.Size]byte {
	hash := sha256.New()
	_ = json.NewEncoder(hash).Encode(o.Object)
	return [sha256.Size]byte(hash.Sum(nil))
}

// look finds the child of the given kind and name; no object when there is none.
func (r *Reconciler) look(ctx context.Context, s *scope, want *unstructured.Unstructured) (child, error) {
	kind := want.GroupVersionKind()
	if _, missing, err := r.installed(ctx, kind); err != nil || missing.Status != "" {
		return child{obstacle: missing}, err
	}
	have := &unstructured.Unstructured{}
	have.SetGroupVersionKind(kind)
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), have)
	switch {
	case apierrors.IsNotFound(err):
		return child{}, nil
	case err != nil:
		return child{}, fmt.Errorf("get %s %s: %w", kind.Kind, want.GetName(), err)
	case !harbor.Ours(s.cluster, have):
		return child{obstacle: harbor.Failed(v1alpha1.ReasonNameConflict,
			describe(want)+" exists and was not made for this HarborCluster: it is left alone. Rename one of them.")}, nil
	case have.GetDeletionTimestamp() != nil:
		return child{obstacle: harbor.Pending(v1alpha1.ReasonHarborChildDeleting,
			describe(want)+" is being deleted; it is made again afterwards.")}, nil
	}
	return child{object: have}, nil
}

// remove deletes a child of ours, if there is one.
func (r *Reconciler) remove(ctx context.Context, s *scope, o *unstructured.Unstructured) error {
	have, err := r.look(ctx, s, o)
	if err != nil || have.object == nil {
		return err
	}
	if err := kube.Delete(ctx, r.Client, have.object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	logf.FromContext(ctx).Info("Removed child", "kind", o.GetKind(), "name", o.GetName())
	return nil
}

// mine returns an object that was made for this HarborCluster; nil when there is none.
func (r *Reconciler) mine(ctx context.Context, s *scope, ref *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	have := ref.DeepCopy()
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(ref), have)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		// Objects of a kind go before its definition does.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get %s %s: %w", ref.GetKind(), ref.GetName(), err)
	case !harbor.Ours(s.cluster, have):
		return nil, nil
	}
	return have, nil
}

// all returns those of the objects that were made for this HarborCluster.
func (r *Reconciler) all(ctx context.Context, s *scope, refs []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var there []*unstructured.Unstructured
	for _, ref := range refs {
		have, err := r.mine(ctx, s, ref)
		if err != nil {
			return nil, err
		}
		if have != nil {
			there = append(there, have)
		}
	}
	return there, nil
}

// drop deletes objects.
func (r *Reconciler) drop(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		if err := kube.Delete(ctx, r.Client, o, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return err
		}
		logf.FromContext(ctx).Info("Removed child", "kind", o.GetKind(), "name", o.GetName())
	}
	return nil
}

// describe names a child in a sentence.
func describe(o *unstructured.Unstructured) string { return "The " + o.GetKind() + " " + o.GetName() }

// rehearse asks whether every child would be taken, before the first is written. What is refused is a fault, so nothing is made or changed. What
// nobody has judged, because its operator is not installed or somebody cannot be asked, is left to its part.
func (r *Reconciler) rehearse(ctx context.Context, s *scope) error {
	if !s.act() {
		return nil
	}
	installed, judged := harbor.Installed{}, true
	for _, kind := range harbor.Operated(s.cluster) {
		schema, missing, err := r.installed(ctx, kind)
		if err != nil {
			// The part comes to the same error, and tells of it.
			judged = false
		} else if missing.Status == "" {
			installed[kind] = schema
		}
	}
	children, err := harbor.Children(s.cluster, installed)
	if err != nil {
		return err
	}
	key, mark := client.ObjectKeyFromObject(s.cluster), r.mark(s, children, installed)
	if passed, ok := r.rehearsed.Load(key); ok && passed == mark {
		return nil
	}
	for _, c := range children {
		if _, there := installed[c.Object.GroupVersionKind()]; !there && harbor.Definition(c.Object.GroupVersionKind()) != "" {
			continue
		}
		fault, ok := r.judge(ctx, s, c)
		judged = judged && ok
		if fault != nil {
			s.faults = append(s.faults, *fault)
			// Nobody says when a webhook or a quota changes its mind.
			s.again[c.Part] = true
		}
	}
	if judged && s.act() {
		r.rehearsed.Store(key, mark)
	}
	return nil
}

// judge asks about one child: the fault if it is refused, and whether anybody could judge it at all.
func (r *Reconciler) judge(ctx context.Context, s *scope, c harbor.Child) (fault *harbor.Fault, judged bool) {
	kind := c.Object.GroupVersionKind()
	have, err := r.look(ctx, s, c.Object)
	switch {
	case err != nil:
		return nil, false
	case have.obstacle.Status != "":
		// It is left alone, and its part says why.
		return nil, true
	case have.object != nil && (kind == harbor.JobKind || kind == harbor.SecretKind):
		// A Job is made again instead of changed, and of the Secrets only the names could be refused.
		return nil, true
	}
	harbor.Keep(s.cluster, c.Object, have.object)
	if f := harbor.CheckChild(c); f != nil {
		return f, true
	}
	err = kube.Rehearse(ctx, r.Client, c.Object)
	if !kube.Refused(err) {
		return nil, err == nil
	}
	return &harbor.Fault{Part: c.Part, Reason: v1alpha1.ReasonHarborChildRefused, Message: describe(c.Object) + " is refused: " + err.Error()}, true
}

// mark tells rehearsals apart: by the children, and by the definitions that they are judged by.
func (r *Reconciler) mark(s *scope, children []harbor.Child, installed harbor.Installed) [sha256.Size]byte {
	hash := sha256.New()
	for _, kind := range harbor.Operated(s.cluster) {
		_, there := installed[kind]
		fmt.Fprintln(hash, kind, there, r.definitions.version(kind))
	}
	for _, c := range children {
		content := digest(c.Object)
		hash.Write(content[:])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
