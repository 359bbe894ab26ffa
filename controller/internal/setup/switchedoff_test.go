package setup

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/pki"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// offNode is the node of these tests.
const offNode = "off-1"

// site is a node with an agent, and a Cluster and an Nfs that want to be looked after.
type site struct {
	t       *testing.T
	admin   client.Client
	cfg     Config
	agent   *agenttest.Agent
	cluster *v1alpha1.Cluster
	nfs     *v1alpha1.Nfs
}

func newSite(t *testing.T) *site {
	t.Helper()
	install(t)
	s := &site{t: t, admin: apitest.Client(t), cfg: Config{
		Namespace: namespace, AgentNamespace: agentNamespace, AgentServiceAccount: "quarry-agent", MetricsAddress: "0", HealthAddress: "0", LeaderElection: true,
	}}
	// After the objects below: what controllers made of them, for the next test that has the same names.
	t.Cleanup(s.forget)
	keeper := &pki.Keeper{Client: clientOf(t, as(t, "quarry-controller")), Namespace: namespace, Now: time.Now}
	if err := keeper.Keep(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.agent, s.cfg.AgentPort = startAgent(t, s.admin, offNode)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "agent-" + offNode, Labels: map[string]string{agentpod.Label: agentpod.Value}},
		Spec:       corev1.PodSpec{NodeName: offNode, Containers: []corev1.Container{{Name: "agent", Image: "agent"}}},
	}
	s.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "off-pool"}}
	s.cluster.Spec.StorageType, s.cluster.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{offNode}
	s.cluster.Spec.Devices = &v1alpha1.DeviceSelector{Hotplug: true}
	s.nfs = &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "off-share"}}
	s.nfs.Spec.Server, s.nfs.Spec.Path = "nfs.example.com", "/export"
	for _, o := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: offNode}}, pod, s.cluster, s.nfs} {
		s.create(o)
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
	if err := s.admin.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return s
}

// forget removes the Members of the Cluster and the StorageNode.
func (s *site) forget() {
	ctx, members := context.Background(), &v1alpha1.MemberList{}
	if err := s.admin.List(ctx, members); err != nil {
		s.t.Error(err)
	}
	for _, m := range members.Items {
		if m.Spec.Of.Name != s.cluster.Name {
			continue
		}
		m.Annotations = map[string]string{v1alpha1.AnnotationRemove: string(m.UID)}
		m.Finalizers = nil
		if err := s.admin.Update(ctx, &m); err != nil {
			s.t.Error(err)
		}
		if err := s.admin.Delete(ctx, &m); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	}
	if err := s.admin.Delete(ctx, &v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: offNode}}); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
}

// create makes an object that goes with the test.
func (s *site) create(o client.Object) {
	s.t.Helper()
	if err := s.admin.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, key := context.Background(), client.ObjectKeyFromObject(o)
		_ = s.admin.Delete(ctx, o, client.GracePeriodSeconds(0))
		for range 10 {
			if s.admin.Get(ctx, key, o) != nil {
				return
			}
			o.SetFinalizers(nil)
			_ = s.admin.Update(ctx, o)
		}
	})
}

// with runs a controller with these switches until do is done.
func (s *site) with(switches []string, do func(t *testing.T)) {
	s.t.Helper()
	cfg := s.cfg
	cfg.Controllers = switches
	s.t.Run(strconv.Itoa(len(switches))+" switches", func(t *testing.T) {
		start(t, cfg)
		do(t)
	})
}

// device returns what the StorageNode says of a disk, once it says so.
func (s *site) device(t *testing.T, name, what string, is func(v1alpha1.NodeDevice) bool) {
	t.Helper()
	await(t, name+" is "+what, func() string {
		n := &v1alpha1.StorageNode{}
		if err := s.admin.Get(t.Context(), client.ObjectKey{Name: offNode}, n); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(n.Status.Devices, func(d v1alpha1.NodeDevice) bool { return d.KernelName == name && is(d) }) {
			return "not yet"
		}
		return ""
	})
}

// untouched fails if anybody looks after the Cluster within a while.
func (s *site) untouched(t *testing.T, before *v1alpha1.Cluster) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		now := &v1alpha1.Cluster{}
		if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(s.cluster), now); err != nil {
			t.Fatal(err)
		}
		if now.ResourceVersion != before.ResourceVersion {
			t.Fatalf("a controller that is switched off changed the Cluster: finalizers %v, phase %q", now.Finalizers, now.Status.Phase)
		}
	}
}

// TestRun_switchedOff: a controller that is switched off does not run, the others do, and what its storages use is still theirs.
func TestRun_switchedOff(t *testing.T) {
	s := newSite(t)
	known := func(t *testing.T) {
		t.Helper()
		await(t, "the Nfs is looked after", func() string {
			o := &v1alpha1.Nfs{}
			if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(s.nfs), o); err != nil {
				return err.Error()
			}
			if len(o.Finalizers) == 0 {
				return "not yet"
			}
			return ""
		})
	}
	s.with([]string{"*", "-cluster"}, func(t *testing.T) {
		known(t)
		s.device(t, "sdb", "available", func(d v1alpha1.NodeDevice) bool { return d.Available })
		s.untouched(t, s.cluster)
		if !s.agent.IsEmpty("sdb") {
			t.Error("the disk was taken")
		}
	})
	s.with(nil, func(t *testing.T) {
		await(t, "the CSI driver is deployed", func() string { return available(t.Context(), s.admin) })
		await(t, "the Cluster runs", phaseOf(s.admin, s.cluster))
	})
	s.agent.AddDisks(100<<30, "sdc")
	before := &v1alpha1.Cluster{}
	if err := s.admin.Get(t.Context(), client.ObjectKeyFromObject(s.cluster), before); err != nil {
		t.Fatal(err)
	}
	s.with([]string{"*", "-iscsi", "-cluster"}, func(t *testing.T) {
		s.device(t, "sdc", "available", func(d v1alpha1.NodeDevice) bool { return d.Available })
		s.device(t, "sdb", "known to be the Cluster's", func(d v1alpha1.NodeDevice) bool { return !d.Available && d.InUseBy == "Cluster "+s.cluster.Name })
		s.untouched(t, before)
		if !s.agent.IsEmpty("sdc") || s.agent.IsEmpty("sdb") {
			t.Error("a disk was taken, or given back")
		}
	})
}
