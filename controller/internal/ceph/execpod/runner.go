// Package execpod runs the program ceph in a pod of a Cluster, through the API server. It knows which pods may serve and how a program is started there,
// and nothing of what the program is told.
package execpod

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/ceph"
)

// Config is what a Runner works with.
type Config struct {
	// Pods returns the pods of the Cluster that have the program and the key of its administrator, in any order. They may be too many: those whose container
	// does not run are passed over.
	Pods func(ctx context.Context) ([]corev1.Pod, error)
	// Container of those pods with the program.
	Container string
	// Start starts a program in a container.
	Start Starter
	// AtOnce is how many programs run at the same time; zero means two. Each takes up to 100 MiB, out of what the pod has.
	AtOnce int
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Limits of what one command may print. The largest answer, a dump of all OSDs, has about a kilobyte for each.
const (
	maxStdout = 16 << 20
	maxStderr = 64 << 10
)

// patience bounds a command whose context has no deadline.
const patience = 30 * time.Second

// distrust is how long a pod that did not start a program comes after all others.
const distrust = time.Minute

// Runner implements ceph.Runner. It is safe for concurrent use.
type Runner struct {
	cfg  Config
	turn chan struct{}
	mu   sync.Mutex
	// failed says when a pod, by its UID, last failed.
	failed map[string]time.Time
}

// New makes a Runner.
func New(cfg Config) *Runner {
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = 2
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Runner{cfg: cfg, turn: make(chan struct{}, cfg.AtOnce), failed: map[string]time.Time{}}
}

// Run runs ceph in a pod, a ready one if there is any. One that could not be started in the first pod is started in the next: nothing ran then. No pod is an error of
// kind ceph.ErrUnreachable, and so is a program that was ended at its deadline.
func (r *Runner) Run(ctx context.Context, cmd ceph.Command) (ceph.Result, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ceph.Result{}, fmt.Errorf("wait for a turn: %w", ctx.Err())
	}
	pods, err := r.running(ctx)
	if err != nil {
		return ceph.Result{}, err
	}
	var failed error
	for _, pod := range pods {
		result, err := r.runIn(ctx, pod, cmd)
		if err == nil {
			r.trust(pod, true)
			return result, nil
		}
		r.trust(pod, false)
		failed = errors.Join(failed, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		if !errors.Is(err, ErrNotStarted) || ctx.Err() != nil {
			break
		}
	}
	return ceph.Result{}, fmt.Errorf("%w: %w", ceph.ErrUnreachable, failed)
}

// running returns the pods in which a program can be started, those first that did not fail a while ago and are ready. One that is not ready comes after all
// others, and is tried: on a busy node a monitor is found unready, and the program finds the quorum by itself.
func (r *Runner) running(ctx context.Context) ([]corev1.Pod, error) {
	all, err := r.cfg.Pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("pods with the program ceph: %w", err)
	}
	pods := slices.DeleteFunc(slices.Clone(all), func(p corev1.Pod) bool { return !r.serves(p) })
	if len(pods) == 0 {
		return nil, fmt.Errorf("%w: none of %d pods with the program ceph runs", ceph.ErrUnreachable, len(all))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, at := range r.failed {
		if r.cfg.Now().Sub(at) > distrust {
			delete(r.failed, uid)
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(r.failed[string(a.UID)].Compare(r.failed[string(b.UID)]), cmp.Compare(unready(a), unready(b)), cmp.Compare(a.Name, b.Name))
	})
	return pods, nil
}

// serves reports whether a program can be started in a pod.
func (r *Runner) serves(p corev1.Pod) bool {
	return p.DeletionTimestamp.IsZero() && slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == r.cfg.Container && c.State.Running != nil
	})
}

// unready is 0 for a pod that is ready, and 1 for one that is not.
func unready(p corev1.Pod) int {
	if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
		return 0
	}
	return 1
}

func (r *Runner) trust(pod corev1.Pod, good bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, string(pod.UID))
	if !good {
		r.failed[string(pod.UID)] = r.cfg.Now()
	}
}

// Exit codes of timeout(1): the program was ended at its deadline, or by the second signal; it did not do its own work; the program is not there. None of
// them is one of ceph.
const (
	exitTimeout = 124
	exitFailed  = 125
	exitNoSuch  = 127
	exitSignal  = 128
)

// script runs the program that its arguments name, for as many seconds as the first one says: closing the connection does not end a program. Its last line
// says the exit code: a connection that broke looks like a program that ended well.
const script = `timeout --kill-after=2 "$@"; code=$?; printf '\n` + lastWord + `%d\n' "$code"; exit "$code"`

// lastWord begins the last line.
const lastWord = "quarry-exit-code "

// runIn runs ceph in a pod, and has it ended when four fifths of the time are over: a busy node takes seconds to start a program, and to tell of its end.
func (r *Runner) runIn(ctx context.Context, pod corev1.Pod, cmd ceph.Command) (ceph.Result, error) {
	deadline, _ := ctx.Deadline()
	seconds := max(1, int(time.Until(deadline).Seconds()*4/5))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdout, stderr := newBounded(maxStdout, cancel), newBounded(maxStderr, cancel)
	args := append([]string{"sh", "-c", script, "sh", strconv.Itoa(seconds), "ceph"}, cmd.Args...)
	code, err := r.cfg.Start(ctx, Program{
		Namespace: pod.Namespace, Pod: pod.Name, Container: r.cfg.Container, Args: args, Stdin: cmd.Stdin, Stdout: stdout, Stderr: stderr,
	})
	if cause := context.Cause(ctx); cause != nil {
		return ceph.Result{}, cause
	}
	if err != nil {
		return ceph.Result{}, err
	}
	out, whole := bytes.CutSuffix(stdout.bytes(), fmt.Appendf(nil, "\n"+lastWord+"%d\n", code))
	switch {
	case (code == exitNoSuch-1 || code == exitNoSuch) && !whole:
		return ceph.Result{}, fmt.Errorf("%w: no shell in the container (exit code %d)", ErrNotStarted, code)
	case !whole:
		return ceph.Result{}, fmt.Errorf("the connection ended before the program, or its output was cut off (exit code %d)", code)
	case code == exitTimeout || code > exitSignal:
		return ceph.Result{}, fmt.Errorf("ended after %d s, with exit code %d: %w", seconds, code, context.DeadlineExceeded)
	case code >= exitFailed && code <= exitNoSuch:
		return ceph.Result{}, fmt.Errorf("%w: no program ceph in the container (exit code %d)", ErrNotStarted, code)
	}
	return ceph.Result{Stdout: out, Stderr: stderr.bytes(), ExitCode: code}, nil
}
