package kube

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstRetry is how soon an object is looked at again after an error, lastRetry how late at most. Within lastRetry every reconciler
	// sees what changed without an event, and notices that an error is over.
	firstRetry = 5 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Options returns the options of every controller: how many objects it looks at in parallel, and how soon it looks again after an error.
// The default of controller-runtime waits up to 1000 seconds, in which no clock of the object goes on.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
	}
}
