package statefulcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var errFault = errors.New("fault")

// spacing is how many writes there are from one that fails to the next.
const spacing = 5

// faulty fails every fifth write of the controller: before it reaches the API server, or after, as when the controller is killed in between.
type faulty struct {
	// first is the number of the first write that fails, from 0.
	first int
	after bool
	// writes and failures are how many there were.
	writes, failures int
}

func (f *faulty) do(write func() error) error {
	f.writes++
	if (f.writes-1)%spacing != f.first {
		return write()
	}
	f.failures++
	if f.after {
		if err := write(); err != nil {
			return err
		}
	}
	return errFault
}

func (f *faulty) wrap(c client.WithWatch) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return f.do(func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f.do(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.do(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return f.do(func() error { return c.SubResource(sub).Create(ctx, o, body, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.do(func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// TestReconcile_everyWriteFailsOnce: whichever writes of a life with growing, rolling and shrinking fail, before or after they take effect, the end is
// the same.
func TestReconcile_everyWriteFailsOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		for first := range spacing {
			t.Run(fmt.Sprintf("from write %d, after it %t", first, after), func(t *testing.T) {
				f := &faulty{first: first, after: after}
				liveThrough(t, f)
				if f.failures < 3 {
					t.Errorf("%d of %d writes failed", f.failures, f.writes)
				}
			})
		}
	}
}

func liveThrough(t *testing.T, f *faulty) {
	s := newSuite(t, "n1")
	s.r.Client = f.wrap(s.client)
	s.add(1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Retain", WhenScaled: "Delete"}
	})
	s.endure("one replica")
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	s.endure("a new one")
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](2) })
	c := s.endure("two replicas")
	if len(s.pods()) != 2 || c.Status.UpdatedReplicas != 2 {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
	kept, handed := 0, 0
	for _, claim := range s.claims() {
		switch {
		case handedOver(&claim):
			handed++
		case len(claim.OwnerReferences) == 0 && claim.Labels[v1alpha1.LabelReserved] == "":
			kept++
		default:
			t.Errorf("claim %s: owners %+v, labels %v", claim.Name, claim.OwnerReferences, claim.Labels)
		}
	}
	// A claim that could not be handed over before its pod ended is kept and listed: never the other way round.
	if orphaned := int(c.Status.OrphanedClaimCount); kept-orphaned != 2 || handed+orphaned != 1 {
		t.Errorf("%d claims are kept, %d go with their pod, orphaned are %v", kept, handed, c.Status.OrphanedClaims)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](0) })
	s.endure("none")
	if len(s.pods()) != 0 {
		t.Errorf("pods %s", s.names())
	}
}

// endure is settle with a controller that may fail.
func (s *suite) endure(what string) *v1alpha1.StatefulCluster {
	s.t.Helper()
	for range 60 {
		if err := s.pass(); err != nil && !strings.Contains(err.Error(), errFault.Error()) {
			s.t.Fatal(err)
		}
		c := s.get()
		if isReady(c) == "" && c.Status.Replicas == *c.Spec.Replicas && c.Status.ObservedGeneration == c.Generation {
			return c
		}
		s.kubelet()
		s.now = s.now.Add(time.Second)
	}
	s.t.Fatalf("waited in vain: %s: %+v", what, s.get().Status)
	return nil
}
