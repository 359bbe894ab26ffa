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

// spacing is how many writes there are from one that fails to the next, at least: a controller gets on in between.
const spacing = 5

// faulty lets every write of the controller fail once, over many lives: before it reaches the API server, or after, as when the controller is killed
// in between. A write is known by its verb, by the kind of its object, and by how often such were written before in the same life.
type faulty struct {
	after  bool
	failed map[string]bool
	// counts are those of this life; since is how many writes there were since the last that failed, and failures is how many failed.
	counts          map[string]int
	since, failures int
}

func (f *faulty) begin() { f.counts, f.since, f.failures = map[string]int{}, spacing, 0 }

func (f *faulty) do(verb string, o client.Object, write func() error) error {
	what := fmt.Sprintf("%s %T", verb, o)
	f.counts[what]++
	f.since++
	key := fmt.Sprintf("%s, time %d", what, f.counts[what])
	// The spacing changes: else a controller that goes round in as many writes would fail at the same one each time.
	if f.failed[key] || f.since < spacing+f.failures%3 {
		return write()
	}
	f.failed[key], f.since = true, 0
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
			if how := (&client.CreateOptions{}).ApplyOptions(opts); len(how.DryRun) > 0 {
				// It writes nothing.
				return c.Create(ctx, o, opts...)
			}
			return f.do("create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f.do("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f.do("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return f.do("create "+sub, o, func() error { return c.SubResource(sub).Create(ctx, o, body, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return f.do("patch "+sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// TestReconcile_everyWriteFailsOnce: whichever writes of a life with growing, rolling and shrinking fail, before or after they take effect, the end is
// the same.
func TestReconcile_everyWriteFailsOnce(t *testing.T) {
	for _, after := range []bool{false, true} {
		f := &faulty{after: after, failed: map[string]bool{}}
		for life := 1; ; life++ {
			f.begin()
			t.Run(fmt.Sprintf("life %d, after it %t", life, after), func(t *testing.T) { liveThrough(t, f) })
			if f.failures == 0 || t.Failed() {
				t.Logf("%d writes failed in %d lives", len(f.failed), life)
				break
			}
		}
		if len(f.failed) < 15 {
			t.Errorf("only %d writes", len(f.failed))
		}
	}
}

func liveThrough(t *testing.T, f *faulty) {
	s := newSuite(t, "n1")
	s.r.Client = f.wrap(s.client)
	s.add(2, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenDeleted: "Retain", WhenScaled: "Delete", WhenReplaced: "Delete"}
	})
	s.endure("two replicas")
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Template.Spec = templateWith("image:2") })
	s.endure("new ones")
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](1) })
	c := s.endure("one replica")
	s.mustEndure()
	if len(s.pods()) != 1 || c.Status.UpdatedReplicas != 1 {
		t.Errorf("pods %s, status %+v", s.names(), c.Status)
	}
	kept := 0
	for _, claim := range s.claims() {
		state := claim.Annotations[v1alpha1.AnnotationReplicaState]
		switch ends := !claim.DeletionTimestamp.IsZero(); {
		case len(claim.OwnerReferences) != 0, ends != (state == v1alpha1.ReplicaScaled || state == v1alpha1.ReplicaRolled):
			t.Errorf("claim %s is %s and ends: %t; owners %+v", claim.Name, state, ends, claim.OwnerReferences)
		case !ends:
			kept++
		}
	}
	if c = s.get(); kept != 1 || c.Status.OrphanedClaimCount != 0 {
		t.Errorf("%d claims are kept, orphaned are %v", kept, c.Status.OrphanedClaims)
	}
	s.edit(func(c *v1alpha1.StatefulCluster) { c.Spec.Replicas = ptr.To[int32](0) })
	s.endure("none")
	if len(s.pods()) != 0 {
		t.Errorf("pods %s", s.names())
	}
}

// mustEndure passes until nothing is left to write.
func (s *suite) mustEndure() {
	s.t.Helper()
	for range 10 {
		if err := s.pass(); err == nil {
			return
		} else if !strings.Contains(err.Error(), errFault.Error()) {
			s.t.Fatal(err)
		}
	}
	s.t.Fatal("it fails on and on")
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
