package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/option"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Whole returns what is to be done for the whole, and how it is.
func (v *View) Whole([]backend.HostHealth) backend.Whole {
	c := v.seen.Cluster
	served := noted.Is(c, v1alpha1.AnnotationCephServed)
	w := backend.Whole{
		Silent: v.plan.silent, Serves: served && v.filesystem().Status == metav1.ConditionTrue, Served: served && v.filesystem().Status == metav1.ConditionUnknown,
		Pending: "The StorageClass is made once the filesystem is served.",
		Class:   v.class(),
		Wake:    every, Capacity: v.capacity(), Holding: v.holding(),
	}
	for _, s := range v.plan.steps {
		w.Steps = append(w.Steps, s)
	}
	if !v.seen.Current || backend.Free(c.Spec.Approval, w.Steps) || !served || v.deleting() {
		w.Wake = asking
	}
	w.Facts = []metav1.Condition{v.monitorsReady(), v.filesystem(), v.volumesPresent()}
	// Groups that serve nothing are told as an error as well, and Ceph itself only warns of them. What it said last stands until it says something else.
	w.Failing = served && v.lastHealth() == "HEALTH_ERR"
	if healthy := v.healthy(); healthy.Reason == v1alpha1.ReasonCephError {
		w.Facts = append(w.Facts, healthy)
	} else {
		w.Warnings = append(w.Warnings, healthy)
	}
	w.Warnings = append(w.Warnings, v.configured(), v.upgraded(), v.blocklist())
	if copies, asked := v.copies(); asked {
		w.Risks = append(w.Risks, copies)
	} else {
		w.Warnings = append(w.Warnings, copies)
	}
	w.Warnings = append(w.Warnings, v.encrypted()...)
	return w
}

// capacity is what users of the filesystem see, in whole MiB, for a person to read; what was seen last while nobody can ask.
func (v *View) capacity() *v1alpha1.Space {
	if t := v.seen.Ceph; t != nil && t.TotalBytes > 0 {
		const mib = 1 << 20
		space := backend.SpaceOf(t.TotalBytes/mib*mib, t.AvailableBytes/mib*mib)
		return &space
	}
	old := v.seen.Cluster.Status.Capacity.Total
	return &old
}

// patience is how long what Ceph said stands while it is being asked: a question is a dozen commands, and takes minutes where the nodes have much to do.
const patience = 4 * time.Minute

func yes(t, reason, message string) metav1.Condition {
	return backend.Condition(t, metav1.ConditionTrue, reason, message)
}

func no(t, reason, message string) metav1.Condition {
	return backend.Condition(t, metav1.ConditionFalse, reason, message)
}

// later adds to a message what is waited for.
func (v *View) later(message string) string {
	if len(v.plan.waits) == 0 {
		return message
	}
	return message + " " + strings.Join(v.plan.waits[:min(5, len(v.plan.waits))], " ")
}

// old reports whether what was said last stands no more: nobody can ask, or the answer takes too long.
func (v *View) old() bool {
	return v.stale() != "" && (v.seen.Asking != BeingAsked || v.seen.Now.Sub(v.seen.Ceph.At) > patience)
}

// stale says how old what was said last is, while nobody can ask.
func (v *View) stale() string {
	t := v.seen.Ceph
	if v.seen.Current || t == nil || v.seen.Now.Sub(t.At) < time.Minute {
		return ""
	}
	return fmt.Sprintf(" Ceph said that at %s. Since then: %s", t.At.UTC().Format(time.RFC3339), or(v.seen.Asking, "nobody could ask since."))
}

func (v *View) monitorsReady() metav1.Condition {
	const t = v1alpha1.ConditionMonitorsReady
	c, told := v.seen.Cluster, v.seen.Ceph
	switch {
	case v.seen.Workloads != nil && noted.Is(c, v1alpha1.AnnotationCephKeys) && !v.seen.Workloads.Keys:
		return no(t, v1alpha1.ReasonCephKeysMissing, v.later("The keys of the Ceph cluster are missing."))
	case !noted.Is(c, v1alpha1.AnnotationCephFormed):
		return v.forming()
	case told == nil && v.seen.Asking == BeingAsked:
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "The monitors are being asked for the first time since the controller started.")
	case told == nil || told.Quorum == nil || v.old():
		return no(t, v1alpha1.ReasonCephUnreachable, "The monitors do not answer. "+v.seen.Asking)
	}
	var out []string
	records, _ := v.monitors()
	for _, r := range records {
		if !slices.ContainsFunc(told.Quorum.Monitors, func(m ceph.Monitor) bool { return m.Name == r.Name && m.In }) {
			out = append(out, r.Name+" on "+r.Host)
		}
	}
	if len(out) > 0 {
		return no(t, v1alpha1.ReasonMonitorMissing, "Not in the quorum: "+backend.Shorten(out, 9))
	}
	return yes(t, v1alpha1.ReasonMonitorsReady, fmt.Sprintf("All %d monitors are in the quorum.", len(records))+v.stale())
}

func (v *View) filesystem() metav1.Condition {
	const t = v1alpha1.ConditionFilesystemReady
	told := v.seen.Ceph
	switch {
	case !noted.Is(v.seen.Cluster, v1alpha1.AnnotationCephServed):
		return no(t, v1alpha1.ReasonPending, v.later("The filesystem is not made yet."))
	case told == nil || v.old():
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonCephUnreachable, "Nobody can say now whether the filesystem is served."+v.stale())
	}
	// Until both are read nobody can say that a volume is served. Another part that could not be read, such as what a manager knows, does not matter to volumes.
	if told.Daemons == nil || told.Filesystem == ceph.Unknown {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonCephUnreachable,
			backend.Cut("Whether the filesystem is served could not be read. "+told.Problem, 512))
	}
	active := slices.ContainsFunc(*told.Daemons, func(d ceph.Daemon) bool { return d.Kind == cephname.DaemonMetadata && d.Active })
	switch {
	case told.Filesystem == ceph.No:
		return no(t, v1alpha1.ReasonNoFilesystem, v.later("The filesystem does not exist."))
	case told.Group == ceph.No || v.seen.Workloads != nil && v.seen.Workloads.Client == "":
		return no(t, v1alpha1.ReasonPending, v.later("The group of the volumes, or the key of their clients, is not made yet."))
	case !active:
		return no(t, v1alpha1.ReasonNoFilesystem, v.later("No metadata server serves the filesystem."))
	}
	return yes(t, v1alpha1.ReasonFilesystemReady, "The filesystem is served."+v.stale())
}

func (v *View) healthy() metav1.Condition {
	const t = v1alpha1.ConditionCephHealthy
	told := v.seen.Ceph
	if told == nil || told.Health == "" {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Ceph has not said yet how it is."+v.atLast())
	}
	if v.old() {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonCephUnreachable, "Nobody can say now how Ceph is."+v.atLast()+v.stale())
	}
	text := told.Health
	if len(told.Checks) > 0 {
		text += ": " + strings.Join(told.Checks, "; ")
	}
	switch {
	case told.Health == "HEALTH_OK", told.Health == "HEALTH_WARN" && len(told.Checks) > 0 && !slices.ContainsFunc(told.Checks, v.unexpected):
		return yes(t, v1alpha1.ReasonCephHealthy, text+v.stale())
	case told.Health == "HEALTH_WARN" && !slices.ContainsFunc(told.Checks, unserved):
		return no(t, v1alpha1.ReasonCephWarning, text+v.stale())
	}
	return no(t, v1alpha1.ReasonCephError, text+v.stale())
}

// expected are the checks of Ceph 20 that warn for as long as clients may have keys of the kind that kernels before 7.0 know: what Quarry does itself
// (docs/decisions/0064-ceph-volumes.md).
var expected = []string{"AUTH_INSECURE_CLIENT_KEY_TYPE", "AUTH_INSECURE_KEYS_ALLOWED", "AUTH_INSECURE_KEYS_CREATABLE"}

// unexpected reports whether a check warns of something that is not so by design.
func (v *View) unexpected(check string) bool {
	name, _, _ := strings.Cut(check, ":")
	if name == "POOL_PG_NUM_NOT_POWER_OF_TWO" && v.legacyGroups() || name == "MDS_INSUFFICIENT_STANDBY" && v.servers() == 1 {
		return false
	}
	return !slices.Contains(expected, name)
}

func (v *View) configured() metav1.Condition {
	const t = v1alpha1.ConditionCephConfigured
	w := v.seen.Workloads
	if w == nil || !maps.Equal(v.wantedOptions(), w.Options) {
		return no(t, v1alpha1.ReasonPending, "Ceph has not been told all options yet.")
	}
	if out := option.Refused(w.Refused, option.Of(v.seen.Cluster)); len(out) > 0 {
		return no(t, v1alpha1.ReasonOptionRefused, "Ceph refuses options of the spec: "+backend.Shorten(out, 5))
	}
	return yes(t, v1alpha1.ReasonCephConfigured, "Ceph took every option of the spec.")
}

// copies says whether there are as many copies of everything as survive one loss. asked: it is False by what the spec asks for, and by nothing else.
func (v *View) copies() (c metav1.Condition, asked bool) {
	const t = v1alpha1.ConditionCopiesSafe
	if v.deleting() {
		// No host stays, which says nothing about the copies that there are.
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "The Cluster is being deleted."), false
	}
	n, spec := v.replicas(), v.seen.Cluster.Spec.Ceph
	c, asked = v.complete(n)
	switch risk := ceph.Risk(n); {
	case risk == "":
	case c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonPending && !asked:
		c.Message = risk + " " + c.Message
	default:
		return no(t, v1alpha1.ReasonFewCopies, risk), spec != nil && spec.Replicas > 0
	}
	return c, asked
}

// complete says whether n copies of everything are there, each on another host. asked: only the spec allows that copies share a host.
func (v *View) complete(n int) (c metav1.Condition, asked bool) {
	const t = v1alpha1.ConditionCopiesSafe
	told := v.seen.Ceph
	if told == nil || told.Map == nil {
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Ceph has not said yet which pools there are."), false
	}
	if len(told.Map.Pools) == 0 {
		return no(t, v1alpha1.ReasonPending, v.later("The pools are not made yet.")), false
	}
	for _, pool := range told.Map.Pools {
		if pool.Size < n {
			return no(t, v1alpha1.ReasonFewCopies, v.later(fmt.Sprintf("Pool %s keeps %d copies of everything, not %d.", pool.Name, pool.Size, n))), false
		}
	}
	switch g := told.Groups; {
	case v.old():
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonCephUnreachable, "Nobody can say which copies are there."+v.stale()), false
	case g == nil:
		return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, "Which copies are there cannot be read: "+backend.Cut(told.Problem, 512)), false
	case g.Short > 0:
		return no(t, v1alpha1.ReasonCopiesMissing, fmt.Sprintf(
			"%d of %d placement groups lack copies now, or have damaged ones; %d copies of objects are missing. Ceph makes missing ones anew where it has places for them.", g.Short, g.Total, g.Degraded)), false
	case v.shareHost():
		return no(t, v1alpha1.ReasonCopiesShareHost, fmt.Sprintf("There are %d copies of everything, and all copies of something may be on one host: it is not served while that is away, and is lost with it.", n)+v.stale()), true
	}
	return v.apart(n), false
}

// apart says whether copies, of which there are n, may share a host by the rule of a pool.
func (v *View) apart(n int) metav1.Condition {
	const t = v1alpha1.ConditionCopiesSafe
	for _, pool := range v.seen.Ceph.Map.Pools {
		switch v.seen.Ceph.Map.Domains[pool.Name] {
		case domainOSD:
			return no(t, v1alpha1.ReasonCopiesShareHost, fmt.Sprintf(
				"Pool %s has a rule by which all copies of something may be on one host, even if the spec does not want that. Give it the one that keeps them on different hosts: ceph osd pool set %[1]s crush_rule replicated_rule.", pool.Name)+v.stale())
		case "":
			return backend.Condition(t, metav1.ConditionUnknown, v1alpha1.ReasonPending, fmt.Sprintf(
				"Whether copies in pool %s may share a host cannot be read: its rule is of another kind than Ceph's own, or nobody told it.", pool.Name)+v.stale())
		}
	}
	return yes(t, v1alpha1.ReasonCopiesSafe, fmt.Sprintf("There are %d copies of everything.", n)+v.stale())
}

// domainOSD is what Ceph calls it when nothing but the disk of copies has to differ. Everything else that a rule names has whole hosts in it.
const domainOSD = "osd"

// Fill writes what only a Cluster of type cephfs has in its status.
func (v *View) Fill(c *v1alpha1.Cluster) {
	out := &v1alpha1.CephStatus{FSID: c.FSID()}
	_, listening := v.monitors()
	for _, m := range listening {
		out.Monitors = append(out.Monitors, cephname.Address(m.Address))
	}
	slices.Sort(out.Monitors)
	if old := c.Status.Ceph; old != nil {
		out.Health, out.AskedAt, out.Checks, out.OSDs, out.Version, out.Dashboard = old.Health, old.AskedAt, old.Checks, old.OSDs, old.Version, old.Dashboard
	}
	if t := v.seen.Ceph; t != nil {
		if t.Health != "" {
			out.Health, out.Checks = t.Health, t.Checks[:min(16, len(t.Checks))]
		}
		if at := metav1.NewTime(t.At.Truncate(time.Minute)); out.AskedAt == nil || at.After(out.AskedAt.Time) {
			out.AskedAt = &at
		}
		if t.Map != nil {
			out.OSDs = count(*t.Map)
		}
		if t.Daemons != nil {
			out.Version = version(*t.Daemons)
		}
		if out.Dashboard = backend.Cut(t.Dashboard, 256); v.old() {
			out.Dashboard = ""
		}
	}
	// There are few notes, and they stay.
	waits := v.plan.waits[:min(max(0, 10-len(v.plan.notes)), len(v.plan.waits))]
	for _, w := range slices.Concat(waits, v.plan.notes) {
		out.Waits = append(out.Waits, backend.Cut(w, 512))
	}
	c.Status.Ceph = out
}
