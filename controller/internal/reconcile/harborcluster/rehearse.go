package harborcluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

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
		// Objects from builders are maps, lists, strings, numbers and booleans: all of them can be written as JSON.
		_ = json.NewEncoder(hash).Encode(c.Object.Object)
	}
	return [sha256.Size]byte(hash.Sum(nil))
}
