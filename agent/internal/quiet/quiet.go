// Package quiet adds to observations what must not be looked for at any time: whether somebody uses a device. One test for it makes
// another program fail that wants the device for itself at the same instant, and the other looks at all processes of the node. So both are
// made once, on a device that nothing else speaks against, after nothing has happened to the device for a while. The package also makes udev look again at a device of which udev knows
// something that is not so any more. The package knows neither tools nor the wire.
package quiet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/plan"
)

// Time is how long a device has to be left alone before it is tested.
const Time = 2 * time.Second

const (
	// idlePatience is how long a test waits for a udev that always has something to do, after the device has been quiet.
	idlePatience = 10 * time.Second
	// idlePause is the time between two looks whether udev has come to rest.
	idlePause = 200 * time.Millisecond
	// firstAgain and lastAgain bound the time until a device that is in use is tested again: nothing tells when a program closes
	// a device that it had open for reading.
	firstAgain = 5 * time.Second
	lastAgain  = 5 * time.Minute
)

// Source observes the node.
type Source interface {
	// Observe reads everything afresh. It leaves Device.Use alone.
	Observe(ctx context.Context) (plan.Snapshot, error)
	// Watch signals that something may have changed, until the context ends.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Devices works on single devices.
type Devices interface {
	// Exclusive reports whether a device can be opened exclusively.
	Exclusive(ctx context.Context, d plan.Device) (bool, error)
	// Users names who uses each of the devices although it can be opened exclusively. An error means that there may be more users.
	Users(ctx context.Context, devices []plan.Device) ([][]string, error)
	// Idle reports whether udev has no event left to handle.
	Idle() bool
	// Trigger makes udev look at a device again.
	Trigger(d plan.Device) error
}

// Guard keeps others away from devices that are worked on.
type Guard interface {
	Hold(ctx context.Context, p plan.Plan) (release func(context.Context), err error)
}

// Config says what to observe.
type Config struct {
	Source  Source
	Devices Devices
	// Guard is what Hold passes calls on to.
	Guard Guard
	// Policy judges which devices are worth a test.
	Policy plan.Policy
	// Quiet is how long a device has to be left alone; zero tests at the first sight.
	Quiet time.Duration
	Log   logr.Logger
}

// Observer is the Source with the tests added. It is safe for concurrent use.
type Observer struct {
	cfg  Config
	wake chan struct{}

	mu      sync.Mutex
	devices map[string]*device
	timer   *time.Timer
	// due is when the timer is to fire; zero when it is not.
	due time.Time
}

// device is what is remembered of a device while it stays the same.
type device struct {
	// looks is another text when anything about the device is other.
	looks string
	path  string
	// since is when the device was first seen like this.
	since time.Time
	// use, users and err are the result of the last test, which is repeated at again, if that is set; pause was the time until then.
	use   plan.Use
	users []string
	err   error
	again time.Time
	pause time.Duration
	// doubt is about udev's record; it outlives changes of the device.
	doubt doubt
}

// New makes an Observer.
func New(cfg Config) *Observer {
	return &Observer{cfg: cfg, wake: make(chan struct{}, 1), devices: map[string]*device{}}
}

// Watch signals what the source does, and when a test is due.
func (o *Observer) Watch(ctx context.Context) (<-chan struct{}, error) {
	events, err := o.cfg.Source.Watch(ctx)
	if err != nil {
		return nil, err
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer o.disarm()
		for {
			select {
			case <-o.wake:
			case _, ok := <-events:
				if !ok {
					return
				}
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// Observe observes, and tests the devices that are due.
func (o *Observer) Observe(ctx context.Context) (plan.Snapshot, error) {
	began := time.Now()
	snap, err := o.cfg.Source.Observe(ctx)
	if err != nil {
		return snap, err
	}
	idle := o.cfg.Devices.Idle()
	tests, doubts := o.compare(snap, began, idle)
	o.test(ctx, snap, tests)
	o.recall(snap)
	for _, d := range doubts {
		o.trigger(d)
	}
	return snap, nil
}

// compare takes note of what has changed. It returns the devices to test, by their place in the snapshot, and those of which udev's
// record is to be renewed. A device that cannot be read whole is not remembered.
func (o *Observer) compare(snap plan.Snapshot, began time.Time, idle bool) (map[int]*device, []plan.Device) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	tests, seen := map[int]*device{}, map[string]*device{}
	var doubts []plan.Device
	var next time.Time
	for i, d := range snap.Devices {
		known := o.meet(d, now)
		if known == nil {
			continue
		}
		seen[number(d)] = known
		if known.doubt.due(d, known.since.Add(o.cfg.Quiet), began, idle) {
			doubts = append(doubts, d)
		}
		next = earlier(next, known.doubt.next)
		if !plan.Promising(d, o.cfg.Policy) {
			continue
		}
		at := o.testAt(known)
		wait := !idle && began.Before(at.Add(idlePatience))
		if at.IsZero() || at.After(began) || wait {
			next = earlier(next, at)
			continue
		}
		tests[i] = known
	}
	o.devices = seen
	o.arm(next)
	return tests, doubts
}

// meet is what is remembered of a device, which begins anew when anything about it has changed.
func (o *Observer) meet(d plan.Device, now time.Time) *device {
	looks := fingerprint(d)
	if looks == "" {
		return nil
	}
	known := o.devices[number(d)]
	if known != nil && known.looks == looks && known.path == d.Path {
		return known
	}
	fresh := &device{looks: looks, path: d.Path, since: now}
	if known != nil {
		fresh.doubt = known.doubt
	}
	return fresh
}

// recall writes the results into the snapshot.
func (o *Observer) recall(snap plan.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range snap.Devices {
		d := &snap.Devices[i]
		known := o.devices[number(*d)]
		if known == nil || known.path != d.Path {
			continue
		}
		d.Use, d.Users = known.use, known.users
		if known.err != nil && plan.Promising(*d, o.cfg.Policy) {
			d.Unreadable = append(d.Unreadable, known.err.Error())
		}
	}
}

// Hold holds the devices of a plan, and forgets what was found about those that it changes: what comes after is looked for anew.
func (o *Observer) Hold(ctx context.Context, p plan.Plan) (release func(context.Context), err error) {
	held, err := o.cfg.Guard.Hold(ctx, p)
	if err != nil {
		o.forget(p.Changes())
		return nil, err
	}
	return func(ctx context.Context) {
		held(ctx)
		o.forget(p.Changes())
	}, nil
}

func (o *Observer) forget(paths []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, known := range o.devices {
		if slices.Contains(paths, known.path) {
			// A new one, for the result of a test under way belongs to the old one.
			o.devices[key] = &device{path: known.path, doubt: known.doubt}
		}
	}
}

func number(d plan.Device) string { return fmt.Sprintf("%d:%d", d.Major, d.Minor) }

// fingerprint condenses what may change about a device; empty when not all is known.
func fingerprint(d plan.Device) string {
	digest := plan.Digest(d)
	if digest == "" {
		return ""
	}
	return fmt.Sprint(d.Version, " ", digest, " ", d.Holders, d.Mounts, d.Suspended, d.ReadOnly)
}

// earlier is the earlier of two moments that are set.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
