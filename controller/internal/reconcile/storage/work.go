package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage/metric"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// claimDeadline bounds the question whose the devices of a step are. With the two minutes of the step itself it is less than the time that others are left.
const claimDeadline = 10 * time.Second

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
		return r.protect(ctx, s)
	}
	jobs, errs := r.prepare(ctx, s)
	s.note(r.Work.Run(ctx, r.guard(s), s.owner, jobs))
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

// protect performs only what keeps data from harm: a storage whose deletion waits for its volumes still serves them.
func (r *Reconciler) protect(ctx context.Context, s *scope) error {
	jobs := map[work.Place][]backend.Step{}
	for _, step := range s.verdict.Run {
		if at := placeOf(step); at.Guard != "" {
			jobs[at] = append(jobs[at], step)
		}
	}
	if len(jobs) > 0 {
		s.note(r.Work.Run(ctx, r.guard(s), s.owner, jobs))
		s.assess()
	}
	return nil
}

// guarded performs the steps of a backend, and looks before each of them whether it may still be taken: a list of steps can take minutes,
// and somebody may want it to stop meanwhile. What it knows of the pass does not change any more.
type guarded struct {
	r     *Reconciler
	scope scope
	hosts map[string]backend.HostHealth
	// about is the storage, as events name it.
	about v1alpha1.Storage
}

func (r *Reconciler) guard(s *scope) guarded {
	g := guarded{r: r, scope: *s, hosts: map[string]backend.HostHealth{}, about: copyOf(s.storage)}
	for _, h := range s.hosts {
		if h.Object != nil {
			h.Object = h.Object.DeepCopy()
		}
		g.hosts[h.Node] = h
	}
	return g
}

// Perform performs the steps of one host, and counts and tells those that were performed, however long they took.
func (g guarded) Perform(ctx context.Context, host string, steps []backend.Step) (done int, err error) {
	taken, err := performed(ctx, steps, func(rest []backend.Step) (int, error) {
		return g.scope.backend.Perform(ctx, host, backend.Checked(rest, func(step backend.Step) error {
			err := g.check(ctx, host, step)
			if err == nil {
				return nil
			}
			return &backend.StepError{
				Reason: v1alpha1.ReasonStepFailed, Passing: true, Err: fmt.Errorf("%s on %s was not begun: %w", step.Action(), host, err),
			}
		}))
	})
	metric.Steps(taken)
	kube.Emit(g.r.Events, g.about, notice.Taken(taken)...)
	return len(taken), err
}

// performed has steps performed, and returns those that were. perform performs steps until one fails, and returns how many it performed. One that fails ends the others unless it is independent.
func performed(ctx context.Context, steps []backend.Step, perform func([]backend.Step) (int, error)) (taken []backend.Step, err error) {
	if !slices.ContainsFunc(steps, func(s backend.Step) bool { return !backend.IsIndependent(s) }) {
		// One that hangs until the time of the job is over holds up those after it, and not the same ones each time.
		steps = slices.Clone(steps)
		rand.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	var failed []error
	for rest := steps; len(rest) > 0; {
		done, err := perform(rest)
		done = min(max(done, 0), len(rest))
		if taken = append(taken, rest[:done]...); err == nil {
			break
		}
		failed = append(failed, err)
		if done == len(rest) || !backend.IsIndependent(rest[done]) || ctx.Err() != nil {
			break
		}
		rest = rest[done+1:]
	}
	return taken, backend.JoinErrors(failed)
}

// check says why a step may not be taken on a host any more, by what the API server itself says now; nil when it may. Whose the devices are is asked last: whoever puts one on record
// leaves steps that did not see the record a few minutes, from this question on.
func (g guarded) check(ctx context.Context, host string, step backend.Step) error {
	if err := g.holds(ctx, host, step); err != nil {
		return err
	}
	return g.unclaimed(ctx, step)
}

// holds says why what a step was decided on is not so any more. Whatever has begun to be removed since, or stopped being removed, is for the next pass to decide about.
func (g guarded) holds(ctx context.Context, host string, step backend.Step) error {
	s := g.scope
	owner := g.r.New()
	if err := g.r.Live.Get(ctx, types.NamespacedName{Name: s.owner.Name}, owner); err != nil {
		return fmt.Errorf("get %s %s: %w", s.owner.Kind, s.owner.Name, err)
	}
	if owner.GetUID() != s.owner.UID || owner.GetDeletionTimestamp().IsZero() == s.deleting() {
		return fmt.Errorf("%s %s was deleted or replaced meanwhile", s.owner.Kind, s.owner.Name)
	}
	if step.Host() == "" {
		approval := owner.GetAnnotations()[v1alpha1.AnnotationApprove]
		recorded := backend.WholePlan(string(s.owner.UID), owner.StorageStatus().Plan, approval)
		if err := backend.Holds(step, s.common.Approval, s.verdict.Plan, recorded, approval); err != nil {
			return err
		}
	}
	h := g.hosts[host]
	if h.Object == nil {
		return nil
	}
	m := &v1alpha1.Member{}
	if err := g.r.Live.Get(ctx, client.ObjectKeyFromObject(h.Object), m); err != nil {
		return fmt.Errorf("get member %s: %w", h.Object.Name, err)
	}
	if m.UID != h.Object.UID || m.DeletionTimestamp.IsZero() != h.Object.DeletionTimestamp.IsZero() {
		return fmt.Errorf("member %s was deleted or replaced meanwhile", m.Name)
	}
	if step.Host() != "" {
		if err := backend.Holds(step, s.common.Approval, h.Verdict.Plan, m.Status.Plan, m.Annotations[v1alpha1.AnnotationApprove]); err != nil {
			return err
		}
	}
	if !m.DeletionTimestamp.IsZero() {
		// Nothing but volumes stops a removal.
		return g.empty(ctx, host)
	}
	return g.stays(ctx, owner, m, host)
}

// unclaimed says which device that a step takes was put on record by somebody else meanwhile; nil when none was.
func (g guarded) unclaimed(ctx context.Context, step backend.Step) error {
	t, ok := step.(disk.Taker)
	if !ok || len(t.Takes()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimDeadline)
	defer cancel()
	nodes, err := g.r.glusterNodes.Fresh(ctx, g.r.Records)
	if err != nil {
		return err
	}
	if why := disk.TakesRecorded(t, disk.RecordsOf(nodes)); why != "" {
		return errors.New(why)
	}
	return nil
}

// stays says why a member that is not being removed gets no step now: it is under maintenance, or leaves.
func (g guarded) stays(ctx context.Context, owner v1alpha1.Storage, m *v1alpha1.Member, host string) error {
	s, h := g.scope, g.hosts[host]
	node, err := nodeOf(ctx, g.r.Live, host)
	if err != nil {
		return err
	}
	now := s.live(owner, m, node)
	if is := now.judgement(&h); len(is.Sources) > 0 {
		return fmt.Errorf("the member is under maintenance")
	} else if now.departure(is, node, s.world.On(host)).Active {
		return fmt.Errorf("the member leaves")
	}
	return nil
}

// empty says which volumes hold a host by what the API server itself says; nil when none do.
func (g guarded) empty(ctx context.Context, host string) error {
	live, err := g.scope.volumes(ctx, g.r.Live)
	if err != nil || len(live.On(host)) == 0 {
		return err
	}
	var names []string
	for _, v := range live.On(host) {
		names = append(names, v.String())
	}
	return fmt.Errorf("volumes exist: %s", backend.Shorten(names, 10))
}

// prepare returns the steps that may run now, by host. What is recorded of a group is written ahead of the steps that make it; a host
// whose record could not be written does nothing.
func (r *Reconciler) prepare(ctx context.Context, s *scope) (map[work.Place][]backend.Step, []error) {
	jobs, errs := map[work.Place][]backend.Step{}, []error(nil)
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
		jobs[work.Place{Host: h.Node}] = run
		if p := h.Verdict.Plan; p != nil && p.Approved {
			s.carried[h.Node] = p.Digest
		}
	}
	s.addWhole(jobs)
	return jobs, errs
}

// addWhole adds the steps of the whole storage, by the host that they run on. A host that is quiesced, or for which a write to the
// API server failed in this pass, runs none.
func (s *scope) addWhole(jobs map[work.Place][]backend.Step) {
	for _, step := range s.verdict.Run {
		at := placeOf(step)
		h := s.host(at.Host)
		if s.troubles[at.Host] != nil || h != nil && h.Flags.ShouldQuiesce() && !h.Flags.ShouldDestroy() {
			continue
		}
		jobs[at] = append(jobs[at], step)
	}
}

// placeOf returns where a step of the whole runs: on the host that it names, and beside all others if it guards.
func placeOf(step backend.Step) work.Place {
	return work.Place{Host: step.Via(), Whole: true, Guard: backend.Guards(step)}
}

// note takes in what became of the jobs.
func (s *scope) note(outcomes map[work.Place]work.Outcome) {
	for at, o := range outcomes {
		s.within(o.RetryIn)
		if o.Failure.Reason != "" {
			s.failures[at] = o.Failure
		}
	}
}
