package kube

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// rewindPause is how often it is looked whether the API server was restored. Nothing tells: a watch from a resource version that is not there yet just
// waits.
const rewindPause = 10 * time.Second

// ErrRewound is returned by Rewind.Start.
var ErrRewound = errors.New("the API server has gone back to an earlier state, as after the restore of a backup: this process knows objects that do not exist, and begins anew")

// Rewind ends a process once the API server knows less than the process does. Its caches would show objects that do not exist, and none of the changes that are
// made from then on. It is a Runnable of a manager, in every replica: its error ends the manager.
type Rewind struct {
	// Live reads from the API server, past the cache.
	Live client.Reader
	// pause between two looks; rewindPause when it is 0.
	pause time.Duration
	// highest resource version that was seen.
	highest uint64
}

// NeedLeaderElection makes it run in replicas that wait to lead, too: they have caches.
func (*Rewind) NeedLeaderElection() bool { return false }

// Start looks until the context ends, or returns ErrRewound.
func (r *Rewind) Start(ctx context.Context) error {
	pause := r.pause
	if pause == 0 {
		pause = rewindPause
	}
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		if err := r.look(ctx); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// look asks for the present resource version: a list without one is as new as the store. Versions can be compared within one store since Kubernetes
// 1.35 (KEP-5504), and are etcd's revision. A failure says nothing, and neither does a version that is no number.
func (r *Rewind) look(ctx context.Context) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberList"))
	if r.Live.List(ctx, list, client.Limit(1)) != nil {
		return nil
	}
	now, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return nil
	}
	if now < r.highest {
		return fmt.Errorf("%w (resource version %d, and %d before)", ErrRewound, now, r.highest)
	}
	r.highest = now
	return nil
}
