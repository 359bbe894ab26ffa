package storage

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// approve turns an approval of the whole plan into approvals of the plans of the Members, and of the steps of the whole. An approval that
// fits no plan is told and dropped, unless a host does not report: its steps are not known then.
func (r *Reconciler) approve(ctx context.Context, s *scope) error {
	approval := s.storage.GetAnnotations()[v1alpha1.AnnotationApprove]
	whole := s.verdict.Plan
	if approval == "" || s.verdict.UsedUp || s.verdict.Picked || whole != nil && whole.Approved {
		return nil
	}
	if !s.approves(approval) {
		if s.silent() {
			return nil
		}
		s.notes = append(s.notes, notice.Dropped(approval, s.owner.Kind+" "+s.owner.Name, s.plan))
		return r.setApproval(ctx, s, "")
	}
	for i := range s.hosts {
		h := &s.hosts[i]
		if !h.Verdict.Waiting() || h.Object == nil {
			continue
		}
		if err := r.stamp(ctx, s, h, approval); err != nil {
			// Were steps to run now, the plan would not be the approved one any more, and the other Members would get no approval.
			s.unstamped = true
			return s.fail(h, err)
		}
	}
	rest := ""
	if s.verdict.Waiting() {
		rest = whole.Digest
	}
	err := r.setApproval(ctx, s, rest)
	s.unstamped = err != nil
	s.assess()
	return err
}

// stamp approves the plan of a Member, as a part of an approval on the storage. A Member that is gone needs no approval.
func (r *Reconciler) stamp(ctx context.Context, s *scope, h *backend.HostHealth, approval string) error {
	digest := h.Verdict.Plan.Digest
	s.approvals[h.Node] = digest
	_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprove, digest)
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, v1alpha1.AnnotationApprovedWith, approval)
	})
	return client.IgnoreNotFound(err)
}

// silent reports whether a host with a plan does not report, or nobody can say yet.
func (s *scope) silent() bool {
	for _, h := range s.hosts {
		if h.Facts.TooEarly || h.Object != nil && (!h.Facts.Up && h.Object.Status.Plan != nil || s.veiled(h)) {
			return true
		}
	}
	return s.whole.Silent
}

// approves reports whether an approval is that of the whole plan, or of what the whole plan was before a controller died while it passed
// this approval on.
func (s *scope) approves(approval string) bool {
	if s.plan == nil {
		return false
	}
	if approval == s.plan.Digest {
		return true
	}
	all := []backend.MemberPlan{{Plan: s.verdict.Plan}}
	for _, h := range s.hosts {
		p := h.Verdict.Plan
		if p == nil || p.Approved && h.Object.Annotations[v1alpha1.AnnotationApprovedWith] != approval {
			continue
		}
		p = p.DeepCopy()
		p.Approved = false
		all = append(all, backend.MemberPlan{Node: h.Node, Plan: p})
	}
	whole := backend.Combine(all)
	return whole != nil && whole.Digest == approval
}

// setApproval changes the approval on the storage; an empty one removes it.
func (r *Reconciler) setApproval(ctx context.Context, s *scope, digest string) error {
	_, err := kube.Patch(ctx, r.Client, s.storage, func(o v1alpha1.Storage) { annotate(o, digest, v1alpha1.AnnotationApprove) })
	return err
}

// annotate sets annotations to a value, or removes them when it is empty.
func annotate(o metav1.Object, value string, keys ...string) {
	all := map[string]string{}
	for k, v := range o.GetAnnotations() {
		all[k] = v
	}
	for _, k := range keys {
		delete(all, k)
		if value != "" {
			all[k] = value
		}
	}
	o.SetAnnotations(all)
}

// useUp removes approvals that were carried out, so that they never serve for another plan, and drops those that fit none. A status forgets
// the plan after that only: what is left of an approval is known by it.
func (r *Reconciler) useUp(ctx context.Context, s *scope) error {
	var errs []error
	for i := range s.hosts {
		h := &s.hosts[i]
		if h.Object == nil || !h.Verdict.UsedUp && !h.Verdict.Dropped {
			continue
		}
		// A plan that was begun in this pass may be over before any status showed it.
		if approval := h.Object.Annotations[v1alpha1.AnnotationApprove]; h.Verdict.Dropped && s.carried[h.Node] != approval {
			s.notes = append(s.notes, notice.Dropped(approval, "Member "+h.Object.Name, h.Verdict.Plan))
		}
		_, err := kube.Patch(ctx, r.Client, h.Object, func(m *v1alpha1.Member) {
			annotate(m, "", v1alpha1.AnnotationApprove, v1alpha1.AnnotationApprovedWith)
		})
		if err = client.IgnoreNotFound(err); err != nil {
			h.Verdict.Plan = h.Object.Status.Plan
			errs = append(errs, err)
		}
	}
	if s.verdict.UsedUp {
		if approval := s.storage.GetAnnotations()[v1alpha1.AnnotationApprove]; s.verdict.Over && approval != "" {
			s.notes = append(s.notes, notice.Over(approval, s.owner.Kind+" "+s.owner.Name))
		}
		if err := r.setApproval(ctx, s, ""); err != nil {
			s.plan = s.before.StorageStatus().Plan
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
