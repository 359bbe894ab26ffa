package statefulcluster

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// confirm observes again, at the API server itself: what a person took back a moment ago does not count, and what came back is not given up. It returns
// true when what is wanted has changed and the cache has to catch up first.
func (r *Reconciler) confirm(ctx context.Context, s *scope) (again bool, err error) {
	s.confirmed = true
	live := &v1alpha1.StatefulCluster{}
	err = r.Live.Get(ctx, client.ObjectKeyFromObject(s.before), live)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		s.blind = true
		return false, fmt.Errorf("get statefulcluster %s: %w", s.before.Name, err)
	case !same(s.before, live):
		return true, nil
	}
	if err := r.observe(ctx, s); err != nil {
		s.blind = true
		return false, err
	}
	return false, nil
}

// same reports whether two looks at a StatefulCluster want the same.
func same(a, b *v1alpha1.StatefulCluster) bool {
	return a.UID == b.UID && a.Generation == b.Generation && b.DeletionTimestamp.IsZero() && maps.Equal(a.Annotations, b.Annotations)
}

// reader reads what is watched anyway: from a cache, and before something is done from the API server itself.
func (r *Reconciler) reader(s *scope, cache client.Reader) client.Reader {
	if s.confirmed {
		return r.Live
	}
	return cache
}
