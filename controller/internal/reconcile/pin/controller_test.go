package pin

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/controller/internal/kube"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// reconciler returns one that reads and writes without a cache, in a cluster with the class and the nodes n1 and n2.
func reconciler(t *testing.T) (*Reconciler, client.WithWatch) {
	t.Helper()
	c := apitest.Client(t)
	create(t, c, newClass())
	create(t, c, newNode("n1"))
	create(t, c, newNode("n2"))
	return &Reconciler{Client: c, Live: c, Drivers: drivers()}, c
}

func TestReconcile_cloneGoesToItsSource(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n2")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin"), func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"kept": "yes"}
	}))
	create(t, c, newClaim("empty"))
	look(t, r, "copy")
	look(t, r, "empty")
	selected(t, c, "empty", "")
	done := selected(t, c, "copy", "n2")
	if got := done.Annotations; got[v1alpha1.AnnotationSourceNode] != string(done.UID)+"/n2" || got["kept"] != "yes" || len(got) != 3 {
		t.Errorf("annotations %v", got)
	}
	look(t, r, "copy")
	if again := read(t, c, "copy"); again.ResourceVersion != done.ResourceVersion {
		t.Error("the claim is written again")
	}
	// Somebody deletes a claim that is asked for still.
	look(t, r, "none")
}

// TestReconcile_onlyOnce: the provisioner takes the node off when it has no room, and must not get the claim back each time.
func TestReconcile_onlyOnce(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n1")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	look(t, r, "copy")
	done := selected(t, c, "copy", "n1")
	delete(done.Annotations, pin.AnnotationSelectedNode)
	must(t, c.Update(t.Context(), done))
	for range 3 {
		if result := look(t, r, "copy"); result.RequeueAfter != 0 {
			t.Errorf("it looks again after %s", result.RequeueAfter)
		}
		selected(t, c, "copy", "")
	}
	// Then the scheduler is free to try.
	done = read(t, c, "copy")
	done.Annotations[pin.AnnotationSelectedNode] = "n2"
	must(t, c.Update(t.Context(), done))
	look(t, r, "copy")
	selected(t, c, "copy", "n2")
}

// TestReconcile_remindsTheProvisioner: one that lost a claim's node gets the claim to see again, three times. The node stays as it is.
func TestReconcile_remindsTheProvisioner(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n1")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	create(t, c, newClaim("empty", func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, pin.AnnotationSelectedNode, "n2")
	}))
	if result := look(t, r, "empty"); result.RequeueAfter != 0 {
		t.Errorf("a claim without a source is looked at again after %s", result.RequeueAfter)
	}
	look(t, r, "copy")
	was := selected(t, c, "copy", "n1")
	mark := was.Annotations[v1alpha1.AnnotationSourceNode]
	for _, reminded := range []string{"/1", "/2", "/3", "/3"} {
		if again := look(t, r, "copy"); selected(t, c, "copy", "n1").ResourceVersion != was.ResourceVersion {
			t.Errorf("it is reminded at once, and looked at again after %s", again.RequeueAfter)
		}
		for claim := range r.chosen.since {
			r.chosen.since[claim] = r.chosen.since[claim].Add(-patience)
		}
		look(t, r, "copy")
		was = selected(t, c, "copy", "n1")
		if got := was.Annotations[v1alpha1.AnnotationSourceNode]; got != mark+reminded {
			t.Errorf("mark %q, want %q", got, mark+reminded)
		}
	}
	if again := look(t, r, "copy"); again.RequeueAfter != 0 {
		t.Errorf("it is looked at again after %s", again.RequeueAfter)
	}
	// A refusal afterwards brings it nowhere: its one time is over.
	delete(was.Annotations, pin.AnnotationSelectedNode)
	must(t, c.Update(t.Context(), was))
	look(t, r, "copy")
	selected(t, c, "copy", "")
}

func TestReconcile_waitsUntilTheSourceIsKnown(t *testing.T) {
	r, c := reconciler(t)
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	look(t, r, "copy")
	selected(t, c, "copy", "")
	origin := create(t, c, newClaim("origin"))
	look(t, r, "copy")
	selected(t, c, "copy", "")
	bind(t, c, origin)
	look(t, r, "copy")
	selected(t, c, "copy", "")
	create(t, c, newVolume(t, "origin", "n1"))
	look(t, r, "copy")
	selected(t, c, "copy", "n1")
}

func TestReconcile_waitsForTheNode(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n3")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	look(t, r, "copy")
	if o := selected(t, c, "copy", ""); o.Annotations[v1alpha1.AnnotationSourceNode] != "" {
		t.Error("the one time is spent on a node that does not exist")
	}
	create(t, c, newNode("n3"))
	look(t, r, "copy")
	selected(t, c, "copy", "n3")
}

func TestReconcile_leavesAClaimThatHasANode(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n1")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin"), func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, pin.AnnotationSelectedNode, "n2")
	}))
	create(t, c, newClaim("reserved", from(pin.KindClaim, "origin"), func(c *corev1.PersistentVolumeClaim) {
		c.Labels = map[string]string{v1alpha1.LabelReserved: "true"}
	}))
	look(t, r, "copy")
	look(t, r, "reserved")
	if o := selected(t, c, "copy", "n2"); len(o.Annotations) != 1 {
		t.Errorf("annotations %v", o.Annotations)
	}
	selected(t, c, "reserved", "")
}

// TestReconcile_schedulerIsFaster: what was written since the claim was read stays.
func TestReconcile_schedulerIsFaster(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n1")
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	r.Client = interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			now := read(t, c, "copy")
			metav1.SetMetaDataAnnotation(&now.ObjectMeta, pin.AnnotationSelectedNode, "n2")
			must(t, c.Update(ctx, now))
			return w.Patch(ctx, o, p, opts...)
		},
	})
	if result := look(t, r, "copy"); result.RequeueAfter != kube.Again {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	if o := selected(t, c, "copy", "n2"); len(o.Annotations) != 1 {
		t.Errorf("annotations %v", o.Annotations)
	}
}

func TestReconcile_withoutTheSnapshotAPI(t *testing.T) {
	r, c := reconciler(t)
	origin(t, c, "origin", "n1")
	create(t, c, newClaim("restored", from(pin.KindSnapshot, "s")))
	create(t, c, newClaim("copy", from(pin.KindClaim, "origin")))
	if result := look(t, r, "restored"); result.RequeueAfter != 0 {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	look(t, r, "copy")
	selected(t, c, "copy", "n1")
}

func TestReconcile_restoreGoesToItsSnapshot(t *testing.T) {
	r, c := reconciler(t)
	apitest.DefineNamespaced(t, c, "volumesnapshots", snapshotKind)
	apitest.Define(t, c, "volumesnapshotcontents", contentKind)
	create(t, c, newClaim("restored", from(pin.KindSnapshot, "s")))
	look(t, r, "restored")
	selected(t, c, "restored", "")

	s := create(t, c, newSnapshot("s", false))
	look(t, r, "restored")
	selected(t, c, "restored", "")
	must(t, unstructured.SetNestedField(s.Object, true, "status", "readyToUse"))
	must(t, c.Update(t.Context(), s))
	// Contents are not watched.
	if result := look(t, r, "restored"); result.RequeueAfter != contentPause {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	content := newContent(t, s, "n2")
	must(t, unstructured.SetNestedField(content.Object, "of-an-earlier-one", "spec", "volumeSnapshotRef", "uid"))
	create(t, c, content)
	if result := look(t, r, "restored"); result.RequeueAfter != contentPause {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	selected(t, c, "restored", "")
	must(t, unstructured.SetNestedField(content.Object, string(s.GetUID()), "spec", "volumeSnapshotRef", "uid"))
	must(t, c.Update(t.Context(), content))
	if result := look(t, r, "restored"); result.RequeueAfter != 0 {
		t.Errorf("it looks again after %s", result.RequeueAfter)
	}
	selected(t, c, "restored", "n2")
}
