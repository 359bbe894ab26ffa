package gluster

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/gd2/cluster"
)

// TestPool_begins makes a pool of four zones: etcd first, then servers, which join one after the other, with their devices.
func TestPool_begins(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	must(t, s.pass())
	if len(s.servers) > 0 || len(s.nodes()) > 0 {
		t.Error("servers are made before etcd serves")
	}
	s.until("it runs", s.running(4))
	if strange := s.world.Strange(); len(strange) > 0 {
		t.Errorf("strange: %v", strange)
	}
	c := s.world.Begin(s.anyone("").Node)
	defer c.End()
	peers, _ := c.Peers("", "")
	zones := map[string]bool{}
	for _, p := range peers {
		zones[p.Zone()] = true
	}
	if len(peers) != 4 || len(zones) != 4 || !zones["z3"] {
		t.Errorf("the peers are %+v", peers)
	}
	for _, n := range s.nodes() {
		serves(t, &n, c.C)
	}
	if got := s.cluster(); got.Status.Nodes != 4 || got.Status.NodeStates.Online != 4 || got.Status.Capacity.Free == nil || len(got.Status.Templates) != 4 {
		t.Errorf("%+v", got.Status)
	}
}

// serves wants a node to be a member that has all of its devices enabled.
func serves(t *testing.T, n *v1alpha1.GlusterNode, in *cluster.Cluster) {
	t.Helper()
	if n.Spec.Peer != string(n.UID) || n.Spec.Pool != in.ID || !n.Status.Joined || n.Status.State != "online" || n.Status.Capacity.Total == nil {
		t.Errorf("%s: peer %s, pool %s, %+v", n.Name, n.Spec.Peer, n.Spec.Pool, n.Status)
	}
	for _, d := range in.DevicesOf(n.Spec.Peer) {
		if d.State != "enabled" || d.Provisioner != "lvm" {
			t.Errorf("%+v", d)
		}
	}
}

// TestPool_quiet: once all is well, nothing is written any more.
func TestPool_quiet(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	s.passes(5)
	versions := func() map[string]string {
		out := map[string]string{"cluster": s.cluster().ResourceVersion}
		for _, n := range s.nodes() {
			out[n.Name] = n.ResourceVersion
		}
		return out
	}
	before := versions()
	s.passes(5)
	for name, version := range versions() {
		if before[name] != version {
			t.Errorf("%s is written in every pass", name)
		}
	}
}

// TestNode_states has a node in every state, by every way that there is into it and out of it.
func TestNode_states(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	n := s.inZone("z1")
	device := workload.Device(s.namespace, n)
	enabled := func(want bool) func() bool {
		return func() bool {
			c := s.world.Begin(s.anyone(n).Node)
			defer c.End()
			d, f := c.Device(s.servers[n].Node.PeerID, device)
			return f == nil && (d[0].State == "enabled") == want
		}
	}
	quiesce := func() { s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterDisabled }) }
	resume := func() { s.edit(n, func(n *v1alpha1.GlusterNode) { n.Spec.DesiredState = v1alpha1.GlusterEnabled }) }
	kill := func() { s.halt(n) }
	revive := func() { delete(s.halted, n) }

	quiesce()
	s.until("it is quiesced", s.in(n, "quiesced"))
	s.until("G7: its device is disabled", enabled(false))
	resume()
	s.until("it is online again", s.in(n, "online"))
	s.until("G7: its device is enabled", enabled(true))

	kill()
	must(t, s.pass())
	if s.state(n) != "online" {
		t.Error("it counts as offline at once: the lease lags")
	}
	s.until("it is offline", s.in(n, "offline"))
	quiesce()
	s.until("it is quiesced while it is down", s.in(n, "quiesced"))
	s.until("G7: its device is disabled, even if it is down", enabled(false))
	resume()
	s.until("it is offline once more", s.in(n, "offline"))
	revive()
	s.until("it is online", s.in(n, "online"))

	// Quiesced for long: A6 does not hold for it, nor for a node that is offline, without failOfflineAfter.
	kill()
	s.until("it is offline", s.in(n, "offline"))
	s.passes(20)
	if s.node(n).DeletionTimestamp != nil {
		t.Error("it is given up")
	}
	revive()
	s.until("it is online", s.in(n, "online"))

	// online to failed to abandoned: it holds a brick, is emptied, and goes.
	s.volume()
	n = s.full()
	s.until("it holds a brick", func() bool { return s.node(n).Status.Bricks > 0 })
	s.remove(n)
	s.until("it is failed", s.in(n, "failed"))
	s.until("it is gone, and another one is there", func() bool { return s.state(n) == "gone" && s.running(4)() })

	// online to abandoned: an empty one.
	empty := s.bare()
	s.remove(empty)
	s.until("the empty one is gone", s.in(empty, "gone"))
	s.until("it runs", s.running(4))

	// quiesced to failed: maintenance does not keep a node from being emptied.
	n = s.full()
	quiesce()
	s.until("it is quiesced", s.in(n, "quiesced"))
	s.remove(n)
	s.until("it is failed", s.in(n, "failed"))
	s.until("it is gone", s.in(n, "gone"))

	for _, edge := range []string{
		"online to offline", "offline to online", "online to quiesced", "quiesced to online", "offline to quiesced", "quiesced to offline", "online to failed",
		"failed to abandoned", "online to abandoned", "quiesced to failed",
	} {
		if !s.seen[edge] {
			t.Errorf("never seen: %s", edge)
		}
	}
}

// TestNode_removed deletes a node that holds bricks: it is failed, drained, abandoned and gone, as the events tell, and nothing of it is left. The volume is whole.
func TestNode_removed(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.full()
	peer := s.servers[n].Node.PeerID
	s.remove(n)
	order := []string{}
	s.until("it is gone", func() bool {
		if c := s.condition(n, v1alpha1.ConditionDrained); c.Reason != "" {
			order = append(order, c.Reason)
		}
		return s.state(n) == "gone"
	})
	for _, want := range []string{v1alpha1.ReasonBrickMoving, v1alpha1.ReasonHealing, v1alpha1.ReasonDrained} {
		if !slices.Contains(order, want) {
			t.Errorf("never seen: %s in %q", want, slices.Compact(order))
		}
	}
	for _, want := range []string{"failed, and was online", "abandoned, and was failed", "is moved to another node", "leaves the pool", "no member of the pool", "claims are deleted", "Nothing is left"} {
		if !s.tells(want) {
			t.Errorf("no event tells %q: %q", want, s.told)
		}
	}
	s.whole()
	func() {
		c := s.world.Begin(s.anyone(n).Node)
		defer c.End()
		if c.C.Peer(peer) != nil {
			t.Error("it is a peer still")
		}
	}()
	var claims corev1.PersistentVolumeClaimList
	must(t, s.client.List(t.Context(), &claims, client.InNamespace(s.namespace)))
	for _, c := range claims.Items {
		if strings.HasPrefix(c.Name, n) {
			t.Errorf("claim %s is left", c.Name)
		}
	}
	s.until("another node is there", s.running(4))
}

// TestNode_removalIsKilled ends the process at every write of a removal, and begins another one. In the end nothing is left, and the volume is whole.
func TestNode_removalIsKilled(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.volume()
	n := s.full()
	s.remove(n)
	kills := s.killed("it is gone", s.in(n, "gone"))
	// The record of a move and of a server that left, statuses, and what is deleted.
	for _, write := range []string{"patch *v1alpha1.GlusterNode", "status *v1alpha1.GlusterNode", "delete *v1.StatefulSet", "delete *v1.PersistentVolumeClaim"} {
		if kills["before "+write] == 0 || kills["after "+write] == 0 {
			t.Errorf("the process was never ended before and after %s, and at %v", write, kills)
		}
	}
	s.whole()
}

// TestPool_sized: below freeStorageMin the pool grows, and shrinks again when there is too much, by one node at a time.
func TestPool_sized(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3, func(c *v1alpha1.GlusterCluster) {
		c.Spec.NodeTemplates[0].Threshold = v1alpha1.GlusterThreshold{MinNodes: new(int32(1)), MaxNodes: new(int32(3)), FreeStorageMin: quantity("5Gi"), FreeStorageMax: quantity("25Gi")}
	})
	s.until("it runs", s.running(3))
	s.editCluster(func(c *v1alpha1.GlusterCluster) { c.Spec.NodeTemplates[0].Threshold.FreeStorageMin = quantity("15Gi") })
	s.until("it grew", s.running(4))
	s.passes(10)
	if len(s.nodes()) != 4 {
		t.Errorf("it has %d nodes", len(s.nodes()))
	}
	s.editCluster(func(c *v1alpha1.GlusterCluster) {
		c.Spec.NodeTemplates[0].Threshold.FreeStorageMin, c.Spec.NodeTemplates[0].Threshold.FreeStorageMax = quantity("5Gi"), quantity("12Gi")
	})
	s.until("it shrank", s.running(3))
	// A number that is lowered removes the surplus, one by one.
	s.editCluster(func(c *v1alpha1.GlusterCluster) {
		c.Spec.NodeTemplates[1].Threshold = v1alpha1.GlusterThreshold{Nodes: new(int32(3))}
	})
	s.until("there are three", s.running(5))
	s.editCluster(func(c *v1alpha1.GlusterCluster) {
		c.Spec.NodeTemplates[1].Threshold = v1alpha1.GlusterThreshold{Nodes: new(int32(0))}
	})
	s.until("there is none", func() bool {
		condemned := 0
		for _, n := range s.nodes() {
			if n.DeletionTimestamp != nil {
				condemned++
			}
		}
		if condemned > 1 {
			t.Fatalf("%d nodes are removed at once", condemned)
		}
		return s.running(2)()
	})
}

// TestNode_reverted: what a person changes of a template's node is taken back (A15), but for what is said about this one node.
func TestNode_reverted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	n := s.inZone("z0")
	s.edit(n, func(n *v1alpha1.GlusterNode) {
		n.Spec.DesiredState = v1alpha1.GlusterDisabled
		n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: corev1.NodeSelectorOpExists}},
		}}}}
	})
	set := &appsv1.StatefulSet{}
	key := types.NamespacedName{Namespace: s.namespace, Name: n}
	must(t, s.client.Get(t.Context(), key, set))
	set.Spec.Replicas = new(int32(0))
	must(t, s.client.Update(t.Context(), set))
	s.passes(3)
	must(t, s.client.Get(t.Context(), key, set))
	if *set.Spec.Replicas != 1 {
		t.Error("the workload that somebody changed stays so")
	}
	if got := s.node(n).Spec; got.NodeAffinity != nil || got.DesiredState != v1alpha1.GlusterDisabled {
		t.Errorf("%+v", got)
	}
}

// TestCluster_deleted is held while the pool has a volume (A21). Then drivers, nodes and etcd go, in this order, and nothing is left.
func TestCluster_deleted(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	s.volume()
	must(t, s.client.Delete(t.Context(), s.cluster()))
	s.passes(10)
	if c := s.ofCluster(v1alpha1.ConditionReady); len(s.nodes()) != 3 || c.Reason != v1alpha1.ReasonVolumesExist || !strings.Contains(c.Message, "volume v") {
		t.Errorf("%d nodes, %+v", len(s.nodes()), c)
	}
	s.dropVolume("v")
	s.until("it is gone", func() bool {
		gone := s.cluster() == nil
		if etcd := s.claim(workload.Member("pool", 0)); !gone && etcd == nil && len(s.nodes()) > 0 {
			t.Fatal("etcd goes before the nodes")
		}
		return gone
	})
	left := 0
	for _, list := range []client.ObjectList{&corev1.PersistentVolumeClaimList{}, &corev1.PodList{}, &corev1.ServiceList{}} {
		must(t, s.client.List(t.Context(), list, client.InNamespace(s.namespace)))
		must(t, each(list, func(o client.Object) { left++; t.Logf("left: %T %s", o, o.GetName()) }))
	}
	var secrets corev1.SecretList
	must(t, s.client.List(t.Context(), &secrets, client.InNamespace(s.namespace)))
	if left+len(secrets.Items)+len(s.nodes()) > 0 {
		t.Errorf("%d objects and %d secrets are left", left, len(secrets.Items))
	}
}

// TestEtcd_lost: one member may be away. With the majority nothing is known, nothing is removed, and all goes on when it is back.
func TestEtcd_lost(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(4)
	s.until("it runs", s.running(4))
	s.etcd = 2
	s.passes(3)
	if c := s.ofCluster(v1alpha1.ConditionEtcdReady); c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "2 of 3") {
		t.Errorf("%+v", c)
	}
	empty := s.inZone("z0")
	s.etcd = 1
	s.world.FreezeStore()
	s.remove(empty)
	for range 4 {
		_ = s.pass()
	}
	if c := s.ofCluster(v1alpha1.ConditionEtcdReady); c.Status != metav1.ConditionFalse {
		t.Errorf("%+v", c)
	}
	if s.claim(workload.StateClaim(empty)) == nil || s.claim(workload.StateClaim(empty)).DeletionTimestamp != nil || s.state(empty) == "gone" {
		t.Error("a node is removed, and nobody knows the pool")
	}
	s.world.ThawStore()
	s.etcd = 3
	s.until("it is removed now", s.in(empty, "gone"))
	s.until("it runs", s.running(4))

	// A claim that is gone is not made again: a member that is empty would take part.
	claim := s.claim(workload.Member("pool", 0))
	must(t, s.client.Delete(t.Context(), claim))
	s.passes(3)
	if c := s.ofCluster(v1alpha1.ConditionEtcdReady); s.claim(claim.Name) != nil || !strings.Contains(c.Message, "is gone") {
		t.Errorf("%+v", c)
	}
}
