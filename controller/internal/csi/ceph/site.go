package ceph

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/subvolume"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// site is a Ceph cluster that answered, and was found to be the one that is meant.
type site struct {
	*subvolume.Client
	owner *v1alpha1.Cluster
	live  client.Reader
	tight *tight
}

func (s site) fsid() string { return s.owner.FSID() }

// clusters returns the Clusters with a Ceph cluster, by FSID. They must not be changed.
func (b *Backend) clusters(ctx context.Context) (map[string]*v1alpha1.Cluster, error) {
	var list v1alpha1.ClusterList
	if err := b.Reader.List(ctx, &list, &client.ListOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	out := map[string]*v1alpha1.Cluster{}
	for i := range list.Items {
		c := &list.Items[i]
		if have := out[c.FSID()]; c.Spec.StorageType == v1alpha1.StorageTypeCephFS && (have == nil || before(c, have)) {
			out[c.FSID()] = c
		}
	}
	return out, nil
}

// before reports whether a Cluster comes before another one that names the same Ceph cluster: the one that has it, whichever was made first, or else the one that was made first, or is first by name of two that were made in one second.
func before(c, other *v1alpha1.Cluster) bool {
	if has := noted.Has(c); has != noted.Has(other) {
		return has
	}
	return cmp.Or(c.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(c.Name, other.Name)) < 0
}

// site asks the Ceph cluster with an FSID who it is. Without a Cluster that has it nobody knows what became of its volumes.
func (b *Backend) site(ctx context.Context, fsid string) (site, error) {
	all, err := b.clusters(ctx)
	if err != nil {
		return site{}, err
	}
	owner := all[fsid]
	if owner == nil {
		return site{}, volume.Refuse(volume.Precondition, "no Cluster of type cephfs has the Ceph cluster %s: it is not known where its volumes are", fsid)
	}
	return b.open(ctx, owner)
}

func (b *Backend) open(ctx context.Context, owner *v1alpha1.Cluster) (site, error) {
	runner, err := b.Connect(ctx, owner.FSID())
	if err != nil {
		return site{}, unavailable(owner, err)
	}
	c, err := ceph.New(ceph.Config{Runner: runner, FSID: owner.FSID()})
	if err != nil {
		return site{}, err
	}
	volumes, err := subvolume.Open(ctx, c)
	if err != nil {
		return site{}, unavailable(owner, err)
	}
	return site{volumes, owner, b.Live, &b.tight}, nil
}

func unavailable(owner *v1alpha1.Cluster, err error) error {
	return volume.Refuse(volume.Unavailable, "the Ceph cluster of Cluster %s cannot be asked: %v", owner.Name, err)
}

// enospc and edquot are exit codes for too little room.
const (
	enospc = 28
	edquot = 122
)

// told gives an error of Ceph the meaning that it has for a volume. What could not be asked is UNAVAILABLE.
func told(err error) error {
	failed, isAnswer := errors.AsType[*ceph.Error](err)
	kind := volume.Kind(0)
	switch {
	case err == nil, is[*volume.Refusal](err), errors.Is(err, volume.ErrNotOurs):
		return err
	case errors.Is(err, subvolume.ErrAbsent):
		kind = volume.NotFound
	case errors.Is(err, subvolume.ErrBusy), errors.Is(err, subvolume.ErrExists):
		kind = volume.Unfinished
	case errors.Is(err, ceph.ErrUnreachable), errors.Is(err, ceph.ErrForeign), !isAnswer:
		kind = volume.Unavailable
	case failed.ExitCode == enospc || failed.ExitCode == edquot:
		kind = volume.Exhausted
	case errors.Is(err, ceph.ErrRefused):
		// Nobody knows what that means.
		return err
	default:
		// The filesystem or the group is missing, most of the time.
		kind = volume.Precondition
	}
	return volume.Refuse(kind, "%v", err)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// condition says what is wrong with all volumes of a Cluster, as it was seen last. The owner is nil where the Cluster is gone.
func condition(owner *v1alpha1.Cluster) volume.Condition {
	if owner == nil {
		return volume.Abnormal("the Cluster that the volume belongs to does not exist")
	}
	for _, t := range []string{v1alpha1.ConditionMonitorsReady, v1alpha1.ConditionFilesystemReady, v1alpha1.ConditionCephHealthy} {
		c := meta.FindStatusCondition(owner.Status.Conditions, t)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonCephWarning || c.Reason == v1alpha1.ReasonMonitorMissing {
			continue
		}
		return volume.Abnormal(c.Message)
	}
	return volume.Healthy()
}
