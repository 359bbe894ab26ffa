package device

import (
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/disk"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// sight is how the agent of a node shows a disk that its server has.
type sight int

const (
	// unheard: nobody knows, as the agent is not heard.
	unheard sight = iota
	// shown: the disk on record is under its path.
	shown
	// missing: nothing is under its path. another: another disk is.
	missing
	another
	// stale: it is shown, and may have been plugged in after the server started. The server has the number that the disk had before, which may be another one's by now.
	stale
)

// Pod is what is known of the workload of a server, and of its pod.
type Pod struct {
	// Workload: there is one. Has are the paths of machines that its template has.
	Workload bool
	Has      []string
	// Started is since when the server runs, on the clock of its machine; zero while it does not, or nobody says so. No other clock is compared with it.
	Started time.Time
	// Made is when this process saw that the pod did not exist yet, and Began when it saw that this container of it did not run yet, on its own clock; zero where it did not see that.
	Made, Began time.Time
	// Idle is since when no container of the pod runs; zero while one may.
	Idle time.Time
}

// stale reports whether a disk may have been plugged in after the server started, by what this process saw.
func (p Pod) stale(d decide.Device) bool {
	return !p.Started.IsZero() && !p.Began.IsZero() && !d.Since.IsZero() && !d.Since.Before(p.Began)
}

// look says how the agent shows a disk that the server has.
func (f Facts) look(r v1alpha1.GlusterDevice) sight {
	if !f.Agent.Up() || f.Host != string(r.Node) {
		return unheard
	}
	switch at, there := f.Agent.Device(string(r.Path)); {
	case !there:
		return missing
	case !(disk.Record{Device: r}).Is(f.Host, at):
		return another
	}
	return shown
}

// Without returns the devices that the template of the server leaves out. A disk that somebody else has on record comes into no template that does not have it. Kubernetes starts no pod whose disk is not there, and a disk that died must not take the others with it. Once the
// disk is shown again the template has it again. A template never changes because of a disk while a server runs with it: whoever replaces pods would take that for an earlier one.
func Without(f Facts, d Decision) []v1alpha1.DevicePath {
	var out []v1alpha1.DevicePath
	for _, v := range d.Verdicts {
		if r := f.record(v.Device); v.has && r != nil && f.leavesOut(v, string(r.Path)) {
			out = append(out, v.Device)
		}
	}
	return out
}

// lasts reports whether something has been so for long enough.
func (f Facts) lasts(since time.Time) bool { return !since.IsZero() && f.Now.Sub(since) >= Settled }

// leavesOut decides about one disk.
func (f Facts) leavesOut(v Verdict, path string) bool {
	// What nobody can see stays as it was.
	has := slices.Contains(f.Pod.Has, path)
	was := f.Pod.Workload && !has
	if !has && !v.granted {
		return true
	}
	switch v.sight {
	case shown, stale:
		return false
	case another:
		// A server that starts now would get the other disk.
		return was || f.Pod.Started.IsZero()
	case missing:
		// After a boot the names of disks come one after the other, so that the agent and the pod get their time. A pod may hang for another reason, too: the disk itself has to be away for as long.
		return was || f.lasts(f.Pod.Idle) && f.lasts(f.Agent.Session) && f.lasts(f.Missing[v.Device])
	}
	return was
}
