package ceph

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// passing is an error that the next look takes in.
func passing(format string, args ...any) error {
	return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: true, Err: fmt.Errorf(format, args...)}
}

// cluster reads the Cluster of a step from the API server itself.
func (b *Backend) cluster(ctx context.Context, s view.Step) (*v1alpha1.Cluster, error) {
	c := &v1alpha1.Cluster{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: s.Cluster}, c); err != nil {
		return nil, fmt.Errorf("get cluster %s: %w", s.Cluster, err)
	}
	if string(c.UID) != s.UID {
		return nil, passing("cluster %s was replaced", s.Cluster)
	}
	return c, nil
}

// note writes the record of the Cluster itself, unless somebody else changes it at the same time.
func (b *Backend) note(ctx context.Context, s view.Step, annotation, value string) error {
	c, err := b.cluster(ctx, s)
	if err != nil {
		return err
	}
	_, err = kube.Patch(ctx, b.Client, c, func(c *v1alpha1.Cluster) {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[annotation] = value
	})
	return err
}

// member changes what is on record of a Member. change returns an error if the record is not what the step was decided on.
func (b *Backend) member(ctx context.Context, s view.Step, change func(*v1alpha1.MemberCeph) error) error {
	m := &v1alpha1.Member{}
	if err := b.Live.Get(ctx, types.NamespacedName{Name: s.Member}, m); err != nil {
		return fmt.Errorf("get member %s: %w", s.Member, err)
	}
	if string(m.Spec.Of.UID) != s.UID {
		return passing("member %s was replaced", s.Member)
	}
	want := &v1alpha1.MemberCeph{}
	if m.Spec.Ceph != nil {
		want = m.Spec.Ceph.DeepCopy()
	}
	if err := change(want); err != nil {
		return err
	}
	_, err := kube.Patch(ctx, b.Client, m, func(m *v1alpha1.Member) { m.Spec.Ceph = want })
	return err
}

// osd changes the record of one OSD.
func (b *Backend) osd(ctx context.Context, s view.Step, change func(*v1alpha1.MemberOSD)) error {
	return b.osdIf(ctx, s, func(o *v1alpha1.MemberOSD) error { change(o); return nil })
}

// osdIf changes the record of one OSD, unless change returns an error.
func (b *Backend) osdIf(ctx context.Context, s view.Step, change func(*v1alpha1.MemberOSD) error) error {
	return b.member(ctx, s, func(r *v1alpha1.MemberCeph) error {
		i := slices.IndexFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == s.Ceph.UUID })
		if i < 0 {
			return passing("OSD %s is not on record any more", s.Ceph.UUID)
		}
		return change(&r.OSDs[i])
	})
}

// kept returns an error if the API server dropped a field of a record that was just written: its definition of Members is that of an earlier version.
func kept(is bool, field string) error {
	if is {
		return nil
	}
	return fmt.Errorf("the API server does not keep the field %s of the record: its definition of Members is of an earlier version. Run: kubectl apply --server-side -k deploy/crd", field)
}

// failed says why a step failed.
func failed(err error) error {
	var e *backend.StepError
	if errors.As(err, &e) {
		return e
	}
	busy := apierrors.IsConflict(err) || apierrors.IsNotFound(err)
	return &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Passing: busy || isPassing(err), Err: err}
}
