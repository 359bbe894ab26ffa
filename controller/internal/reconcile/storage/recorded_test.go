package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// taker is a step that takes a device.
type taker struct {
	backendtest.Step
	device decide.Device
}

func (t taker) Takes() []decide.Device { return []decide.Device{t.device} }

// noDefinition is what an API server says that has no definition of GlusterNodes.
var noDefinition = apierrors.NewNotFound(schema.GroupResource{Resource: "customresourcedefinitions"}, "glusternodes.quarry.storage")

// defined is a client that has every definition.
func defined(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, is := o.(*metav1.PartialObjectMetadata); is {
			return nil
		}
		return c.Get(ctx, key, o, opts...)
	}})
}

// TestGuarded_unclaimed: a step that takes a device looks before it whether the API server has it on record as that of a GlusterNode. Whoever cannot say so stops it.
func TestGuarded_unclaimed(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	n := &v1alpha1.GlusterNode{ObjectMeta: metav1.ObjectMeta{Namespace: "gluster", Name: "g1"}}
	n.Spec.Devices = []v1alpha1.GlusterDevice{{Device: "/dev/disk/by-id/a", Path: "/dev/disk/by-id/a", Node: "n1", Serial: "A", Size: 1}}
	live := defined(fake.NewClientBuilder().WithScheme(s).WithObjects(n).Build())
	g := guarded{r: &Reconciler{Config: Config{Records: live}}}
	step := taker{backendtest.Step{On: "n1"}, decide.Device{Path: "/dev/disk/by-id/a", Serial: "A"}}
	if err := g.unclaimed(t.Context(), step); err == nil || !strings.Contains(err.Error(), "/dev/disk/by-id/a is on record as a device of GlusterNode gluster/g1") {
		t.Errorf("the step is taken: %v", err)
	}
	step.device = decide.Device{Path: "/dev/disk/by-id/b", Serial: "B"}
	if err := g.unclaimed(t.Context(), step); err != nil {
		t.Errorf("another device: %v", err)
	}
	step.device = decide.Device{Path: "/dev/disk/by-id/a", Serial: "A", SizeBytes: 1}
	g.r.Records = failReads(live, func() error { return noDefinition })
	if err := g.unclaimed(t.Context(), step); err != nil {
		t.Errorf("the API server has no definition of GlusterNodes: %v", err)
	}
	for _, err := range []error{errors.New("no answer"), &meta.NoKindMatchError{}} {
		g.r.Records = failReads(live, func() error { return err })
		if err := g.unclaimed(t.Context(), step); err == nil {
			t.Error("nobody knows, and the step is taken")
		}
	}
	g.r.Records = nil
	if err := g.unclaimed(t.Context(), step); err == nil {
		t.Error("nobody can ask, and the step is taken")
	}
	if err := g.unclaimed(t.Context(), step.Step); err != nil {
		t.Errorf("a step that takes nothing: %v", err)
	}
}

// TestReadGlusterNodes: whoever may not read which devices are on record goes on with a pass, and knows that nobody knows.
func TestReadGlusterNodes(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c := defined(fake.NewClientBuilder().WithScheme(s).Build())
	for name, row := range map[string]struct {
		err  error
		want string
	}{
		"all is well":     {nil, ""},
		"no definition":   {noDefinition, ""},
		"no such kind":    {&meta.NoKindMatchError{}, "of deploy/crd"},
		"no right":        {apierrors.NewForbidden(schema.GroupResource{Resource: "glusternodes"}, "", errors.New("no")), "the controller has no right to read the definition of glusternodes"},
		"nobody answered": {errors.New("no answer"), "cannot be read"},
	} {
		failing := failReads(c, func() error { return row.err })
		r, pass := &Reconciler{Config: Config{Records: failing, Recorded: failing}}, &scope{profile: backend.Profile{Effects: map[string]backend.Effect{"Take": {Takes: true}}}}
		if err := r.readGlusterNodes(t.Context(), pass); err != nil || (pass.world.Unread == "") != (row.want == "") || !strings.Contains(pass.world.Unread, row.want) {
			t.Errorf("%s: %v, %q", name, err, pass.world.Unread)
		}
	}
}

// TestGuarded_asksLast: whose the devices of a step are is the last question before it, and is bounded: who puts one on record waits for steps from then on.
func TestGuarded_asksLast(t *testing.T) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, clientgoscheme.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	owner := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "fast", UID: "u"}}
	member := &v1alpha1.Member{ObjectMeta: metav1.ObjectMeta{Name: "fast.n1", UID: "m", Finalizers: []string{"test/hold"}}}
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(owner, member).Build()
	if err := c.Delete(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(member), member); err != nil {
		t.Fatal(err)
	}
	var reads []string
	bounded := false
	read := func(ctx context.Context, o any) {
		reads = append(reads, fmt.Sprintf("%T", o))
		_, bounded = ctx.Deadline()
	}
	live := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			read(ctx, o)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			read(ctx, list)
			return c.List(ctx, list, opts...)
		},
	})
	g := guarded{
		r:     &Reconciler{Config: Config{Live: live, Records: defined(live)}, New: func() v1alpha1.Storage { return &v1alpha1.Cluster{} }},
		scope: scope{storage: owner, common: owner.Common(), owner: backend.OwnerOf(owner)},
		hosts: map[string]backend.HostHealth{"n1": {Node: "n1", Object: member}},
	}
	step := taker{backendtest.Step{On: "n1"}, decide.Device{Path: "/dev/disk/by-id/b", Serial: "B"}}
	if err := g.check(t.Context(), "n1", step); err != nil {
		t.Fatal(err)
	}
	if len(reads) < 3 || slices.Index(reads, "*v1alpha1.GlusterNodeList") != len(reads)-1 || !bounded {
		t.Errorf("it reads %q, bounded %t", reads, bounded)
	}
}
