package member

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/reconcile/storage"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

type suite struct {
	t      *testing.T
	client client.WithWatch
	events *events.FakeRecorder
	r      *Reconciler
}

func newSuite(t *testing.T) *suite {
	t.Helper()
	c := apitest.Client(t)
	s := &suite{t: t, client: c, events: events.NewFakeRecorder(100)}
	s.r = &Reconciler{Client: c, Live: c, Events: s.events}
	t.Cleanup(func() {
		var all v1alpha1.MemberList
		if err := c.List(context.Background(), &all); err != nil {
			t.Error(err)
		}
		for _, m := range all.Items {
			m.Finalizers = nil
			_ = c.Update(context.Background(), &m)
		}
		var clusters v1alpha1.ClusterList
		if err := c.List(context.Background(), &clusters); err != nil {
			t.Error(err)
		}
		for _, o := range clusters.Items {
			o.Finalizers = nil
			_ = c.Update(context.Background(), &o)
		}
		for _, o := range []client.Object{&v1alpha1.Cluster{}, &v1alpha1.Nfs{}, &v1alpha1.Member{}} {
			if err := c.DeleteAllOf(context.Background(), o); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func (s *suite) create(o client.Object) {
	s.t.Helper()
	if err := s.client.Create(context.Background(), o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) cluster() *v1alpha1.Cluster {
	s.t.Helper()
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	c.Spec.StorageType, c.Spec.Hosts = v1alpha1.StorageTypeLVM, []v1alpha1.HostName{"n1"}
	s.create(c)
	return c
}

func (s *suite) member(kind string, uid types.UID) *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "pool.n1", Finalizers: []string{v1alpha1.FinalizerMember}},
		Spec: v1alpha1.MemberSpec{
			Of: v1alpha1.MemberOwner{Kind: kind, Name: "pool", UID: uid}, Node: "n1", Group: &v1alpha1.MemberGroup{UUID: "group"},
		},
	}
	s.create(m)
	return m
}

func (s *suite) get() *v1alpha1.Member {
	s.t.Helper()
	m := &v1alpha1.Member{}
	if err := s.client.Get(context.Background(), types.NamespacedName{Name: "pool.n1"}, m); err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *suite) reconcile() error {
	_, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "pool.n1"}})
	return err
}

func (s *suite) once() *v1alpha1.Member {
	s.t.Helper()
	if err := s.reconcile(); err != nil {
		s.t.Fatal(err)
	}
	return s.get()
}

// missing checks that a Member says that its storage is missing, with all the parts.
func missing(m *v1alpha1.Member, parts ...string) string {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonOwnerMissing || strings.Contains(m.Status.Message, "kubectl") {
		return "condition " + m.Status.Message
	}
	for _, p := range append(parts, m.Status.Message) {
		if !strings.Contains(c.Message, p) {
			return "message " + c.Message + " lacks " + p
		}
	}
	return ""
}

func TestReconcile_ownerIsGone(t *testing.T) {
	for _, kind := range []string{v1alpha1.KindCluster, v1alpha1.KindNfs} {
		t.Run(kind, func(t *testing.T) {
			s := newSuite(t)
			before := s.member(kind, "old-uid")
			m := s.once()
			if complaint := missing(m, kind+" pool", "old-uid", "n1", "kubectl annotate", string(m.UID), "kubectl delete", "finalizers"); complaint != "" {
				t.Error(complaint)
			}
			if !slices.Equal(m.Finalizers, before.Finalizers) || !m.DeletionTimestamp.IsZero() || m.Generation != before.Generation {
				t.Errorf("more than the status was changed: %+v", m)
			}
			if len(s.events.Events) != 1 || !strings.Contains(<-s.events.Events, "Warning OwnerMissing") {
				t.Error("nobody is told")
			}
			version := m.ResourceVersion
			if m := s.once(); m.ResourceVersion != version || len(s.events.Events) != 0 {
				t.Error("told again")
			}
		})
	}
}

func TestReconcile_ownerHasAnotherUID(t *testing.T) {
	s := newSuite(t)
	c := s.cluster()
	s.member(v1alpha1.KindCluster, "old-uid")
	m := s.once()
	if complaint := missing(m, "old-uid", string(c.UID)); complaint != "" {
		t.Error(complaint)
	}
}

func TestReconcile_anotherOwnerOfTheNameComes(t *testing.T) {
	s := newSuite(t)
	s.member(v1alpha1.KindCluster, "old-uid")
	if complaint := missing(s.once()); complaint != "" {
		t.Fatal(complaint)
	}
	c := s.cluster()
	if complaint := missing(s.once(), string(c.UID)); complaint != "" {
		t.Error(complaint)
	}
	if got := s.r.named(t.Context(), c); len(got) != 1 || got[0].Name != "pool.n1" {
		t.Errorf("requests %v", got)
	}
	if got := s.r.named(t.Context(), &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}); len(got) != 0 {
		t.Errorf("requests %v for another kind", got)
	}
}

func TestReconcile_nfsOfTheNameIsNoCluster(t *testing.T) {
	s := newSuite(t)
	o := &v1alpha1.Nfs{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	o.Spec.Server, o.Spec.Path = "nfs", "/x"
	s.create(o)
	s.member(v1alpha1.KindCluster, o.UID)
	if complaint := missing(s.once(), "Cluster pool"); complaint != "" {
		t.Error(complaint)
	}
}

// A Member that is being deleted keeps its finalizer: nobody knows what is on its disks.
func TestReconcile_deletionWithoutAnOwner(t *testing.T) {
	s := newSuite(t)
	m := s.member(v1alpha1.KindCluster, "old-uid")
	if err := s.client.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	m = s.once()
	if complaint := missing(m, "kubectl patch"); complaint != "" || missing(m, "kubectl delete") == "" || len(m.Finalizers) != 1 {
		t.Errorf("%s: %s", complaint, m.Status.Message)
	}
}

func TestReconcile_ownerExists(t *testing.T) {
	s := newSuite(t)
	m := s.member(v1alpha1.KindCluster, s.cluster().UID)
	if got := s.once(); got.ResourceVersion != m.ResourceVersion {
		t.Errorf("the status of a member with an owner was written: %+v", got.Status)
	}
}

// A cache that does not know the owner yet, or an API server that does not answer, is no missing owner.
func TestReconcile_onlyTheAPIServerKnows(t *testing.T) {
	s := newSuite(t)
	m := s.member(v1alpha1.KindCluster, s.cluster().UID)
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*v1alpha1.Cluster); ok {
				key.Name += "-unknown"
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	if got := s.once(); got.ResourceVersion != m.ResourceVersion {
		t.Errorf("told by what the cache does not know: %+v", got.Status)
	}
	away := errors.New("connection refused")
	s.r.Live = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
	})
	if err := s.reconcile(); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	if got := s.get(); got.ResourceVersion != m.ResourceVersion {
		t.Errorf("told by what could not be read: %+v", got.Status)
	}
}

func TestReconcile_kindOfALaterVersion(t *testing.T) {
	s := newSuite(t)
	m := s.member(v1alpha1.KindNfs, "uid")
	// The schema of this version knows no later kind, so that only the reader can see one: what an older controller meets during an upgrade.
	later := interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			err := cl.Get(ctx, key, o, opts...)
			if m, ok := o.(*v1alpha1.Member); ok {
				m.Spec.Of.Kind = "GlusterCluster"
			}
			return err
		},
	})
	s.r.Client, s.r.Live = later, later
	if got := s.once(); got.ResourceVersion != m.ResourceVersion {
		t.Errorf("told of a kind that is not known: %+v", got.Status)
	}
}

func TestReconcile_goneMemberIsNoError(t *testing.T) {
	s := newSuite(t)
	if err := s.reconcile(); err != nil {
		t.Error(err)
	}
}

// The engine and this reconciler never write to one Member in turn, and the engine heals what this one wrote once the owner is back.
func TestReconcile_neverFightsWithTheEngine(t *testing.T) {
	s := newSuite(t)
	c := s.cluster()
	s.member(v1alpha1.KindCluster, c.UID)
	// The API server had lost the Cluster for a moment, as while it is restored.
	s.r.Live = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			key.Name += "-lost"
			return cl.Get(ctx, key, o, opts...)
		},
	})
	gone := s.r.Live.(client.WithWatch)
	s.r.Client = interceptor.NewClient(s.client, interceptor.Funcs{
		Get: func(ctx context.Context, cl client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*v1alpha1.Cluster); ok {
				return gone.Get(ctx, key, o, opts...)
			}
			return cl.Get(ctx, key, o, opts...)
		},
	})
	if complaint := missing(s.once()); complaint != "" {
		t.Fatal(complaint)
	}
	s.r.Client, s.r.Live = s.client, s.client
	model := backendtest.New(t, backendtest.Options{Type: v1alpha1.StorageTypeLVM, Driver: v1alpha1.DriverLVM})
	model.Add("n1")
	model.Make(c.UID, "n1", backendtest.Group{UUID: "group", Name: "group", Size: 1 << 30, Free: 1 << 30})
	w := work.New(t.Context(), time.Now)
	defer w.Close()
	engine := &storage.Reconciler{
		Config: storage.Config{
			Client: s.client, Live: s.client, Records: s.client, Recorded: s.client, Work: w, Drivers: noDriver{}, Events: s.events, Now: time.Now,
			Profiles: func(v1alpha1.Storage) (backend.Profile, bool) { return model.Profile(), true },
		},
		New:       func() v1alpha1.Storage { return &v1alpha1.Cluster{} },
		BackendOf: func(v1alpha1.Storage) (storage.Backend, string) { return model, "" },
	}
	for range 4 {
		if _, err := engine.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "pool"}}); err != nil {
			t.Fatal(err)
		}
	}
	m := s.get()
	if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason == v1alpha1.ReasonOwnerMissing || strings.Contains(m.Status.Message, "does not exist") {
		t.Errorf("the engine does not heal it: %+v, %s", c, m.Status.Message)
	}
	version := m.ResourceVersion
	for range 3 {
		s.once()
		if _, err := engine.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "pool"}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.get(); got.ResourceVersion != version {
		t.Error("they write in turn")
	}
}

type noDriver struct{}

func (noDriver) State(context.Context, string) (backend.DriverState, error) {
	return backend.DriverState{Exists: true, Ready: true}, nil
}

func TestManager_ownerGoes(t *testing.T) {
	s := newSuite(t)
	mgr, err := ctrl.NewManager(apitest.Config(t), ctrl.Options{
		Scheme: apitest.Scheme(t), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Events: s.events}
	if err := r.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	c := s.cluster()
	s.member(v1alpha1.KindCluster, c.UID)
	// A Member without an owner that is made after it is a sign of life: once its condition is there, the one before it was looked at too.
	orphan := &v1alpha1.Member{
		ObjectMeta: metav1.ObjectMeta{Name: "other.n1"},
		Spec:       v1alpha1.MemberSpec{Of: v1alpha1.MemberOwner{Kind: v1alpha1.KindCluster, Name: "other", UID: "gone"}, Node: "n1"},
	}
	s.create(orphan)
	deadline := time.Now().Add(15 * time.Second)
	for missing(orphan) != "" {
		if time.Now().After(deadline) {
			t.Fatalf("no sign of life: %s", missing(orphan))
		}
		time.Sleep(20 * time.Millisecond)
		if err := s.client.Get(context.Background(), client.ObjectKeyFromObject(orphan), orphan); err != nil {
			t.Fatal(err)
		}
	}
	if m := s.get(); len(m.Status.Conditions) != 0 {
		t.Fatalf("conditions %+v", m.Status.Conditions)
	}
	// Its finalizer was stripped by hand.
	if err := s.client.Delete(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	deadline = time.Now().Add(15 * time.Second)
	for missing(s.get()) != "" {
		if time.Now().After(deadline) {
			t.Fatal(missing(s.get()))
		}
		time.Sleep(20 * time.Millisecond)
	}
}
