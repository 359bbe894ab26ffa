// Package witness keeps the object that tells how a HarborCluster is deleted. Who decides on its word is decide/harbor.
package witness

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// The rights are given everywhere, as those to HarborClusters: a namespace that is deleted may lose its RoleBindings first, and no witness may keep it then.
//
// +kubebuilder:rbac:groups=quarry.storage,resources=harborwitnesses,verbs=get;list;watch;create;patch;delete

// Keeper makes and removes witnesses.
type Keeper struct {
	Client client.Client
	// Live reads from the API server itself: what is decided on the word of a witness does not come back.
	Live client.Reader
	// Settled is how long after its definition was made a kind is known to Kubernetes' garbage collector.
	Settled time.Duration
}

// Settled is long enough: the garbage collector looks for new kinds every 30 seconds.
const Settled = 2 * time.Minute

// definition is the name of the CustomResourceDefinition of HarborWitnesses.
const definition = "harborwitnesses.quarry.storage"

// Known reports whether Kubernetes' garbage collector knew the kind of a witness when the deletion of its HarborCluster began. One of a kind that it does not know keeps its
// owner, whatever the deletion was.
func (k Keeper) Known(ctx context.Context, c *v1alpha1.HarborCluster, witness metav1.Object) (bool, error) {
	if _, ok := witness.(*v1alpha1.HarborWitness); !ok {
		return true, nil
	}
	made := kube.Definition()
	if err := k.Live.Get(ctx, types.NamespacedName{Name: definition}, made); err != nil {
		return false, fmt.Errorf("get customresourcedefinition %s: %w", definition, err)
	}
	return c.DeletionTimestamp.Sub(made.GetCreationTimestamp().Time) >= k.Settled, nil
}

// Vouch returns the UID of the witness that has a HarborCluster as its owner, and makes it if there is none. The error is a conflict if the HarborCluster is being
// deleted. A witness is never given an owner again: that could give a deletion another meaning. One without the owner, or with an earlier HarborCluster as its
// owner, is replaced.
func (k Keeper) Vouch(ctx context.Context, c *v1alpha1.HarborCluster) (types.UID, error) {
	have := &v1alpha1.HarborWitness{}
	switch err := k.Live.Get(ctx, client.ObjectKeyFromObject(c), have); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return "", fmt.Errorf("get harborwitness %s: %w", c.Name, err)
	case harbor.Vouches(c, have):
		return have.UID, nil
	default:
		// The deletion of this very HarborCluster may just have begun.
		if err := k.alive(ctx, c); err != nil {
			return "", err
		}
		if err := k.remove(ctx, have); err != nil {
			return "", err
		}
	}
	want := harbor.Witness(c)
	if err := k.Client.Create(ctx, want, kube.FieldOwner); err != nil {
		return "", fmt.Errorf("create harborwitness %s: %w", want.Name, err)
	}
	logf.FromContext(ctx).Info("Made witness", "name", want.Name)
	return want.UID, nil
}

// Recorded returns the witness whose UID is on record; nil if it is not there. A record of an earlier version names a Secret.
func (k Keeper) Recorded(ctx context.Context, c *v1alpha1.HarborCluster) (metav1.Object, error) {
	have := &v1alpha1.HarborWitness{}
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(c), have); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get harborwitness %s: %w", c.Name, err)
	} else if err == nil && have.UID == c.Status.Witness {
		return have, nil
	}
	earlier := harbor.EarlierWitness(c)
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(earlier), earlier); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get secret %s: %w", earlier.GetName(), err)
	} else if err == nil && earlier.GetUID() == c.Status.Witness {
		return earlier, nil
	}
	return nil, nil //nolint:nilnil // That there is none is no error.
}

// Succeed removes the witness of an earlier version, once the record names one of this version.
func (k Keeper) Succeed(ctx context.Context, c *v1alpha1.HarborCluster, before types.UID) error {
	earlier := harbor.EarlierWitness(c)
	err := k.Live.Get(ctx, client.ObjectKeyFromObject(earlier), earlier)
	if err != nil || earlier.GetUID() != before {
		return client.IgnoreNotFound(err)
	}
	return kube.Delete(ctx, k.Client, earlier)
}

// Dismiss removes the witness of a HarborCluster that is gone, or that has nothing of Quarry to wait for.
func (k Keeper) Dismiss(ctx context.Context, of types.NamespacedName) error {
	have := &v1alpha1.HarborWitness{}
	if err := k.Live.Get(ctx, of, have); err != nil {
		return client.IgnoreNotFound(err)
	}
	c := &v1alpha1.HarborCluster{}
	if err := k.Live.Get(ctx, of, c); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get harborcluster %s: %w", of.Name, err)
	} else if err == nil && (c.DeletionTimestamp.IsZero() || controllerutil.ContainsFinalizer(c, v1alpha1.FinalizerHarbor)) {
		// One that was made again under the name of before has this witness replaced, or speaks through it already.
		return nil
	}
	return k.remove(ctx, have)
}

// remove deletes the witness that was read, unless anybody changed it meanwhile, and takes its finalizer off after that.
func (k Keeper) remove(ctx context.Context, have *v1alpha1.HarborWitness) error {
	if err := kube.DeleteUnchanged(ctx, k.Client, have); err != nil {
		return err
	}
	left := &v1alpha1.HarborWitness{}
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(have), left); err != nil || left.UID != have.UID {
		return client.IgnoreNotFound(err)
	}
	return kube.RemoveFinalizer(ctx, k.Client, left, v1alpha1.FinalizerWitness)
}

// alive is an error unless the HarborCluster itself, and not what is cached of it, is without a deletion.
func (k Keeper) alive(ctx context.Context, c *v1alpha1.HarborCluster) error {
	now := &v1alpha1.HarborCluster{}
	if err := k.Live.Get(ctx, client.ObjectKeyFromObject(c), now); err != nil {
		return fmt.Errorf("get harborcluster %s: %w", c.Name, err)
	}
	if now.UID != c.UID || now.DeletionTimestamp != nil {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("harborclusters").GroupResource(), c.Name, errors.New("it is being deleted"))
	}
	return nil
}
