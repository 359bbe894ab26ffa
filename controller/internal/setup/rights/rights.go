// Package rights finds out at the start whether the controller has the rights that have a ClusterRole of their own. Without this look an informer
// without its right would keep the whole controller waiting, for minutes and without a word of what to do.
package rights

import (
	"context"
	"errors"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Role is a ClusterRole that a controller needs for all namespaces.
type Role struct {
	// Name of the ClusterRole, Controller that needs it, as --controllers= names it.
	Name, Controller string
	// Reads are the resources that the controller keeps in memory: it lists and watches them.
	Reads []Resource
}

// Resource is what a right is about.
type Resource struct{ Group, Name string }

// Patience is how long a right may be missing: the role may have been bound a moment ago.
const (
	Patience = 10 * time.Second
	pause    = 500 * time.Millisecond
)

// ErrMissing is the error of a role that is not bound.
var ErrMissing = errors.New("a ClusterRole is not bound to the controller")

// Check returns an error that names what is missing of a role, and what a person does about it. What the API server does not tell is no error: the
// informers find out.
func Check(ctx context.Context, c client.Client, r Role, patience time.Duration) error {
	var missing string
	var unknown error
	// The end of the patience is no error: what the last look found counts.
	_ = wait.PollUntilContextTimeout(ctx, pause, patience, true, func(ctx context.Context) (bool, error) {
		found, err := missingOf(ctx, c, r)
		if unknown = err; err == nil {
			missing = found
		}
		return err == nil && found == "", nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case missing != "":
		return fmt.Errorf("%w: it may not %s in all namespaces; bind the ClusterRole %s, as deploy/rbac does, or switch the controller off with --controllers=*,-%s",
			ErrMissing, missing, r.Name, r.Controller)
	case unknown != nil:
		logf.FromContext(ctx).Info("Rights could not be asked for", "clusterRole", r.Name, "error", unknown.Error())
	}
	return nil
}

// missingOf returns the first right that a role should give and that is not there; empty when all are.
func missingOf(ctx context.Context, c client.Client, r Role) (string, error) {
	for _, what := range r.Reads {
		for _, verb := range []string{"list", "watch"} {
			review := &authorizationv1.SelfSubjectAccessReview{}
			review.Spec.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: verb, Group: what.Group, Resource: what.Name}
			if err := c.Create(ctx, review); err != nil {
				return "", fmt.Errorf("ask for the right to %s %s: %w", verb, what.Name, err)
			}
			if !review.Status.Allowed {
				return verb + " " + what.Name, nil
			}
		}
	}
	return "", nil
}
