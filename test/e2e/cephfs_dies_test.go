//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
)

// outage is for how many seconds a host that loses its power may keep others from writing and reading.
const outage = 60

// fioTurns has fio work on a volume of Ceph in turns, each of which prints how many seconds it ended after the one before, until somebody has had enough. Every block has its own place in it, and fio compares what it
// reads with that. It asks the OSDs each time, and not the memory of its node. The files that stay are in several placement groups.
const fioTurns = fio + `
checked() { fio --direct=1 --fallocate=none --verify=pattern --verify_fatal=1 "$@"; }
stay() { of=; for n in 1 2 3 4 5 6 7 8; do of=$of:/data0/stays$n; done; checked --filename=${of#:} --size=512k --verify_pattern='%o"stays."' "$@"; }
turns() { i=0; before=$(date +%s); while [ ! -e /data0/enough ]; do i=$((i+1)); "$@"; now=$(date +%s); echo "done $i took $((now - before))"; before=$now; sleep 2; done; }
`

// load is a pod that works in turns.
type load struct {
	what string
	pod  *corev1.Pod
	// usual is how many seconds the slowest turn took while all hosts ran: that is what the machine needs.
	usual int
}

// TestCephFSHostDies takes the power from the host of the metadata server that serves, while pods on the two others write to a claim and read it, with fio and without. Reading and writing go on within a minute; with the
// host back everything is clean again.
func TestCephFSHostDies(t *testing.T) {
	patient(t, 2)
	c := newCephCluster(t, "dies", nodes...)
	// These are Ceph's own: what they are set to otherwise is for a machine that does other work as well.
	c.Spec.Ceph.Config = maps.Clone(smallOptions)
	for _, name := range []string{"global.osd_heartbeat_grace", "global.mds_beacon_grace", "mon.mon_lease"} {
		delete(c.Spec.Ceph.Config, name)
	}
	runCeph(t, c)
	host := ""
	eventually(t, limitCeph, "a metadata server serves", func(ctx context.Context) (err error) {
		host, err = metadataHost(ctx, c)
		return err
	})
	others := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == host })
	w := keepWriting(t, c, others[0], others[1])
	loads := []*load{{what: "writing files", pod: w.pod}, fioWrites(t, w, others[0]), fioReads(t, w, others[1])}
	for _, l := range loads {
		l.begin(t)
	}
	serveFrom(t, c, host)
	tellLeaders(t, c)
	lab(t, "node", "kill", host)
	t.Cleanup(func() { _, _ = tryLab("node", "start", host) }) // It runs already where the test got that far.
	w.check(t)
	for _, l := range loads {
		l.check(t)
	}
	eventually(t, 3*time.Minute, "another metadata server serves", func(ctx context.Context) error {
		now, err := metadataHost(ctx, c)
		if err == nil && now == host {
			err = errors.New("the monitors have not missed it yet")
		}
		return err
	})
	lab(t, "node", "start", host)
	eventually(t, 6*time.Minute, "all daemons are back", func(ctx context.Context) error {
		h, err := healthOf(ctx, c)
		if err == nil && (h.OSDMap.Total != 6 || h.OSDMap.Up != 6 || len(h.Quorum) != 3 || h.FSMap.Standby != 1) {
			err = fmt.Errorf("%+v", h)
		}
		return err
	})
	waitCopies(t, c)
	inPod(t, w.pod, "touch /data0/enough")
	for _, l := range loads[1:] {
		remove(t, waitPod(t, l.pod, corev1.PodSucceeded))
	}
	w.end(t)
}

// serveFrom sees to it that the metadata server of a host is the one that serves: the pods that write and read are on the other hosts.
func serveFrom(t *testing.T, c *v1alpha1.Cluster, host string) {
	t.Helper()
	eventually(t, 3*time.Minute, "the metadata server of "+host+" serves", func(ctx context.Context) error {
		now, err := metadataHost(ctx, c)
		if err != nil || now == host {
			return err
		}
		_, err = tryCeph(ctx, c, "mds", "fail", cephname.OnNode(now))
		return errors.Join(fmt.Errorf("that of %s served", now), err)
	})
}

// tellLeaders says which monitor leads and which manager serves: what goes on after how long depends on it.
func tellLeaders(t *testing.T, c *v1alpha1.Cluster) {
	t.Helper()
	var q struct {
		Leader string `json:"quorum_leader_name"`
	}
	var m struct {
		Active string `json:"active_name"`
	}
	monitors, err := monitorsOf(t.Context(), c)
	err = errors.Join(err, askCeph(t.Context(), c, []question{{Prefix: "quorum_status"}, {Prefix: "mgr dump"}}, &q, &m))
	manager := slices.IndexFunc(nodes, func(n string) bool { return m.Active == cephname.OnNode(n) })
	t.Logf("monitors %v, of which %s leads; manager %s serves, that of node %d of %v; %v", monitors, q.Leader, m.Active, manager+1, nodes, err)
}

// fioWrites has fio on a node write files that stay, and then write others and read them back, again and again.
func fioWrites(t *testing.T, w *writer, node string) *load {
	t.Helper()
	return fioOn(t, w, "fio-writes", node, `stay; touch /data0/stays
		once() { checked --filename=/data0/turn$((i % 8)) --size=128k --verify_pattern="%o\"turn-$i.\""; }
		turns once`)
}

// fioReads has fio on a node read the files that stay, again and again.
func fioReads(t *testing.T, w *writer, node string) *load {
	t.Helper()
	return fioOn(t, w, "fio-reads", node, "until [ -e /data0/stays ]; do sleep 1; done; turns stay --rw=randread")
}

func fioOn(t *testing.T, w *writer, name, node, script string) *load {
	t.Helper()
	p := newPod(w.claim.Name+"-"+name, node, fioTurns+script)
	withNode(p)
	mountClaim(p, 0, w.claim)
	createObject(t, p)
	return &load{what: name, pod: waitPod(t, p, corev1.PodRunning)}
}

// begin waits until the pod has had some turns, and keeps how long the slowest took.
func (l *load) begin(t *testing.T) {
	t.Helper()
	goesOn(t, l.pod, l.what, 3)
	l.usual, _ = slowest(logs(l.pod))
}

// check waits until the pod has had some turns more. None may have taken longer than usual by more than an outage.
func (l *load) check(t *testing.T) {
	t.Helper()
	goesOn(t, l.pod, l.what, 2)
	most, times := slowest(logs(l.pod))
	t.Logf("%s: the slowest of %d turns took %d s, and %d s while all hosts ran", l.what, times, most, l.usual)
	if most > l.usual+outage {
		t.Errorf("%s: a turn took %d s, and %d s while all hosts ran: at most %d s more are allowed", l.what, most, l.usual, outage)
	}
}
