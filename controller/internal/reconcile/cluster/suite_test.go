package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/controller/internal/agents"
	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/backend/lvm"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// suite is a controller between a real API server and real agents over fake hosts.
type suite struct {
	t      *testing.T
	client client.WithWatch
	pool   *agents.Pool
	r      *storage.Reconciler
	events *events.FakeRecorder
	ca     *agenttest.CA
	agents map[string]*agenttest.Agent
	driver *fakeDriver
	// records changes how the controller writes records; nil for no change.
	records func(lvm.Records) lvm.Records
}

// fakeDriver is a CSI driver that is as the test says; ready at first.
type fakeDriver struct{ state backend.DriverState }

// State returns the state.
func (d *fakeDriver) State(context.Context, string) (backend.DriverState, error) { return d.state, nil }

// newSuite starts agents on the hosts, each with the named disks of 100 GiB.
func newSuite(t *testing.T, hosts map[string][]string) *suite {
	t.Helper()
	c := apitest.Mirror(t, apitest.Client(t), &v1alpha1.ClusterList{}, &v1alpha1.NfsList{}, &v1alpha1.IscsiList{}, &v1alpha1.MemberList{}, &v1alpha1.StorageNodeList{},
		&corev1.NodeList{}, &corev1.PersistentVolumeList{}, &storagev1.StorageClassList{}, &storagev1.VolumeAttachmentList{},
		// Those of Ceph.
		&appsv1.DeploymentList{}, &corev1.PodList{}, &corev1.SecretList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{})
	s := &suite{
		t: t, client: c, ca: agenttest.NewCA(t), agents: map[string]*agenttest.Agent{},
		events: events.NewFakeRecorder(1000),
		driver: &fakeDriver{backend.DriverState{Ready: true}},
	}
	s.pool = s.newPool(2 * time.Second)
	s.pool.Complete()
	s.restartController()
	t.Cleanup(func() {
		s.r.Work.Close()
		s.pool.Close()
		s.cleanUp()
	})
	for name, disks := range hosts {
		s.addHost(name, disks...)
	}
	for name := range hosts {
		s.await("agent of "+name+" connected", func() string { return up(s.pool, name) })
	}
	return s
}

func (s *suite) newPool(grace time.Duration) *agents.Pool {
	return agents.New(context.Background(), agents.Config{
		TLS:   func(node string) (*tls.Config, error) { return s.ca.ControllerTLS(s.t, node), nil },
		Grace: grace, Patience: 200 * time.Millisecond, Absence: 200 * time.Millisecond,
	})
}

// restartController replaces the reconciler by one that remembers nothing.
func (s *suite) restartController() {
	if s.r != nil {
		s.r.Work.Close()
	}
	local := &lvm.Backend{Agents: s.pool, Changer: s.pool, Records: lvm.Recorder{Client: s.client, Live: s.client}, Client: s.client}
	if s.records != nil {
		local.Records = s.records(local.Records)
	}
	s.r = New(storage.Config{
		Client: s.client, Live: s.client, Records: s.client, Recorded: s.client, Work: work.New(context.Background(), hurry(time.Now())), Events: s.events, Drivers: s.driver,
		Now: time.Now, CapacityEvery: time.Nanosecond,
		Profiles: func(o v1alpha1.Storage) (backend.Profile, bool) {
			if c, ok := o.(*v1alpha1.Cluster); ok && c.Spec.StorageType == v1alpha1.StorageTypeCephFS {
				return backend.Profile{Type: v1alpha1.StorageTypeCephFS, Exclusive: true}, true
			}
			return local.Profile(), true
		},
	}, Backends{v1alpha1.StorageTypeLVM: local})
}

// hurry returns the clock by which failed steps are tried again: it runs ten times as fast as others.
func hurry(began time.Time) func() time.Time {
	return func() time.Time { return began.Add(10 * time.Since(began)) }
}

func up(p *agents.Pool, name string) string {
	if n := p.Node(name); !n.Up() {
		return "agent is not up: " + n.Problem
	}
	return ""
}

func (s *suite) addNode(name string) {
	s.t.Helper()
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kept": "yes"}}})
}

func (s *suite) addHost(name string, disks ...string) *agenttest.Agent {
	s.t.Helper()
	s.addNode(name)
	a := agenttest.New(s.t, agenttest.Options{NodeName: name, CA: s.ca})
	a.AddDisks(100<<30, disks...)
	s.agents[name] = a
	s.pool.SetAddress(name, a.Addr(), "pod-of-"+name)
	return a
}

// seen waits until the controller knows that a disk is not clean.
func (s *suite) seen(host, disk string) {
	s.t.Helper()
	s.await(disk+" of "+host, func() string {
		if d, ok := s.pool.Node(host).Device(s.agents[host].Path(disk)); !ok || d.Clean() {
			return "still counts as clean"
		}
		return ""
	})
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

// add creates a Cluster with storageType lvm.
func (s *suite) add(name string, edit func(*v1alpha1.ClusterSpec), hosts ...string) {
	s.t.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageType = v1alpha1.StorageTypeLVM
	// What leaves is removed at once, unless a test says otherwise.
	c.Spec.RemovalDelay = &metav1.Duration{}
	for _, h := range hosts {
		c.Spec.Hosts = append(c.Spec.Hosts, v1alpha1.HostName(h))
	}
	if edit != nil {
		edit(&c.Spec)
	}
	s.create(c)
}

func (s *suite) get(name string) *v1alpha1.Cluster {
	s.t.Helper()
	c := &v1alpha1.Cluster{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: name}, c); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// edit changes the Cluster pool.
func (s *suite) edit(change func(*v1alpha1.Cluster)) {
	s.t.Helper()
	c := s.get("pool")
	change(c)
	if err := s.client.Update(context.Background(), c); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) delete(o client.Object) {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) deleteCluster(name string) {
	s.t.Helper()
	s.delete(&v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

func (s *suite) reconcile(name string) error {
	_, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	return err
}

// until reconciles a Cluster again and again until the check has nothing to complain about.
func (s *suite) until(name string, check func(*v1alpha1.Cluster) string) *v1alpha1.Cluster {
	s.t.Helper()
	var c *v1alpha1.Cluster
	s.await("cluster "+name, func() string {
		if err := s.reconcile(name); err != nil {
			return "reconcile: " + err.Error()
		}
		c = s.get(name)
		return check(c)
	})
	return c
}

// untilGone reconciles until the Cluster is deleted.
func (s *suite) untilGone(name string) {
	s.t.Helper()
	s.await("deletion of "+name, func() string {
		if err := s.reconcile(name); err != nil {
			return err.Error()
		}
		c := &v1alpha1.Cluster{}
		if err := s.client.Get(context.Background(), types.NamespacedName{Name: name}, c); apierrors.IsNotFound(err) {
			return ""
		}
		return "still there: " + c.Status.Message
	})
}

func (s *suite) await(what string, check func() string) {
	s.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %s", what, complaint)
		}
		time.Sleep(40 * time.Millisecond)
	}
}

// cleanUp removes what the test left on the API server.
func (s *suite) cleanUp() {
	ctx := context.Background()
	var clusters v1alpha1.ClusterList
	if err := s.client.List(ctx, &clusters); err != nil {
		s.t.Error(err)
	}
	for _, c := range clusters.Items {
		c.Finalizers = nil
		_ = s.client.Update(ctx, &c)
	}
	var members v1alpha1.MemberList
	if err := s.client.List(ctx, &members); err != nil {
		s.t.Error(err)
	}
	for _, m := range members.Items {
		m.Finalizers = nil
		_ = s.client.Update(ctx, &m)
	}
	for _, o := range []client.Object{
		&v1alpha1.Cluster{}, &v1alpha1.Member{}, &v1alpha1.StorageNode{}, &corev1.Node{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.VolumeAttachment{},
	} {
		if err := s.client.DeleteAllOf(ctx, o, client.GracePeriodSeconds(0)); err != nil {
			s.t.Error(err)
		}
	}
}

// hasPhase checks the phase.
func hasPhase(p v1alpha1.Phase) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		if c.Status.Phase != p {
			return fmt.Sprintf("phase %s, want %s: %s", c.Status.Phase, p, c.Status.Message)
		}
		return ""
	}
}

// hasCondition checks a condition's reason, and that its message has all the parts.
func hasCondition(kind string, status metav1.ConditionStatus, reason string, parts ...string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		is := meta.FindStatusCondition(c.Status.Conditions, kind)
		if is == nil || is.Status != status || is.Reason != reason {
			return fmt.Sprintf("condition %s is %+v, want %s %s", kind, is, status, reason)
		}
		for _, p := range parts {
			if !strings.Contains(is.Message, p) {
				return fmt.Sprintf("message %q lacks %q", is.Message, p)
			}
		}
		return ""
	}
}

// member returns the Member of a node; nil when there is none.
func (s *suite) member(cluster, node string) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{}
	err := s.client.Get(context.Background(), types.NamespacedName{Name: cluster + "." + node}, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

// recorded returns the paths of the devices of a member.
func (s *suite) recorded(cluster, node string) []string {
	s.t.Helper()
	var paths []string
	if m := s.member(cluster, node); m != nil {
		for _, d := range m.Status.Devices {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// hasState checks the state of a member, and that its message has all the parts.
func (s *suite) hasState(node, state string, parts ...string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		m := s.member(c.Name, node)
		if m == nil || string(m.Status.State) != state {
			return fmt.Sprintf("member %s is %+v, want %s", node, m, state)
		}
		for _, p := range parts {
			if !strings.Contains(m.Status.Message, p) {
				return fmt.Sprintf("message of member %s %q lacks %q", node, m.Status.Message, p)
			}
		}
		return ""
	}
}

// both joins checks.
func all(checks ...func(*v1alpha1.Cluster) string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		for _, check := range checks {
			if complaint := check(c); complaint != "" {
				return complaint
			}
		}
		return ""
	}
}

// disksOf returns the kernel names of the disks in the groups that a Cluster owns on a host.
func (s *suite) disksOf(host, uid string) []string {
	var disks []string
	for _, g := range s.agents[host].Groups() {
		if g.OwnerUID == uid {
			disks = append(disks, g.Disks...)
		}
	}
	return disks
}

func (s *suite) labelOf(node string) string {
	s.t.Helper()
	n := &corev1.Node{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: node}, n); err != nil {
		s.t.Fatal(err)
	}
	if n.Labels["kept"] != "yes" {
		s.t.Errorf("another label of node %s is gone", node)
	}
	return n.Labels[v1alpha1.LabelStorageType]
}

func (s *suite) class(name string) *storagev1.StorageClass {
	s.t.Helper()
	sc := &storagev1.StorageClass{}
	err := s.client.Get(context.Background(), types.NamespacedName{Name: name}, sc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return sc
}

// addVolume makes a logical volume and its PersistentVolume.
func (s *suite) addVolume(cluster, host, group, name string, edits ...func(*corev1.PersistentVolume)) {
	s.t.Helper()
	s.agents[host].AddVolume(group, name, 1<<30)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: cluster, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: gibibyte},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: v1alpha1.DriverLVM, VolumeHandle: name},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{host},
				}},
			}}}},
		},
	}
	for _, edit := range edits {
		edit(pv)
	}
	s.create(pv)
}

func (s *suite) removeVolume(host, group, name string) {
	s.t.Helper()
	s.agents[host].RemoveVolume(group, name)
	s.deletePersistentVolume(name)
}

func (s *suite) deletePersistentVolume(name string) {
	s.t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(pv), pv); err != nil {
		s.t.Fatal(err)
	}
	pv.Finalizers = nil
	if err := s.client.Update(context.Background(), pv); err != nil {
		s.t.Fatal(err)
	}
	s.delete(pv)
}

// drain returns the events so far.
func (s *suite) drain() []string {
	var out []string
	for {
		select {
		case e := <-s.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}
