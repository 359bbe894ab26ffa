package cluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// writeStatus computes the status from the scope and writes it when it changed.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.blind {
		return nil
	}
	after := s.cluster.DeepCopy()
	s.fill(&after.Status)
	recordMembers(after)
	recordPools(after.Name, s.hosts)
	if equality.Semantic.DeepEqual(s.before.Status, after.Status) {
		return nil
	}
	base := after.DeepCopy()
	base.Status = s.before.Status
	written := after.DeepCopy()
	err := r.Client.Status().Patch(ctx, written, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return client.IgnoreNotFound(wrap(err, "patch status"))
	}
	r.announce(s.before, after)
	return nil
}

func (s *scope) fill(status *v1alpha1.ClusterStatus) {
	status.ObservedGeneration = s.cluster.Generation
	if s.notSupported {
		conditions := health.Unsupported(s.cluster.Spec.StorageType)
		s.setConditions(status, conditions)
		status.Phase, status.Message = v1alpha1.PhaseFailed, conditions[0].Message
		return
	}
	c := health.Cluster{
		Name: s.cluster.Name, Deleting: s.deleting(), Hosts: s.hosts, Class: s.class, Plan: s.verdict.Plan, Blocked: s.blocked,
		Driver: s.driver,
	}
	s.setConditions(status, c.Conditions())
	status.Phase, status.Message = c.Phase(), c.Message()
	status.Config, status.Members, status.Capacity = c.Config(), c.Members(), c.Capacity()
	status.Plan = s.verdict.Plan
	status.HostCount, status.DeviceCount = int32(len(status.Members)), 0
	for _, h := range status.Config {
		status.DeviceCount += int32(len(h.BlockDevices))
	}
}

func (s *scope) setConditions(status *v1alpha1.ClusterStatus, conditions []metav1.Condition) {
	for _, c := range conditions {
		c.ObservedGeneration = s.cluster.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
