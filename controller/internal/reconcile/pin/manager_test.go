package pin

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/pin"
)

// complaints keeps the errors of a log.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (*complaints) Init(logr.RuntimeInfo)            {}
func (*complaints) Enabled(int) bool                 { return false }
func (*complaints) Info(int, string, ...any)         {}
func (c *complaints) WithValues(...any) logr.LogSink { return c }
func (c *complaints) WithName(string) logr.LogSink   { return c }
func (c *complaints) Error(err error, m string, _ ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf("%s: %v", m, err))
}

func (c *complaints) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// await waits until a claim has a node.
func await(t *testing.T, c client.Client, name, node string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := read(t, c, name).Annotations[pin.AnnotationSelectedNode]
		if got == node {
			return
		}
		if got != "" || time.Now().After(end) {
			t.Fatalf("node of claim %s is %q, want %q", name, got, node)
		}
	}
}

// start runs the reconciler as the controller does, until the end of the test.
func start(t *testing.T, log logr.LogSink) {
	t.Helper()
	mgr, err := ctrl.NewManager(apitest.Config(t), ctrl.Options{
		Scheme: apitest.Scheme(t), Metrics: server.Options{BindAddress: "0"}, Logger: logr.New(log),
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Drivers: drivers()}
	must(t, r.SetupWithManager(ctx, mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
}

// TestManager_everythingComesLater: whatever makes the node of a source known, the claim is looked at then, and nobody polls.
func TestManager_everythingComesLater(t *testing.T) {
	c, log := apitest.Client(t), &complaints{}
	start(t, log)
	copies := []string{"of-claim", "of-volume", "of-node", "of-snapshot"}
	create(t, c, newClaim("of-claim", from(pin.KindClaim, "late-claim")))
	create(t, c, newClaim("of-volume", from(pin.KindClaim, "late-volume")))
	create(t, c, newClaim("of-node", from(pin.KindClaim, "late-node")))
	create(t, c, newClaim("of-snapshot", from(pin.KindSnapshot, "s")))
	create(t, c, newNode("n1"))
	origin(t, c, "late-node", "n2")
	bind(t, c, create(t, c, newClaim("late-volume")))
	create(t, c, newVolume(t, "late-claim", "n1"))
	lateClaim := create(t, c, newClaim("late-claim"))
	create(t, c, newClass())
	for _, name := range copies {
		selected(t, c, name, "")
	}

	bind(t, c, lateClaim)
	await(t, c, "of-claim", "n1")
	create(t, c, newVolume(t, "late-volume", "n1"))
	await(t, c, "of-volume", "n1")
	create(t, c, newNode("n2"))
	await(t, c, "of-node", "n2")
	selected(t, c, "of-snapshot", "")
	if found := log.list(); len(found) > 0 {
		t.Errorf("errors in the log without the snapshot API: %q", found)
	}

	apitest.Define(t, c, "volumesnapshotcontents", contentKind)
	apitest.DefineNamespaced(t, c, "volumesnapshots", snapshotKind)
	s := create(t, c, newSnapshot("s", false))
	create(t, c, newContent(t, s, "n2"))
	must(t, unstructured.SetNestedField(s.Object, true, "status", "readyToUse"))
	must(t, c.Update(t.Context(), s))
	await(t, c, "of-snapshot", "n2")
}
