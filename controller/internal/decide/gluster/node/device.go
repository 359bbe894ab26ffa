// Package node decides what a GlusterNode needs to serve: that its server is a member of the pool under its own ID and in its zone, and that its devices are
// registered, and enabled exactly while it takes bricks. It is pure.
package node

import (
	"fmt"
	"strings"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// Do is what a step does.
type Do string

// What steps do.
const (
	// Join asks the server Via to take the node into the pool, at Address.
	Join Do = "Join"
	// SetZone writes the zone of the peer.
	SetZone Do = "SetZone"
	// AddDevice registers the device Path with the provisioner lvm: with any other one, or none such file, the server may end (a134).
	AddDevice Do = "AddDevice"
	// EnableDevice and DisableDevice change whether bricks are put on the device Path. They work on a server that is down, too (a143).
	EnableDevice  Do = "EnableDevice"
	DisableDevice Do = "DisableDevice"
)

// Step is one thing to do. All of them may be repeated.
type Step struct {
	Do                       Do
	Via, Address, Zone, Path string
}

// devices are what a peer has registered. It is unknown when the list could not be read.
func devices(p gluster.Pool, peer string) ([]gluster.Device, bool) {
	if p.Devices == nil || peer == "" {
		return nil, false
	}
	var own []gluster.Device
	for _, d := range *p.Devices {
		if gluster.SameID(d.Peer, peer) {
			own = append(own, d)
		}
	}
	return own, true
}

// Disable disables every device of a peer that is not: the node takes no bricks (A7, G7).
func Disable(p gluster.Pool, peer string) []Step { return turn(p, peer, false) }

// Enable enables every device of a peer that is not.
func Enable(p gluster.Pool, peer string) []Step { return turn(p, peer, true) }

func turn(p gluster.Pool, peer string, on bool) []Step {
	own, _ := devices(p, peer)
	var steps []Step
	for _, d := range own {
		if d.Enabled != on {
			what := DisableDevice
			if on {
				what = EnableDevice
			}
			steps = append(steps, Step{Do: what, Path: d.Path})
		}
	}
	return steps
}

// GetFreeSpace returns what the enabled devices of a node have (G8). It fails if the list could not be read, a declared device is not in it, or one says
// something that cannot be.
func GetFreeSpace(p gluster.Pool, peer string, declared []string) (gluster.Space, error) {
	own, known := devices(p, peer)
	if !known {
		return gluster.Space{}, fmt.Errorf("the pool does not tell its devices")
	}
	if missing := absent(own, declared); len(missing) > 0 {
		return gluster.Space{}, fmt.Errorf("device %s is not registered", strings.Join(missing, ", "))
	}
	var sum gluster.Space
	for _, d := range own {
		if d.Free > d.Total {
			return gluster.Space{}, fmt.Errorf("device %s says that more is free than there is", d.Path)
		}
		if !d.Enabled {
			continue
		}
		if sum.Total+d.Total < sum.Total {
			return gluster.Space{}, fmt.Errorf("device %s has a size that cannot be", d.Path)
		}
		sum.Free, sum.Total = sum.Free+d.Free, sum.Total+d.Total
	}
	return sum, nil
}

// Registered reports whether glusterd2 is known to have all of some devices of a peer.
func Registered(p gluster.Pool, peer string, declared []string) bool {
	own, known := devices(p, peer)
	return known && len(absent(own, declared)) == 0
}

// Unregistered reports whether glusterd2 is known not to have a device of a peer.
func Unregistered(p gluster.Pool, peer, path string) bool {
	own, known := devices(p, peer)
	return known && len(absent(own, []string{path})) == 1
}

// absent are the declared devices that are not registered. Paths are compared as text, as glusterd2 does (a084).
func absent(own []gluster.Device, declared []string) []string {
	have := map[string]bool{}
	for _, d := range own {
		have[d.Path] = true
	}
	var missing []string
	for _, path := range declared {
		if !have[path] {
			missing = append(missing, path)
		}
	}
	return missing
}

// ReconcileStorageDevices registers what is declared, and has devices enabled exactly while the node is online. One that is offline is left as it is: nobody
// puts bricks there.
func ReconcileStorageDevices(p gluster.Pool, peer string, declared []string, state nodestate.State) []Step {
	own, known := devices(p, peer)
	if !known {
		return nil
	}
	switch state {
	case nodestate.Online:
		var steps []Step
		for _, path := range absent(own, declared) {
			steps = append(steps, Step{Do: AddDevice, Path: path})
		}
		return append(steps, Enable(p, peer)...)
	case nodestate.Offline:
		return nil
	}
	return Disable(p, peer)
}

// devices has the devices of the node registered, and enabled where they can be used.
func (f Facts) devices(p *Plan) outcome {
	id := gluster.PeerOf(f.Node)
	own, known := devices(f.Pool, id)
	switch {
	case !known:
		return unknown(v1alpha1.ReasonPoolUnknown, "The pool does not tell its devices.")
	case f.quiet():
		return no(v1alpha1.ReasonDeviceDisabled, "The node is %s, so its devices are disabled.", f.Standing.State())
	}
	if steps := f.steps(id, own); len(steps) > 0 {
		p.Steps = append(p.Steps, steps...)
		return no(v1alpha1.ReasonStepTaken, "%d devices are registered, enabled or disabled.", len(steps))
	}
	if out := f.unfit(own); out != nil {
		return *out
	}
	if why := f.unclear(own); why != "" {
		return unknown(v1alpha1.ReasonAgentUnreachable, "%s", why)
	}
	if missing := absent(own, f.Unseen); len(missing) > 0 {
		return no(v1alpha1.ReasonPending, "These devices are in the spec, and not in the pod yet, which is replaced first (PodCurrent): %s.", strings.Join(missing, ", "))
	}
	if missing := absent(own, f.Devices); len(missing) > 0 {
		if bar, barred := f.Barred[missing[0]]; barred {
			return no(bar.Reason, "glusterd2 is not told of %s: %s.", missing[0], strings.TrimSuffix(bar.Why, "."))
		}
		return no(v1alpha1.ReasonPending, "These devices are not registered: %s.", strings.Join(missing, ", "))
	}
	return yes(v1alpha1.ReasonDevicesReady, "All devices are registered and enabled.")
}
