package quiet

import "time"

// arm lets the watchers look again at that moment, and not before; never when it is zero.
func (o *Observer) arm(at time.Time) {
	o.due = at
	switch {
	case at.IsZero() && o.timer != nil:
		o.timer.Stop()
	case at.IsZero():
	case o.timer == nil:
		o.timer = time.AfterFunc(time.Until(at), o.fire)
	default:
		o.timer.Reset(time.Until(at))
	}
}

// disarm ends the waiting, when nobody watches any more.
func (o *Observer) disarm() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arm(time.Time{})
}

// fire lets the watchers look. While udev still has something to do it waits, but not for ever.
func (o *Observer) fire() {
	idle := o.cfg.Devices.Idle()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.due.IsZero():
		return
	case !idle && time.Since(o.due) < idlePatience:
		o.timer.Reset(idlePause)
		return
	}
	o.due = time.Time{}
	select {
	case o.wake <- struct{}{}:
	default:
	}
}
