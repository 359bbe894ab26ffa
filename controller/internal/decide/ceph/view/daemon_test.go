package view

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// Where fewer daemons are wanted those go that do not run, and none goes while no other one runs.
func TestSpread_fewer(t *testing.T) {
	tests := map[string]struct {
		ready []string
		want  []string
		waits int
	}{
		"all run":           {[]string{"n1", "n2"}, []string{"n2"}, 0},
		"the first is down": {[]string{"n2"}, []string{"n1"}, 0},
		"none runs":         {nil, nil, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, hosts := &Workloads{}, []ceph.Host{}
			for _, n := range []string{"n1", "n2"} {
				w.Daemons = append(w.Daemons, Workload{Kind: cephname.DaemonMetadata, ID: cephname.OnNode(n), Node: n, Ready: slices.Contains(test.ready, n)})
				hosts = append(hosts, ceph.Host{Name: n, Serving: true})
			}
			v := &View{seen: Observation{Cluster: &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}}, Workloads: w}}
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
		osd  bool
		want int
	}{
		"it has an OSD": {true, 0},
		"it has none":   {false, 2},
	} {
		o := joined(v1alpha1.ClusterSpec{})
		o.World.Members[0].DeletionTimestamp = &at
		for _, kind := range []string{cephname.DaemonManager, cephname.DaemonMetadata} {
			o.Workloads.Daemons = append(o.Workloads.Daemons, Workload{Kind: kind, ID: cephname.OnNode("n1"), Node: "n1", Ready: true})
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
