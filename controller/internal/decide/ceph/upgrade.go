package ceph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quarry.storage/quarry/pkg/cephname"
)

// order is the one in which daemons get another version, by kind.
var order = []string{cephname.DaemonMonitor, cephname.DaemonManager, cephname.DaemonOSD, cephname.DaemonMetadata}

// Daemon is one that the Cluster deploys.
type Daemon struct {
	// Kind is one of the constants cephname.DaemonXxx that Ceph has, Name what Ceph calls it: a, x, 7.
	Kind, Name, Host string
	// Image that it is deployed with.
	Image string
	// Version that runs; zero when that is not known.
	Version Version
	// Running is what Ceph says: it is in the quorum, up, or one of those that serve or stand by.
	Running bool
	// Restarting: what runs is not yet what is deployed.
	Restarting bool
	// Failing is what the kubelet says: its pod does not start, or its program ends again and again.
	Failing bool
	// Active: it is the manager or the metadata server that serves.
	Active bool
	// OKToStop is what Ceph says of an OSD.
	OKToStop Answer
	// Locked says why nobody opens the disk of an OSD, as that of a Disk does: the daemon runs until it stops.
	Locked string
}

// String is the daemon as Ceph names it.
func (d Daemon) String() string { return d.Kind + "." + d.Name }

// OtherSettings is added to the image of a daemon that has the right one, and is to get something else, such as other resources.
const OtherSettings = " with other settings"

// Upgrade is the image that all daemons are to have.
type Upgrade struct {
	Image string
	// Version of its programs; zero when that is not known.
	Version Version
	// Hosts that are worked with.
	Hosts []Host
	// Health is what Ceph says in a word, such as HEALTH_OK.
	Health string
}

// PlanUpgrade returns at most one step: the next daemon that gets the image, in Ceph's order, once all others are well. It goes forth and back alike,
// as far as Ceph allows that. An OSD whose disk no key opens would not start again, so it keeps what it has, and others of its turn go on.
func PlanUpgrade(w Upgrade, f Facts) Plan {
	var p Plan
	const unknown = "Not everything is known of the daemons, so none gets another image."
	if f.Quorum == nil || f.Map == nil || f.Daemons == nil {
		p.wait(unknown)
		return p
	}
	daemons := slices.Clone(*f.Daemons)
	slices.SortFunc(daemons, before)
	keeps := w.keep(&p, daemons)
	next := w.next(daemons)
	if next < 0 {
		w.require(&p, daemons, f)
		return p
	}
	d := daemons[next]
	if f.Groups == nil && !w.withoutGroups(d, daemons) {
		p.wait(unknown)
		return p
	}
	if why := Allowed(w.Version, daemons, f.Quorum.MinRelease, f.Map.RequireRelease); why != "" {
		p.wait("The image %s is not used: %s", w.Image, why)
		return p
	}
	if keeps >= 0 && d.Kind != daemons[keeps].Kind && daemons[keeps].Version.Major != w.Version.Major {
		p.wait("%s waits for image %s: %s comes before it, and keeps a version that is too far behind.", d, w.Image, daemons[keeps])
		return p
	}
	if why := w.unwell(daemons, d, f); why != "" {
		p.wait("%s waits for image %s: %s", d, w.Image, why)
		return p
	}
	s := Step{Do: ReplaceDaemon, Name: d.String(), Host: d.Host, ID: -1, Why: "The Cluster wants another image."}
	if d.Kind == cephname.DaemonMonitor && len(f.Quorum.Monitors) < 3 {
		s.Loses = fmt.Sprintf("Nothing is served until monitor %s on host %s is back: the others are no quorum without it.", d.Name, d.Host)
	}
	p.step(s)
	return p
}

// keep tells of the daemons that do not get the image because they would not start again, and returns the index of the first one; -1 where there is none.
func (w Upgrade) keep(p *Plan, daemons []Daemon) int {
	first := -1
	for i, d := range daemons {
		if d.Image == w.Image || d.Locked == "" {
			continue
		}
		if first < 0 {
			first = i
		}
		p.wait("%s does not get image %s, for it would not start again: %s. If the key is lost for ever, empty the OSD while its disk is open: have Ceph mark it out.", d, w.Image, d.Locked)
	}
	return first
}

// before orders daemons: by kind, those that serve last, and then by name.
func before(a, b Daemon) int {
	active := map[bool]int{true: 1}
	return cmp.Or(
		slices.Index(order, a.Kind)-slices.Index(order, b.Kind), active[a.Active]-active[b.Active],
		cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name),
	)
}

// next is the index of the daemon whose turn it is; -1 when all have the image that may have it.
func (w Upgrade) next(daemons []Daemon) int {
	if i := slices.IndexFunc(daemons, func(d Daemon) bool { return w.revives(d, daemons) }); i >= 0 {
		return i
	}
	if i := slices.IndexFunc(daemons, func(d Daemon) bool { return w.mends(d, daemons) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(daemons, func(d Daemon) bool { return d.Image != w.Image && d.Locked == "" })
}

// revives reports whether a daemon gets what the spec wants before its turn, however many others do not run, and whatever Ceph's health is: it fails with what it has, so nothing is served less by it, and all others may
// wait for it. Of versions it gets one of the major release that those of the kinds before it run, as Ceph wants it.
func (w Upgrade) revives(d Daemon, daemons []Daemon) bool {
	if d.Running || !d.Failing || d.Image == w.Image || d.Locked != "" || w.hostless(d) != "" {
		return false
	}
	return strings.TrimSuffix(d.Image, OtherSettings) == w.Image || !slices.ContainsFunc(daemons, func(o Daemon) bool {
		earlier := slices.Index(order, o.Kind) < slices.Index(order, d.Kind)
		return earlier && o.Running && o.Version.Major != w.Version.Major
	})
}

// PlanRevival returns at most one step: a monitor that fails with what it has gets what the spec wants, while there is no quorum that could say anything against it. Without that a broken image, or too little
// memory, could never be taken back. It is for daemons that are not what the spec wants.
func PlanRevival(w Upgrade, outdated []Daemon) Plan {
	var p Plan
	slices.SortFunc(outdated, before)
	for _, d := range outdated {
		if d.Kind != cephname.DaemonMonitor || !d.Failing {
			continue
		}
		if why := w.hostless(d); why != "" {
			p.wait("%s waits for image %s: %s", d, w.Image, why)
			continue
		}
		p.step(Step{Do: ReplaceDaemon, Name: d.String(), Host: d.Host, ID: -1, Why: "The monitor fails with what it has, and there is no quorum that it is missed in."})
		return p
	}
	return p
}

// withoutGroups reports whether a daemon is mended even if nobody tells of the placement groups, as without a manager: a manager that does not run is.
func (w Upgrade) withoutGroups(d Daemon, daemons []Daemon) bool {
	return d.Kind == cephname.DaemonManager && !d.Running || w.revives(d, daemons)
}

// stopped reports whether a daemon is a manager or a metadata server that does not run. Nothing is served less while it starts anew.
func (d Daemon) stopped() bool {
	return !d.Running && (d.Kind == cephname.DaemonManager || d.Kind == cephname.DaemonMetadata)
}

// mends reports whether a daemon that does not run comes before its turn, since all others wait for it, so that no broken image would be taken back: where another one of its kind runs with the
// image already, and, of managers and of metadata servers, where none runs and no daemon of the kinds before it is older than the image.
func (w Upgrade) mends(d Daemon, daemons []Daemon) bool {
	if d.Running || d.Image == w.Image || d.Locked != "" {
		return false
	}
	some := func(is func(Daemon) bool) bool { return slices.ContainsFunc(daemons, is) }
	if some(func(o Daemon) bool {
		return o.Kind == d.Kind && o.Running && o.Image == w.Image && o.Version == w.Version
	}) {
		return true
	}
	return d.stopped() && !some(func(o Daemon) bool {
		earlier := slices.Index(order, o.Kind) < slices.Index(order, d.Kind)
		return o.Kind == d.Kind && o.Running || earlier && o.Running && o.Version.Compare(w.Version) < 0
	})
}

// unwell says why the next daemon does not get its image yet; empty if nothing speaks against it. A daemon that does not run may get it: that may be
// what mends it. All others have to run.
func (w Upgrade) unwell(daemons []Daemon, d Daemon, f Facts) string {
	if w.revives(d, daemons) {
		return ""
	}
	// Without a manager, or a metadata server, the health is HEALTH_ERR until one runs.
	if !d.stopped() && w.Health != "HEALTH_OK" && w.Health != "HEALTH_WARN" {
		return fmt.Sprintf("the health is %q.", w.Health)
	}
	if why := w.others(daemons, d); why != "" {
		return why
	}
	if why := w.hostless(d); why != "" {
		return why
	}
	if d.Kind == cephname.DaemonMonitor {
		return lost(*f.Quorum, d.Name)
	}
	if f.Groups == nil {
		return ""
	}
	if d.Running && !f.Groups.clean() {
		return fmt.Sprintf("%d of %d placement groups are clean.", f.Groups.Clean, f.Groups.Total)
	}
	if d.Kind == cephname.DaemonOSD && d.Running && d.OKToStop != Yes {
		return fmt.Sprintf("it cannot be stopped (ok to stop: %s).", d.OKToStop)
	}
	return ""
}

// hostless says why nothing is done on the host of a daemon; empty if nothing speaks against it.
func (w Upgrade) hostless(d Daemon) string {
	if slices.ContainsFunc(w.Hosts, func(h Host) bool { return h.Name == d.Host && h.Serving && !h.Maintenance }) {
		return ""
	}
	return fmt.Sprintf("its host %s cannot be worked with.", d.Host)
}

// others says what one of the other daemons lacks; empty if they all run, those with the image the version of it.
func (w Upgrade) others(daemons []Daemon, d Daemon) string {
	for _, other := range daemons {
		if d.stopped() && other.stopped() && other.Image != w.Image {
			// Of those none of which runs one has to be the first.
			continue
		}
		switch {
		case other != d && !other.Running:
			return fmt.Sprintf("%s does not run.", other)
		case other != d && other.Restarting:
			return fmt.Sprintf("%s is not ready since it was deployed.", other)
		}
		if other.Image == w.Image && other.Version != w.Version {
			return fmt.Sprintf("%s has the image and runs version %s, not %s.", other, other.Version, w.Version)
		}
	}
	return ""
}

// lost says that the monitors would be no quorum while one restarts; empty if they are one, or are too few for that at any time.
func lost(q Quorum, name string) string {
	n, in := len(q.Monitors), q.in()
	if q.has(name) {
		in--
	}
	if n >= 3 && in < majority(n) {
		return fmt.Sprintf("%d of %d monitors would be in the quorum.", in, n)
	}
	return ""
}

// require raises the floor of the OSDs once all run the major version. There is no way back below it.
func (w Upgrade) require(p *Plan, daemons []Daemon, f Facts) {
	if w.Version == (Version{}) || f.Map.RequireRelease >= w.Version.Major || !f.Groups.clean() {
		return
	}
	for _, d := range daemons {
		if !d.Running || d.Version != w.Version {
			p.wait("%s does not run version %s yet.", d, w.Version)
			return
		}
	}
	p.step(Step{Do: RequireRelease, Value: w.Version.Major, ID: -1, Why: "All daemons run the version, and it goes no further back."})
}
