package ceph

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/controller/internal/ceph/cephtest"
	decideceph "quarry.storage/quarry/controller/internal/decide/ceph"
	"quarry.storage/quarry/controller/internal/decide/ceph/noted"
	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// hanging is a Ceph whose manager does not answer what begins so.
type hanging struct {
	*cephtest.Cluster
	begins string
	asked  []string
}

func (h *hanging) Run(ctx context.Context, cmd ceph.Command) (ceph.Result, error) {
	if line := strings.Join(cmd.Args, " "); strings.HasPrefix(line, h.begins) {
		h.asked = append(h.asked, line)
		<-ctx.Done()
		return ceph.Result{}, ctx.Err()
	}
	return h.Cluster.Run(ctx, cmd)
}

// TestQuestion_managerHangs: what lets more OSDs go at once is asked last and for a few seconds, so that the filesystem, the blocklist and with them the fences do not wait for it.
func TestQuestion_managerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _, _ := keyed(t, nil)
		model := &hanging{Cluster: cephtest.New(t, fsid, "n0", "n1", "n2"), begins: "osd ok-to-stop"}
		model.Blocked = []string{"10.0.0.9:0/0"}
		b.Runner = func(string) ceph.Runner { return model }
		resting := []decideceph.Host{{Name: "n0", Maintenance: true}, {Name: "n1", Maintenance: true}, {Name: "n2", Maintenance: true}}
		begun := time.Now()
		told, err := b.question(t.Context(), c, topics{hosts: resting})
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("it took %s", took)
		}
		if err == nil || !strings.Contains(told.Problem, "ok-to-stop") || len(told.Rest) > 0 {
			t.Errorf("%v: %q, %v", err, told.Problem, told.Rest)
		}
		if told.Filesystem == decideceph.Unknown || told.Blocked == nil || !slices.Equal(model.asked, []string{"osd ok-to-stop 0"}) {
			t.Errorf("filesystem %s, blocked %v, asked %q", told.Filesystem, told.Blocked, model.asked)
		}
	})
}

// TestQuestion_noManager: nobody waits for a manager that is not there.
func TestQuestion_noManager(t *testing.T) {
	b, c, _, _ := keyed(t, nil)
	model := &hanging{Cluster: cephtest.New(t, fsid, "n0"), begins: "osd ok-to-stop"}
	model.Managers = nil
	b.Runner = func(string) ceph.Runner { return model }
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if told, err := b.question(ctx, c, topics{hosts: []decideceph.Host{{Name: "n0", Maintenance: true}}}); err == nil || len(model.asked) > 0 || told.Quorum == nil {
		t.Errorf("%v, asked %q", err, model.asked)
	}
}

// TestQuestion_volumes: the volumes are listed for whoever compares them with PersistentVolumes, last and for a few seconds. A list from before a deletion does not count for that.
func TestQuestion_volumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _, _ := keyed(t, nil)
		model := &hanging{Cluster: cephtest.New(t, fsid, "n0"), begins: "never"}
		model.Servers, model.Volumes = []string{"m"}, cephtest.NewVolumes()
		b.Runner = func(string) ceph.Runner { return model }
		if told, err := b.question(t.Context(), c, topics{}); err != nil || told.Volumes == nil || told.Subvolumes != nil {
			t.Errorf("%v: %+v", err, told)
		}
		model.begins = "fs subvolume ls"
		begun := time.Now()
		told, err := b.question(t.Context(), c, topics{})
		if took := time.Since(begun); err == nil || told.Volumes != nil || told.Blocked == nil || took > 15*time.Second {
			t.Errorf("%v after %s: %+v", err, took, told)
		}
	})
}

// TestAsk_volumesAreCompared: while something is under way Ceph is asked every few seconds, and answers at once. Most looks have a list of the volumes all the same that may be compared, which is one that is neither of this
// moment nor old; and it comes to have what changes. One that cannot be had anew stands until it is too old.
func TestAsk_volumesAreCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _, _ := keyed(t, nil)
		model := &hanging{Cluster: cephtest.New(t, fsid, "n0"), begins: "never"}
		model.Servers, model.Volumes = []string{"m"}, cephtest.NewVolumes()
		b.Runner = func(string) ceph.Runner { return model }
		k := b.memory.of(c.UID)
		looks := func(n int) (fit, with int) {
			for range n {
				o := view.Observation{Cluster: c, Now: b.Now(), Workloads: &view.Workloads{Daemons: []view.Workload{{Kind: cephname.DaemonMonitor}}}}
				b.ask(t.Context(), c, nil, k, false, &o)
				if told := o.Ceph; told != nil && told.Volumes != nil {
					if age := o.Now.Sub(told.Listed); age >= 5*time.Second && age < time.Minute {
						fit++
						with += len(*told.Volumes)
					}
				}
				time.Sleep(2 * time.Second)
			}
			return fit, with
		}
		if fit, with := looks(60); fit < 36 || with > 0 {
			t.Errorf("%d of 60 looks have a list to compare, with %d volumes", fit, with)
		}
		model.Volumes.All["pvc-1"] = &cephtest.Subvolume{Bytes: 1}
		looks(30)
		if fit, with := looks(60); fit < 36 || with != fit {
			t.Errorf("%d of 60 looks have a list to compare, and %d the volume", fit, with)
		}
		model.begins = "fs subvolume ls"
		looks(30)
		if fit, _ := looks(20); fit > 0 {
			t.Errorf("%d of 20 looks have a list to compare, and nobody could list for so long", fit)
		}
		// The question that is under way ends.
		time.Sleep(question)
	})
}

// TestBegin_deleted: where nothing is under way Ceph is asked seldom, and soon once its Cluster is deleted, since nobody had to ask which volumes there are.
func TestBegin_deleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c, _, _ := keyed(t, nil)
		model := cephtest.New(t, fsid, "n0")
		b.Runner = func(string) ceph.Runner { return model }
		asks := func() bool {
			time.Sleep(b.Young + time.Second)
			done := b.begin(t.Context(), c, nil, b.memory.of(c.UID), true, true, view.Observation{Cluster: c, Workloads: &view.Workloads{}})
			if done != nil {
				<-done
			}
			return done != nil
		}
		first, second := asks(), asks()
		c.DeletionTimestamp = ptr.To(metav1.Now())
		deleted, after := asks(), asks()
		if !first || second || !deleted || after {
			t.Errorf("asked at first %t, soon after that %t, once the Cluster was deleted %t, soon after that %t", first, second, deleted, after)
		}
	})
}

// TestTearDown_late: a Cluster is given up only if its volumes are listed once more right before, and there is none.
func TestTearDown_late(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*cephtest.Cluster)
		// removes: a person says that what is on the disks is not needed. given: the Cluster is given up.
		removes, given bool
		// lost: the record that it served is.
		lost bool
	}{
		"there is none":           {func(*cephtest.Cluster) {}, false, true, false},
		"one was made meanwhile":  {func(m *cephtest.Cluster) { m.Volumes.All["pvc-1"] = &cephtest.Subvolume{Bytes: 1} }, false, false, false},
		"nobody can say any more": {func(m *cephtest.Cluster) { m.Monitors = map[string]bool{"a": false} }, false, false, false},
		"a person removes it":     {func(m *cephtest.Cluster) { m.Volumes.All["pvc-1"] = &cephtest.Subvolume{Bytes: 1} }, true, true, false},
		"the group is gone":       {func(m *cephtest.Cluster) { m.Volumes.Grouped = false }, false, true, false},
		"lost, and there is one":  {func(m *cephtest.Cluster) { m.Volumes.All["pvc-1"] = &cephtest.Subvolume{Bytes: 1} }, false, false, true},
		"lost, and nobody says":   {func(m *cephtest.Cluster) { m.Monitors = map[string]bool{"a": false} }, false, false, true},
		"lost, and none was made": {func(m *cephtest.Cluster) { m.Volumes.Served = false }, false, true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, c, _, s := keyed(t, nil)
			c.Annotations = map[string]string{v1alpha1.AnnotationCephFormed: fsid, v1alpha1.AnnotationCephServed: fsid}
			if tt.lost {
				delete(c.Annotations, v1alpha1.AnnotationCephServed)
			}
			if tt.removes {
				c.Annotations[v1alpha1.AnnotationRemove] = fsid
			}
			if err := b.Client.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			model := cephtest.New(t, fsid, "n0")
			model.Servers, model.Volumes = []string{"m"}, cephtest.NewVolumes()
			tt.change(model)
			b.Runner = func(string) ceph.Runner { return model }
			err := b.tearDown(t.Context(), s)
			if getErr := b.Live.Get(t.Context(), client.ObjectKeyFromObject(c), c); getErr != nil {
				t.Fatal(getErr)
			}
			if noted := noted.Is(c, v1alpha1.AnnotationCephRemoved); noted != tt.given || (err == nil) != tt.given {
				t.Errorf("%s: given up: %t, %v", name, noted, err)
			}
		})
	}
}

// TestFailOver: that another metadata server was made to serve is remembered, whatever came of it, and the next look knows.
func TestFailOver(t *testing.T) {
	for name, servers := range map[string][]string{"another one stands by": {"m", "n"}, "none does": {"m"}} {
		synctest.Test(t, func(t *testing.T) {
			b, c, _, s := keyed(t, nil)
			model := cephtest.New(t, fsid, "n0")
			model.Servers = servers
			b.Runner = func(string) ceph.Runner { return model }
			k := b.memory.of(c.UID)
			s.Does, s.Ceph = v1alpha1.ActionFailOver, decideceph.Step{Do: decideceph.FailOver, Name: "m"}
			err := b.perform(t.Context(), "", s)
			o := view.Observation{Cluster: c, Workloads: &view.Workloads{}}
			b.ask(t.Context(), c, nil, k, true, &o)
			if over := slices.Equal(model.Changes(), []string{"mds fail m"}); (err == nil) != over || over != (len(servers) > 1) || !o.FailedOver.Equal(time.Now()) {
				t.Errorf("%s: %v, changes %q, at %s", name, err, model.Changes(), o.FailedOver)
			}
		})
	}
}
