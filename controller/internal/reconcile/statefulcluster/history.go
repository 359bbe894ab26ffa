package statefulcluster

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"

	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/statefulcluster/history"
)

// remembrance is what is known of the templates of before. What happens to replicas never depends on it.
type remembrance struct {
	// names of the ControllerRevisions by the hashes of templates; nil in a pass that did not look.
	names map[string]string
	// collisions are the names of the template of the spec that something else has.
	collisions int32
	// err is why the history could not be kept.
	err error
}

// keepHistory remembers the template of the spec, and forgets those that are beyond the limit. It fails without holding anything up: it is tried again in the
// next pass. It returns true when what is wanted has changed, and the cache has to catch up first.
func (r *Reconciler) keepHistory(ctx context.Context, s *scope) (again bool) {
	if !s.historyIsDue() {
		return false
	}
	keeper := history.Keeper{Client: r.Client, Live: r.Live}
	book, err := keeper.Read(ctx, s.cluster, s.plan, s.revisions())
	if err == nil && book.Deletes() && !s.confirmed {
		// A cache that is late may not know of a pod that has a template of before.
		if again, err := r.confirm(ctx, s); err != nil || again {
			s.history.err = err
			return again
		}
		book, err = keeper.Read(ctx, s.cluster, s.plan, s.revisions())
	}
	if err == nil {
		err = keeper.Write(ctx, book)
	}
	if err != nil {
		s.history.err = err
		return false
	}
	s.history.names, s.history.collisions = book.Names, book.Collisions()
	return false
}

// historyIsDue reports whether the spec or the templates of replicas may have changed since the history was kept.
func (s *scope) historyIsDue() bool {
	was := s.before.Status
	return was.ObservedGeneration != s.before.Generation || was.CurrentRevision != was.UpdateRevision ||
		s.hashOf(was.UpdateRevision) != s.plan.Revision || was.UpdateRevision == s.plan.Revision
}

// revisions returns the hashes of the templates that pods have, also those that are still to be adopted.
func (s *scope) revisions() map[string]bool {
	out := map[string]bool{}
	for _, p := range s.labelledPods {
		out[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	return out
}

// hashOf takes the hash of a template out of the name of its ControllerRevision. The status of earlier versions has the bare hash.
func (s *scope) hashOf(name string) string {
	hash, _, _ := strings.Cut(strings.TrimPrefix(name, s.cluster.Name+"-"), "-")
	return hash
}

// nameOf is the name of the ControllerRevision of a hash: the one that was found, or that was known before. It is the bare hash where none is known.
func (s *scope) nameOf(hash string) string {
	if name := s.history.names[hash]; name != "" {
		return name
	}
	if s.history.err == nil {
		for _, name := range []string{s.before.Status.UpdateRevision, s.before.Status.CurrentRevision} {
			if name != "" && s.hashOf(name) == hash {
				return name
			}
		}
	}
	return hash
}

// settleHistory says why the history is not kept. Missing rights are told, and tried again; replicas run on without it.
func (s *scope) settleHistory() error {
	if s.history.err == nil || !kube.Denied(s.history.err) {
		return s.history.err
	}
	if s.trouble.reason == "" {
		s.trouble = troubleOf("", s.history.err)
	}
	s.retryAfter = blockedPause
	return nil
}
