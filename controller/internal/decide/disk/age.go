package disk

import (
	"fmt"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// DefaultMinAge is how long a disk must have been there before it is taken, unless the spec says otherwise.
const DefaultMinAge = time.Minute

// selects reports whether the spec says which disks it means. One that does not means those that are there when the host joins.
func (c Claim) selects() bool {
	s := c.Selector
	return s != nil && (len(s.Paths) > 0 || s.MinSize != nil || s.MaxSize != nil || s.Rotational != nil || s.Model != "" || len(s.Transports) > 0)
}

// late reports whether a device came, or became clean, too late for a spec that means the disks that are there when the host joins.
func (c Claim) late(d decide.Device) bool {
	return c.Joined && !c.selects() && !c.hotplug() && !c.names(d)
}

func (c Claim) hotplug() bool { return c.Selector != nil && c.Selector.Hotplug }

// MinAge returns how long a disk must have been there before the spec takes it.
func MinAge(s *v1alpha1.DeviceSelector) time.Duration {
	if s == nil || s.MinAge == nil {
		return DefaultMinAge
	}
	return s.MinAge.Duration
}

// patience returns how long a device has to wait until it is old enough. It is not known for a device of unknown age. A disk that the spec
// names does not wait.
func (in Input) patience(d decide.Device) (left time.Duration, known bool) {
	least := MinAge(in.Claim.Selector)
	switch {
	case least <= 0, in.Claim.names(d):
		return 0, true
	case d.Since.IsZero():
		return 0, false
	}
	return max(0, least-in.Now.Sub(d.Since)), true
}

// tooYoung says why a clean device is not taken yet; empty when it is old enough. left is when to look again.
func (in Input) tooYoung(d decide.Device) (why string, left time.Duration) {
	left, known := in.patience(d)
	switch {
	case !known:
		return "its agent does not tell how long it has been there, which must be devices.minAge: update the agent, or list the disk under devices.paths", 0
	case left > 0:
		return fmt.Sprintf("is too young: it is taken within %s, once it has been there for %s (devices.minAge)", coarse(left), MinAge(in.Claim.Selector)), left
	}
	return "", 0
}

// coarse rounds a time up, so that what is said does not change every second.
func coarse(d time.Duration) time.Duration {
	const step = 10 * time.Second
	return (d + step - 1) / step * step
}

const lateText = "was not there, or not clean, when the host joined: set devices.hotplug or select it"

// await keeps a new group from being made while a disk that belongs in it is too young: once the group exists, no other disk is taken.
func (c *Choice) await(in Input) {
	if in.Claim.Joined || in.Claim.selects() || in.Claim.hotplug() || c.Wake == 0 {
		return
	}
	c.Take, c.Wipe = nil, nil
}
