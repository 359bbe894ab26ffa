// Package storage is the engine that reconciles every kind of storage: it observes the API server and a backend, lets the backend and
// package decide/backend decide, and acts. It knows no single backend, neither the wire nor the tools of the hosts.
package storage

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/controller/internal/reconcile/storage/metric"
	"quarry.storage/quarry/controller/internal/reconcile/storage/told"
	"quarry.storage/quarry/controller/internal/reconcile/storage/work"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// +kubebuilder:rbac:groups=quarry.storage,resources=members,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=quarry.storage,resources=members/status,verbs=patch
// +kubebuilder:rbac:groups=quarry.storage,resources=storagenodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=quarry.storage,resources=glusternodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumes,verbs=get;list;watch
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=storage.k8s.io,resources=volumeattachments,verbs=get;list;watch
// +kubebuilder:rbac:groups=snapshot.storage.k8s.io,resources=volumesnapshotcontents,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const (
	// refresh is how often a storage is looked at even if nothing happened.
	refresh = 60 * time.Second
	// capacityEvery is how often a change that is of capacity only is written.
	capacityEvery = 15 * time.Second
	// workers is how many storages are looked at in parallel, unless a Reconciler says more.
	workers = 4
	// observeDeadline bounds one observation of a backend.
	observeDeadline = 20 * time.Second
)

// Backend makes one kind of storage real.
type Backend interface {
	// Profile returns what the engine has to know before it looks.
	Profile() backend.Profile
	// Observe looks at the storage. last is what the look before returned; nil when there was none.
	Observe(ctx context.Context, s v1alpha1.Storage, w backend.World, last backend.View) (backend.View, error)
	// Perform performs the steps of one host in order and stops at the first that fails, or that may not be taken any more; done is the
	// number of steps performed before.
	Perform(ctx context.Context, host string, steps backend.Steps) (done int, err error)
}

// Filler is a Backend whose kind has status fields of its own.
type Filler interface {
	// Fill writes them.
	Fill(s v1alpha1.Storage, v backend.View, w backend.World)
}

// Forgetter is a Backend that remembers storages between two looks.
type Forgetter interface {
	// Forget drops what is remembered of a storage that is gone. None ever has its UID again.
	Forget(uid types.UID)
}

// Drivers knows how CSI drivers are.
type Drivers interface {
	// State returns how the driver of a name is.
	State(ctx context.Context, driver string) (backend.DriverState, error)
}

// Config of a Reconciler.
type Config struct {
	// Client reads from the cache and writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	// Records reads GlusterNodes and their definition from the API server (kube.NewGlusterNodeAPI): they say which devices are on record. Without it nobody knows. Recorded reads GlusterNodes from a cache
	// (kube.NewGlusterNodeCache); without it the API server is asked each time.
	Records, Recorded client.Reader
	// Work performs steps. Each Reconciler has one of its own: it tells that one when a long job ends.
	Work *work.Work
	// Drivers tells how CSI drivers are.
	Drivers Drivers
	// Events tells people what happened.
	Events events.EventRecorder
	// Now returns the time.
	Now func() time.Time
	// CapacityEvery is how often a change that is of capacity only is written; default 15 s.
	CapacityEvery time.Duration
	// Told is told of each Member whose status was written by what was seen; may be nil.
	Told *told.Members
	// Watched is told of each of these whose host said how its devices are, and forgets it once it does not; may be nil.
	Watched *told.Members
	// Profiles returns the profile of any storage; false for one without a backend. Storages share hosts by it.
	Profiles func(v1alpha1.Storage) (backend.Profile, bool)
}

// Reconciler reconciles the storages of one kind.
type Reconciler struct {
	Config
	// New returns an empty object of the kind.
	New func() v1alpha1.Storage
	// BackendOf returns the backend of a storage; nil when there is none, and then why.
	BackendOf func(v1alpha1.Storage) (b Backend, missing string)
	// Workers is how many storages are looked at in parallel, at least 4. A backend whose looks wait for what may never answer needs more.
	Workers int

	mu sync.Mutex
	// started is when this leader looked at a storage for the first time. One that waits to become the leader looks at nothing.
	started time.Time
	// session names this process in the plans that it offers; offers counts its passes.
	session string
	offers  int
	// views are the last observations by the name of the storage; written is when the capacity of an object was written last, by its UID.
	views   map[string]seen
	written map[types.UID]time.Time
	// blind are the names of the storages whose last look failed, with the time of the first one that did since one did not. glusterNodes reads which devices are on
	// record.
	blind        map[string]time.Time
	glusterNodes kube.GlusterNodeReader
}

// Reconcile brings one storage closer to its spec.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	r.begin()
	o := r.New()
	if err := r.Client.Get(ctx, req.NamespacedName, o); err != nil {
		if apierrors.IsNotFound(err) {
			r.forget(r.New().StorageKind(), req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	result, err := r.reconcile(ctx, o)
	return kube.Retry(ctx, result, err)
}

func (r *Reconciler) reconcile(ctx context.Context, o v1alpha1.Storage) (result ctrl.Result, err error) {
	deleting := !o.GetDeletionTimestamp().IsZero()
	owned := controllerutil.ContainsFinalizer(o, v1alpha1.FinalizerTeardown)
	b, missing := r.BackendOf(o)
	switch {
	case deleting && !owned:
		return ctrl.Result{}, nil
	case b == nil:
		return ctrl.Result{}, r.unsupported(ctx, o, missing, owned)
	case !owned:
		// The update comes back as an event, and everything else happens then.
		_, err := kube.AddFinalizer(ctx, r.Client, o, v1alpha1.FinalizerTeardown)
		return ctrl.Result{}, err
	}
	s := r.newScope(o, b)
	if why := backend.Unreadable(s.common); why != "" && !deleting {
		return ctrl.Result{}, r.writeUnreadable(ctx, s, why)
	}
	defer func() {
		if s.gone {
			result = ctrl.Result{}
			return
		}
		// What is not written yet has its time too.
		err = errors.Join(err, r.writeStatus(ctx, s))
		if err == nil {
			result = ctrl.Result{RequeueAfter: s.next()}
		}
	}()
	if err := r.observe(ctx, s); err != nil {
		s.blind, s.unseen = true, r.fails(s)
		return ctrl.Result{}, errors.Join(err, r.writeBlind(ctx, s, err))
	}
	r.succeeds(s)
	s.assess()
	phases := []func(context.Context, *scope) error{
		r.keepLost, r.markUse, r.makeMembers, r.labelHosts, r.leave, r.approve, r.work, r.dismiss, r.makeClass,
	}
	if deleting {
		phases = []func(context.Context, *scope) error{
			r.markUse, r.makeMembers, r.removeClass, r.checkVolumes, r.awaitDriver, r.leave, r.approve, r.work, r.dismiss, r.finish,
		}
	}
	var errs []error
	for _, phase := range phases {
		// All of them run: what fails for one host must not hold up the others. A phase that has to come after another one looks at what
		// became of that.
		err := phase(ctx, s)
		s.complain(err)
		errs = append(errs, err)
	}
	return ctrl.Result{}, errors.Join(errs...)
}

// seen is what a storage was like at the last look; the view is nil as long as each look failed. backend may remember it, too.
type seen struct {
	uid     types.UID
	backend Backend
	view    backend.View
}

// forget has the backend drop what it remembers of the storage.
func (s seen) forget() {
	if f, ok := s.backend.(Forgetter); ok {
		f.Forget(s.uid)
	}
}

// last returns what the look before at a storage saw; nil when there was none. A storage of the name that is gone is another one.
func (r *Reconciler) last(o backend.Owner, b Backend) backend.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.views[o.Name]
	if s.uid == o.UID {
		return s.view
	}
	s.forget()
	r.see(o.Name, seen{uid: o.UID, backend: b})
	return nil
}

func (r *Reconciler) remember(o backend.Owner, b Backend, v backend.View) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.see(o.Name, seen{o.UID, b, v})
}

// see remembers a storage. The caller has the lock.
func (r *Reconciler) see(name string, s seen) {
	if r.views == nil {
		r.views = map[string]seen{}
	}
	r.views[name] = s
}

// forget drops what is remembered of a storage that is gone.
func (r *Reconciler) forget(kind, name string) {
	r.Work.Forget(kind, name)
	metric.Forget(kind, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.views[name].forget()
	delete(r.written, r.views[name].uid)
	delete(r.views, name)
	delete(r.blind, name)
}

// begin remembers when this leader began to look.
func (r *Reconciler) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started.IsZero() {
		r.started = r.Now()
	}
}

// offer returns what no plan was offered with before, by this process or by another one.
func (r *Reconciler) offer() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.session == "" {
		r.session = rand.Text()
	}
	r.offers++
	return r.session + "-" + strconv.Itoa(r.offers)
}

// unsupported tells that the backend of a storage does not exist. Nothing is made for it, so nothing needs a finalizer. One that is there
// is of a controller that had the backend: only such a controller knows what it made, and can remove it.
func (r *Reconciler) unsupported(ctx context.Context, o v1alpha1.Storage, why string, owned bool) error {
	s := r.newScope(o, nil)
	s.unsupported = why + " Nothing was done."
	if owned {
		s.unsupported = why + " Another version of the controller was at work here: what it made stays as it is, and a deletion waits for a version that supports it."
	}
	return r.writeStatus(ctx, s)
}

// copyOf returns a deep copy. The copy of a storage is a storage: DeepCopyObject keeps the type.
func copyOf(o v1alpha1.Storage) v1alpha1.Storage {
	c, ok := o.DeepCopyObject().(v1alpha1.Storage)
	if !ok {
		panic("the copy of a storage is none")
	}
	return c
}
