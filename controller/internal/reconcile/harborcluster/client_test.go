package harborcluster

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/harbor"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/test/operatortest"
)

// cachedClient reads the metadata of definitions from a cache, as the controller does, and everything else as its WithWatch does. Definitions are long: to
// read them in every pass is most of what the API server would do in these tests.
type cachedClient struct {
	client.WithWatch
	t           *testing.T
	definitions cache.Cache
}

// shared is what the tests of this package have in common, because they have one API server.
var shared struct {
	sync.Mutex
	definitions cache.Cache
	// known is what reconcilers have read of definitions. It is told apart by their resource versions.
	known map[schema.GroupVersionKind]definition
}

func newClient(t *testing.T) *cachedClient {
	t.Helper()
	c := &cachedClient{WithWatch: apitest.Client(t), t: t}
	shared.Lock()
	defer shared.Unlock()
	if shared.definitions == nil {
		definitions, err := cache.New(apitest.Config(t), cache.Options{Scheme: apitest.Scheme(t)})
		must(t, err)
		// It ends with the API server, after all tests.
		ctx := context.WithoutCancel(t.Context())
		go func() { _ = definitions.Start(ctx) }()
		_, err = definitions.GetInformer(ctx, kube.Definition())
		must(t, err)
		if !definitions.WaitForCacheSync(ctx) {
			t.Fatal("the definitions cannot be listed")
		}
		shared.definitions = definitions
	}
	c.definitions = shared.definitions
	return c
}

// mirror reads from memory what is in a namespace, until a test changes the definition of a kind: nothing else writes there.
func (c *cachedClient) mirror(namespace string) {
	c.t.Helper()
	lists := []client.ObjectList{
		&v1alpha1.HarborClusterList{}, &v1alpha1.HarborWitnessList{}, &corev1.SecretList{}, &corev1.PersistentVolumeClaimList{},
		&appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &batchv1.JobList{},
	}
	for _, kind := range append(slices.Clone(childKinds), harbor.ConfigurationKind, harbor.EndpointSliceKind,
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"), appsv1.SchemeGroupVersion.WithKind("Deployment"), issuerKind("Issuer")) {
		lists = append(lists, apitest.Loose(kind))
	}
	c.WithWatch = apitest.MirrorOf(c.t, c.WithWatch, namespace, lists...)
}

// Get reads an object.
func (c *cachedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if m, ok := o.(*metav1.PartialObjectMetadata); ok && m.GroupVersionKind() == kube.Definition().GroupVersionKind() {
		return c.definitions.Get(ctx, key, o, opts...)
	}
	return c.WithWatch.Get(ctx, key, o, opts...)
}

// install lets the API server serve releases, and waits until the cache knows.
func (c *cachedClient) install(all ...operatortest.Definition) {
	c.t.Helper()
	operatortest.Install(c.t, c.WithWatch, all...)
	for _, d := range all {
		c.await(d.CRD.GetName(), d.Release)
	}
}

// upgrade lets the API server serve a kind as another release defines it, and waits until the cache knows.
func (c *cachedClient) upgrade(to operatortest.Definition) {
	c.t.Helper()
	operatortest.Upgrade(c.t, c.WithWatch, to)
	c.await(to.CRD.GetName(), to.Release)
}

// await waits until the cache has a definition as a release brings it; none when that is empty.
func (c *cachedClient) await(name, release string) {
	c.t.Helper()
	await(c.t, "the definition "+name+" is known as of "+release, func() string {
		o := kube.Definition()
		err := c.definitions.Get(c.t.Context(), types.NamespacedName{Name: name}, o)
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		if got := o.GetAnnotations()[operatortest.Release]; got != release {
			return "it is known as of " + got
		}
		return ""
	})
}

// share gives a reconciler what others have read of definitions, and keeps what it reads.
func (c *cachedClient) share(r *Reconciler) {
	shared.Lock()
	defer shared.Unlock()
	r.definitions.known = maps.Clone(shared.known)
	c.t.Cleanup(func() {
		shared.Lock()
		defer shared.Unlock()
		shared.known = maps.Clone(r.definitions.known)
	})
}
