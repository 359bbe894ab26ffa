// Package node is the agent's engine. Whatever is changed on the node follows one recipe here: lock, observe, plan, apply, and remember
// what came of it. The engine also watches the node and shows every change to those who follow it. It knows neither the wire nor the
// tools: it observes and applies through interfaces, and speaks in the types of package plan. All of its state is lost with the process
// and made anew by the next observation.
package node

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/move"
	"quarry.storage/quarry/agent/internal/plan/volume"
)

// Observer sees the node.
type Observer interface {
	// Observe reads everything afresh. Only one observation is made at a time.
	Observe(ctx context.Context) (plan.Snapshot, error)
	// Watch signals that something may have changed, until the context ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// GroupObserver sees one group.
type GroupObserver interface {
	// ObserveGroup reads afresh what the group, as it was seen before, is now. It fails when the group is another one by now.
	ObserveGroup(ctx context.Context, was plan.Group) (plan.Group, error)
}

// Looker sees one device at this moment, and who uses it.
type Looker interface {
	// Look opens the device exclusively, and looks for users. It is plan.ErrTaken for one that cannot be opened exclusively.
	Look(ctx context.Context, d plan.Device) (plan.Device, error)
}

// Applier performs plans.
type Applier interface {
	Apply(ctx context.Context, p plan.Plan) error
}

// Contents looks into volumes.
type Contents interface {
	// Unused refuses an active volume that carries the mark of a new one, and holds what its first use would keep or refuse. What it cannot
	// read is an error, too.
	Unused(ctx context.Context, group string, v plan.Volume) error
}

// Config is what an Engine is made of.
type Config struct {
	// Policy judges devices.
	Policy   plan.Policy
	Observer Observer
	// Looker looks at single devices.
	Looker Looker
	// Groups observes one group in a cheaper way. Everything is observed instead when it is nil.
	Groups  GroupObserver
	Applier Applier
	// Contents looks into a volume that is removed only if it is unused. None is removed like that when it is nil.
	Contents Contents
	// Resolve follows the links of device paths.
	Resolve Resolver
	// Uses keep what a volume is used by apart from the beginning of its removal. Nothing does when it is nil.
	Uses Uses
}

// Uses are the locks of volumes that are being made ready for a pod, shown to one, or taken away from it.
type Uses interface {
	// TryLock takes the lock of a volume by its handle, or returns an error if somebody has it.
	TryLock(handle string) (unlock func(), err error)
}

// applyTimeout bounds the changes of one call. They go on when the caller goes away: a command that is killed halfway is worse than one
// that ends.
const applyTimeout = 10 * time.Minute

// Engine works on one node. Its methods are safe for concurrent use.
type Engine struct {
	cfg   Config
	hub   *hub
	locks locks
	looks looks
	zero  *zeroer
	// discarded is how far volumes are discarded that a call began to remove, in bytes by their UUID.
	discarded sync.Map
}

// New makes an Engine. It makes changes at once; Run makes it watch.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, hub: newHub(cfg.Observer), zero: newZeroer()}
}

// Policy is what the engine judges devices by.
func (e *Engine) Policy() plan.Policy { return e.cfg.Policy }

// Run observes the node at the start, after every burst of events and when a change asks for it, gets volumes back to work that a killed
// command left suspended, finishes moves of extents that were cut off, keeps the host from activating what is in groups of this node, learns
// how full thin pools are, and zeroes what nobody may read yet, until the context ends. An Engine runs once.
func (e *Engine) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer e.zero.work.Wait()
	defer work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pause := e.hub.blindPeriod
	work.Go(func() { e.eachView(ctx, pause, e.settleSeen("Resuming volumes", volume.Resume)) })
	work.Go(func() {
		e.eachView(ctx, pause, e.settleSeen("Finishing a move of extents that was cut off", move.Finish))
	})
	work.Go(func() { e.eachView(ctx, pause, e.keepSeen()) })
	work.Go(func() { e.eachView(ctx, pause, e.zeroSeen) })
	work.Go(func() { e.zeroAskedFor(ctx) })
	work.Go(func() { e.eachView(ctx, measurePause*pause, e.measurePools()) })
	return e.hub.run(ctx)
}

// Changing says that something is changed on the node that this engine does not change, until end is called: what the kernel tells of it is looked at afterwards, once. A change that takes long is
// not waited for.
func (e *Engine) Changing() (end func()) { return e.hub.underway.begin() }

// Observe returns what the node looks like at a moment not before the call, and shows it to the followers too.
func (e *Engine) Observe(ctx context.Context) (plan.Snapshot, error) { return e.hub.observe(ctx) }

// Follow calls send for the newest view and for every later one, until the context ends, the engine stops (ErrStopping) or the node
// cannot be observed. A follower that is slow misses views, never the newest.
func (e *Engine) Follow(ctx context.Context, send func(View) error) error {
	return e.hub.follow(ctx, send)
}

// OnView says who is told of every view from now on, right when it is taken. There is one such listener; tell must not call the engine.
func (e *Engine) OnView(tell func(plan.Snapshot)) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	e.hub.onView = tell
}

// change is the recipe of every change to devices and groups, under locks that the caller took. It returns what is seen on the node
// afterwards, and what was decided.
func (e *Engine) change(ctx context.Context, decide func(plan.Snapshot) (plan.Plan, error)) (plan.Snapshot, plan.Plan, error) {
	before, p, err := e.settled(ctx, decide)
	if err != nil || len(p.Steps) == 0 {
		return before, p, err
	}
	defer e.hub.underway.begin()()
	if err := e.apply(ctx, p); err != nil {
		return plan.Snapshot{}, p, err
	}
	after, err := e.hub.observe(context.WithoutCancel(ctx))
	return after, p, err
}

// apply performs a plan to its end, even if the caller goes away. After a failure the node is observed again.
func (e *Engine) apply(ctx context.Context, p plan.Plan) error {
	log := logr.FromContextOrDiscard(ctx)
	for _, step := range p.Steps {
		log.V(1).Info("Planned step", "step", step.String(), "reason", step.Why())
		if r, resumes := step.(volume.RefreshLV); resumes {
			// Whoever suspended it on purpose has to hear of it, and so has who looks for a command that was killed.
			log.Info("Resuming a device that holds back its readers and writers", "volumeGroup", r.Group.Name, "volume", r.Name, "reason", r.Why())
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), applyTimeout)
	defer cancel()
	err := e.cfg.Applier.Apply(ctx, p)
	if err != nil {
		// What a step that failed left behind is not what is remembered.
		e.hub.memory.forget()
		e.hub.poke()
	}
	return err
}
