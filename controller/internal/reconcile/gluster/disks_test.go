package gluster

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const diskPath = "/dev/disk/by-id/wwn-1"

// machines are the agents of nodes, by name. Of a node that is not among them no agent is known.
type machines map[string]*decide.Node

func (m machines) Node(name string) decide.Node {
	if n := m[name]; n != nil {
		return *n
	}
	return decide.Node{Name: name}
}

// host is a node of Kubernetes whose agent reports one clean disk.
func (s *suite) host() *decide.Node {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-" + s.namespace, Labels: map[string]string{"machine": s.namespace}}}
	must(s.t, s.client.Create(s.t.Context(), n))
	return &decide.Node{Name: n.Name, Agent: decide.AgentUp, Devices: []decide.Device{{
		Path: diskPath, KernelName: "sda", Type: "disk", Links: []string{diskPath}, SizeBytes: 10 << 30, WWN: s.namespace, Serial: "S1", Digest: "seen", Since: time.Now().Add(-time.Hour),
	}}}
}

// disked is a GlusterNode on the disk of the machine.
func (s *suite) disked() *v1alpha1.GlusterNode {
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "own"}}
	n.Spec = v1alpha1.GlusterNodeSpec{Cluster: "pool", Zone: "own", Storage: []v1alpha1.GlusterStorage{{Device: diskPath}}}
	n.Spec.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "machine", Operator: corev1.NodeSelectorOpIn, Values: []string{s.namespace}}},
	}}}}
	return n
}

// workload is that of the node on the disk; nil when there is none.
func (s *suite) workload() *appsv1.StatefulSet {
	s.t.Helper()
	var list appsv1.StatefulSetList
	must(s.t, s.client.List(s.t.Context(), &list))
	for i := range list.Items {
		if w := &list.Items[i]; w.Namespace == s.namespace && w.Name == "own" {
			return w
		}
	}
	return nil
}

// refuses makes some passes, and wants that nothing was made for the node, and why.
func (s *suite) refuses(what string, status metav1.ConditionStatus, reason string) {
	s.t.Helper()
	for range 4 {
		_ = s.pass()
	}
	c := s.condition("own", v1alpha1.ConditionDevicesGiven)
	if n := s.node("own"); len(n.Spec.Devices) > 0 || s.workload() != nil || c.Status != status || c.Reason != reason || !strings.Contains(n.Status.Message, diskPath) {
		s.t.Fatalf("%s: %+v, %s, records %+v", what, c, n.Status.Message, n.Spec.Devices)
	}
}

// usesUp is what the agent reports once glusterd2 has a volume group on the disk.
func usesUp(n *decide.Node) {
	d := &n.Devices[0]
	d.Refusals, d.VolumeGroup, d.PVUUID = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalLVM, Message: "It is of a volume group."}}, "gluster-x", "pv"
}

// TestDisks: a disk of a machine is on record for a minute before the server gets it, and is never taken while anybody else may have it.
func TestDisks(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	m := s.host()
	must(t, s.client.Create(t.Context(), s.disked()))
	s.refuses("nobody tells of the machine", metav1.ConditionUnknown, v1alpha1.ReasonAgentUnreachable)
	s.r.Agents = machines{m.Name: m}
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: v1alpha1.ClusterSpec{StorageType: v1alpha1.StorageTypeLVM, Hosts: []v1alpha1.HostName{v1alpha1.HostName(m.Name)}}}
	must(t, s.client.Create(t.Context(), c))
	s.refuses("a Cluster chooses it", metav1.ConditionFalse, v1alpha1.ReasonDeviceConflict)
	must(t, s.client.Delete(t.Context(), c))
	m.Devices[0].Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalFilesystem, Message: "It has a filesystem."}}
	s.refuses("it is not clean", metav1.ConditionFalse, v1alpha1.ReasonDeviceRefused)
	m.Devices[0].Refusals = nil

	s.until("it is on record", func() bool { return len(s.node("own").Spec.Devices) > 0 })
	r := s.node("own").Spec.Devices[0]
	if r.Given || r.WWN != s.namespace || string(r.Node) != m.Name || s.workload() != nil {
		t.Fatalf("%+v, workload %v", r, s.workload())
	}
	s.passes(1)
	if s.node("own").Spec.Devices[0].Given || s.workload() != nil {
		t.Fatal("it is given at once")
	}
	s.until("it serves", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	usesUp(m)
	pod := s.workload().Spec.Template.Spec
	if v := pod.Volumes[len(pod.Volumes)-1]; v.HostPath == nil || v.HostPath.Path != diskPath || !s.node("own").Spec.Devices[0].Given {
		t.Errorf("%+v, %+v", v, s.node("own").Spec.Devices)
	}
	s.passes(3)
	if s.condition("own", v1alpha1.ConditionReady).Status != metav1.ConditionTrue {
		t.Errorf("it does not serve with its own volume group on the disk: %s", s.node("own").Status.Message)
	}

	s.keepsRecord()
	was := m.Devices[0].Serial
	m.Devices[0].Serial = "another"
	s.passes(2)
	if c := s.condition("own", v1alpha1.ConditionReady); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDeviceConflict {
		t.Errorf("another disk is under the path: %+v", c)
	}
	m.Devices[0].Serial = was

	s.remove("own")
	s.until("it is gone", func() bool { return s.node("own") == nil })
	if !s.tells("What glusterd2 wrote stays on " + diskPath + " of node " + m.Name) {
		t.Error("nobody tells of what is left on the disk")
	}
	s.until("it runs with the others", s.running(3))
}

// keepsRecord wants the record of the disk neither changed nor taken off.
func (s *suite) keepsRecord() {
	s.t.Helper()
	for want, change := range map[string]func(*v1alpha1.GlusterNode){
		"on record is not changed": func(n *v1alpha1.GlusterNode) { n.Spec.Devices[0].Serial = "S2" },
		"none is taken off":        func(n *v1alpha1.GlusterNode) { n.Spec.Devices = nil },
	} {
		n := s.node("own")
		change(n)
		if err := s.client.Update(s.t.Context(), n); err == nil || !strings.Contains(err.Error(), want) {
			s.t.Errorf("the record was changed: %v, want %q", err, want)
		}
	}
}

// TestDisks_restored: a GlusterNode that lost its records does not take the disk off its server, and goes on when they are written again.
func TestDisks_restored(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	m := s.host()
	s.r.Agents = machines{m.Name: m}
	must(t, s.client.Create(t.Context(), s.disked()))
	s.until("it serves", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	usesUp(m)
	before, old := s.workload(), s.node("own")
	s.edit("own", func(n *v1alpha1.GlusterNode) { n.Finalizers = nil })
	s.remove("own")
	again := s.disked()
	must(t, s.client.Create(t.Context(), again))
	for range 4 {
		// It has an error as long as somebody has to write the records.
		_ = s.pass()
	}
	if after := s.workload(); after == nil || after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the workload was changed: %+v", after)
	}
	if n := s.node("own"); len(n.Spec.Devices) > 0 || n.Spec.Peer != old.Spec.Peer || !strings.Contains(n.Status.Message, "left as it is") {
		t.Errorf("%+v: %s", n.Spec, n.Status.Message)
	}
	s.edit("own", func(n *v1alpha1.GlusterNode) { n.Spec.Devices = old.Spec.Devices })
	s.until("it serves again", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	if after := s.workload(); after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the workload was changed: %+v", after)
	}
}
