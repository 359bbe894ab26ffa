package storagenode

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

const namespace = "quarry-agents"

// suite is a reconciler between a real API server and a real agent on node n1.
type suite struct {
	t      *testing.T
	client client.Client
	agent  *agenttest.Agent
	pool   *agents.Pool
	r      *Reconciler
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	s := &suite{t: t, client: apitest.Client(t), agent: agenttest.New(t, agenttest.Options{NodeName: "n1"})}
	s.agent.AddDisks(100<<30, "sda", "sdb")
	s.agent.Format("sdb", "ext4", "", "")
	s.pool = agents.New(context.Background(), agents.Config{
		TLS:   func(node string) (*tls.Config, error) { return s.agent.CA.ControllerTLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond, Absence: 100 * time.Millisecond,
	})
	_, port, err := net.SplitHostPort(s.agent.Addr())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	s.r = &Reconciler{Client: s.client, Pool: s.pool, Namespaces: []string{namespace}, Port: n}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := s.client.Create(context.Background(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	t.Cleanup(func() {
		s.pool.Close()
		ctx := context.Background()
		_ = s.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(namespace), client.GracePeriodSeconds(0))
		_ = s.client.DeleteAllOf(ctx, &corev1.Node{})
		_ = s.client.DeleteAllOf(ctx, &v1alpha1.StorageNode{})
	})
	return s
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

// startPod makes the pod of the agent run.
func (s *suite) startPod() *corev1.Pod {
	s.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent", Labels: map[string]string{agentpod.Label: agentpod.Value}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	s.create(p)
	p.Status.Phase, p.Status.PodIP = corev1.PodRunning, "127.0.0.1"
	p.Status.PodIPs = []corev1.PodIP{{IP: "127.0.0.1"}}
	if err := s.client.Status().Update(context.Background(), p); err != nil {
		s.t.Fatal(err)
	}
	return p
}

func (s *suite) get() *v1alpha1.StorageNode {
	s.t.Helper()
	sn := &v1alpha1.StorageNode{}
	err := s.client.Get(context.Background(), types.NamespacedName{Name: "n1"}, sn)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return sn
}

func (s *suite) reconcile() {
	s.t.Helper()
	if _, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) until(what string, ok func(*v1alpha1.StorageNode) bool) *v1alpha1.StorageNode {
	s.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		s.reconcile()
		if sn := s.get(); sn != nil && ok(sn) {
			return sn
		}
	}
	s.t.Fatalf("waited in vain: %s: %+v", what, s.get())
	return nil
}

func state(want string) func(*v1alpha1.StorageNode) bool {
	return func(sn *v1alpha1.StorageNode) bool { return string(sn.Status.State) == want }
}

// onlineWith: the agent has reported, too. Until it has, a node may be online with the devices of before, or with none.
func onlineWith(devices int32) func(*v1alpha1.StorageNode) bool {
	return func(sn *v1alpha1.StorageNode) bool { return state("online")(sn) && sn.Status.DeviceCount == devices }
}

func TestReconcile_lifeOfANode(t *testing.T) {
	s := newSuite(t)
	s.reconcile()
	if s.get() != nil {
		t.Fatal("a StorageNode for a node without an agent")
	}
	pod := s.startPod()
	sn := s.until("online", state("online"))
	if sn.Status.DeviceCount != 2 || sn.Status.AvailableCount != 1 || sn.Status.AgentVersion != "test" || sn.Status.LVMVersion == "" {
		t.Errorf("%+v", sn.Status)
	}
	if d := sn.Status.Devices[1]; d.Available || len(d.Refusals) == 0 || d.Refusals[0].Reason != v1alpha1.RefusalFilesystem {
		t.Errorf("%+v", d)
	}
	if !meta.IsStatusConditionTrue(sn.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", sn.Status.Conditions)
	}

	for range 3 {
		s.reconcile()
	}
	if after := s.get(); after.ResourceVersion != sn.ResourceVersion {
		t.Error("written, and nothing changed")
	}

	s.agent.AddDisks(100<<30, "sdc")
	s.until("the new disk", func(sn *v1alpha1.StorageNode) bool { return sn.Status.DeviceCount == 3 })

	s.leave(pod)
}

func TestReconcile_maintenance(t *testing.T) {
	s := newSuite(t)
	s.startPod()
	sn := s.until("online", state("online"))
	for _, maintenance := range []bool{true, false} {
		want := map[bool]string{true: "quiesced", false: "online"}[maintenance]
		sn.Spec.Maintenance = maintenance
		if err := s.client.Update(context.Background(), sn); err != nil {
			t.Fatal(err)
		}
		sn = s.until(want, state(want))
	}
}

func TestReconcile_maintenanceOutlivesTheNode(t *testing.T) {
	s := newSuite(t)
	s.startPod()
	sn := s.until("online", state("online"))
	uid := sn.UID
	sn.Spec.Maintenance = true
	if err := s.client.Update(context.Background(), sn); err != nil {
		t.Fatal(err)
	}
	s.until("quiesced", state("quiesced"))
	node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }
	if err := s.client.Delete(context.Background(), node()); err != nil {
		t.Fatal(err)
	}
	kept := s.until("kept without its node", func(sn *v1alpha1.StorageNode) bool { return strings.Contains(sn.Status.Message, "no Node") })
	if kept.UID != uid || !kept.Spec.Maintenance || kept.Status.State == "online" || len(kept.Status.Devices) == 0 ||
		meta.IsStatusConditionTrue(kept.Status.Conditions, v1alpha1.ConditionReady) {
		t.Errorf("%+v", kept)
	}
	s.create(node())
	back := s.until("the node is back", state("quiesced"))
	if back.UID != uid {
		t.Error("another StorageNode, without the maintenance")
	}
	// Once maintenance has ended the object goes with its node.
	if err := s.client.Delete(context.Background(), node()); err != nil {
		t.Fatal(err)
	}
	back.Spec.Maintenance = false
	if err := s.client.Update(context.Background(), back); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if s.get() != nil {
		t.Error("the StorageNode outlives its node")
	}
}

// leave takes away the agent's pod, then the node.
func (s *suite) leave(pod *corev1.Pod) {
	t := s.t
	t.Helper()
	if err := s.client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	sn := s.until("offline", state("offline"))
	c := meta.FindStatusCondition(sn.Status.Conditions, v1alpha1.ConditionAgentConnected)
	if c.Reason != v1alpha1.ReasonAgentMissing || sn.Status.Message == "" || sn.Status.DeviceCount != 3 {
		t.Errorf("%+v", sn.Status)
	}

	if err := s.client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}); err != nil {
		t.Fatal(err)
	}
	s.reconcile()
	if s.get() != nil {
		t.Error("the StorageNode outlives its node")
	}
	s.reconcile()
}

func TestReconcile_agentDies(t *testing.T) {
	s := newSuite(t)
	s.startPod()
	s.until("online", onlineWith(2))
	s.agent.Kill()
	sn := s.until("offline", state("offline"))
	c := meta.FindStatusCondition(sn.Status.Conditions, v1alpha1.ConditionAgentConnected)
	if c.Reason != v1alpha1.ReasonAgentUnreachable || sn.Status.DeviceCount != 2 {
		t.Errorf("%+v", sn.Status)
	}
	// The reason of an outage does not change from one attempt to the next, once one has failed.
	sn = s.until("the reason", func(sn *v1alpha1.StorageNode) bool { return strings.Contains(sn.Status.Message, "connection refused") })
	time.Sleep(time.Second)
	s.reconcile()
	if after := s.get(); after.ResourceVersion != sn.ResourceVersion {
		t.Errorf("written, and nothing changed: %q, then %q", sn.Status.Message, after.Status.Message)
	}
	s.agent.Restart(t)
	s.until("online", state("online"))
}

func TestReconcile_controllerRestartKeepsWhatIsKnown(t *testing.T) {
	s := newSuite(t)
	s.startPod()
	before := s.until("online", onlineWith(2))
	s.pool.Close()
	s.agent.Kill()
	s.pool = agents.New(context.Background(), agents.Config{
		TLS:   func(node string) (*tls.Config, error) { return s.agent.CA.ControllerTLS(t, node), nil },
		Grace: 500 * time.Millisecond, Patience: 100 * time.Millisecond,
	})
	s.r = &Reconciler{Client: s.client, Pool: s.pool, Namespaces: []string{namespace}, Port: s.r.Port}
	s.reconcile()
	if sn := s.get(); sn.ResourceVersion != before.ResourceVersion {
		t.Error("written before anything was known")
	}
	sn := s.until("offline", state("offline"))
	if sn.Status.DeviceCount != 2 || len(sn.Status.Devices) != 2 {
		t.Errorf("what an earlier controller knew is lost: %+v", sn.Status)
	}
}

// told writes down what a pool is told.
type told struct {
	*agents.Pool
	words []string
}

func (p *told) SetAddress(node, address, pod string) {
	p.words = append(p.words, node+" listens")
	p.Pool.SetAddress(node, address, pod)
}

func (p *told) Remove(node string) {
	p.words = append(p.words, node+" has none")
	p.Pool.Remove(node)
}

func (p *told) Complete() {
	p.words = append(p.words, "complete")
	p.Pool.Complete()
}

// TestReconcile_introducesAllNodesFirst: whichever node a new leader looks at first, the pool is told of all of them before it calls any
// node one without an agent.
func TestReconcile_introducesAllNodesFirst(t *testing.T) {
	s := newSuite(t)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	s.startPod()
	p := &told{Pool: s.pool}
	s.r.Pool = p
	for range 2 {
		if _, err := s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n2"}}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"n1 listens", "n2 has none", "complete", "n2 has none", "n2 has none"}
	if diff := cmp.Diff(want, p.words); diff != "" {
		t.Error(diff)
	}
}

// TestReconcile_disksOfASilentNode: a new process knows from the StorageNodes which disks a silent node saw, before it hears from the others.
func TestReconcile_disksOfASilentNode(t *testing.T) {
	s := newSuite(t)
	s.agent.AddDisk(agenttest.Disk{Name: "sdz", WWN: "0x600", Serial: "LUN-1", SizeBytes: 4 << 30})
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}})
	silent := &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}
	s.create(silent)
	silent.Status.Devices = []v1alpha1.NodeDevice{{
		Path: "/dev/disk/by-id/x", KernelName: "sdx", Type: "disk", Size: *quantity(4 << 30), WWN: "0x600", Serial: "LUN-1", Verdict: "available",
	}}
	if err := s.client.Status().Update(context.Background(), silent); err != nil {
		t.Fatal(err)
	}
	s.startPod()
	s.until("the disk is refused", func(sn *v1alpha1.StorageNode) bool {
		return slices.ContainsFunc(sn.Status.Devices, func(d v1alpha1.NodeDevice) bool {
			return d.KernelName == "sdz" && d.Verdict == "refused: SharedDisk" && !d.Available && strings.Contains(d.Refusals[0].Message, "Node n2")
		})
	})
}
