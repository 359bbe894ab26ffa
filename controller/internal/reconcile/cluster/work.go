package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/health"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Times and bounds of work on hosts.
const (
	// patience is how long a reconcile waits for the hosts that it has set to work.
	patience = 2 * time.Second
	// hostDeadline bounds all steps of one host.
	hostDeadline = 10 * time.Minute
	// parallel is the number of hosts that are worked on at the same time.
	parallel = 64
	minRetry = time.Second
	maxRetry = 2 * time.Minute
)

// Changer changes the disks of hosts.
type Changer interface {
	WipeDevice(ctx context.Context, node string, d decide.Device) (decide.Device, error)
	EnsureVolumeGroup(ctx context.Context, node, group, owner string, devices []decide.Device) error
	EnsureThinPool(ctx context.Context, node string, pool decide.ThinPoolSpec) (decide.ThinPool, error)
	ReduceVolumeGroup(ctx context.Context, node, group, owner string, devices []decide.Device) error
	RemoveVolumeGroup(ctx context.Context, node, group, owner string, devices []decide.Device) error
}

// Work performs the steps of hosts, each host in its own goroutine, one job per host and Cluster at a time. What it remembers
// of failures is only to wait longer before the next attempt; it may be lost.
type Work struct {
	changer Changer
	// late tells of Clusters whose hosts were done after their reconcile had ended.
	late  chan types.NamespacedName
	slots chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup
	now   func() time.Time

	mu   sync.Mutex
	jobs map[key]*job
}

type key struct{ cluster, host string }

// job is the last job of a host.
type job struct {
	digest   string
	running  bool
	done     chan struct{}
	err      error
	action   string
	failures int
	retryAt  time.Time
}

// failure is why a host's job failed, as it is shown.
type failure struct{ reason, message string }

// outcome is what became of a host's job.
type outcome struct {
	// finished is true when all steps were performed.
	finished bool
	// failure to be shown; empty when there is none.
	failure failure
	// retryIn is when a job that failed is tried again.
	retryIn time.Duration
}

// NewWork returns a Work without jobs. Jobs outlive the reconcile that started them; they end with the context, or with Close.
func NewWork(ctx context.Context, c Changer, now func() time.Time) *Work {
	ctx, stop := context.WithCancel(ctx)
	return &Work{
		changer: c, now: now, ctx: ctx, stop: stop, jobs: map[key]*job{},
		late: make(chan types.NamespacedName), slots: make(chan struct{}, parallel),
	}
}

// Close cancels all jobs and waits for them.
func (w *Work) Close() {
	w.stop()
	w.group.Wait()
}

// Late returns the names of Clusters to look at because a job ended after its reconcile.
func (w *Work) Late() <-chan types.NamespacedName { return w.late }

// Forget drops what is remembered of a Cluster that is gone.
func (w *Work) Forget(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, j := range w.jobs {
		if k.cluster == cluster && !j.running {
			delete(w.jobs, k)
		}
	}
}

// Running returns the hosts that are worked on for a Cluster.
func (w *Work) Running(cluster string) map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts := map[string]bool{}
	for k, j := range w.jobs {
		if k.cluster == cluster && j.running {
			hosts[k.host] = true
		}
	}
	return hosts
}

// Run starts the jobs that do not run and need not wait, waits a while for them, and returns what is known of every host.
func (w *Work) Run(ctx context.Context, cluster string, steps map[string][]decide.Step) map[string]outcome {
	var started []*job
	for host, todo := range steps {
		if j := w.start(ctx, key{cluster, host}, todo); j != nil {
			started = append(started, j)
		}
	}
	timeout := time.NewTimer(patience)
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
	return w.outcomes(cluster, steps, started)
}

// start begins a job, unless the host is worked on already or must wait after a failure.
func (w *Work) start(ctx context.Context, k key, steps []decide.Step) *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return nil
	}
	digest := decide.DigestOf(steps)
	old := w.jobs[k]
	if old != nil && (old.running || old.err != nil && old.digest == digest && w.now().Before(old.retryAt)) {
		return nil
	}
	j := &job{digest: digest, running: true, done: make(chan struct{})}
	if old != nil && old.digest == digest {
		j.failures = old.failures
	}
	w.jobs[k] = j
	w.group.Go(func() { w.perform(ctx, k, j, steps) })
	return j
}

func (w *Work) perform(ctx context.Context, k key, j *job, steps []decide.Step) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), hostDeadline)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	began := w.now()
	var action string
	var err error
	select {
	case w.slots <- struct{}{}:
		action, err = w.steps(ctx, steps)
		<-w.slots
	case <-ctx.Done():
		err = ctx.Err()
	}
	w.mu.Lock()
	j.running, j.action, j.err = false, action, err
	if err != nil {
		j.retryAt = w.now().Add(min(minRetry<<min(j.failures, 10), maxRetry))
		j.failures++
	} else {
		j.failures = 0
	}
	close(j.done)
	late := w.now().Sub(began) >= patience
	w.mu.Unlock()
	if !late {
		return
	}
	select {
	case w.late <- types.NamespacedName{Name: k.cluster}:
	case <-w.ctx.Done():
	}
}

// steps performs the steps of one host in order and stops at the first that fails. A device that was wiped is taken as it is then.
func (w *Work) steps(ctx context.Context, steps []decide.Step) (action string, err error) {
	wiped := map[string]decide.Device{}
	for _, s := range steps {
		devices := make([]decide.Device, 0, len(s.Devices))
		for _, d := range s.Devices {
			if clean, ok := wiped[d.Path]; ok {
				d = clean
			}
			devices = append(devices, d)
		}
		switch s.Action {
		case v1alpha1.ActionWipeDevice:
			for _, d := range devices {
				if wiped[d.Path], err = w.changer.WipeDevice(ctx, s.Host, d); err != nil {
					break
				}
			}
		case v1alpha1.ActionEnsureVolumeGroup:
			err = w.changer.EnsureVolumeGroup(ctx, s.Host, s.Group, s.Owner, devices)
		case v1alpha1.ActionEnsureThinPool:
			_, err = w.changer.EnsureThinPool(ctx, s.Host, *s.ThinPool)
		case v1alpha1.ActionReduceVolumeGroup:
			err = w.changer.ReduceVolumeGroup(ctx, s.Host, s.Group, s.Owner, devices)
		case v1alpha1.ActionRemoveVolumeGroup:
			err = w.changer.RemoveVolumeGroup(ctx, s.Host, s.Group, s.Owner, devices)
		default:
			err = fmt.Errorf("unknown action %q", s.Action)
		}
		if err != nil {
			return s.Action, err
		}
	}
	return "", nil
}

// failure says why the job failed. That the world moved under a decision, or that an agent was busy or went away, is not worth
// telling the first time: the next look takes it in.
func (j *job) failure() failure {
	f := &decide.Fault{}
	errors.As(j.err, &f)
	passing := []decide.FaultKind{decide.FaultPrecondition, decide.FaultNotFound, decide.FaultBusy, decide.FaultUnavailable}
	if j.failures < 2 && slices.Contains(passing, f.Kind) {
		return failure{}
	}
	return failure{health.FailureReason(j.action, f.Kind), j.err.Error()}
}

// outcomes says what is known of every host that has something to do.
func (w *Work) outcomes(cluster string, steps map[string][]decide.Step, started []*job) map[string]outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine := map[*job]bool{}
	for _, j := range started {
		mine[j] = true
	}
	out := map[string]outcome{}
	for host := range steps {
		j := w.jobs[key{cluster, host}]
		switch {
		case j == nil || j.running:
		case j.err != nil:
			out[host] = outcome{failure: j.failure(), retryIn: max(j.retryAt.Sub(w.now()), minRetry)}
		case mine[j]:
			out[host] = outcome{finished: true}
		}
	}
	return out
}
