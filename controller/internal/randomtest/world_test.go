package randomtest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const gib = 1 << 30

// host is a node with its disks, and what was done to it.
type host struct {
	*agenttest.Agent
	name string
	// running is false while the agent is dead, pod and node while the objects are not there.
	running, pod, node bool
	// added counts the disks that ever were.
	added int
}

// world is everything.
type world struct {
	t     *testing.T
	api   *api
	ctl   *controller
	hosts []*host
	// start begins a life of the controller.
	start func() *controller
	// wrap stands between the controller and the pool of agents.
	wrap func(nodes) nodes
	// claims are the volumes that somebody wants, by name.
	claims []*claim
	named  int
	// foreign are the disks that are somebody else's, and what is written on them.
	foreign map[spot]foreign
	// ledger are the volumes that were made for somebody, by handle.
	ledger map[string]*volume
	// carried counts the moves of groups; imported is how many groups were another node's at a time.
	carried, imported int
	// snapshots are those that somebody wants.
	snapshots []*snapshot
	// out are the disks that were given up and have left their groups; gaveUp counts them.
	out map[spot]bool
	// gaveUp counts disks that left their groups as somebody asked, snapped the snapshots, and copied the copies that were made.
	gaveUp, snapped, copied int
	// lost are the groups of which a person said that they are gone for ever; buried counts those that went with their Members, and forsaken the
	// volumes that count as deleted because of it.
	lost             map[string]bool
	buried, forsaken int
	// orphans are the names of volumes that may exist without a claim.
	orphans []string
	// saved is the last backup; restored counts the restores, gone the claims that came back without their volumes, and forgotten the volumes that came
	// to have no claim.
	saved                     *backup
	restored, gone, forgotten int
	// careless leaves strays where they are.
	careless bool
	// broken are the checks that found something wrong.
	broken []error
}

// foreign is a disk that is somebody else's: what is written on it, and whether somebody uses it without a trace on it.
type foreign struct {
	written string
	busy    bool
}

// spot is a disk.
type spot struct{ host, disk string }

// newWorld makes nodes with disks, and starts everything.
func newWorld(t *testing.T, count, disks int, mutate func(*world)) *world {
	t.Helper()
	a, err := newAPI()
	must(t, err)
	index(t, a)
	ca, network := agenttest.NewCA(t), &agenttest.Network{}
	w := &world{t: t, wrap: func(n nodes) nodes { return n }, api: a, foreign: map[spot]foreign{}, lost: map[string]bool{}, out: map[spot]bool{}, ledger: map[string]*volume{}}
	certificates := map[string]*tls.Config{}
	for i := range count {
		name := fmt.Sprintf("n%d", i+1)
		certificates[name] = ca.ControllerTLS(t, name)
		h := &host{name: name, running: true, Agent: agenttest.New(t, agenttest.Options{
			NodeName: name, CA: ca, Network: network, Quiet: 2 * time.Second,
		})}
		w.hosts = append(w.hosts, h)
		for range disks {
			w.addDisk(h, 10*gib)
		}
		w.addNode(h)
		w.addPod(h)
	}
	if mutate != nil {
		mutate(w)
	}
	w.start = func() *controller {
		return newController(t, a, network, func(node string) *tls.Config { return certificates[node] }, w.wrap)
	}
	w.ctl = w.start()
	t.Cleanup(func() { w.ctl.stop() })
	return w
}

// addDisk plugs a blank disk in, with a kernel name that no disk of the host had before.
func (w *world) addDisk(h *host, bytes int64) {
	name := fmt.Sprintf("sd%c%c", 'a'+h.added/26, 'a'+h.added%26)
	h.added++
	h.AddDisk(agenttest.Disk{Name: name, SizeBytes: bytes, Serial: fmt.Sprintf("%s-%d", h.name, h.added)})
}

func (w *world) addNode(h *host) {
	h.node = true
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{"disks": "yes"}}})
}

// addPod makes the pod of the agent.
func (w *world) addPod(h *host) {
	h.pod = true
	w.named++
	w.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("agent-%d", w.named), Labels: map[string]string{agentpod.Label: agentpod.Value},
		},
		Spec:   corev1.PodSpec{NodeName: h.name},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: h.name},
	})
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	must(w.t, w.api.Create(w.t.Context(), o))
}

// remove deletes an object; one that is gone is deleted.
func (w *world) remove(o client.Object) {
	w.t.Helper()
	must(w.t, client.IgnoreNotFound(w.api.Delete(w.t.Context(), o)))
}

// clusters returns the Clusters, ordered by name.
func (w *world) clusters() []v1alpha1.Cluster {
	var list v1alpha1.ClusterList
	must(w.t, w.api.List(w.t.Context(), &list))
	return list.Items
}

// members returns the Members, ordered by name.
func (w *world) members() []v1alpha1.Member {
	var list v1alpha1.MemberList
	must(w.t, w.api.List(w.t.Context(), &list))
	return list.Items
}

// edit updates an object that a person changes; one that is gone is left alone.
func edit[T client.Object](w *world, o T, how func(T)) {
	w.t.Helper()
	err := w.api.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
	if apierrors.IsNotFound(err) {
		return
	}
	must(w.t, err)
	how(o)
	must(w.t, w.api.Update(w.t.Context(), o))
}

func (w *world) hostOf(name string) *host {
	i := slices.IndexFunc(w.hosts, func(h *host) bool { return h.name == name })
	if i < 0 {
		return nil
	}
	return w.hosts[i]
}

// run lets time pass; claims are worked on every ten seconds, until shortly before the end. A call of the sidecars may take longer than
// that while the disks hang: the controller has its time all the same.
func (w *world) run(d time.Duration, r *rand.Rand) {
	const step = 10 * time.Second
	for ; d > calm; d -= step {
		w.provision(r)
		w.ctl.run(w.t.Context(), step, r)
	}
	w.provision(r)
	w.ctl.run(w.t.Context(), d, r)
}

// heal ends all faults: disks are plugged in, agents run, nodes are there, and nobody is in the way.
func (w *world) heal() {
	w.ctl.lagging = false
	for _, c := range w.claims {
		// Volumes that lead to a disk that dropped off work again once their pods have ended.
		w.close(c)
	}
	for _, h := range w.hosts {
		h.Disarm()
		h.Resume()
		h.healReports()
		for _, d := range h.Disks() {
			h.Plug(d)
			h.Corrupt(d, "")
		}
		if !h.Alive() {
			h.Restart(w.t)
			h.running = true
		}
		if !h.node {
			w.addNode(h)
		}
		if !h.pod {
			w.addPod(h)
		}
		edit(w, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, func(n *v1alpha1.StorageNode) { n.Spec.Maintenance = false })
	}
	for _, a := range w.away() {
		w.bringBack(a)
	}
	for _, c := range w.clusters() {
		edit(w, &c, func(c *v1alpha1.Cluster) {
			c.Spec.Maintenance, c.Spec.Approval = nil, v1alpha1.ApprovalAutomatic
			if c.Spec.Devices != nil {
				c.Spec.Devices.Wipe = nil
			}
		})
	}
	for _, m := range w.members() {
		edit(w, &m, func(m *v1alpha1.Member) { m.Spec.Maintenance = false })
	}
}

// healReports lets the host and LVM report again.
func (h *host) healReports() {
	h.Break(nil)
	h.BreakReport(nil)
	for _, g := range h.Groups() {
		h.BreakGroup(g.Name, nil)
	}
}

// spots returns the disks that fit, ordered.
func (w *world) spots(fits func(h *host, disk string) bool) []spot {
	var out []spot
	for _, h := range w.hosts {
		for _, d := range h.Disks() {
			if fits(h, d) {
				out = append(out, spot{h.name, d})
			}
		}
	}
	return out
}

// pick returns one of several; false when there is none.
func pick[T any](r *rand.Rand, all []T) (T, bool) {
	var none T
	if len(all) == 0 {
		return none, false
	}
	return all[r.IntN(len(all))], true
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fail notes that something is wrong.
func (w *world) fail(check, format string, args ...any) {
	w.broken = append(w.broken, &violation{check, fmt.Sprintf(format, args...)})
}

// violation is what a check found.
type violation struct{ check, what string }

// Error implements error.
func (v *violation) Error() string { return v.check + ": " + v.what }

// of reports whether an error is of a check.
func of(err error, check string) bool {
	var v *violation
	return errors.As(err, &v) && v.check == check
}
