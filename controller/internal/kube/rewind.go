package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// rewindPause is the time between two renewals. A restore of a backup that is younger than this may stay unnoticed.
	rewindPause = 10 * time.Second
	// rewindRetry is the pause after a renewal that failed, as while the API server is down.
	rewindRetry = 2 * time.Second
	// rewindTimeout bounds one look.
	rewindTimeout = 5 * time.Second
	// rewindPrefix and the name of the pod name the Lease of a process. The policy quarry-csi-leases knows it.
	rewindPrefix = "process-"
)

// ErrRewound is returned by Rewind.Start.
var ErrRewound = errors.New("the API server has gone back to an earlier state, as after the restore of a backup: this process knows objects that do not exist, and begins anew")

// Rewind ends a process once the API server knows less than the process does. Its caches would show objects that do not exist, and none of the changes that are
// made from then on: a watch from a resource version that is not there yet just waits. The process renews a Lease that nobody else writes. A store that lacks the last
// renewal was restored from before it, however far it has come since. Rewind is a Runnable of a manager, in every replica: its error ends the manager.
type Rewind struct {
	// Live reads and writes past the cache.
	Live client.Client
	// Namespace and Pod that the process runs in. Without a Pod nothing is looked at.
	Namespace, Pod string
	// pause and retry are shorter in tests.
	pause, retry time.Duration
	// identity tells this process from an earlier one of the same pod.
	identity string
	// written is the Lease as the API server confirmed it last; nil before the first time.
	written *coordinationv1.Lease
}

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=quarry-system,resources=leases,verbs=get;create;update

// NeedLeaderElection makes it run in replicas that wait to lead, too: they have caches.
func (*Rewind) NeedLeaderElection() bool { return false }

// Start renews until the context ends, or returns ErrRewound.
func (r *Rewind) Start(ctx context.Context) error {
	if r.Pod == "" {
		<-ctx.Done()
		return nil
	}
	if r.pause == 0 {
		r.pause, r.retry = rewindPause, rewindRetry
	}
	r.identity = string(uuid.NewUUID())
	told, late := false, false
	for {
		pause := r.pause
		switch err := r.look(ctx); {
		case errors.Is(err, ErrRewound):
			return err
		case err != nil:
			// An API server that is away says nothing, and the look at the one that comes back matters.
			pause = r.retry
			// Whoever refuses the Lease answers, and may have to be upgraded first.
			late = late || r.written == nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err)
			if r.written == nil && !told {
				told = true
				log.FromContext(ctx).Error(err, "Cannot make the Lease by which a restore of the API server is noticed", "lease", rewindPrefix+r.Pod)
			}
		case late:
			// Nobody looked since the caches were filled.
			return fmt.Errorf("%w (its Lease could not be made before)", ErrRewound)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// look renews the Lease, or makes it the first time. ErrRewound: the store lacks the last renewal. Any other error says nothing.
func (r *Rewind) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rewindTimeout)
	defer cancel()
	if r.written == nil {
		return r.begin(ctx)
	}
	next := r.written.DeepCopy()
	next.Spec.RenewTime = after(r.written.Spec.RenewTime)
	err := r.Live.Update(ctx, next)
	switch {
	case err == nil:
		r.written = next
		return nil
	case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
		return err
	}
	return r.compare(ctx)
}

// compare tells a store that lacks the last renewal from one that has a later one, whose confirmation was lost.
func (r *Rewind) compare(ctx context.Context) error {
	found := &coordinationv1.Lease{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(r.written), found)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	last := r.written.Spec.RenewTime
	switch {
	case err != nil:
		return fmt.Errorf("%w (the Lease %s, renewed last at %s, is not there)", ErrRewound, r.written.Name, last)
	case found.UID != r.written.UID || !r.holds(found) || found.Spec.RenewTime == nil || found.Spec.RenewTime.Before(last):
		return fmt.Errorf("%w (the Lease %s was renewed last at %s, which is not in it)", ErrRewound, r.written.Name, last)
	}
	r.written = found
	return nil
}

// begin makes the Lease of this pod, or takes over the one of an earlier process of it. It goes with the pod.
func (r *Rewind) begin(ctx context.Context) error {
	pod := &corev1.Pod{}
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Pod}, pod); err != nil {
		return err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: rewindPrefix + r.Pod}}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &r.identity, RenewTime: after(lease.Spec.RenewTime)}
	if err != nil {
		err = r.Live.Create(ctx, lease)
	} else {
		err = r.Live.Update(ctx, lease)
	}
	if err != nil {
		return err
	}
	r.written = lease
	return nil
}

// holds reports whether this process wrote the Lease last.
func (r *Rewind) holds(l *coordinationv1.Lease) bool {
	return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == r.identity
}

// after returns the present time, or a moment after the last one where the clock was set back.
func after(last *metav1.MicroTime) *metav1.MicroTime {
	now := metav1.NowMicro()
	if last != nil && !last.Before(&now) {
		now = metav1.NewMicroTime(last.Add(time.Microsecond))
	}
	return &now
}
