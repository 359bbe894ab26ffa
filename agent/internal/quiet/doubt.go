package quiet

import (
	"errors"
	"io/fs"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
)

// pauses are before each time that udev is made to look again. When the last time has not changed udev's mind, udev sees something on
// the device that we do not, and stays with it.
var pauses = []time.Duration{0, 10 * time.Second, time.Minute}

// doubt is a contradiction between udev's record and the device.
type doubt struct {
	// claim is what the contradiction is; empty when there is none.
	claim string
	// last is when udev was last made to look, or when the doubt was first seen; made counts how often it was.
	last time.Time
	made int
	// next is when it is due again; zero when it is not.
	next time.Time
}

// due reports whether udev is to be made to look at the device now, and counts it. It is when the device has been quiet for long
// enough and udev has nothing to do, so that nobody is about to mend the record.
func (a *doubt) due(d plan.Device, quiet, now time.Time, idle bool) bool {
	claim := plan.Outdated(d)
	if claim != a.claim {
		*a = doubt{claim: claim, last: now}
	}
	a.next = time.Time{}
	if claim == "" || a.made == len(pauses) {
		return false
	}
	at := a.last.Add(pauses[a.made])
	if quiet.After(at) {
		at = quiet
	}
	switch {
	case at.After(now):
		a.next = at
		return false
	case !idle:
		a.next = now.Add(idlePatience)
		return false
	}
	a.made, a.last = a.made+1, now
	if a.made < len(pauses) {
		a.next = now.Add(pauses[a.made])
	}
	return true
}

// trigger makes udev look at one device. What comes of it is seen when udev has written its record.
func (o *Observer) trigger(d plan.Device) {
	o.cfg.Log.Info("Making udev look again", "device", d.Path, "reason", plan.Outdated(d))
	if err := o.cfg.Devices.Trigger(d); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.cfg.Log.Error(err, "Making udev look again", "device", d.Path)
	}
}
