// Package work performs the steps of hosts beside the reconciler that decided on them. It knows neither backends nor objects.
package work

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Times and bounds of work on hosts.
const (
	// Patience is how long a reconcile waits for the hosts that it has set to work, unless a Work says otherwise.
	Patience = 2 * time.Second
	// deadline bounds all steps of one host.
	deadline = 10 * time.Minute
	// parallel is the number of hosts that are worked on at the same time.
	parallel = 64
	minRetry = time.Second
	maxRetry = 2 * time.Minute
)

// Performer performs the steps of one host in order, and stops at the first that fails unless that one is independent; done is how many were performed.
type Performer interface {
	Perform(ctx context.Context, host string, steps []backend.Step) (done int, err error)
}

// Place is where a job runs. The steps of a host and the steps of the whole that run via it fail and wait each for themselves.
type Place struct {
	Host  string
	Whole bool
	// Guard is what the job guards: it waits for no other one. Empty for one that guards nothing.
	Guard string
}

// Work performs the steps of hosts, each host in its own goroutine, one job per host and storage at a time: steps of the whole wait for
// those of the host that they run via, and the reverse. What it remembers of failures only makes the next attempt wait; it may be lost.
type Work struct {
	// Patience is how long Run waits for the hosts that it has set to work.
	Patience time.Duration

	// late carries the owners whose hosts were done after their reconcile had ended.
	late  chan backend.Owner
	slots chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup
	now   func() time.Time

	mu   sync.Mutex
	jobs map[key]*job
}

type key struct {
	owner string
	place Place
}

// job is the last job of a host.
type job struct {
	owner   backend.Owner
	digest  string
	running bool
	done    chan struct{}
	// late is true once the reconcile that started the job waits for it no longer.
	late     bool
	err      error
	failures int
	retryAt  time.Time
}

// Failure is why a host's job failed, as it is shown.
type Failure struct{ Reason, Message string }

// Outcome is what became of a host's job.
type Outcome struct {
	// Finished is true when all steps were performed.
	Finished bool
	// Failure to be shown; empty when there is none.
	Failure Failure
	// RetryIn is when a job that failed is tried again.
	RetryIn time.Duration
}

// New returns a Work without jobs. Jobs outlive the reconcile that started them; they end with the context, or with Close.
func New(ctx context.Context, now func() time.Time) *Work {
	ctx, stop := context.WithCancel(ctx)
	return &Work{
		Patience: Patience, now: now, ctx: ctx, stop: stop, jobs: map[key]*job{}, late: make(chan backend.Owner), slots: make(chan struct{}, parallel),
	}
}

// Close cancels all jobs and waits for them.
func (w *Work) Close() {
	w.stop()
	w.group.Wait()
}

// Late returns the owners to look at because a job ended after its reconcile.
func (w *Work) Late() <-chan backend.Owner { return w.late }

// Forget drops what is remembered of an owner that is gone.
func (w *Work) Forget(kind, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, j := range w.jobs {
		if j.owner.Kind == kind && j.owner.Name == name && !j.running {
			delete(w.jobs, k)
		}
	}
}

// Running returns the hosts that are worked on for an owner.
func (w *Work) Running(o backend.Owner) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts := map[string]bool{}
	for k, j := range w.jobs {
		if k.owner == string(o.UID) && j.running {
			hosts[k.place.Host] = true
		}
	}
	return hosts
}

// Run starts the jobs that do not run and need not wait, waits a while for them, and returns what is known of every host.
func (w *Work) Run(ctx context.Context, p Performer, o backend.Owner, steps map[Place][]backend.Step) map[Place]Outcome {
	var started []*job
	// The steps of a host come before those of the whole that run via it, and what guards comes before all.
	for _, at := range slices.SortedFunc(maps.Keys(steps), order) {
		if j := w.start(ctx, p, o, at, steps[at]); j != nil {
			started = append(started, j)
		}
	}
	timeout := time.NewTimer(w.Patience)
	defer timeout.Stop()
wait:
	for _, j := range started {
		select {
		case <-j.done:
		case <-timeout.C:
			break wait
		case <-ctx.Done():
			break wait
		}
	}
	return w.outcomes(o, steps, started)
}

func order(a, b Place) int {
	switch {
	case a.Guard != b.Guard:
		// "" comes last.
		return strings.Compare(b.Guard, a.Guard)
	case a.Whole == b.Whole:
		return strings.Compare(a.Host, b.Host)
	case b.Whole:
		return -1
	}
	return 1
}

// start begins a job, unless the same runs already or must wait after a failure.
func (w *Work) start(ctx context.Context, p Performer, o backend.Owner, at Place, steps []backend.Step) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil
	}
	k, digest := key{string(o.UID), at}, backend.DigestOf(steps)
	old := w.jobs[k]
	if old != nil && (old.running || old.err != nil && old.digest == digest && w.now().Before(old.retryAt)) {
		return nil
	}
	j := &job{owner: o, digest: digest, running: true, done: make(chan struct{})}
	if old != nil && old.digest == digest {
		j.failures = old.failures
	}
	w.jobs[k] = j
	// A job waits only for one that was begun before it, so no two wait for each other.
	free := w.free(key{string(o.UID), Place{Host: at.Host, Whole: !at.Whole, Guard: at.Guard}})
	w.group.Go(func() { w.perform(ctx, p, at.Host, j, steps, free) })
	return j
}

// free is closed once no job of a key runs.
func (w *Work) free(k key) <-chan struct{} {
	if j := w.jobs[k]; j != nil && j.running {
		return j.done
	}
	now := make(chan struct{})
	close(now)
	return now
}

func (w *Work) perform(ctx context.Context, p Performer, host string, j *job, steps []backend.Step, free <-chan struct{}) {
	select {
	case <-free:
	case <-w.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	var err error
	select {
	case w.slots <- struct{}{}:
		_, err = p.Perform(ctx, host, steps)
		<-w.slots
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	j.running, j.err = false, err
	if err != nil {
		j.retryAt = w.now().Add(min(minRetry<<min(j.failures, 10), maxRetry))
		j.failures++
	} else {
		j.failures = 0
	}
	close(j.done)
	late := j.late
	w.mu.Unlock()
	if !late {
		return
	}
	select {
	case w.late <- j.owner:
	case <-w.ctx.Done():
	}
}

// failure says why the job failed. A passing error is not worth telling the first time: the next look takes it in.
func (j *job) failure() Failure {
	e := &backend.StepError{Reason: v1alpha1.ReasonStepFailed, Err: j.err}
	errors.As(j.err, &e)
	if e.Passing && j.failures < 2 {
		return Failure{}
	}
	return Failure{e.Reason, j.err.Error()}
}

// outcomes says what is known of every host that has something to do.
func (w *Work) outcomes(o backend.Owner, steps map[Place][]backend.Step, started []*job) map[Place]Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := map[*job]bool{}
	for _, j := range started {
		mine[j], j.late = true, j.running
	}
	out := map[Place]Outcome{}
	for at := range steps {
		j := w.jobs[key{string(o.UID), at}]
		switch {
		case j == nil || j.running:
		case j.err != nil:
			out[at] = Outcome{Failure: j.failure(), RetryIn: max(j.retryAt.Sub(w.now()), minRetry)}
		case mine[j]:
			out[at] = Outcome{Finished: true}
		}
	}
	return out
}
