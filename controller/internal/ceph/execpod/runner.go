// Package execpod has commands of Ceph performed in a pod of a Cluster, through the API server. One program in the pod is kept for many commands. The
// package knows which pods may serve and how a program is started there, and nothing of what the program is told.
package execpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/controller/internal/ceph"
)

// Config is what a Runner works with.
type Config struct {
	// Pods returns the pods of the Cluster that have the library of Ceph and the key of its administrator, in any order. They may be too many: those whose
	// container does not run are passed over.
	Pods func(ctx context.Context) ([]corev1.Pod, error)
	// Container of those pods.
	Container string
	// Start starts a program in a container.
	Start Starter
	// AtOnce is how many commands are performed at the same time; zero means two. For each there is a program, of up to 100 MiB, out of what the pod has.
	AtOnce int
}

// patience bounds a command whose context has no deadline.
const patience = 30 * time.Second

// distrust is how long a pod that failed comes after all others.
const distrust = time.Minute

// Exit codes of what starts programs: it is not there, or cannot be run. None of them is one of ceph.
const exitNoSuch = 127

// Runner implements ceph.Runner. It is safe for concurrent use.
type Runner struct {
	cfg  Config
	turn chan struct{}
	mu   sync.Mutex
	// failed says when a pod, by its UID, last failed.
	failed map[string]time.Time
	// resting are the connections that nobody uses now; the one that was used last is the last.
	resting []*connection
}

// New makes a Runner.
func New(cfg Config) *Runner {
	if cfg.AtOnce <= 0 {
		cfg.AtOnce = 2
	}
	return &Runner{cfg: cfg, turn: make(chan struct{}, cfg.AtOnce), failed: map[string]time.Time{}}
}

// Run performs a command over a connection that rests, or over a new one to a pod, a ready one if there is any. What certainly did not get to Ceph is
// tried over the next one. No pod is an error of kind ceph.ErrUnreachable, and so is an answer that did not come: whether the command was performed is not
// known then, and the next command is not performed before the program of this one has been told to end.
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
	for c := r.take(pods); c != nil; c = r.take(pods) {
		result, sent, err := r.over(ctx, c, cmd)
		if err == nil || sent || ctx.Err() != nil {
			return result, err
		}
	}
	var failed error
	for _, pod := range pods {
		c, err := connect(ctx, r.cfg.Start, pod, r.cfg.Container)
		if err == nil {
			result, _, err := r.over(ctx, c, cmd)
			return result, err
		}
		r.trust(string(pod.UID), false)
		failed = errors.Join(failed, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		if !errors.Is(err, ErrNotStarted) || ctx.Err() != nil {
			break
		}
	}
	return ceph.Result{}, fmt.Errorf("%w: %w", ceph.ErrUnreachable, failed)
}

// over performs a command over a connection, and keeps that if it is of further use.
func (r *Runner) over(ctx context.Context, c *connection, cmd ceph.Command) (ceph.Result, bool, error) {
	result, sent, err := c.run(ctx, cmd)
	if err != nil {
		c.close()
		r.trust(string(c.pod), false)
		return result, sent, fmt.Errorf("%w: pod %s: %w", ceph.ErrUnreachable, c.name, err)
	}
	r.trust(string(c.pod), true)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting = append(r.resting, c)
	time.AfterFunc(idle, r.tidy)
	return result, true, nil
}

// take returns a connection to one of some pods that rests; nil if there is none. Those to other pods, and those that are no good any more, are closed.
func (r *Runner) take(pods []corev1.Pod) *connection {
	r.tidy()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting = slices.DeleteFunc(r.resting, func(c *connection) bool {
		gone := !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == c.pod })
		if gone {
			c.leave()
		}
		return gone
	})
	n := len(r.resting)
	if n == 0 {
		return nil
	}
	c := r.resting[n-1]
	r.resting = r.resting[:n-1]
	return c
}

// tidy closes connections that ended, or that nobody used for a while.
func (r *Runner) tidy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resting = slices.DeleteFunc(r.resting, func(c *connection) bool {
		dead := !c.alive()
		if dead {
			c.leave()
		}
		return dead
	})
}

// running returns the pods in which a program can be started, those first that did not fail a while ago and are ready. One that is not ready comes after all
// others, and is tried: on a busy node a monitor is found unready, and the program finds the quorum by itself.
func (r *Runner) running(ctx context.Context) ([]corev1.Pod, error) {
	all, err := r.cfg.Pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("pods with the library of Ceph: %w", err)
	}
	pods := slices.DeleteFunc(slices.Clone(all), func(p corev1.Pod) bool { return !r.serves(p) })
	if len(pods) == 0 {
		return nil, fmt.Errorf("%w: none of %d pods with the library of Ceph runs", ceph.ErrUnreachable, len(all))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid, at := range r.failed {
		if time.Since(at) > distrust {
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

func (r *Runner) trust(uid string, good bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, uid)
	if !good {
		r.failed[uid] = time.Now()
	}
}
