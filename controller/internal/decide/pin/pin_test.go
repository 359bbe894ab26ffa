package pin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// drivers are one whose volumes stay where they are, one whose volumes are everywhere, and one whose handles do not say where.
var drivers = []backend.Driver{
	{Name: "everywhere.example"},
	{Name: "local.example", Topology: true, NodeOf: func(h string) string { n, _, _ := strings.Cut(h, "/"); return n }},
	{Name: "silent.example", Topology: true},
}

func newClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "local.example",
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}
}

func newClaim() *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "copy", UID: "u1"}}
	c.Spec.StorageClassName = new("fast")
	c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "origin"}
	c.Status.Phase = corev1.ClaimPending
	return c
}

func annotate(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

func TestWaiting(t *testing.T) {
	now := metav1.Now()
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"a claim that has a node":                  annotate(AnnotationSelectedNode, "n1"),
		"a claim whose node is empty":              annotate(AnnotationSelectedNode, ""),
		"a claim that names a volume":              func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" },
		"a claim that is bound":                    func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound },
		"a claim whose volume is lost":             func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost },
		"a claim that is being deleted":            func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &now },
		"a claim of a replica without a pod":       func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{v1alpha1.LabelReserved: "true"} },
		"a claim without a source":                 func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = nil },
		"a source without a name":                  func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.Name = "" },
		"a source of a kind that a populator has":  func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.Kind = "Book" },
		"a claim of another API":                   func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.APIGroup = new("other.example") },
		"a snapshot of no API":                     func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.Kind = "VolumeSnapshot" },
		"a source in another namespace":            elsewhere("other"),
		"a source that names its own namespace":    elsewhere("ns"),
		"a populator beside a claim of that name":  func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.APIGroup = new(SnapshotGroup) },
		"a new claim of a replica, label is empty": func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{v1alpha1.LabelReserved: ""} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim()
			change(c)
			if s, ok := Waiting(c); ok {
				t.Errorf("it waits for %+v", s)
			}
		})
	}
}

// elsewhere gives a claim a source by reference, with a namespace.
func elsewhere(namespace string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.DataSource = nil
		c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "origin", Namespace: &namespace}
	}
}

func TestWaiting_sources(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolumeClaim)
		want   Source
	}{
		"a claim": {func(*corev1.PersistentVolumeClaim) {}, Source{KindClaim, "origin"}},
		"a claim, its API said as empty": {
			func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource.APIGroup = new("") }, Source{KindClaim, "origin"},
		},
		"a snapshot": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new(SnapshotGroup), Kind: "VolumeSnapshot", Name: "s"}
		}, Source{KindSnapshot, "s"}},
		"a snapshot by reference": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = nil
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: new(SnapshotGroup), Kind: "VolumeSnapshot", Name: "s"}
		}, Source{KindSnapshot, "s"}},
		"both, as the API server fills them in": {func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "origin"}
		}, Source{KindClaim, "origin"}},
		"a reference with an empty namespace": {elsewhere(""), Source{KindClaim, "origin"}},
		"a claim before its first status":     {func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = "" }, Source{KindClaim, "origin"}},
		"a replica whose pod was made": {func(c *corev1.PersistentVolumeClaim) {
			c.Labels = map[string]string{v1alpha1.LabelStatefulCluster: "db"}
		}, Source{KindClaim, "origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim()
			c.change(claim)
			if got, ok := Waiting(claim); !ok || got != c.want {
				t.Errorf("got %+v %t", got, ok)
			}
		})
	}
}

func TestFor_classes(t *testing.T) {
	for name, c := range map[string]struct {
		class func(*storagev1.StorageClass)
		claim func(*corev1.PersistentVolumeClaim)
		want  bool
	}{
		"volumes that stay on their node":      {want: true},
		"volumes that are everywhere":          {class: func(s *storagev1.StorageClass) { s.Provisioner = "everywhere.example" }},
		"handles that do not say where":        {class: func(s *storagev1.StorageClass) { s.Provisioner = "silent.example" }},
		"another driver":                       {class: func(s *storagev1.StorageClass) { s.Provisioner = "foreign.example" }},
		"a class that binds at once":           {class: func(s *storagev1.StorageClass) { s.VolumeBindingMode = new(storagev1.VolumeBindingImmediate) }},
		"a class that does not say when":       {class: func(s *storagev1.StorageClass) { s.VolumeBindingMode = nil }},
		"a claim of another class":             {claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") }},
		"a claim of no class":                  {claim: func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = nil }},
		"an annotation outranks the field":     {claim: annotate(corev1.BetaStorageClassAnnotation, "slow")},
		"an annotation with the class's name":  {claim: annotate(corev1.BetaStorageClassAnnotation, "fast"), want: true},
		"a claim that has a node":              {claim: annotate(AnnotationSelectedNode, "n1")},
		"a mark of ours does not end the wait": {claim: annotate(v1alpha1.AnnotationSourceNode, "u1/n1"), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			class, claim := newClass(), newClaim()
			if c.class != nil {
				c.class(class)
			}
			if c.claim != nil {
				c.claim(claim)
			}
			if _, got := For(claim, class, drivers); got != c.want {
				t.Errorf("got %t", got)
			}
			if _, got := For(claim, nil, drivers); got {
				t.Error("a class that is not known counts")
			}
		})
	}
}

func TestNode(t *testing.T) {
	here := Origin{Driver: "local.example", Handle: "n1/group/volume"}
	for name, c := range map[string]struct {
		mark   string
		origin Origin
		want   string
	}{
		"the node of the source":                    {origin: here, want: "n1"},
		"a source that is not known":                {},
		"a source of another driver":                {origin: Origin{Driver: "foreign.example", Handle: "n1/group/volume"}},
		"a handle that names no node":               {origin: Origin{Driver: "local.example"}},
		"it was brought there before":               {mark: "u1/n1", origin: here},
		"it was brought elsewhere before":           {mark: "u1/n2", origin: here, want: "n1"},
		"the mark was copied from another claim":    {mark: "u0/n1", origin: here, want: "n1"},
		"a mark that somebody else wrote":           {mark: "n1", origin: here, want: "n1"},
		"a node whose name begins like the other's": {mark: "u1/n10", origin: here, want: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim()
			if c.mark != "" {
				annotate(v1alpha1.AnnotationSourceNode, c.mark)(claim)
			}
			one, ok := For(claim, newClass(), drivers)
			if !ok {
				t.Fatal("the claim does not wait")
			}
			if got, ok := one.Node(c.origin); got != c.want || ok != (c.want != "") {
				t.Errorf("got %q %t, want %q", got, ok, c.want)
			}
		})
	}
}

// TestPin_once: whatever takes the node off again, the claim is not brought there a second time.
func TestPin_once(t *testing.T) {
	claim, origin := newClaim(), Origin{Driver: "local.example", Handle: "n1/group/volume"}
	one, _ := For(claim, newClass(), drivers)
	pinned := one.Pin("n1")
	if d := cmp.Diff(map[string]string{AnnotationSelectedNode: "n1", v1alpha1.AnnotationSourceNode: "u1/n1"}, pinned); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	claim.Annotations = pinned
	if _, ok := Waiting(claim); ok {
		t.Error("a claim that was pinned waits")
	}
	delete(claim.Annotations, AnnotationSelectedNode)
	again, ok := For(claim, newClass(), drivers)
	if !ok {
		t.Fatal("a claim whose node was taken off does not wait")
	}
	if node, ok := again.Node(origin); ok {
		t.Errorf("it is brought to %s again", node)
	}
}
