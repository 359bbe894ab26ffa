package view

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// What Ceph says of the keys that Quarry itself makes is told, and is no reason for a warning: a Cluster would never be without one.
func TestHealthy(t *testing.T) {
	const keys = "AUTH_INSECURE_KEYS_ALLOWED: Monitors are configured to allow auth using insecure key types"
	tests := map[string]struct {
		health string
		checks []string
		want   metav1.ConditionStatus
		reason string
	}{
		"well":                          {"HEALTH_OK", nil, metav1.ConditionTrue, v1alpha1.ReasonCephHealthy},
		"keys of older kernels":         {"HEALTH_WARN", []string{"AUTH_INSECURE_CLIENT_KEY_TYPE: 1", keys}, metav1.ConditionTrue, v1alpha1.ReasonCephHealthy},
		"something else as well":        {"HEALTH_WARN", []string{keys, "OSD_DOWN: 1 osds down"}, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"a name that begins like it":    {"HEALTH_WARN", []string{"AUTH_INSECURE_KEYS_ALLOWED_TOO: 1"}, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"a warning without a check":     {"HEALTH_WARN", nil, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"all writes are paused":         {"HEALTH_WARN", []string{"OSDMAP_FLAGS: pauserd,pausewr flag(s) set"}, metav1.ConditionFalse, v1alpha1.ReasonCephError},
		"a flag that hurts nobody":      {"HEALTH_WARN", []string{"OSDMAP_FLAGS: noout flag(s) set"}, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"groups that serve nothing":     {"HEALTH_WARN", []string{"OSD_DOWN: 2 osds down", "PG_AVAILABILITY: Reduced data availability: 9 pgs inactive"}, metav1.ConditionFalse, v1alpha1.ReasonCephError},
		"an error":                      {"HEALTH_ERR", []string{keys}, metav1.ConditionFalse, v1alpha1.ReasonCephError},
		"a table's number that is none": {"HEALTH_WARN", []string{"POOL_PG_NUM_NOT_POWER_OF_TWO: 2 pool(s) have non-power-of-two pg_num"}, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"nothing said":                  {"", nil, metav1.ConditionUnknown, v1alpha1.ReasonPending},
		"none stands by":                {"HEALTH_WARN", []string{"MDS_INSUFFICIENT_STANDBY: insufficient standby MDS daemons available"}, metav1.ConditionFalse, v1alpha1.ReasonCephWarning},
		"none was asked for":            {"HEALTH_WARN", []string{"MDS_INSUFFICIENT_STANDBY: insufficient standby MDS daemons available"}, metav1.ConditionTrue, v1alpha1.ReasonCephHealthy},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{}
			if name == "none was asked for" {
				c.Spec.Ceph = &v1alpha1.CephSpec{MDS: 1}
			}
			v := &View{seen: Observation{Cluster: c, Current: true, Ceph: &Told{Health: test.health, Checks: test.checks}}}
			if got := v.healthy(); got.Status != test.want || got.Reason != test.reason {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestWhole_failing: a Cluster that served has failed while Ceph says so, or said so last. A risk that its spec asks for is no warning.
func TestWhole_failing(t *testing.T) {
	silent := func(o *Observation) {
		o.Current, o.Asking, o.Now = false, "The monitors do not answer.", o.Now.Add(time.Hour)
	}
	// unasked is a controller that starts anew: all that it knows is in the status.
	unasked := func(health string) func(*Observation) {
		return func(o *Observation) {
			o.Current, o.Asking, o.Ceph, o.Cluster.Status.Ceph = false, BeingAsked, nil, &v1alpha1.CephStatus{Health: health}
		}
	}
	for name, tt := range map[string]struct {
		health string
		checks []string
		change func(*Observation)
		want   bool
	}{
		"it is well":                             {"HEALTH_OK", nil, nil, false},
		"it warns":                               {"HEALTH_WARN", []string{"OSD_DOWN: 1 osds down"}, nil, false},
		"groups that serve nothing":              {"HEALTH_WARN", []string{"PG_AVAILABILITY: 9 pgs inactive"}, nil, false},
		"it has failed":                          {"HEALTH_ERR", nil, nil, true},
		"the filesystem is not made":             {"HEALTH_ERR", nil, func(o *Observation) { delete(o.Cluster.Annotations, v1alpha1.AnnotationCephServed) }, false},
		"it had failed, and does not answer":     {"HEALTH_ERR", nil, silent, true},
		"it warned, and does not answer":         {"HEALTH_WARN", []string{"PG_AVAILABILITY: 9 pgs inactive"}, silent, false},
		"it was well, and does not answer":       {"HEALTH_OK", nil, silent, false},
		"it had failed, and was not asked since": {"", nil, unasked("HEALTH_ERR"), true},
		"it was well, and was not asked since":   {"", nil, unasked("HEALTH_OK"), false},
		"it never said anything":                 {"", nil, unasked(""), false},
		"it does not say how it is any more":     {"", nil, func(o *Observation) { o.Cluster.Status.Ceph = &v1alpha1.CephStatus{Health: "HEALTH_ERR"} }, true},
		"it is well again":                       {"HEALTH_OK", nil, func(o *Observation) { o.Cluster.Status.Ceph = &v1alpha1.CephStatus{Health: "HEALTH_ERR"} }, false},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Replicas: 1}})
		o.Ceph.Health, o.Ceph.Checks, o.Ceph.Map.Pools = tt.health, tt.checks, []ceph.Pool{{Name: "p", Size: 1}}
		if tt.change != nil {
			tt.change(&o)
		}
		w := New(o).Whole(nil)
		i := slices.IndexFunc(w.Warnings, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCephHealthy })
		if w.Failing && i >= 0 && !strings.Contains(w.Warnings[i].Message, "At last it was HEALTH_ERR.") {
			t.Errorf("%s: it is not told how Ceph was at last: %q", name, w.Warnings[i].Message)
		}
		copies := func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionCopiesSafe }
		if w.Failing != tt.want || !slices.ContainsFunc(w.Risks, copies) || slices.ContainsFunc(w.Warnings, copies) {
			t.Errorf("%s: failing %t, risks %+v", name, w.Failing, w.Risks)
		}
		// A host that is bad as well, as the one whose monitor is silent, makes a failure of what is not made yet alone.
		gone := backend.Finding{Kind: backend.Bad, Reason: v1alpha1.ReasonAgentUnreachable, Message: "its agent does not answer"}
		phase := backend.Summary{
			Profile: Profile(), Whole: w, Class: backend.Class{Exists: true}, Driver: backend.DriverState{Exists: true, Ready: true}, Hosts: []backend.HostHealth{{Node: "n1", Decided: backend.Host{Finding: gone}}},
		}.Phase()
		if made := noted.Is(o.Cluster, v1alpha1.AnnotationCephServed); (phase == v1alpha1.PhaseFailed) != (tt.want || !made) || phase != v1alpha1.PhaseFailed && phase != v1alpha1.PhaseWarning {
			t.Errorf("%s: phase %s", name, phase)
		}
	}
}

// TestExpected_alerts: the rules for alerts pass over the same warnings as the condition, and the one of pgPolicy: legacy.
func TestExpected_alerts(t *testing.T) {
	rules, err := os.ReadFile("../../../../../deploy/optional/ceph-alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`ceph_health_detail\{name!~"([^"]+)"\}`).FindStringSubmatch(string(rules))
	if found == nil {
		t.Fatal("no rule passes over a warning")
	}
	passed := regexp.MustCompile("^(?:" + found[1] + ")$")
	for _, name := range append(slices.Clone(expected), "POOL_PG_NUM_NOT_POWER_OF_TWO") {
		if !passed.MatchString(name) {
			t.Errorf("the alert comes for %s", name)
		}
	}
	for _, name := range []string{"AUTH_INSECURE_GLOBAL_ID_RECLAIM", "AUTH_INSECURE_KEYS_ALLOWED_TOO", "OSD_DOWN"} {
		if passed.MatchString(name) {
			t.Errorf("no alert comes for %s", name)
		}
	}
}

// What Ceph said stands while it is being asked again, for some minutes, and not once it does not answer.
func TestMonitorsReady_asking(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		age    time.Duration
		asking string
		want   metav1.ConditionStatus
	}{
		"young":                  {time.Second, BeingAsked, metav1.ConditionTrue},
		"being asked for long":   {3 * time.Minute, BeingAsked, metav1.ConditionTrue},
		"being asked for ever":   {5 * time.Minute, BeingAsked, metav1.ConditionFalse},
		"it does not answer":     {3 * time.Minute, "no pod runs", metav1.ConditionFalse},
		"it did not answer once": {30 * time.Second, "no pod runs", metav1.ConditionTrue},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{v1alpha1.AnnotationCephFormed: "u"}}}
			told := &Told{At: now.Add(-test.age), Facts: ceph.Facts{Quorum: &ceph.Quorum{}}}
			v := &View{seen: Observation{Cluster: c, Ceph: told, Asking: test.asking, Now: now}}
			if got := v.monitorsReady(); got.Status != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The copies that are told are those that the pools have, not those that the spec wants.
func TestCopies(t *testing.T) {
	pools := func(sizes ...int) *Told {
		m := &ceph.Map{}
		for _, n := range sizes {
			m.Pools = append(m.Pools, ceph.Pool{Name: "p", Size: n})
		}
		m.Domains = map[string]string{"p": "host"}
		return &Told{Facts: ceph.Facts{Map: m, Groups: &ceph.Groups{Total: 9, Clean: 9}}}
	}
	groups := func(g *ceph.Groups) *Told {
		told := pools(3)
		told.Groups = g
		return told
	}
	short := func(size int) *Told {
		told := pools(size)
		told.Groups = &ceph.Groups{Total: 9, Clean: 8, Short: 1}
		return told
	}
	apart := func(domains map[string]string) *Told {
		told := pools(3)
		told.Map.Domains = domains
		return told
	}
	for name, test := range map[string]struct {
		replicas int32
		told     *Told
		want     metav1.ConditionStatus
		reason   string
		asked    bool
	}{
		"every pool has them":   {3, pools(3, 3), metav1.ConditionTrue, v1alpha1.ReasonCopiesSafe, false},
		"more than are wanted":  {3, pools(4), metav1.ConditionTrue, v1alpha1.ReasonCopiesSafe, false},
		"one has fewer":         {3, pools(3, 2), metav1.ConditionFalse, v1alpha1.ReasonFewCopies, false},
		"two are wanted":        {2, pools(2, 2), metav1.ConditionFalse, v1alpha1.ReasonFewCopies, true},
		"there is no pool":      {3, pools(), metav1.ConditionFalse, v1alpha1.ReasonPending, false},
		"copies are missing":    {3, groups(&ceph.Groups{Total: 9, Clean: 8, Short: 1}), metav1.ConditionFalse, v1alpha1.ReasonCopiesMissing, false},
		"copies only move":      {3, groups(&ceph.Groups{Total: 9, Clean: 8}), metav1.ConditionTrue, v1alpha1.ReasonCopiesSafe, false},
		"copies share a host":   {3, apart(map[string]string{"p": "osd"}), metav1.ConditionFalse, v1alpha1.ReasonCopiesShareHost, false},
		"copies share no rack":  {3, apart(map[string]string{"p": "rack"}), metav1.ConditionTrue, v1alpha1.ReasonCopiesSafe, false},
		"nobody knows the rule": {3, apart(nil), metav1.ConditionUnknown, v1alpha1.ReasonPending, false},
		"nobody knows":          {3, groups(nil), metav1.ConditionUnknown, v1alpha1.ReasonPending, false},
		"nobody was asked":      {3, nil, metav1.ConditionUnknown, v1alpha1.ReasonPending, false},
		"two, and one is there": {2, pools(2, 1), metav1.ConditionFalse, v1alpha1.ReasonFewCopies, false},
		"two, and some are not": {2, short(2), metav1.ConditionFalse, v1alpha1.ReasonCopiesMissing, false},
		"two, on one host":      {2, apart(map[string]string{"p": "osd"}), metav1.ConditionFalse, v1alpha1.ReasonCopiesShareHost, false},
		"two, nobody was asked": {2, nil, metav1.ConditionFalse, v1alpha1.ReasonFewCopies, true},
		"nobody asks for one":   {0, pools(1), metav1.ConditionFalse, v1alpha1.ReasonFewCopies, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Replicas: test.replicas}}}
			v := &View{seen: Observation{Cluster: c, Ceph: test.told}}
			gone := c.DeepCopy()
			gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
			if got, asked := (&View{seen: Observation{Cluster: gone, Ceph: test.told}}).copies(); got.Status != metav1.ConditionUnknown || asked {
				t.Errorf("while it is being deleted: %+v", got)
			}
			got, asked := v.copies()
			if got.Status != test.want || got.Reason != test.reason || asked != test.asked {
				t.Errorf("asked for %t, got %+v", asked, got)
			}
			if risk := ceph.Risk(int(test.replicas)); !strings.HasPrefix(got.Message, risk) {
				t.Errorf("the risk is not told: %q", got.Message)
			}
		})
	}
}

// What nobody could read is not served, even if the monitors answer.
func TestFilesystem_unread(t *testing.T) {
	active := &[]ceph.Daemon{{Kind: cephname.DaemonMetadata, Name: "x", Active: true}}
	tests := map[string]struct {
		daemons    *[]ceph.Daemon
		filesystem ceph.Answer
		group      ceph.Answer
		want       metav1.ConditionStatus
	}{
		"all is there":                    {active, ceph.Yes, ceph.Yes, metav1.ConditionTrue},
		"no manager knows of the group":   {active, ceph.Yes, ceph.Unknown, metav1.ConditionTrue},
		"nobody knows the filesystem":     {active, ceph.Unknown, ceph.Unknown, metav1.ConditionUnknown},
		"nobody knows the daemons":        {nil, ceph.Yes, ceph.Yes, metav1.ConditionUnknown},
		"no metadata server is active":    {&[]ceph.Daemon{}, ceph.Yes, ceph.Yes, metav1.ConditionFalse},
		"there is no filesystem":          {active, ceph.No, ceph.Unknown, metav1.ConditionFalse},
		"the group of volumes is not yet": {active, ceph.Yes, ceph.No, metav1.ConditionFalse},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: map[string]string{v1alpha1.AnnotationCephServed: "u"}}}
			told := &Told{Facts: ceph.Facts{Daemons: test.daemons}, Filesystem: test.filesystem, Group: test.group, Problem: "fs ls: timed out"}
			v := &View{seen: Observation{Cluster: c, Ceph: told, Current: true, Workloads: &Workloads{Client: "m"}}}
			if got := v.filesystem(); got.Status != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestCopies_old: what Ceph said of the copies stands no longer than what it said of its monitors.
func TestCopies_old(t *testing.T) {
	now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		age    time.Duration
		asking string
		want   metav1.ConditionStatus
	}{
		"being asked":          {3 * time.Minute, BeingAsked, metav1.ConditionTrue},
		"being asked for ever": {5 * time.Minute, BeingAsked, metav1.ConditionUnknown},
		"it does not answer":   {3 * time.Minute, "no pod runs", metav1.ConditionUnknown},
	} {
		told := &Told{At: now.Add(-tt.age), Facts: ceph.Facts{Map: &ceph.Map{Pools: []ceph.Pool{{Name: "p", Size: 3}}, Domains: map[string]string{"p": "host"}}, Groups: &ceph.Groups{Total: 9, Clean: 9}}}
		c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Replicas: 3}}}
		if got, _ := (&View{seen: Observation{Cluster: c, Ceph: told, Asking: tt.asking, Now: now}}).copies(); got.Status != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestCopies_shared: copies that may share a host are told as a risk, and their number goes by disks.
func TestCopies_shared(t *testing.T) {
	for name, tt := range map[string]struct {
		disks  int
		domain v1alpha1.FailureDomain
		want   int
		reason string
		asked  bool
	}{
		"one host, by hosts":              {4, v1alpha1.FailureDomainHost, 1, v1alpha1.ReasonFewCopies, false},
		"one host, by disks":              {4, v1alpha1.FailureDomainOSD, 3, v1alpha1.ReasonCopiesShareHost, true},
		"two disks":                       {2, v1alpha1.FailureDomainOSD, 2, v1alpha1.ReasonFewCopies, false},
		"no disk is on record":            {0, v1alpha1.FailureDomainOSD, 1, v1alpha1.ReasonFewCopies, false},
		"nobody said what is to be apart": {4, "", 1, v1alpha1.ReasonFewCopies, false},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{FailureDomain: tt.domain}})
		r := o.World.Members[0].Spec.Ceph
		r.OSDs = slices.Repeat(r.OSDs, tt.disks)
		o.Ceph.Map.Pools = []ceph.Pool{{Name: "p", Size: tt.want}}
		v := bare(o)
		if got, asked := v.copies(); v.replicas() != tt.want || got.Status != metav1.ConditionFalse || got.Reason != tt.reason || asked != tt.asked {
			t.Errorf("%s: %d copies, asked for %t, %+v", name, v.replicas(), asked, got)
		}
		if shared := strings.Contains(v.config(), "osd_crush_chooseleaf_type = 0"); shared != (tt.domain == v1alpha1.FailureDomainOSD) {
			t.Errorf("%s: the configuration has it: %t", name, shared)
		}
	}
}

// A bound PersistentVolume whose volume is not in the filesystem is told, and Ready with it. What nobody can list now is as it was said last.
func TestVolumesPresent(t *testing.T) {
	const own, earlier, other = "7a1c6d1e-0000-4000-8000-000000000001", "7a1c6d1e-0000-4000-8000-000000000002", "7a1c6d1e-0000-4000-8000-000000000003"
	const name = "pvc-11111111-2222-4333-8444-555555555555"
	now := time.Unix(1e9, 0)
	pv := func(fsid string, expected bool) map[string][]backend.Volume {
		return map[string][]backend.Volume{"": {{Name: name, Claim: "shop/db", Handle: fsid + "/quarry/quarry/" + name, Expected: expected, Bound: true}}}
	}
	told := func(age time.Duration, names ...string) *Told {
		return &Told{At: now, Listed: now.Add(-age), Volumes: &names}
	}
	released := map[string][]backend.Volume{"": {{Name: name, Handle: earlier + "/quarry/quarry/" + name, Expected: true}}}
	before := metav1.Condition{Type: v1alpha1.ConditionVolumesPresent, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonVolumesMissing, Message: "before"}
	for text, tt := range map[string]struct {
		volumes map[string][]backend.Volume
		told    *Told
		before  []metav1.Condition
		want    metav1.ConditionStatus
		says    string
	}{
		"it is there":                     {pv(own, true), told(settled, name), []metav1.Condition{before}, metav1.ConditionTrue, "Every"},
		"it is gone":                      {pv(own, true), told(settled), nil, metav1.ConditionFalse, "not in the filesystem: " + name + " (claim shop/db)"},
		"it may be being deleted":         {pv(own, false), told(settled), nil, metav1.ConditionTrue, ""},
		"the list is of this moment":      {pv(own, true), told(0), nil, metav1.ConditionUnknown, "Nobody has compared"},
		"it is kept of an earlier one":    {released, told(settled), nil, metav1.ConditionTrue, "Every"},
		"the list is older than it":       {pv(own, true), told(2 * time.Minute), nil, metav1.ConditionUnknown, "Nobody has compared"},
		"the list is old, and it was":     {pv(own, true), told(2 * time.Minute), []metav1.Condition{before}, metav1.ConditionFalse, "before"},
		"nobody can list":                 {pv(own, true), &Told{At: now}, nil, metav1.ConditionUnknown, "Nobody has compared"},
		"Ceph said nothing yet":           {pv(own, true), nil, nil, metav1.ConditionUnknown, "Nobody has compared"},
		"no volume is named":              {nil, nil, nil, metav1.ConditionTrue, "No volume is known"},
		"it is of an earlier Cluster":     {pv(earlier, true), nil, nil, metav1.ConditionFalse, "another Ceph cluster"},
		"it is of another Cluster's":      {pv(other, true), told(settled), nil, metav1.ConditionTrue, ""},
		"somebody made it without handle": {map[string][]backend.Volume{"": {{Name: "x", Handle: "x", Expected: true}}}, told(0), nil, metav1.ConditionTrue, ""},
	} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: own}, Status: v1alpha1.ClusterStatus{StorageStatus: v1alpha1.StorageStatus{Conditions: tt.before}}}
		w := backend.World{Volumes: tt.volumes, Others: []v1alpha1.Storage{&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "more", UID: other}}}}
		got := New(Observation{Cluster: c, World: w, Now: now, Ceph: tt.told}).Whole(nil).Facts[2]
		if got.Type != v1alpha1.ConditionVolumesPresent || got.Status != tt.want || !strings.Contains(got.Message, tt.says) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestProfile_prefix: the volumes of a Cluster that took a Ceph cluster up have handles that begin with the FSID, and not with its UID. Before it has begun they may be those of the Cluster that has it, and hold nothing of this one.
func TestProfile_prefix(t *testing.T) {
	const uid, earlier = "7a1c6d1e-0000-4000-8000-000000000001", "7a1c6d1e-0000-4000-8000-000000000002"
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: uid}}
	of := Profile().Driver.PrefixOf
	if got := of(c); got != uid+"/" {
		t.Errorf("its own: %q", got)
	}
	c.Spec.Ceph = &v1alpha1.CephSpec{TakeUp: &v1alpha1.CephTakeUp{FSID: earlier}}
	if got := of(c); got != uid+"/" {
		t.Errorf("one that its spec names: %q", got)
	}
	c.Annotations = map[string]string{v1alpha1.AnnotationCephTakenUp: uid + "/" + earlier, v1alpha1.AnnotationCephKeys: uid}
	if got := of(c); got != earlier+"/" {
		t.Errorf("one that it took up: %q", got)
	}
}

// TestEarlier: a Cluster with another UID than the one that its volumes name begins nothing beside them, and takes no disk. One that has begun goes on.
func TestEarlier(t *testing.T) {
	const earlier, other = "7a1c6d1e-0000-4000-8000-000000000002", "7a1c6d1e-0000-4000-8000-000000000003"
	const name = "pvc-11111111-2222-4333-8444-555555555555"
	volume := func(fsid string, expected bool) backend.Volume {
		return backend.Volume{Name: name, Claim: "shop/db", Handle: fsid + "/quarry/quarry/" + name, Expected: expected}
	}
	for text, tt := range map[string]struct {
		volume backend.Volume
		begun  bool
		held   bool
	}{
		"a volume of an earlier UID":    {volume(earlier, true), false, true},
		"one that was just restored":    {volume(earlier, false), false, true},
		"one of another Cluster":        {volume(other, true), false, false},
		"one without a handle of ours":  {backend.Volume{Name: name, Handle: "x", Expected: true}, false, false},
		"the Ceph cluster is there now": {volume(earlier, true), true, false},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.World.Members[0].Spec.Ceph = nil
		o.World.Volumes = map[string][]backend.Volume{"": {tt.volume}}
		o.World.Others = []v1alpha1.Storage{&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "more", UID: other}}}
		if !tt.begun {
			o.Cluster.Annotations, o.Ceph, o.Current, o.Workloads = nil, nil, false, &Workloads{}
		}
		v := New(o)
		host := v.Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		if begins := len(v.plan.steps) > 0; !tt.begun && begins == tt.held {
			t.Errorf("%s: the plan has %d steps and waits for %q", text, len(v.plan.steps), v.plan.waits)
		}
		if took := len(host.Steps) > 0; took == tt.held {
			t.Errorf("%s: the host has %d steps, %+v", text, len(host.Steps), host.Finding)
		}
		if tt.held && (!strings.Contains(v.plan.waits[0], "shop/db") || !strings.Contains(host.Finding.Message, earlier) || host.Finding.Kind != backend.Bad) {
			t.Errorf("%s: it says %q and %+v", text, v.plan.waits, host.Finding)
		}
	}
}

// TestSilent: what Ceph said of its health and of its blocklist does not stand while the monitors do not answer.
func TestSilent(t *testing.T) {
	for silent, want := range map[bool]metav1.ConditionStatus{false: metav1.ConditionTrue, true: metav1.ConditionUnknown} {
		o := joined(v1alpha1.ClusterSpec{})
		o.Ceph.Health = "HEALTH_OK"
		if silent {
			o.Current, o.Asking, o.Now = false, "The monitors do not answer.", o.Ceph.At.Add(time.Hour)
		}
		v := New(o)
		for _, c := range []metav1.Condition{v.healthy(), v.blocklist()} {
			if c.Status != want || silent && c.Reason != v1alpha1.ReasonCephUnreachable {
				t.Errorf("silent %t: %+v", silent, c)
			}
		}
	}
}

// TestForming: a Cluster that takes a Ceph cluster up does not say that it starts a first monitor.
func TestForming(t *testing.T) {
	for fsid, want := range map[string]string{"": "The first monitor is being started.", "7a1c6d1e-0000-4000-8000-000000000002": "The monitors that spec.ceph.takeUp names are being started."} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: "u"}, Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{}}}
		if fsid != "" {
			c.Spec.Ceph.TakeUp = &v1alpha1.CephTakeUp{FSID: fsid}
		}
		c.Spec.Hosts = []v1alpha1.HostName{"n1"}
		w := backend.World{Nodes: map[string]backend.Node{"n1": {Name: "n1", Exists: true}}}
		o := Observation{Cluster: c, World: w, Nodes: map[string]decide.Node{"n1": {Name: "n1", Agent: decide.AgentUp}}, Workloads: &Workloads{}}
		if got := New(o).monitorsReady().Message; !strings.HasPrefix(got, want) {
			t.Errorf("FSID %q: %q", fsid, got)
		}
	}
}
