package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/storage/told"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

// Conditions and their values, as tests name them.
const (
	ready   = v1alpha1.ConditionReady
	isTrue  = metav1.ConditionTrue
	isFalse = metav1.ConditionFalse
)

var _ Backend = (*backendtest.Backend)(nil)

// suite is the engine between a real API server and scripted backends: one with members for Clusters of type lvm, another one of an
// exclusive type for Clusters of type cephfs that moves data, and one without members for Nfs.
type suite struct {
	t *testing.T
	// client writes to the API server, and reads like a cache that is never behind; direct always asks the API server.
	client, direct client.WithWatch
	// cached and live are what the engine uses; tests put something in between.
	cached client.Client
	live   client.Reader

	lvm, ceph, nfs *backendtest.Backend
	// iscsi is that of Iscsis, which have no engine here; nil unless a test makes one.
	iscsi          *backendtest.Backend
	work           *work.Work
	shareWork      *work.Work
	clusters, nfss *Reconciler
	events         *events.FakeRecorder
	driver         *fakeDriver

	mu         sync.Mutex
	now, began time.Time
	// deaf lets reads of the API server fail where a test asks for it.
	deaf atomic.Bool
	// patience of the engine's work; 0 is its own.
	patience time.Duration
}

// fakeDriver is a CSI driver that is as the test says, while engines look at it.
type fakeDriver struct {
	mu    sync.Mutex
	state backend.DriverState
}

func (d *fakeDriver) State(context.Context, string) (backend.DriverState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, nil
}

// install lets the driver be there, or not.
func (d *fakeDriver) install(there bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state.Exists = there
}

// newSuite makes nodes with hosts that answer.
func newSuite(t *testing.T, hosts ...string) *suite {
	t.Helper()
	direct := apitest.Client(t)
	c := apitest.Mirror(t, direct, &v1alpha1.ClusterList{}, &v1alpha1.NfsList{}, &v1alpha1.MemberList{}, &v1alpha1.StorageNodeList{},
		&v1alpha1.IscsiList{}, &corev1.NodeList{}, &corev1.PersistentVolumeList{}, &storagev1.StorageClassList{}, &storagev1.VolumeAttachmentList{})
	s := &suite{
		t: t, client: c, direct: direct, cached: c, live: c, events: events.NewFakeRecorder(10000), driver: &fakeDriver{state: backend.DriverState{Exists: true, Ready: true}},
		lvm:  backendtest.New(t, backendtest.Options{Type: v1alpha1.StorageTypeLVM, Driver: v1alpha1.DriverLVM}),
		ceph: backendtest.New(t, backendtest.Options{Type: v1alpha1.StorageTypeCephFS, Driver: "cephfs.quarry.storage", Exclusive: true, MovesData: true}),
		nfs:  backendtest.New(t, backendtest.Options{Driver: v1alpha1.DriverNFS, NoMembers: true}),
		now:  time.Now().Truncate(time.Second), began: time.Now(),
	}
	s.restartController()
	t.Cleanup(func() {
		s.work.Close()
		s.shareWork.Close()
		s.cleanUp()
	})
	s.addHosts(hosts...)
	return s
}

// restartController replaces the engine by one that remembers nothing.
func (s *suite) restartController() {
	if s.work != nil {
		s.work.Close()
	}
	s.work = work.New(context.Background(), s.hurry)
	if s.patience != 0 {
		s.work.Patience = s.patience
	}
	cfg := Config{
		Client: s.cached, Live: s.live, Records: s.live, Recorded: s.cached, Work: s.work, Drivers: s.driver, Events: s.events, Now: s.time, Told: &told.Members{}, Watched: &told.Members{},
		Profiles: func(o v1alpha1.Storage) (backend.Profile, bool) {
			if b := s.backendOf(o); b != nil {
				return b.Profile(), true
			}
			return backend.Profile{}, false
		},
	}
	of := func(o v1alpha1.Storage) (Backend, string) {
		if b := s.backendOf(o); b != nil {
			return b, ""
		}
		return nil, "There is no backend of this type."
	}
	s.clusters = &Reconciler{Config: cfg, New: func() v1alpha1.Storage { return &v1alpha1.Cluster{} }, BackendOf: of}
	if s.shareWork != nil {
		s.shareWork.Close()
	}
	s.shareWork = work.New(context.Background(), s.hurry)
	cfg.Work = s.shareWork
	s.nfss = &Reconciler{Config: cfg, New: func() v1alpha1.Storage { return &v1alpha1.Nfs{} }, BackendOf: of}
}

func (s *suite) backendOf(o v1alpha1.Storage) *backendtest.Backend {
	switch o := o.(type) {
	case *v1alpha1.Nfs:
		return s.nfs
	case *v1alpha1.Iscsi:
		return s.iscsi
	case *v1alpha1.Cluster:
		switch o.Spec.StorageType {
		case v1alpha1.StorageTypeLVM:
			return s.lvm
		case v1alpha1.StorageTypeCephFS:
			return s.ceph
		}
	}
	return nil
}

func (s *suite) time() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// hurry is the time after which failed steps are tried again: it runs ten times as fast as the clock.
func (s *suite) hurry() time.Time { return s.began.Add(10 * time.Since(s.began)) }

// impatient lets a reconcile wait for hosts only for a moment, so that a host that is blocked costs the test no more.
func (s *suite) impatient() {
	s.patience = 300 * time.Millisecond
	s.restartController()
}

// pass lets time pass.
func (s *suite) pass(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

// addHosts makes nodes, and hosts of both backends with members.
func (s *suite) addHosts(names ...string) {
	s.t.Helper()
	var g errgroup.Group
	g.SetLimit(8)
	for _, n := range names {
		g.Go(func() error {
			return s.client.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n, Labels: map[string]string{"kept": "yes"}}})
		})
	}
	if err := g.Wait(); err != nil {
		s.t.Fatal(err)
	}
	s.lvm.Add(names...)
	s.ceph.Add(names...)
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

// fetch reads an object, and reports whether it exists.
func (s *suite) fetch(o client.Object) bool {
	s.t.Helper()
	err := s.client.Get(context.Background(), client.ObjectKeyFromObject(o), o)
	if client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	return err == nil
}

func (s *suite) update(o client.Object) {
	s.t.Helper()
	if err := s.client.Update(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) delete(o client.Object) {
	s.t.Helper()
	if err := s.client.Delete(context.Background(), o, client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
}

// newCluster returns a Cluster with storageType lvm.
func newCluster(name string, hosts ...string) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.StorageType = v1alpha1.StorageTypeLVM
	c.Spec.Hosts = hostNames(hosts...)
	return c
}

func hostNames(hosts ...string) []v1alpha1.HostName {
	var out []v1alpha1.HostName
	for _, h := range hosts {
		out = append(out, v1alpha1.HostName(h))
	}
	return out
}

// cluster creates a Cluster with storageType lvm on hosts, and reconciles it until it runs.
func (s *suite) cluster(name string, hosts ...string) *v1alpha1.Cluster {
	s.t.Helper()
	s.create(newCluster(name, hosts...))
	return s.until(name, hasPhase(v1alpha1.PhaseRunning))
}

func (s *suite) get(name string) *v1alpha1.Cluster {
	s.t.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.fetch(c) {
		s.t.Fatalf("no cluster %s", name)
	}
	return c
}

// edit changes a Cluster.
func (s *suite) edit(name string, change func(c *v1alpha1.Cluster)) {
	s.t.Helper()
	c := s.get(name)
	change(c)
	s.update(c)
}

// list sets the hosts of a Cluster.
func (s *suite) list(name string, hosts ...string) {
	s.t.Helper()
	s.edit(name, func(c *v1alpha1.Cluster) { c.Spec.Hosts = hostNames(hosts...) })
}

// member returns the Member of a Cluster without a dot in its name; nil when there is none.
func (s *suite) member(cluster, node string) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: cluster + "." + node}}
	if !s.fetch(m) {
		return nil
	}
	return m
}

// mustMember is member for one that exists.
func (s *suite) mustMember(cluster, node string) *v1alpha1.Member {
	s.t.Helper()
	m := s.member(cluster, node)
	if m == nil {
		s.t.Fatalf("no member %s.%s", cluster, node)
	}
	return m
}

// editMember changes a Member of the Cluster pool.
func (s *suite) editMember(node string, change func(m *v1alpha1.Member)) {
	s.t.Helper()
	m := s.mustMember("pool", node)
	change(m)
	s.update(m)
}

// node returns a Kubernetes node.
func (s *suite) node(name string) *corev1.Node {
	s.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.fetch(n) {
		s.t.Fatalf("no node %s", name)
	}
	return n
}

// label sets the label disks of a node, or removes it when the value is empty.
func (s *suite) label(node, value string) {
	const key = "disks"
	s.t.Helper()
	n := s.node(node)
	delete(n.Labels, key)
	if value != "" {
		n.Labels[key] = value
	}
	s.update(n)
}

func (s *suite) reconcile(name string) (ctrl.Result, error) {
	return s.clusters.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// once reconciles a Cluster one time, which must succeed.
func (s *suite) once(name string) ctrl.Result {
	s.t.Helper()
	r, err := s.reconcile(name)
	if err != nil {
		s.t.Fatalf("reconcile %s: %v", name, err)
	}
	return r
}

// settle reconciles a Cluster a few times: what can happen by itself has happened then.
func (s *suite) settle(name string) *v1alpha1.Cluster {
	s.t.Helper()
	for range 4 {
		s.once(name)
	}
	return s.get(name)
}

// until reconciles a Cluster again and again until the check has nothing to complain about.
func (s *suite) until(name string, checks ...func(*v1alpha1.Cluster) string) *v1alpha1.Cluster {
	s.t.Helper()
	var c *v1alpha1.Cluster
	s.await("cluster "+name, func() string {
		if _, err := s.reconcile(name); err != nil {
			return "reconcile: " + err.Error()
		}
		c = s.get(name)
		for _, check := range checks {
			if complaint := check(c); complaint != "" {
				return complaint
			}
		}
		return ""
	})
	return c
}

// untilMember reconciles the Cluster pool until the checks of one of its Members are content.
func (s *suite) untilMember(node string, checks ...func(*v1alpha1.Member) string) *v1alpha1.Member {
	s.t.Helper()
	var m *v1alpha1.Member
	s.until("pool", func(*v1alpha1.Cluster) string {
		if m = s.member("pool", node); m == nil {
			return "no member of " + node
		}
		for _, check := range checks {
			if complaint := check(m); complaint != "" {
				return complaint
			}
		}
		return ""
	})
	return m
}

// untilNoMember reconciles the Cluster pool until it has no Member on a node.
func (s *suite) untilNoMember(node string) {
	s.t.Helper()
	s.until("pool", func(*v1alpha1.Cluster) string {
		if m := s.member("pool", node); m != nil {
			return fmt.Sprintf("member %s is still there, %s: %s", m.Name, m.Status.State, m.Status.Message)
		}
		return ""
	})
}

// untilGone reconciles until the Cluster is deleted.
func (s *suite) untilGone(name string) {
	s.t.Helper()
	s.await("deletion of "+name, func() string {
		if _, err := s.reconcile(name); err != nil {
			return err.Error()
		}
		c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if s.fetch(c) {
			return "still there: " + c.Status.Message
		}
		return ""
	})
}

func (s *suite) await(what string, check func() string) {
	s.t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %s", what, complaint)
		}
		time.Sleep(pause)
	}
}

// cleanUp removes what the test left on the API server.
func (s *suite) cleanUp() {
	ctx := context.Background()
	var g errgroup.Group
	g.SetLimit(8)
	for _, list := range []client.ObjectList{&v1alpha1.ClusterList{}, &v1alpha1.NfsList{}, &v1alpha1.IscsiList{}, &v1alpha1.MemberList{}, &corev1.PersistentVolumeList{}} {
		if err := s.direct.List(ctx, list); err != nil {
			s.t.Error(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			s.t.Error(err)
		}
		for _, item := range items {
			o := item.(client.Object)
			if len(o.GetFinalizers()) > 0 {
				o.SetFinalizers(nil)
				g.Go(func() error { return client.IgnoreNotFound(s.direct.Update(ctx, o)) })
			}
		}
	}
	if err := g.Wait(); err != nil {
		s.t.Error(err)
	}
	for _, o := range []client.Object{
		&v1alpha1.Cluster{}, &v1alpha1.Nfs{}, &v1alpha1.Iscsi{}, &v1alpha1.Member{}, &v1alpha1.StorageNode{}, &corev1.Node{}, &corev1.PersistentVolume{},
		&storagev1.StorageClass{}, &storagev1.VolumeAttachment{},
	} {
		g.Go(func() error { return s.direct.DeleteAllOf(ctx, o, client.GracePeriodSeconds(0)) })
	}
	if err := g.Wait(); err != nil {
		s.t.Error(err)
	}
}

// volume makes a PersistentVolume of a class; host is empty for one that belongs to no host.
func volume(class, driver, host, name string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + name},
			},
		},
	}
	if host != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: v1alpha1.TopologyHost, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
		}}}}
	}
	return pv
}

// addVolume makes a volume on a host and its PersistentVolume.
func (s *suite) addVolume(c *v1alpha1.Cluster, host, name string) {
	s.t.Helper()
	s.lvm.AddVolume(c.UID, host, name, 1<<30)
	s.create(volume(c.Name, v1alpha1.DriverLVM, host, name))
}

// removeVolume removes the volume v1 and its PersistentVolume.
func (s *suite) removeVolume(c *v1alpha1.Cluster, host string) {
	s.t.Helper()
	s.lvm.RemoveVolume(c.UID, host, "v1", 1<<30)
	s.removePV("v1")
}

func (s *suite) removePV(name string) {
	s.t.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.fetch(pv) {
		s.t.Fatalf("no persistentvolume %s", name)
	}
	pv.Finalizers = nil
	s.update(pv)
	s.delete(pv)
}

func (s *suite) class(name string) *storagev1.StorageClass {
	s.t.Helper()
	sc := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if !s.fetch(sc) {
		return nil
	}
	return sc
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

// told checks that an event with all the parts was emitted, and drops all events so far.
func (s *suite) told(parts ...string) {
	s.t.Helper()
	all := s.drain()
	for _, e := range all {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(e, p) }) {
			return
		}
	}
	s.t.Errorf("no event has %q: %q", parts, all)
}

// notTold checks that no event has the part.
func (s *suite) notTold(part string) {
	s.t.Helper()
	for _, e := range s.drain() {
		if strings.Contains(e, part) {
			s.t.Errorf("unexpected event %q", e)
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

// has checks a condition's reason, and that its message has all the parts.
func has(kind string, status metav1.ConditionStatus, reason string, parts ...string) func(*v1alpha1.Cluster) string {
	return func(c *v1alpha1.Cluster) string {
		return checkCondition(c.Status.Conditions, kind, status, reason, parts...)
	}
}

// memberHas is has for Members.
func memberHas(kind string, status metav1.ConditionStatus, reason string, parts ...string) func(*v1alpha1.Member) string {
	return func(m *v1alpha1.Member) string {
		return checkCondition(m.Status.Conditions, kind, status, reason, parts...)
	}
}

func checkCondition(all []metav1.Condition, kind string, status metav1.ConditionStatus, reason string, parts ...string) string {
	is := meta.FindStatusCondition(all, kind)
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

// inState checks the state of a Member, and that its message has all the parts.
func inState(state string, parts ...string) func(*v1alpha1.Member) string {
	return func(m *v1alpha1.Member) string {
		if string(m.Status.State) != state {
			return fmt.Sprintf("member %s is %q, want %s: %s", m.Name, m.Status.State, state, m.Status.Message)
		}
		for _, p := range parts {
			if !strings.Contains(m.Status.Message, p) {
				return fmt.Sprintf("message %q of member %s lacks %q", m.Status.Message, m.Name, p)
			}
		}
		return ""
	}
}

// leaving checks that a Member leaves.
func leaving(reason string, parts ...string) func(*v1alpha1.Member) string {
	return memberHas(v1alpha1.ConditionLeaving, isTrue, reason, parts...)
}

// stays checks that a Member does not leave, and is not being deleted.
func stays(m *v1alpha1.Member) string {
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionLeaving); c != nil {
		return fmt.Sprintf("member %s leaves: %+v", m.Name, c)
	}
	if !m.DeletionTimestamp.IsZero() {
		return "member " + m.Name + " is being deleted"
	}
	return ""
}

// sizeOf returns the size of the JSON of a status.
func sizeOf(t *testing.T, status any) int {
	t.Helper()
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}
