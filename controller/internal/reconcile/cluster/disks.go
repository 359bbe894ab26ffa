package cluster

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// workDisks performs the steps that may run, all hosts at the same time, and looks at the result. Hosts that take long go on
// after the reconcile, and report when they are done.
func (r *Reconciler) workDisks(ctx context.Context, s *scope) error {
	if s.blocked != "" {
		return nil
	}
	jobs := byHost(s.verdict.Run)
	s.note(r.Work.Run(ctx, s.cluster.Name, jobs), jobs)
	// What the agents answered is known now: decide once more, so that the status shows it.
	s.cluster.Status.Plan = s.verdict.Plan
	s.running = r.Work.Running(s.cluster.Name)
	s.assess(r.Agents)
	if err := r.useUp(ctx, s); err != nil {
		return err
	}
	if s.deleting() {
		return nil
	}
	return r.unlabelHosts(ctx, s)
}

// note takes in what became of the jobs.
func (s *scope) note(outcomes map[string]outcome, jobs map[string][]decide.Step) {
	for name, o := range outcomes {
		s.within(o.retryIn)
		if o.failure.reason != "" {
			s.failures[name] = o.failure
		}
		if o.finished {
			recordSteps(jobs[name])
			s.done[name] = tearsDown(jobs[name])
		}
	}
}

func tearsDown(steps []decide.Step) bool {
	return len(steps) > 0 && steps[len(steps)-1].Action == v1alpha1.ActionRemoveVolumeGroup
}

// useUp removes an approval that was carried out, so that it never serves for another plan. This happens before the status forgets
// the plan: were it the other way round, a crash in between would leave the approval behind for good.
func (r *Reconciler) useUp(ctx context.Context, s *scope) error {
	if !s.verdict.UsedUp {
		return nil
	}
	before := s.cluster.DeepCopy()
	delete(s.cluster.Annotations, v1alpha1.AnnotationApprove)
	status := s.cluster.Status
	if err := r.Client.Patch(ctx, s.cluster, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("remove used approval: %w", err)
	}
	s.cluster.Status = status
	return nil
}

// byHost keeps the order of the steps of every host.
func byHost(steps []decide.Step) map[string][]decide.Step {
	jobs := map[string][]decide.Step{}
	for _, s := range steps {
		jobs[s.Host] = append(jobs[s.Host], s)
	}
	return jobs
}
