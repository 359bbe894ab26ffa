package storage

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/backend/backendtest"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// newAttachingSuite is newSuite with a backend for Clusters of type lvm whose driver attaches volumes.
func newAttachingSuite(t *testing.T, hosts ...string) *suite {
	t.Helper()
	s := newSuite(t)
	s.lvm = backendtest.New(t, backendtest.Options{Type: v1alpha1.StorageTypeLVM, Driver: v1alpha1.DriverLVM, Attach: true})
	s.addHosts(hosts...)
	return s
}

// everywhere returns a volume of a class that can be used on n1 and n2, and whose handle names n1.
func everywhere(class string) *corev1.PersistentVolume {
	pv := volume(class, v1alpha1.DriverLVM, "n1", "v1")
	pv.Spec.CSI.VolumeHandle = backendtest.Handle("n1", "v1")
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "data"}
	e := &pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	e.Values = append(e.Values, "n2")
	return pv
}

// attachment returns the attachment of the volume v1 to n2. A finalizer keeps it as an attacher's does.
func attachment() *storagev1.VolumeAttachment {
	const node = "n2"
	name := "v1"
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attached-" + node, Finalizers: []string{"example.com/attacher"}},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: v1alpha1.DriverLVM, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}
}

// attach makes an attachment that ends with the test at the latest.
func (s *suite) attach(a *storagev1.VolumeAttachment) {
	s.t.Helper()
	s.create(a)
	s.t.Cleanup(func() {
		if s.fetch(a) {
			s.detach(a)
		}
	})
}

// detach takes the finalizers of an attachment off, and deletes it.
func (s *suite) detach(a *storagev1.VolumeAttachment) {
	s.t.Helper()
	if !s.fetch(a) {
		s.t.Fatalf("no volumeattachment %s", a.Name)
	}
	a.Finalizers = nil
	s.update(a)
	if s.fetch(a) {
		s.delete(a)
	}
}

// TestAttached_holdsAMemberThatLeaves: an attached volume is data on the host that it is attached to, and a volume is on no host because it
// may be used there.
func TestAttached_holdsAMemberThatLeaves(t *testing.T) {
	s := newAttachingSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.create(everywhere("pool"))
	a := attachment()
	s.attach(a)
	s.list("pool", "n1")
	stays := func(when string) {
		t.Helper()
		s.settle("pool")
		s.pass(10 * delay)
		s.settle("pool")
		m := s.mustMember("pool", "n2")
		complaint := leaving(v1alpha1.ReasonHostNotListed, "once its volumes are detached: ", "v1 (claim shop/data)")(m)
		if complaint != "" || !m.DeletionTimestamp.IsZero() || !m.Status.Flags.HasData || !slices.Equal(m.Status.Holding, []string{"v1 (claim shop/data)"}) {
			t.Errorf("%s: deleted %v, holding %q, %s", when, m.DeletionTimestamp, m.Status.Holding, complaint)
		}
		if s.mustMember("pool", "n1").Status.Flags.HasData {
			t.Errorf("%s: n1 has data, and nothing is attached to it", when)
		}
	}
	stays("before anything was attached")
	a.Status.Attached = true
	if err := s.client.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	stays("while it is attached")
	s.delete(a)
	stays("while it is being detached")
	s.detach(a)
	s.untilNoMember("n2")
	if !s.lvm.Empty("n2") || !s.fetch(everywhere("pool")) {
		t.Error("n2 is not torn down, or the volume is gone")
	}
}

// TestAttached_toAHostOfNobody: like a volume that lives on a host, an attached one makes the host a member, whatever the spec says.
func TestAttached_toAHostOfNobody(t *testing.T) {
	s := newAttachingSuite(t, "n1", "n2")
	s.cluster("pool", "n1")
	s.create(everywhere("pool"))
	a := attachment()
	s.attach(a)
	m := s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	if !slices.Equal(m.Status.Holding, []string{"v1 (claim shop/data)"}) || s.lvm.Steps("n2") != 0 {
		t.Errorf("holding %q, steps %v", m.Status.Holding, s.lvm.Log())
	}
	s.detach(a)
	s.pass(delay)
	s.untilNoMember("n2")
}

// TestAttached_whose: an attachment of another storage's volume holds nobody else. One whose volume is gone may be of any storage of the
// driver.
func TestAttached_whose(t *testing.T) {
	s := newAttachingSuite(t, "n1", "n2")
	s.cluster("pool", "n1", "n2")
	s.create(everywhere("another"))
	s.attach(attachment())
	s.list("pool", "n1")
	m := s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
	if len(m.Status.Holding) > 0 || m.Status.Flags.HasData {
		t.Errorf("a volume of another storage holds the member: %q", m.Status.Holding)
	}
	s.removePV("v1")
	s.settle("pool")
	s.pass(10 * delay)
	s.settle("pool")
	if m := s.mustMember("pool", "n2"); !m.DeletionTimestamp.IsZero() || !slices.Equal(m.Status.Holding, []string{"v1"}) {
		t.Errorf("an attachment of an unknown volume holds %q", m.Status.Holding)
	}
}

// TestAttached_holdsTheTeardown: nothing is taken off a host while a volume is attached there, even if the PersistentVolume is gone.
func TestAttached_holdsTheTeardown(t *testing.T) {
	s := newAttachingSuite(t, "n1", "n2")
	c := s.cluster("pool", "n1", "n2")
	s.driver.install(false)
	a := attachment()
	s.attach(a)
	s.delete(s.get("pool"))
	s.until("pool", hasPhase(v1alpha1.PhaseDeleting), has(ready, isFalse, v1alpha1.ReasonDeleting, "v1 (attached to n2)"))
	s.settle("pool")
	if s.lvm.Group(c.UID, "n1") == nil || s.lvm.Group(c.UID, "n2") == nil {
		t.Errorf("torn down while a volume is attached: %v", s.lvm.Log())
	}
	s.detach(a)
	s.untilGone("pool")
}

// withoutAttachments returns a client whose cache knows of no attachment yet.
func (s *suite) withoutAttachments() client.Client {
	return interceptor.NewClient(s.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*storagev1.VolumeAttachmentList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// TestAttached_isReadLive: the cache is behind, and the API server itself knows that a volume was attached since. No Member is deleted,
// none that is being deleted is torn down, and none of which nothing is left is given free.
func TestAttached_isReadLive(t *testing.T) {
	for name, tt := range map[string]struct {
		deleted, empty bool
	}{
		"a member that leaves":              {},
		"a member that is being deleted":    {deleted: true},
		"a member of which nothing is left": {deleted: true, empty: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAttachingSuite(t, "n1", "n2")
			c := s.cluster("pool", "n1", "n2")
			s.create(everywhere("pool"))
			s.list("pool", "n1")
			s.untilMember("n2", leaving(v1alpha1.ReasonHostNotListed))
			if tt.deleted {
				s.delete(s.mustMember("pool", "n2"))
			}
			if tt.empty {
				s.lvm.Lose(c.UID, "n2")
			}
			s.pass(10 * delay)
			a := attachment()
			s.attach(a)
			s.cached = s.withoutAttachments()
			started := s.clusters.started
			s.restartController()
			s.clusters.started = started
			steps := s.lvm.Steps("n2")
			for range 4 {
				_, _ = s.reconcile("pool")
			}
			if m := s.mustMember("pool", "n2"); m.DeletionTimestamp.IsZero() == tt.deleted || s.lvm.Steps("n2") != steps {
				t.Fatalf("deleted %v, steps %v", m.DeletionTimestamp, s.lvm.Log())
			}
			if got := s.lvm.Log(); slices.ContainsFunc(got, func(l string) bool { return strings.HasPrefix(l, "n2: remove") }) {
				t.Errorf("steps: %v", got)
			}
			s.detach(a)
			s.untilNoMember("n2")
		})
	}
}
