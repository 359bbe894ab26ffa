package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// Where fewer daemons are wanted those go that do not run, and none goes while no other one runs.
func TestSpread_fewer(t *testing.T) {
	tests := map[string]struct {
		ready  []string
		active string
		want   []string
		waits  int
	}{
		"all run":                        {[]string{"n1", "n2"}, "", []string{"n2"}, 0},
		"all run, and the second serves": {[]string{"n1", "n2"}, "n2", []string{"n1"}, 0},
		"the first is down":              {[]string{"n2"}, "", []string{"n1"}, 0},
		"none runs":                      {nil, "", nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, hosts := &Workloads{}, []ceph.Host{}
			for _, n := range []string{"n1", "n2"} {
				w.Daemons = append(w.Daemons, Workload{Kind: cephname.DaemonMetadata, ID: cephname.OnNode(n), Node: n, Ready: slices.Contains(test.ready, n)})
				hosts = append(hosts, ceph.Host{Name: n, Serving: true})
			}
			v := &View{seen: Observation{Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}}, Workloads: w}}
			v.seen.Ceph = &Told{Facts: ceph.Facts{Daemons: &[]ceph.Daemon{{Kind: cephname.DaemonMetadata, Name: cephname.OnNode(test.active), Active: test.active != ""}}}}
			var p plan
			v.spread(&p, hosts, cephname.DaemonMetadata, 1)
			var gone []string
			for _, s := range p.steps {
				if s.Does != v1alpha1.ActionRemoveDaemon {
					t.Errorf("step %+v", s)
				}
				gone = append(gone, s.Daemon.Node)
			}
			if !slices.Equal(gone, test.want) || len(p.waits) != test.waits {
				t.Errorf("removed are those on %q, waits %q", gone, p.waits)
			}
		})
	}
}

// The only host leaves, as by a typo in the spec. Its OSD has no other place, and its manager and metadata server stay with it: nobody else would serve the volumes, or say when the OSD may go.
func TestSpread_onlyHost(t *testing.T) {
	at := metav1.Now()
	for name, tt := range map[string]struct {
		osd   bool
		going bool
		want  int
	}{
		"it has an OSD":           {true, false, 0},
		"it has none":             {false, false, 2},
		"they are going already ": {false, true, 0},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.World.Members[0].DeletionTimestamp = &at
		for _, kind := range []string{cephname.DaemonManager, cephname.DaemonMetadata} {
			o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: kind, ID: cephname.OnNode("n1"), Node: "n1", Ready: true, Going: tt.going})
		}
		if !tt.osd {
			o.World.Members[0].Spec.Ceph.OSDs = nil
		}
		got := 0
		for _, s := range New(o).plan.steps {
			if s.Does == v1alpha1.ActionRemoveDaemon {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d daemons are removed, not %d", name, got, tt.want)
		}
	}
}

// TestSpread_away: a daemon on a host that is away has its place for five minutes. Then a free host gets one, and the host has its own still when it is back.
func TestSpread_away(t *testing.T) {
	now := time.Unix(1e9, 0)
	for name, tt := range map[string]struct {
		away  time.Duration
		ready bool
		host  ceph.Host
		third bool
		want  string
	}{
		"five minutes":             {5 * time.Minute, false, ceph.Host{}, true, "DeployDaemon n3"},
		"less":                     {4 * time.Minute, false, ceph.Host{}, true, ""},
		"its pod is ready":         {0, true, ceph.Host{}, true, ""},
		"the host is there":        {time.Hour, false, ceph.Host{Serving: true}, true, ""},
		"it is in maintenance":     {time.Hour, false, ceph.Host{Maintenance: true}, true, ""},
		"no host is free":          {time.Hour, false, ceph.Host{}, false, ""},
		"the host leaves for good": {time.Hour, false, ceph.Host{Leaving: true}, true, "DeployDaemon n3 RemoveDaemon n1"},
	} {
		tt.host.Name = "n1"
		hosts := []ceph.Host{tt.host, {Name: "n2", Serving: true}}
		if tt.third {
			hosts = append(hosts, ceph.Host{Name: "n3", Serving: true})
		}
		one := Workload{Kind: cephname.DaemonMetadata, ID: "h1", Node: "n1", Ready: tt.ready, Away: now.Add(-tt.away)}
		if tt.ready {
			one.Away = time.Time{}
		}
		w := &Workloads{Daemons: []Workload{one, {Kind: cephname.DaemonMetadata, ID: "h2", Node: "n2", Ready: true}}}
		v := &View{seen: Observation{Cluster: &v1alpha1.Cluster{}, Workloads: w, Now: now}}
		var p plan
		v.spread(&p, hosts, cephname.DaemonMetadata, 2)
		if got := placed(p); got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// placed names what becomes of daemons in a plan, each with its host.
func placed(p plan) string {
	var out []string
	for _, s := range p.steps {
		out = append(out, s.Does+" "+s.Daemon.Node)
	}
	return strings.Join(out, " ")
}

// TestSpread_back: the host is back, and there is one more than wanted.
func TestSpread_back(t *testing.T) {
	w := &Workloads{}
	var hosts []ceph.Host
	for _, n := range []string{"n1", "n2", "n3"} {
		w.Daemons = append(w.Daemons, Workload{Kind: cephname.DaemonMetadata, ID: cephname.OnNode(n), Node: n, Ready: true})
		hosts = append(hosts, ceph.Host{Name: n, Serving: true})
	}
	var p plan
	(&View{seen: Observation{Cluster: &v1alpha1.Cluster{}, Workloads: w, Now: time.Unix(1e9, 0)}}).spread(&p, hosts, cephname.DaemonMetadata, 2)
	if got := placed(p); got != "RemoveDaemon n3" {
		t.Errorf("%q", got)
	}
}

// TestShort_away: a manager or metadata server on a host that is away for long counts no more, so that the room for another one is looked at. A monitor goes by its record.
func TestShort_away(t *testing.T) {
	for kind, want := range map[string]bool{cephname.DaemonManager: true, cephname.DaemonMetadata: true, cephname.DaemonMonitor: false} {
		for away, short := range map[time.Duration]bool{time.Minute: false, 5 * time.Minute: want} {
			o := joined(v1alpha1.ClusterSpec{})
			o.World.Members[0].Spec.Ceph.Monitor = &v1alpha1.MemberMonitor{Name: "a", Address: "10.0.0.1"}
			o.Nodes["n1"] = decide.Node{Agent: decide.AgentUnreachable}
			o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: kind, ID: "h1", Node: "n1", Away: o.Now.Add(-away)})
			if got := bare(o).short(kind); got != short {
				t.Errorf("%s, away for %s: short %t", kind, away, got)
			}
		}
	}
}

// TestStop: the daemons of a Cluster that is given up go one kind after the other. What is being deleted is not deleted again, and the hosts are named on which pods have not ended, with what ends them.
func TestStop(t *testing.T) {
	const ends = "No agent answers on n2. Boot such a host."
	server := func(node string, going bool) Workload {
		return Workload{Kind: cephname.DaemonMetadata, ID: cephname.OnNode(node), Node: node, Going: going}
	}
	for name, tt := range map[string]struct {
		daemons []Workload
		pods    []string
		want    string
		says    string
	}{
		"they run":                  {[]Workload{server("n1", false), server("n2", false)}, []string{"n1", "n2"}, "RemoveDaemon n1 RemoveDaemon n2", ""},
		"one goes":                  {[]Workload{server("n1", false), server("n2", true)}, []string{"n1", "n2"}, "RemoveDaemon n1", ""},
		"all go":                    {[]Workload{server("n1", true), server("n2", true)}, []string{"n1", "n2"}, "", "Pods of kind mds have not ended yet on n1, n2. " + ends},
		"its host answers":          {[]Workload{server("n1", true)}, []string{"n1"}, "", "Pods of kind mds have not ended yet on n1."},
		"the Deployments are gone":  {nil, []string{"n2", "n2"}, "", "Pods of kind mds have not ended yet on n2. " + ends},
		"and nothing of that kind":  {nil, nil, "RemoveDaemon n1", ""},
		"nor was any of their pods": {[]Workload{server("n2", true)}, nil, "", "Pods of kind mds have not ended yet on n2. " + ends},
	} {
		o := deleted(nil, osd.Ready, map[string]string{v1alpha1.AnnotationCephRemoved: "u"})
		o.Nodes = map[string]decide.Node{"n1": {Agent: decide.AgentUp}, "n2": {Agent: decide.AgentUnreachable}}
		o.Workloads.Daemons = append(tt.daemons, Workload{Kind: cephname.DaemonManager, ID: "h1", Node: "n1"})
		o.Workloads.Pods = map[string][]string{cephname.DaemonMetadata: tt.pods}
		v := New(o)
		if got, says := placed(v.plan), strings.Join(v.plan.waits, " "); got != tt.want || !strings.HasPrefix(says, tt.says) || (says == "") != (tt.says == "") || tt.says != "" && strings.Contains(says, "Boot") != strings.Contains(tt.says, "Boot") {
			t.Errorf("%s: %q, waits %q", name, got, says)
		}
	}
}
