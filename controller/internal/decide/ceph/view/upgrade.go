package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// planUpgrade compares what daemons were made of with what they are to be made of: the image, and all else that is in their pods.
func (v *View) planUpgrade(hosts []ceph.Host, f ceph.Facts) ceph.Plan {
	if f.Daemons == nil || f.Map == nil || !noted.Served(v.seen.Cluster) {
		return ceph.Plan{}
	}
	daemons := v.deployed(*f.Daemons)
	w := ceph.Upgrade{Image: v.pods().Image, Hosts: hosts, Health: v.seen.Ceph.Health}
	drifted, mixed := false, false
	for _, d := range daemons {
		have := strings.TrimSuffix(d.Image, ceph.OtherSettings)
		if have == w.Image && d.Version != (ceph.Version{}) {
			w.Version = d.Version
		}
		drifted, mixed = drifted || d.Image != w.Image, mixed || have != w.Image
	}
	if !drifted && f.Map.RequireRelease >= w.Version.Major {
		return ceph.Plan{}
	}
	// A daemon that was just given the image still tells the version before. Should the tag be wrong, the first daemon says so, and no other one follows.
	if told, err := ceph.ParseVersion(strings.TrimPrefix(tag(w.Image), "v")); mixed && err == nil {
		w.Version = told
	}
	f.Daemons = &daemons
	return ceph.PlanUpgrade(w, f)
}

// planRevival is about monitors while there is no quorum. What is wanted of a monitor that is the first one of a cluster that nobody has seen yet stays so.
func (v *View) planRevival(hosts []ceph.Host) ceph.Plan {
	var outdated []ceph.Daemon
	for _, have := range v.of(cephname.DaemonMonitor) {
		if v.outdated(have) {
			outdated = append(outdated, ceph.Daemon{Kind: have.Kind, Name: have.ID, Host: have.Node, Image: have.Image, Failing: have.Failing})
		}
	}
	return ceph.PlanRevival(ceph.Upgrade{Image: v.pods().Image, Hosts: hosts}, outdated)
}

// pause is how long nobody fails a metadata server over once more: the one before may serve again, whatever makes it.
const pause = time.Minute

// planUpkeep is about monitors and metadata servers on hosts in maintenance.
func (v *View) planUpkeep(f ceph.Facts) ceph.Plan {
	records, _ := v.monitors()
	w := ceph.Upkeep{Hosts: v.hosts(), Monitors: records, Servers: map[string]string{}, Wanted: v.servers(), Lately: v.seen.Now.Sub(v.seen.FailedOver) < pause}
	for _, d := range v.of(cephname.DaemonMetadata) {
		w.Servers[d.ID] = d.Node
	}
	return ceph.PlanUpkeep(w, f)
}

// deployed are the daemons that have a Deployment, with what that says. Ceph forgets a manager, and a metadata server, that does not run: of one that it does not tell of only the Deployment is known,
// and no other one gets an image that it did not start with.
func (v *View) deployed(told []ceph.Daemon) []ceph.Daemon {
	out := []ceph.Daemon{}
	for _, have := range v.seen.Workloads.Daemons {
		i := slices.IndexFunc(told, func(d ceph.Daemon) bool { return have.Kind == d.Kind && have.ID == d.Name })
		d := ceph.Daemon{Kind: have.Kind, Name: have.ID}
		switch {
		case i >= 0:
			d = told[i]
		case have.Kind == cephname.DaemonOSD || have.Kind == cephname.DaemonTools || have.Going:
			// An OSD that never ran is none yet, and what goes on a host that is dead may never be gone.
			continue
		}
		d.Host, d.Image, d.Restarting, d.Failing, d.Locked = have.Node, have.Image, !have.Ready, have.Failing, v.lockedDaemon(have)
		if have.Image == v.pods().Image && v.outdated(have) {
			d.Image += ceph.OtherSettings
		}
		out = append(out, d)
	}
	return out
}

// lockedDaemon says why the daemon of a Deployment would not open its disk again; empty for one that would.
func (v *View) lockedDaemon(have Workload) string {
	for _, o := range record(v.member(have.Node)).OSDs {
		if have.Kind == cephname.DaemonOSD && o.UUID == have.UUID {
			return v.locked(o)
		}
	}
	return ""
}

// tag is that of an image; empty for one that is named by its digest only.
func tag(image string) string {
	name, _, _ := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], "@")
	_, out, _ := strings.Cut(name, ":")
	return out
}

// tooOld says why nothing is begun with the image of the spec; empty if it may be. Once there is a monitor, an upgrade compares what daemons run. Those of a Ceph cluster that is taken up run no earlier version either.
func (v *View) tooOld() string {
	image, w := v.pods().Image, v.seen.Workloads
	records, _ := v.monitors()
	if !ceph.TooOld(tag(image)) || v.quorumSeen() || len(records) > 0 || w != nil && len(w.Daemons) > 0 {
		return ""
	}
	return fmt.Sprintf("Nothing is begun: the tag of the image %s names a version before Ceph %d. Set spec.ceph.image to an image of Ceph %[2]d or later, such as %s, or leave it out.", image, ceph.MinMajor, v1alpha1.CephImage)
}

// held says why the disks of the hosts are left alone before anything is begun; zero if they are not.
func (v *View) held() backend.Finding {
	f := backend.Finding{Kind: backend.Bad, Message: "its disks are left alone. "}
	if why := v.earlier(); why != "" {
		f.Reason, f.Message = v1alpha1.ReasonVolumesMissing, f.Message+why
		return f
	}
	if why := v.tooOld(); why != "" {
		f.Reason, f.Message = v1alpha1.ReasonCephImageTooOld, f.Message+why
		return f
	}
	return backend.Finding{}
}

// outdated reports whether a Deployment is not what it is to be. One whose daemon is not on record is left as it is.
func (v *View) outdated(have Workload) bool {
	want, ok := v.wanted(have)
	want.Image, want.First = v.pods().Image, have.First
	return ok && (have.Image != want.Image || have.Template != cephpod.Template(v.pods().Deployment(want)))
}

// Outdated returns the IDs of the OSDs whose Deployments are not what they are to be, in the order in which they get their turn: lowest first. Those are left out that get none, as
// nobody would open their disks again: Ceph is asked about the first one alone. It needs nothing that Ceph says.
func Outdated(o Observation) []int {
	var out []int
	if o.Workloads == nil {
		return out
	}
	v := bare(o)
	for _, have := range v.of(cephname.DaemonOSD) {
		if id, err := strconv.Atoi(have.ID); err == nil && v.outdated(have) && v.lockedDaemon(have) == "" {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// image is what a daemon that is made now runs. While daemons have another image than the spec wants, it is one of theirs, or the daemon would be ahead
// of the order, and might be what the rules about versions forbid. The upgrade comes to it in its turn.
func (v *View) image(kind string) string {
	want := v.pods().Image
	if kind == cephname.DaemonTools {
		// What it makes is what OSDs open.
		kind = cephname.DaemonOSD
	}
	others := slices.DeleteFunc(slices.Clone(v.seen.Workloads.Daemons), func(w Workload) bool { return w.Kind == cephname.DaemonTools || w.Image == "" })
	if own := slices.DeleteFunc(slices.Clone(others), func(w Workload) bool { return w.Kind != kind }); len(own) > 0 {
		others = own
	}
	for _, w := range others {
		if w.Image != want {
			return w.Image
		}
	}
	return want
}

// wanted is the daemon that a Deployment stands for, with the image that it has.
func (v *View) wanted(have Workload) (cephpod.Daemon, bool) {
	d := cephpod.Daemon{Kind: have.Kind, ID: have.ID, Node: have.Node, Image: have.Image}
	r := record(v.member(have.Node))
	switch have.Kind {
	case cephname.DaemonMonitor:
		if r.Monitor == nil || r.Monitor.Name != have.ID {
			return d, false
		}
		d.Address = r.Monitor.Address
	case cephname.DaemonOSD:
		i := slices.IndexFunc(r.OSDs, func(o v1alpha1.MemberOSD) bool { return o.UUID == have.UUID })
		if i < 0 {
			return d, false
		}
		d.UUID, d.Device, d.Encrypted, d.Secret = have.UUID, string(r.OSDs[i].Path), r.OSDs[i].Encrypted, r.OSDs[i].Secret
	}
	return d, true
}

// upgraded says whether all daemons are what the spec wants, and what those that are not wait for. What Ceph said last stands while it is being asked.
func (v *View) upgraded() metav1.Condition {
	const t = v1alpha1.ConditionDaemonsCurrent
	if v.seen.Workloads == nil || v.deleting() || !noted.Served(v.seen.Cluster) {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Daemons are compared with the spec while the filesystem is served.")
	}
	var behind []string
	for _, w := range v.seen.Workloads.Daemons {
		if w.Kind != cephname.DaemonTools && v.outdated(w) {
			behind = append(behind, w.Kind+"."+w.ID)
		}
	}
	if slices.Sort(behind); len(behind) == 0 {
		return yes(t, v1alpha1.ReasonDaemonsCurrent, fmt.Sprintf("Every daemon has the image %s and the resources of the spec.", v.pods().Image))
	}
	text := fmt.Sprintf("The image %s or other settings are still to be given to %s.", v.pods().Image, backend.Shorten(behind, 9))
	if v.seen.Ceph != nil {
		for _, w := range v.planUpgrade(v.hosts(), v.seen.Ceph.Facts).Waits {
			text += " " + w
		}
	}
	return no(t, v1alpha1.ReasonDaemonsOutdated, text)
}

// version are the versions that the daemons run, the lowest first. Of one that does not run it is not known.
func version(daemons []ceph.Daemon) string {
	var all []ceph.Version
	for _, d := range daemons {
		if d.Version != (ceph.Version{}) && !slices.Contains(all, d.Version) {
			all = append(all, d.Version)
		}
	}
	slices.SortFunc(all, ceph.Version.Compare)
	text := make([]string, len(all))
	for i, v := range all {
		text[i] = v.String()
	}
	return strings.Join(text, ", ")
}
