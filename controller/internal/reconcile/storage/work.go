package storage

import (
	"context"
	"errors"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage/metric"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
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

// approve turns an approval of the whole plan into approvals of the plans of the Members. An approval that fits no plan is told and
// dropped, unless a host does not report: its steps are not known then.
func (r *Reconciler) approve(ctx context.Context, s *scope) error {
	approval := s.storage.GetAnnotations()[v1alpha1.AnnotationApprove]
	if approval == "" {
		return nil
	}
	if !s.approves(approval) {
		for _, h := range s.hosts {
			if h.Facts.TooEarly || h.Object != nil && !h.Facts.Up && h.Object.Status.Plan != nil {
				return nil
			}
		}
		s.notes = append(s.notes, notice.Dropped(approval, s.owner.Kind+" "+s.owner.Name, s.plan))
		return r.dropApproval(ctx, s)
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Verdict.Waiting() || h.Object == nil {
			continue
		}
		digest := h.Verdict.Plan.Digest
		s.approvals[h.Node] = digest
		_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprove, digest)
		})
		if client.IgnoreNotFound(err) != nil {
			// Were steps to run now, the plan would not be the approved one any more, and the other Members would get no approval.
			s.unstamped = true
			return s.fail(h, err)
		}
	}
	err := r.dropApproval(ctx, s)
	s.assess()
	return err
}

// approves reports whether an approval is that of the whole plan, or of what the whole plan was before a controller died while it passed
// the approval on.
func (s *scope) approves(approval string) bool {
	if s.plan == nil {
		return false
	}
	if approval == s.plan.Digest {
		return true
	}
	var all []backend.MemberPlan
	for _, h := range s.hosts {
		if p := h.Verdict.Plan; p != nil {
			p = p.DeepCopy()
			p.Approved = false
			all = append(all, backend.MemberPlan{Node: h.Node, Plan: p})
		}
	}
	whole := backend.Combine(all)
	return whole != nil && whole.Digest == approval
}

func (r *Reconciler) dropApproval(ctx context.Context, s *scope) error {
	_, err := kube.Patch(ctx, r.Client, s.storage, func(o v1alpha1.Storage) {
		a := maps.Clone(o.GetAnnotations())
		delete(a, v1alpha1.AnnotationApprove)
		o.SetAnnotations(a)
	})
	return err
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
	}
	for host, steps := range backend.ByHost(s.whole.Steps) {
		jobs[host] = append(jobs[host], steps...)
	}
	return jobs, errs
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

// useUp removes approvals that were carried out, so that they never serve for another plan, and drops those that fit none. This happens
// before a status forgets the plan: were it the other way round, a crash in between would leave the approval behind for good.
func (r *Reconciler) useUp(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object == nil || !h.Verdict.UsedUp && !h.Verdict.Dropped {
			continue
		}
		if h.Verdict.Dropped {
			s.notes = append(s.notes, notice.Dropped(h.Object.Annotations[v1alpha1.AnnotationApprove], "Member "+h.Object.Name, h.Verdict.Plan))
		}
		_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) { delete(m.Annotations, v1alpha1.AnnotationApprove) })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
