package gluster

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quarry.storage/quarry/controller/internal/decide/gluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/cluster"
	"quarry.storage/quarry/controller/internal/decide/gluster/device"
	"quarry.storage/quarry/controller/internal/decide/gluster/drain"
	"quarry.storage/quarry/controller/internal/decide/gluster/node"
	"quarry.storage/quarry/controller/internal/decide/gluster/rollout"
	"quarry.storage/quarry/controller/internal/decide/gluster/template"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/controller/internal/decide/notice"
	servers "quarry.storage/quarry/controller/internal/gluster"
	"quarry.storage/quarry/controller/internal/reconcile/gluster/pods"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/nodestate"
)

// scope holds the facts of one pass.
type scope struct {
	key types.NamespacedName
	now time.Time
	// before is the GlusterCluster as it was read, cluster the one that is looked at; both are nil if there is none.
	before, cluster *v1alpha1.GlusterCluster
	members         []*member

	// What there is, by name.
	claims    map[string]*corev1.PersistentVolumeClaim
	workloads map[string]*appsv1.StatefulSet
	pods      map[string]*corev1.Pod

	// labels are those of the nodes of Kubernetes; nil if no node has a disk of one, or nobody could list them.
	labels map[string]map[string]string

	// spec, etcd and drivers are conditions of the cluster.
	spec, etcd, drivers metav1.Condition
	// at returns the server at an address; nil if nobody could be asked, and then denied says why.
	at     func(address string) (servers.API, error)
	denied string
	// record is the ID of the pool, as it is on record or is begun in this pass.
	record string
	// speaker is the node that speaks for the pool, and pool what it says.
	speaker *member
	pool    gluster.Pool
	// silence says why nobody speaks, or what the speaker could not say.
	silence string
	// heard is since when this leader has heard the pool without a break; zero while nobody speaks.
	heard time.Time

	// acted is true once something was changed in the pool: the facts are of before.
	acted bool
	// sizes are the decisions about templates, deleting that about a cluster that is deleted.
	sizes    map[string]template.Decision
	deleting *cluster.Decision
	// notes are events about the cluster.
	notes []notice.Note
	// rollout says whether pods are as their workloads have them, and which one is replaced.
	rollout rollout.Decision
	// blind says why Kubernetes could not be looked at; nil when it could.
	blind error
	// soonest is when the pool must be looked at again; zero when it need not be before the usual time.
	soonest time.Duration
}

// member is one GlusterNode.
type member struct {
	before, node *v1alpha1.GlusterNode
	// spec is its condition SpecValid.
	spec metav1.Condition
	// conflict: nobody can say whose bricks those of the recorded server are. Nothing is done about the node then.
	conflict bool
	// claims and answers say whether these are there; says is who the server says it is.
	claims, answers gluster.Answer
	api             servers.API
	says            servers.Identity
	// own is what the server says of a pool of its own, where it is in no other one.
	own *gluster.Pool
	// neverRan: it is known that no server of the node ever ran.
	neverRan bool

	// disks is what was decided about its disks of a node of Kubernetes; nil for a node without one, and while nobody could say.
	disks *device.Decision
	// without are those that the template of its server leaves out.
	without []v1alpha1.DevicePath

	data     nodestate.Data
	holding  []string
	bricks   int
	space    *gluster.Space
	standing gluster.Standing
	plan     node.Plan
	// drained and removed are conditions of a node that is deleted.
	drained, removed *metav1.Condition
	// touched: something of it was changed in the pool in this pass.
	touched bool
	// gone: its finalizer was taken off.
	gone  bool
	notes []notice.Note
}

// condemned reports whether the node is being emptied or removed.
func (m *member) condemned() bool { return !m.node.DeletionTimestamp.IsZero() }

// ours reports whether we run the server.
func (m *member) ours() bool { return m.node.Spec.External == nil }

// peer is the ID of the server.
func (m *member) peer() string { return gluster.PeerOf(m.node) }

// itself reports whether the server at the node's address is the one on record.
func (m *member) itself() bool { return m.says.Peer != "" && gluster.SameID(m.says.Peer, m.peer()) }

// drain is the node for who decides how nodes are emptied.
func (m *member) drain() drain.Node {
	out := drain.Node{Name: m.node.Name, Peer: m.peer(), State: m.standing.State(), External: !m.ours(), Move: m.node.Spec.Move}
	if m.condemned() {
		out.Condemned = m.node.DeletionTimestamp.Time
	}
	return out
}

// removes reports whether a node or the cluster is being removed.
func (s *scope) removes() bool {
	return s.cluster != nil && !s.cluster.DeletionTimestamp.IsZero() || slices.ContainsFunc(s.members, (*member).condemned)
}

// silent reports whether nobody speaks for the pool, or who does cannot say who is in it.
func (s *scope) silent() bool { return s.speaker == nil || s.pool.Peers == nil }

// within notes that the pool must be looked at again after a while.
func (s *scope) within(d time.Duration) {
	if d > 0 && (s.soonest == 0 || d < s.soonest) {
		s.soonest = d
	}
}

// next is when the pool is looked at again.
func (s *scope) next() time.Duration {
	pause := pauseCalm
	for _, m := range s.members {
		if m.condemned() || !m.node.Status.Joined || m.plan.Message != "" {
			pause = pauseBusy
		}
	}
	if s.cluster != nil && (!s.cluster.DeletionTimestamp.IsZero() || s.etcd.Status != metav1.ConditionTrue) {
		pause = pauseBusy
	}
	if s.acted {
		pause = pauseNext
	}
	if s.soonest > 0 {
		pause = min(pause, s.soonest)
	}
	return max(pause, pauseNext)
}

// find returns the node whose server has an ID.
func (s *scope) find(peer string) *member {
	for _, m := range s.members {
		if gluster.SameID(m.peer(), peer) {
			return m
		}
	}
	return nil
}

// registered reports whether glusterd2 is known to have every disk of a node.
func (s *scope) registered(m *member) bool {
	wanted := slices.ContainsFunc(m.node.Spec.Storage, func(one v1alpha1.GlusterStorage) bool {
		return one.Device != "" && !slices.ContainsFunc(m.node.Spec.Devices, func(r v1alpha1.GlusterDevice) bool { return r.Device == one.Device && r.Allocated })
	})
	return !wanted && node.Registered(s.pool, m.peer(), workload.Devices(m.node))
}

// absent are the disks on record that glusterd2 is known not to have.
func (s *scope) absent(m *member) map[v1alpha1.DevicePath]bool {
	out := map[v1alpha1.DevicePath]bool{}
	for _, r := range m.node.Spec.Devices {
		out[r.Device] = node.Unregistered(s.pool, m.peer(), workload.Disk(r))
	}
	return out
}

// seenSince is since when this process knows of the records of a node. One that comes with a restore is new to it, however old and final it says that it is.
func (r *Reconciler) seenSince(s *scope, m *member) map[v1alpha1.DevicePath]time.Time {
	since, current := map[v1alpha1.DevicePath]time.Time{}, map[seenRecord]bool{}
	for _, one := range m.node.Spec.Devices {
		key := seenRecord{m.node.UID, one.Device, one.Recorded.Time.UTC()}
		current[key] = true
		if at, ok := r.seen.LoadOrStore(key, s.now); ok {
			since[one.Device], _ = at.(time.Time)
		}
	}
	r.seen.Range(func(key, _ any) bool {
		if k, ok := key.(seenRecord); ok && k.node == m.node.UID && !current[k] {
			r.seen.Delete(k)
		}
		return true
	})
	return since
}

// ran is how the pod of a node was in a pass, and when this process saw that the pod, and the container that runs, were not there yet; zero where it did not see that.
type ran struct {
	pod             types.UID
	container       string
	at, made, began time.Time
}

// saw says since when this process knows of the pod of a node. Clocks of machines are not compared: what was not there in an earlier pass began later.
func (r *Reconciler) saw(s *scope, m *member, p device.Pod) device.Pod {
	now := ran{at: s.now}
	if pod := s.pods[workload.Pod(m.node.Name)]; pod != nil {
		now.pod, now.container = pod.UID, pods.Container(pod)
	}
	before, known := r.ran.Load(m.node.UID)
	if was, ok := before.(ran); known && ok {
		now.made, now.began = was.made, was.began
		if was.pod != now.pod {
			now.made = was.at
		}
		if was.container != now.container {
			now.began = was.at
		}
	}
	r.ran.Store(m.node.UID, now)
	p.Made, p.Began = now.made, now.began
	return p
}

// missingSince is since when disks of a node were missing in every pass.
func (r *Reconciler) missingSince(m *member) map[v1alpha1.DevicePath]time.Time {
	all, _ := r.missed.Load(m.node.UID)
	since, _ := all.(map[v1alpha1.DevicePath]time.Time)
	return since
}

// miss remembers which disks of a node are missing in a pass, and forgets those that are not.
func (r *Reconciler) miss(s *scope, m *member, paths []v1alpha1.DevicePath) {
	before, now := r.missingSince(m), map[v1alpha1.DevicePath]time.Time{}
	for _, path := range paths {
		since, known := before[path]
		if !known {
			since = s.now
		}
		now[path] = since
	}
	if len(now) == 0 {
		r.missed.Delete(m.node.UID)
		return
	}
	r.missed.Store(m.node.UID, now)
}

// forget drops what this process remembers of the disks of a node that is gone.
func (r *Reconciler) forget(node types.UID) {
	r.ran.Delete(node)
	r.missed.Delete(node)
	r.tried.Delete(node)
	r.seen.Range(func(key, _ any) bool {
		if k, ok := key.(seenRecord); ok && k.node == node {
			r.seen.Delete(k)
		}
		return true
	})
}

// seenRecord is the record of a disk that a process knows.
type seenRecord struct {
	node     types.UID
	device   v1alpha1.DevicePath
	recorded time.Time
}
