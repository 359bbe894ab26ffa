package view

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/cephpod"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

func TestTag(t *testing.T) {
	for image, want := range map[string]string{
		"quay.io/ceph/ceph:v20.2.5": "v20.2.5", "registry:5000/ceph": "", "ceph@sha256:00": "", "r:5000/c/ceph:v20.2.5@sha256:00": "v20.2.5", "ceph": "",
	} {
		if got := tag(image); got != want {
			t.Errorf("%s: %q", image, got)
		}
	}
}

// TestTooOld: with an image before the first version that Quarry runs nothing is begun, and no disk is taken. What runs is compared by an upgrade.
func TestTooOld(t *testing.T) {
	nothing := func(*Observation) {}
	for name, tt := range map[string]struct {
		image  string
		change func(*Observation)
		held   bool
	}{
		"an earlier major version": {"quay.io/ceph/ceph:v18.2.7", nothing, true},
		"the one right before":     {"registry:5000/ceph/ceph:v19", nothing, true},
		"with a digest, too":       {"quay.io/ceph/ceph:v19.2.3@sha256:00", nothing, true},
		"the first one":            {"quay.io/ceph/ceph:v20.2.0", nothing, false},
		"none given":               {"", nothing, false},
		"a tag that is no version": {"quay.io/ceph/ceph:latest", nothing, false},
		"a digest alone":           {"quay.io/ceph/ceph@sha256:00", nothing, false},
		"a Ceph cluster is taken up": {"quay.io/ceph/ceph:v19.2.3", func(o *Observation) {
			o.Cluster.Spec.Ceph.TakeUp = &v1alpha1.CephTakeUp{FSID: "7a1c6d1e-0000-4000-8000-000000000002"}
		}, true},
		"nobody knows what is deployed": {"quay.io/ceph/ceph:v18.2.7", func(o *Observation) { o.Workloads = nil }, true},
		"a daemon is there": {"quay.io/ceph/ceph:v18.2.7", func(o *Observation) {
			o.Workloads.Daemons = []Workload{{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1"}}
		}, false},
		"a monitor is on record": {"quay.io/ceph/ceph:v18.2.7", func(o *Observation) {
			o.World.Members[0].Spec.Ceph = &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}}
		}, false},
		"the monitors were seen": {"quay.io/ceph/ceph:v18.2.7", func(o *Observation) { o.Cluster.Annotations = map[string]string{v1alpha1.AnnotationCephFormed: "u"} }, false},
	} {
		o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Image: tt.image}})
		o.World.Members[0].Spec.Ceph, o.Cluster.Annotations = nil, nil
		o.Ceph, o.Current, o.Workloads = nil, false, &Workloads{}
		tt.change(&o)
		v := New(o)
		ready, host := v.monitorsReady(), v.Decide(backend.Member{Node: "n1", Object: o.World.Members[0]})
		if is := ready.Reason == v1alpha1.ReasonCephImageTooOld; is != tt.held || is && !strings.Contains(ready.Message, "Set spec.ceph.image to an image of Ceph 20 or later, such as "+v1alpha1.CephImage) {
			t.Errorf("%s: %+v", name, ready)
		}
		if is := host.Finding.Reason == v1alpha1.ReasonCephImageTooOld; is != tt.held || is && len(host.Steps) > 0 {
			t.Errorf("%s: %d steps on the host, %+v", name, len(host.Steps), host.Finding)
		}
		if tt.held && (len(v.plan.steps) > 0 || o.Workloads != nil && !strings.Contains(strings.Join(v.plan.waits, " "), tt.image)) {
			t.Errorf("%s: steps %+v, waits %q", name, v.plan.steps, v.plan.waits)
		}
	}
}

// A daemon that is made while the image changes is not ahead of the order, and gets no image that none of the others was allowed.
func TestImage(t *testing.T) {
	const next, now = "ceph:v20.2.5", "ceph:v20.2.4"
	mon, osd, mds, tools := Workload{Kind: "mon", Image: now}, Workload{Kind: "osd", Image: now}, Workload{Kind: "mds", Image: now}, Workload{Kind: "tools", Image: now}
	done := func(w Workload) Workload { w.Image = next; return w }
	for name, test := range map[string]struct {
		have []Workload
		kind string
		want string
	}{
		"the first one":                   {nil, cephname.DaemonMonitor, next},
		"before any has it":               {[]Workload{mon, osd, mds}, cephname.DaemonOSD, now},
		"a kind that is done":             {[]Workload{done(mon), osd, mds}, cephname.DaemonMonitor, next},
		"a kind that is under way":        {[]Workload{done(mon), done(osd), osd, mds}, cephname.DaemonOSD, now},
		"a kind that there is none of":    {[]Workload{done(mon), osd}, cephname.DaemonMetadata, now},
		"what makes OSDs":                 {[]Workload{done(mon), osd}, cephname.DaemonTools, now},
		"all have it":                     {[]Workload{done(mon), done(osd)}, cephname.DaemonOSD, next},
		"an idle pod is no other daemon":  {[]Workload{done(mon), tools}, cephname.DaemonOSD, next},
		"metadata servers do not go back": {[]Workload{mon, done(mds)}, cephname.DaemonMetadata, next},
	} {
		t.Run(name, func(t *testing.T) {
			c := &v1alpha1.Cluster{Spec: v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Image: next}}}
			v := &View{seen: Observation{Cluster: c, Workloads: &Workloads{Daemons: test.have}}}
			if got := v.image(test.kind); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// OSDs are asked about in the order in which they are replaced; one that is on no record is not.
func TestOutdated(t *testing.T) {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: "u"}}
	m := &v1alpha1.Member{Spec: v1alpha1.MemberSpec{Node: "n1", Ceph: &v1alpha1.MemberCeph{OSDs: []v1alpha1.MemberOSD{{UUID: "x"}, {UUID: "y"}, {UUID: "z"}}}}}
	o := Observation{Cluster: c}
	o.World.Members = []*v1alpha1.Member{m}
	if got := Outdated(o); got != nil {
		t.Errorf("nothing is known of what is deployed: %v", got)
	}
	v := bare(o)
	current := Workload{Kind: cephname.DaemonOSD, ID: "3", Node: "n1", UUID: "z", Image: v1alpha1.CephImage}
	want, ok := v.wanted(current)
	if !ok {
		t.Fatal("an OSD on record is not known")
	}
	current.Template = cephpod.Template(v.pods().Deployment(want))
	o.Workloads = &Workloads{Daemons: []Workload{
		{Kind: cephname.DaemonOSD, ID: "10", Node: "n1", UUID: "x", Image: v1alpha1.CephImage, Template: "other"},
		{Kind: cephname.DaemonOSD, ID: "2", Node: "n1", UUID: "y", Image: "ceph:v20.2.3"},
		current,
		{Kind: cephname.DaemonOSD, ID: "1", Node: "n1", UUID: "lost", Image: "ceph:v20.2.3"},
		{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1", Image: "ceph:v20.2.3"},
	}}
	if got := Outdated(o); !slices.Equal(got, []int{2, 10}) {
		t.Errorf("got %v", got)
	}
}

// TestForm_killed: a monitor that may make the cluster is deployed without that word, even if the one who put it on record that monitors were seen was killed then.
func TestForm_killed(t *testing.T) {
	const uid = "7a1c6d1e-0000-4000-8000-000000000001"
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: uid, Annotations: map[string]string{
		v1alpha1.AnnotationCephKeys: uid, v1alpha1.AnnotationCephFormed: uid,
	}}}
	m := &v1alpha1.Member{Spec: v1alpha1.MemberSpec{
		Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "files", UID: uid}, Node: "n1",
		Ceph: &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}},
	}}
	for _, first := range []bool{true, false} {
		o := Observation{
			Cluster: c, Current: true, Ceph: &Told{Facts: ceph.Facts{Quorum: &ceph.Quorum{Monitors: []ceph.Monitor{{Name: "a", In: true}}, MinRelease: 20}}},
			Workloads: &Workloads{Keys: true, Daemons: []Workload{{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1", Image: "i", First: first}}},
		}
		o.World.Members = []*v1alpha1.Member{m}
		i := slices.IndexFunc(New(o).plan.steps, func(s Step) bool {
			return s.Does == v1alpha1.ActionFormCeph && s.Daemon.ID == "a" && !s.Daemon.First && s.Daemon.Address != ""
		})
		if got := i >= 0; got != first {
			t.Errorf("first %t: deployed anew %t", first, got)
		}
	}
}

// TestRevival: a monitor that fails with an image which the spec took back gets the one of the spec, with nobody to ask. Only before a quorum was seen may it still make the cluster.
func TestRevival(t *testing.T) {
	const uid = "7a1c6d1e-0000-4000-8000-000000000001"
	for name, tt := range map[string]struct {
		formed, first, failing bool
		image                  string
		asking                 string
		want, wantFirst        bool
	}{
		"the only monitor":          {true, false, true, "broken", "no pod", true, false},
		"before it made anything":   {false, true, true, "broken", "no pod", true, true},
		"its word was left there":   {true, true, true, "broken", "no pod", true, false},
		"it has what the spec says": {false, true, true, "good", "no pod", false, false},
		"it only does not answer":   {true, false, false, "broken", "no pod", false, false},
		"it is being asked":         {true, false, true, "broken", BeingAsked, false, false},
	} {
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "files", UID: uid, Annotations: map[string]string{v1alpha1.AnnotationCephKeys: uid}}}
		c.Spec.Ceph = &v1alpha1.CephSpec{Image: "good"}
		if tt.formed {
			c.Annotations[v1alpha1.AnnotationCephFormed] = uid
		}
		m := &v1alpha1.Member{Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "files", UID: uid}, Node: "n1",
			Ceph: &v1alpha1.MemberCeph{Monitor: &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}},
		}}
		o := joined(c.Spec)
		c.Spec.Hosts = o.Cluster.Spec.Hosts
		o.Cluster, o.World.Members, o.Ceph, o.Current, o.Asking = c, []*v1alpha1.Member{m}, nil, false, tt.asking
		have := Workload{Kind: cephname.DaemonMonitor, ID: "a", Node: "n1", Image: tt.image, First: tt.first, Failing: tt.failing}
		v := bare(o)
		d, _ := v.wanted(have)
		d.First = tt.first
		p := v.pods()
		p.Image = tt.image
		have.Template = cephpod.Template(p.Deployment(d))
		o.Workloads.Daemons = []Workload{have}
		o.Workloads.Config = bare(o).config()
		steps := New(o).plan.steps
		i := slices.IndexFunc(steps, func(s Step) bool { return s.Does == v1alpha1.ActionReplaceDaemon })
		if got := i >= 0; got != tt.want {
			t.Errorf("%s: %+v", name, steps)
			continue
		}
		if tt.want && (steps[i].Daemon.Image != "good" || steps[i].Daemon.First != tt.wantFirst || steps[i].Daemon.Address == "") {
			t.Errorf("%s: %+v", name, steps[i].Daemon)
		}
	}
}

// TestUpgrade_untold: Ceph forgets a manager, and a metadata server, that does not run. No other one gets the image that it did not start with, and it gets the one before if the spec says so.
func TestUpgrade_untold(t *testing.T) {
	const before, broken = "ceph:v20.2.4", "ceph:v20.2.5"
	for _, kind := range []string{cephname.DaemonManager, cephname.DaemonMetadata} {
		for image, want := range map[string]string{broken: "", before: "ReplaceDaemon " + kind + ".h1 n1"} {
			o := joined(v1alpha1.ClusterSpec{Ceph: &v1alpha1.CephSpec{Image: image}})
			o.Ceph.Health, o.Ceph.Map.RequireRelease = "HEALTH_WARN", 20
			v := bare(o)
			made := func(id, image string) Workload {
				p := v.pods()
				p.Image = image
				w := Workload{Kind: kind, ID: id, Node: "n1", Image: image, Ready: true}
				d, _ := v.wanted(w)
				w.Template = cephpod.Template(p.Deployment(d))
				return w
			}
			o.Workloads.Daemons = []Workload{made("h1", broken), made("h2", before)}
			f := o.Ceph.Facts
			f.Daemons = &[]ceph.Daemon{{Kind: kind, Name: "h2", Version: ceph.Version{Major: 20, Minor: 2, Patch: 4}, Running: true, Active: true}}
			p := v.planUpgrade(v.hosts(), f)
			got := ""
			for _, s := range p.Steps {
				got += s.String()
			}
			if waits := strings.Join(p.Waits, " "); got != want || want == "" && !strings.Contains(waits, kind+".h1 does not run") {
				t.Errorf("%s, image %s: %q, waits %q", kind, image, got, waits)
			}
		}
	}
}

// TestVersion: a person sees of which versions the daemons are while an upgrade goes on.
func TestVersion(t *testing.T) {
	at := func(patch int) ceph.Daemon {
		return ceph.Daemon{Version: ceph.Version{Major: 20, Minor: 2, Patch: patch}}
	}
	for name, tt := range map[string]struct {
		daemons []ceph.Daemon
		want    string
	}{
		"nobody told yet":     {nil, ""},
		"none runs":           {[]ceph.Daemon{{}}, ""},
		"all are alike":       {[]ceph.Daemon{at(4), at(4)}, "20.2.4"},
		"one does not run":    {[]ceph.Daemon{at(4), {}}, "20.2.4"},
		"some are later ones": {[]ceph.Daemon{at(10), at(4), at(10)}, "20.2.4, 20.2.10"},
	} {
		if got := version(tt.daemons); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestNumber: each disk of a Member says which OSD is on it. Until Ceph tells of its OSDs, it says what was said last.
func TestNumber(t *testing.T) {
	number := func(o Observation) *int32 {
		v := New(o)
		return v.devices("n1", record(v.member("n1")))[0].OSD
	}
	o := joined(v1alpha1.ClusterSpec{})
	if got := number(o); got == nil || *got != int32(o.Ceph.Map.OSDs[0].ID) {
		t.Errorf("%v, want %d", got, o.Ceph.Map.OSDs[0].ID)
	}
	told := o.Ceph
	o.Ceph, o.Current = nil, false
	if got := number(o); got != nil {
		t.Errorf("before anybody told: %d", *got)
	}
	before := o
	before.Ceph, before.Current = told, true
	o.World.Members[0].Status.Devices = New(before).devices("n1", *o.World.Members[0].Spec.Ceph)
	if got := number(o); got == nil || *got != int32(told.Map.OSDs[0].ID) {
		t.Errorf("%v, and it was %d", got, told.Map.OSDs[0].ID)
	}
	o.World.Members[0].Spec.Ceph.OSDs[0].WWN = "another"
	if got := number(o); got != nil {
		t.Errorf("another disk at its path has the number %d", *got)
	}
}

// TestOSDState: each disk of a Member says how the OSD on it is. Until Ceph tells of its OSDs, it says what was said last.
func TestOSDState(t *testing.T) {
	for want, osd := range map[v1alpha1.OSDState]ceph.OSD{
		v1alpha1.OSDUpIn: {Up: true, In: true}, v1alpha1.OSDUpOut: {Up: true}, v1alpha1.OSDDownIn: {In: true}, v1alpha1.OSDDownOut: {}, "": {New: true, In: true},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		osd.ID, osd.UUID, osd.Host = 1, diskUUID, "n1"
		o.Ceph.Map.OSDs = []ceph.OSD{osd}
		m := o.World.Members[0]
		m.Status.Devices = New(o).devices("n1", record(m))
		if got := m.Status.Devices[0].OSDState; got != want {
			t.Errorf("%+v: %q", osd, got)
		}
		o.Ceph, o.Current = nil, false
		if got := New(o).devices("n1", record(m))[0].OSDState; got != want {
			t.Errorf("%+v, before Ceph was asked: %q", osd, got)
		}
	}
}
