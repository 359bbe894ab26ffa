package storage

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/storage/metric"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
)

// again looks at the backend once more and decides anew.
func (r *Reconciler) again(ctx context.Context, s *scope) error {
	if err := r.look(ctx, s); err != nil {
		return err
	}
	s.running = r.Work.Running(s.owner)
	s.assess()
	return nil
}

// work writes the records that come before steps, performs the steps that may run, all hosts at the same time, and looks at the result.
// Hosts that take long go on after the reconcile, and report when they are done.
func (r *Reconciler) work(ctx context.Context, s *scope) error {
	if s.blocked != "" || s.unstamped {
		return nil
	}
	jobs, errs := r.prepare(ctx, s)
	s.note(r.Work.Run(ctx, s.backend, s.owner, jobs), jobs)
	// What the hosts returned is known now: decide once more, so that the statuses show it.
	if err := r.again(ctx, s); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		if want := h.Decided.Record; want != nil && want.UUID != "" {
			errs = append(errs, s.fail(h, r.record(ctx, h)))
		}
	}
	return errors.Join(append(errs, r.useUp(ctx, s))...)
}

// prepare returns the steps that may run now, by host. What is recorded of a group is written ahead of the steps that make it; a host
// whose record could not be written does nothing.
func (r *Reconciler) prepare(ctx context.Context, s *scope) (map[string][]backend.Step, []error) {
	jobs, errs := map[string][]backend.Step{}, []error(nil)
	for i := range s.hosts {
		h := &s.hosts[i]
		want := h.Decided.Record
		run := h.Verdict.Run
		if h.Held != "" {
			run = nil
		}
		if want != nil && (want.UUID != "" || len(run) > 0) {
			if err := s.fail(h, r.record(ctx, h)); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		if len(run) == 0 || want != nil && !equality.Semantic.DeepEqual(h.Object.Spec.Group, want) {
			continue
		}
		jobs[h.Node] = run
		if p := h.Verdict.Plan; p != nil && p.Approved {
			s.carried[h.Node] = p.Digest
		}
	}
	s.addWhole(jobs)
	return jobs, errs
}

// addWhole adds the steps of the whole storage to those of the hosts that they run on. A host that is quiesced, or for which a write to the
// API server failed in this pass, runs none.
func (s *scope) addWhole(jobs map[string][]backend.Step) {
	for host, steps := range backend.ByHost(s.verdict.Run) {
		h := s.host(host)
		if s.troubles[host] != nil || h != nil && h.Flags.ShouldQuiesce() && !h.Flags.ShouldDestroy() {
			continue
		}
		jobs[host] = append(jobs[host], steps...)
	}
}

// note takes in what became of the jobs.
func (s *scope) note(outcomes map[string]work.Outcome, jobs map[string][]backend.Step) {
	for name, o := range outcomes {
		s.within(o.RetryIn)
		if o.Failure.Reason != "" {
			s.failures[name] = o.Failure
		}
		if o.Finished {
			metric.Steps(jobs[name])
		}
	}
}
