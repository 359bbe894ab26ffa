package gluster

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/gluster/workload"
	servers "quarry.storage/quarry/controller/internal/gluster"
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

func (m machines) Ask(_ context.Context, name string) (decide.Node, error) { return m.Node(name), nil }

func (m machines) Inspect(_ context.Context, name string, d decide.Device) (decide.Device, error) {
	if now, there := m.Node(name).Device(d.Path); there {
		return now, nil
	}
	return decide.Device{}, errors.New("no such device")
}

// opened are agents that find a disk open when they look at it, and did not before.
type opened struct{ machines }

func (o opened) Inspect(_ context.Context, _ string, d decide.Device) (decide.Device, error) {
	d.Refusals = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalBusy, Message: "The device is in use by process qemu (pid 7)."}}
	return d, nil
}

// host is a node of Kubernetes whose agent reports one clean disk.
func (s *suite) host() *decide.Node {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m-" + s.namespace, Labels: map[string]string{"machine": s.namespace}}}
	must(s.t, s.client.Create(s.t.Context(), n))
	return &decide.Node{Name: n.Name, Agent: decide.AgentUp, Session: time.Now().Add(-time.Hour), Devices: []decide.Device{{
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
	c := s.condition("own", v1alpha1.ConditionDevicesAllocated)
	if n := s.node("own"); len(n.Spec.Devices) > 0 || s.workload() != nil || c.Status != status || c.Reason != reason || !strings.Contains(n.Status.Message, diskPath) {
		s.t.Fatalf("%s: %+v, %s, records %+v", what, c, n.Status.Message, n.Spec.Devices)
	}
}

// usesUp is what the agent reports once glusterd2 has a volume group on the disk.
func usesUp(node string, d *decide.Device) {
	d.Refusals, d.PVUUID = []v1alpha1.Refusal{{Reason: v1alpha1.RefusalLVM, Message: "It is of a volume group."}}, "pv"
	d.VolumeGroup = workload.Group(workload.Disk(v1alpha1.GlusterDevice{Node: v1alpha1.HostName(node), Device: v1alpha1.DevicePath(d.Path)}))
}

// TestDisks: a disk of a machine is on record for three minutes before the server gets it, and is never taken while anybody else may have it.
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
	s.r.Agents = opened{machines{m.Name: m}}
	s.refuses("somebody opened it since it was tested", metav1.ConditionFalse, v1alpha1.ReasonDeviceRefused)
	s.r.Agents = machines{m.Name: m}

	s.until("it is on record", func() bool { return len(s.node("own").Spec.Devices) > 0 })
	r := s.node("own").Spec.Devices[0]
	if r.Allocated || r.WWN != s.namespace || string(r.Node) != m.Name || s.workload() != nil {
		t.Fatalf("%+v, workload %v", r, s.workload())
	}
	s.passes(1)
	if s.node("own").Spec.Devices[0].Allocated || s.workload() != nil {
		t.Fatal("it is allocated at once")
	}
	s.until("the server gets it", func() bool { return s.workload() != nil })
	s.registersNone(m)
	s.until("it serves", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	usesUp(m.Name, &m.Devices[0])
	pod := s.workload().Spec.Template.Spec
	if v := pod.Volumes[len(pod.Volumes)-1]; v.HostPath == nil || v.HostPath.Path != diskPath || !s.node("own").Spec.Devices[0].Allocated {
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

// registersNone has the disk opened by somebody once the server has it: it is not registered then, and that is told.
func (s *suite) registersNone(m *decide.Node) {
	s.t.Helper()
	s.r.Agents = opened{machines{m.Name: m}}
	refused := func() bool {
		c := s.condition("own", v1alpha1.ConditionDevicesReady)
		return c.Reason == v1alpha1.ReasonDeviceRefused && strings.Contains(c.Message, "in use by process qemu")
	}
	s.until("it is not registered while somebody has it open", refused)
	s.passes(2)
	if !refused() {
		s.t.Errorf("%+v", s.condition("own", v1alpha1.ConditionDevicesReady))
	}
	s.r.Agents = machines{m.Name: m}
}

// spoilt are servers that cannot make a volume group on one disk. took is told of each other one.
type spoilt struct {
	servers.API
	disk string
	took func(disk string)
	// pending: nobody knows whether what was asked for is done.
	pending *bool
}

func (s spoilt) AddDevice(ctx context.Context, peer, disk string) error {
	if disk == s.disk {
		return &servers.Error{Op: "add device", Status: 500, Messages: []string{"pvcreate: exit status 5"}, Pending: *s.pending}
	}
	s.took(disk)
	return s.API.AddDevice(ctx, peer, disk)
}

// TestDisks_spoilt: a disk that glusterd2 refuses again and again keeps glusterd2 from no other one.
func TestDisks_spoilt(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	m := s.host()
	other := m.Devices[0]
	other.Path, other.KernelName, other.WWN, other.Serial = "/dev/disk/by-id/wwn-2", "sdb", s.namespace+"-2", "S2"
	other.Links = []string{other.Path}
	m.Devices = append(m.Devices, other)
	s.r.Agents = machines{m.Name: m}
	inPod := func(path string) string {
		return workload.Disk(v1alpha1.GlusterDevice{Node: v1alpha1.HostName(m.Name), Device: v1alpha1.DevicePath(path)})
	}
	took, pending := map[string]bool{}, false
	s.r.Dial = func(auth, ca []byte) (func(string) (servers.API, error), error) {
		at, err := s.dial(auth, ca)
		return func(address string) (servers.API, error) {
			api, err := at(address)
			return spoilt{api, inPod(diskPath), func(disk string) {
				took[disk] = true
				usesUp(m.Name, &m.Devices[1])
			}, &pending}, err
		}, err
	}
	n := s.disked()
	n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{Device: v1alpha1.DevicePath(other.Path)})
	must(t, s.client.Create(t.Context(), n))
	s.until("glusterd2 is told of the other disk", func() bool { return took[inPod(other.Path)] })
	told := func(reason string) func() bool {
		return func() bool {
			c := s.condition("own", v1alpha1.ConditionReady)
			return c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, inPod(diskPath)+": ") && strings.Contains(c.Message, "pvcreate: exit status 5")
		}
	}
	s.until("the refusal is told", told(v1alpha1.ReasonRequestFailed))
	pending = true
	s.until("it is told that it may still be done", told(v1alpha1.ReasonAnswerLost))
}

// TestDisks_pruned: an API server that does not know spec.devices drops it without an error. That is told, and nothing is made on the disk.
func TestDisks_pruned(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(1)
	s.until("it runs", s.running(1))
	m := s.host()
	s.r.Agents = machines{m.Name: m}
	must(t, s.client.Create(t.Context(), s.disked()))
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		n, is := o.(*v1alpha1.GlusterNode)
		if !is {
			return c.Patch(ctx, o, p, opts...)
		}
		sent := n.Spec.Devices
		n.Spec.Devices = nil
		err := c.Patch(ctx, n, p, opts...)
		n.Spec.Devices = sent
		return err
	}})
	for range 4 {
		_ = s.pass()
	}
	if n := s.node("own"); len(n.Spec.Devices) > 0 || s.workload() != nil || !strings.Contains(n.Status.Message, "kubectl apply --server-side -k deploy/crd") {
		t.Errorf("%+v, %s", n.Spec.Devices, n.Status.Message)
	}
	if s.tells("is put on record") {
		t.Error("an event says that it is put on record")
	}
}

// keepsRecord wants the record of the disk neither changed nor taken off.
func (s *suite) keepsRecord() {
	s.t.Helper()
	for want, change := range map[string]func(*v1alpha1.GlusterNode){
		"on record is not changed":            func(n *v1alpha1.GlusterNode) { n.Spec.Devices[0].Serial = "S2" },
		"none that is allocated is taken off": func(n *v1alpha1.GlusterNode) { n.Spec.Devices = nil },
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
	usesUp(m.Name, &m.Devices[0])
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
	if c := s.condition("own", v1alpha1.ConditionDevicesAllocated); c.Reason != v1alpha1.ReasonDeviceRefused || !strings.Contains(c.Message, "do not wipe it: write spec.devices again") {
		t.Errorf("nobody warns of a wipe: %+v", c)
	}
	s.edit("own", func(n *v1alpha1.GlusterNode) {
		must(t, json.Unmarshal([]byte(before.Annotations[v1alpha1.AnnotationDevices]), &n.Spec.Devices))
	})
	s.until("it serves again", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
	if after := s.workload(); after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the workload was changed: %+v", after)
	}
}

// TestDisks_gone: a disk that went takes no pod with it that runs. One that cannot start without it is replaced by one that has the others, and the disk is in the pod again once it is back.
func TestDisks_gone(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(3)
	s.until("it runs", s.running(3))
	s.machine()
	m := s.host()
	s.r.Agents = machines{m.Name: m}
	n := s.disked()
	n.Spec.Storage = append(n.Spec.Storage, v1alpha1.GlusterStorage{PVCName: "other"})
	must(t, s.client.Create(t.Context(), block(s.namespace, "other")))
	must(t, s.client.Create(t.Context(), n))
	serves := func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue }
	s.until("it serves", serves)
	usesUp(m.Name, &m.Devices[0])
	disk, generation, pod := m.Devices, s.workload().Generation, s.pods()["own-0"]

	m.Devices, s.unplugged = nil, map[string]bool{diskPath: true}
	s.passes(4)
	s.template("a server that runs is not left as it is", generation)
	s.misses("The bricks there are down")
	must(t, s.client.Delete(t.Context(), pod))
	s.until("a pod without the disk serves", s.podWith(0, pod))
	s.misses("is not on node")
	if n := s.node("own"); len(n.Spec.Devices) != 1 || !n.Spec.Devices[0].Allocated || s.workload().Annotations[v1alpha1.AnnotationDevices] == "" {
		t.Errorf("the record is gone: %+v", n.Spec.Devices)
	}
	generation = s.workload().Generation
	m.Agent, m.Devices = decide.AgentUnreachable, disk
	s.passes(2)
	s.template("it changed although nobody knows of the disk", generation)

	m.Agent, s.unplugged = decide.AgentUp, nil
	s.until("a pod with the disk serves", s.podWith(1, pod))
	s.until("it serves again", serves)
}

// template wants the template of the workload as it was, and its pod left alone.
func (s *suite) template(what string, generation int64) {
	s.t.Helper()
	if p := s.pods()["own-0"]; s.workload().Generation != generation || p == nil || p.DeletionTimestamp != nil {
		s.t.Error(what)
	}
}

// misses wants that the node tells which disk it misses, and something about that.
func (s *suite) misses(what string) {
	s.t.Helper()
	c := s.condition("own", v1alpha1.ConditionDevicesReady)
	if c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDeviceNotFound || !strings.Contains(c.Message, diskPath) || !strings.Contains(c.Message, what) {
		s.t.Errorf("%+v", c)
	}
}

// podWith reports whether another pod than one runs, with so many disks of its machine, and the pool has its server.
func (s *suite) podWith(disks int, but *corev1.Pod) func() bool {
	return func() bool {
		p := s.pods()["own-0"]
		return p != nil && p.UID != but.UID && ready(p) && len(hostPaths(p)) == disks && s.condition("own", v1alpha1.ConditionPeerOnline).Status == metav1.ConditionTrue
	}
}

// TestDisks_lateCache: what a cache does not have yet is asked of the API server before a disk goes on record.
func TestDisks_lateCache(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(1)
	s.until("it runs", s.running(1))
	m := s.host()
	s.r.Agents = machines{m.Name: m}
	member := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "late." + m.Name}}
	member.Spec.Of, member.Spec.Node = v1alpha1.MemberOwner{Kind: "Cluster", Name: "late", UID: "u-" + types.UID(s.namespace)}, v1alpha1.HostName(m.Name)
	member.Spec.Retire = []v1alpha1.RetiredDevice{{Path: diskPath}}
	must(t, s.client.Create(t.Context(), member))
	s.intercept(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, o client.ObjectList, opts ...client.ListOption) error {
		if _, is := o.(*v1alpha1.MemberList); is {
			return nil
		}
		return c.List(ctx, o, opts...)
	}})
	must(t, s.client.Create(t.Context(), s.disked()))
	s.refuses("a Member retires it", metav1.ConditionFalse, v1alpha1.ReasonDeviceConflict)
}

// block is a claim in block mode.
func block(namespace, name string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.AccessModes, c.Spec.VolumeMode = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, new(corev1.PersistentVolumeBlock)
	c.Spec.StorageClassName = new("fast")
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
	return c
}

// hostPaths are the disks of its machine that a pod has.
func hostPaths(p *corev1.Pod) []string {
	var all []string
	for _, v := range p.Spec.Volumes {
		if v.HostPath != nil {
			all = append(all, v.HostPath.Path)
		}
	}
	return all
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// TestDisks_restoredAllocated: a record that comes with a restore and says that the disk is allocated is believed by nobody for three minutes, and never while another node has the disk.
func TestDisks_restoredAllocated(t *testing.T) {
	t.Parallel()
	s := newSuite(t)
	s.pool(1)
	s.until("it runs", s.running(1))
	m := s.host()
	s.r.Agents = machines{m.Name: m}
	n := s.disked()
	n.Spec.Devices = []v1alpha1.GlusterDevice{{
		Device: diskPath, Path: diskPath, Node: v1alpha1.HostName(m.Name), WWN: s.namespace, Serial: "S1", Size: 10 << 30, Recorded: metav1.NewTime(s.now().Add(-24 * time.Hour)), Allocated: true,
	}}
	rival := n.DeepCopy()
	rival.Name, rival.Spec.Cluster = "rival", "elsewhere"
	must(t, s.client.Create(t.Context(), rival))
	must(t, s.client.Create(t.Context(), n))
	for range 12 {
		_ = s.pass()
	}
	if c := s.condition("own", v1alpha1.ConditionDevicesAllocated); c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonDeviceConflict || s.workload() != nil {
		t.Fatalf("another node has it: %+v, workload %v", c, s.workload())
	}
	s.edit("rival", func(n *v1alpha1.GlusterNode) { n.Finalizers = nil })
	s.remove("rival")
	s.edit("own", func(n *v1alpha1.GlusterNode) { n.Finalizers = nil })
	s.remove("own")
	n.ResourceVersion, n.UID = "", ""
	must(t, s.client.Create(t.Context(), n))
	for range 6 {
		_ = s.pass()
	}
	if c := s.condition("own", v1alpha1.ConditionDevicesAllocated); c.Reason != v1alpha1.ReasonPending || s.workload() != nil {
		t.Fatalf("it was only just seen: %+v, workload %v", c, s.workload())
	}
	s.r.Agents = opened{machines{m.Name: m}}
	for range 12 {
		_ = s.pass()
	}
	if c := s.condition("own", v1alpha1.ConditionDevicesAllocated); c.Reason != v1alpha1.ReasonDeviceRefused || s.workload() != nil {
		t.Fatalf("somebody has it open: %+v, workload %v", c, s.workload())
	}
	s.r.Agents = machines{}
	for range 4 {
		_ = s.pass()
	}
	if c := s.condition("own", v1alpha1.ConditionDevicesAllocated); c.Reason != v1alpha1.ReasonAgentUnreachable || s.workload() != nil {
		t.Fatalf("nobody looks: %+v, workload %v", c, s.workload())
	}
	s.r.Agents = machines{m.Name: m}
	s.until("it serves", func() bool { return s.condition("own", v1alpha1.ConditionReady).Status == metav1.ConditionTrue })
}
