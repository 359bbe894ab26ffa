package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/pin"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// newClaim makes a claim until the end of the test.
func newClaim(t *testing.T, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	t.Helper()
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: labels, Annotations: map[string]string{"theirs": "a"}, Finalizers: []string{"example.com/theirs"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "1234"}},
	}}
	c.Spec.StorageClassName = new("fast")
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	admin := apitest.Client(t)
	must(t, admin.Create(t.Context(), c))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		must(t, admin.Get(ctx, client.ObjectKeyFromObject(c), c))
		c.Finalizers = nil
		must(t, admin.Update(ctx, c))
		must(t, client.IgnoreNotFound(admin.Delete(ctx, c)))
	})
	return c
}

// claimPolicy installs the policy of claims, and returns clients of a person and of the controller.
func claimPolicy(t *testing.T) (jane, ours client.Client) {
	t.Helper()
	admin := apitest.Client(t)
	install(t, admin, "base/claim-admission.yaml")
	jane, ours = as(t, person), as(t, controller)
	probe := newClaim(t, "probe", nil)
	await(t, "changes no finalizer", func() error {
		changed := probe.DeepCopy()
		changed.Finalizers = nil
		return ours.Update(t.Context(), changed, client.DryRunAll)
	})
	return jane, ours
}

// forbidden are changes that the controller may make to no claim, with what it is told.
var forbidden = map[string]struct {
	change func(*corev1.PersistentVolumeClaim)
	says   string
}{
	"another volume":         {func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }, "nothing in the spec"},
	"another annotation":     {func(c *corev1.PersistentVolumeClaim) { c.Annotations["new"] = "b" }, "writes no annotation"},
	"a changed annotation":   {func(c *corev1.PersistentVolumeClaim) { c.Annotations["theirs"] = "b" }, "writes no annotation"},
	"an annotation less":     {func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, "theirs") }, "writes no annotation"},
	"no annotations":         {func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, "writes no annotation"},
	"a label more":           {func(c *corev1.PersistentVolumeClaim) { c.Labels["new"] = "b" }, "changes no label"},
	"a changed label":        {func(c *corev1.PersistentVolumeClaim) { c.Labels["app"] = "b" }, "changes no label"},
	"a label less":           {func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, "app") }, "changes no label"},
	"a finalizer more":       {func(c *corev1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, "example.com/new") }, "no finalizer"},
	"no finalizers":          {func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil }, "no finalizer"},
	"the mark of a deletion": {func(c *corev1.PersistentVolumeClaim) { c.Annotations["quarry.storage/remove"] = "x" }, "writes no annotation"},
}

func TestClaim_whatTheControllerMayNotDo(t *testing.T) {
	jane, ours := claimPolicy(t)
	for name, labels := range map[string]map[string]string{
		"anybody's":         {"app": "a"},
		"a StatefulCluster": {"app": "a", v1alpha1.LabelStatefulCluster: "db"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaim(t, "victim", labels)
			for what, f := range forbidden {
				changed := c.DeepCopy()
				f.change(changed)
				if err := ours.Update(t.Context(), changed.DeepCopy(), client.DryRunAll); err == nil {
					t.Errorf("%s is allowed", what)
				} else {
					denied(t, err, f.says)
				}
				// Nobody else is held to it.
				must(t, jane.Update(t.Context(), changed, client.DryRunAll))
			}
		})
	}
}

func TestClaim_nodeOfAnyClaim(t *testing.T) {
	jane, ours := claimPolicy(t)
	c := newClaim(t, "copy", map[string]string{v1alpha1.LabelReserved: "true"})
	c.Annotations[pin.AnnotationSelectedNode], c.Annotations[v1alpha1.AnnotationSourceNode] = "n1", "u/n1"
	must(t, ours.Update(t.Context(), c))
	for _, node := range []string{"n2", ""} {
		changed := c.DeepCopy()
		if changed.Annotations[pin.AnnotationSelectedNode] = node; node == "" {
			delete(changed.Annotations, pin.AnnotationSelectedNode)
		}
		denied(t, ours.Update(t.Context(), changed))
	}
	// The provisioner takes the node off; a later source node may be written then.
	delete(c.Annotations, pin.AnnotationSelectedNode)
	must(t, jane.Update(t.Context(), c))
	c.Annotations[pin.AnnotationSelectedNode], c.Annotations[v1alpha1.AnnotationSourceNode] = "n2", "u/n2"
	must(t, ours.Update(t.Context(), c))

	others := c.DeepCopy()
	others.OwnerReferences = nil
	denied(t, ours.Update(t.Context(), others), "owners of a claim of a StatefulCluster only")
	released := c.DeepCopy()
	delete(released.Labels, v1alpha1.LabelReserved)
	denied(t, ours.Update(t.Context(), released), "of a StatefulCluster only")
	stolen := c.DeepCopy()
	stolen.Labels[v1alpha1.LabelStatefulCluster] = "db"
	stolen.OwnerReferences = nil
	denied(t, ours.Update(t.Context(), stolen), "changes no label")
}

func TestClaim_ofAStatefulCluster(t *testing.T) {
	_, ours := claimPolicy(t)
	c := newClaim(t, "replica", map[string]string{v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelReserved: "true"})
	delete(c.Labels, v1alpha1.LabelReserved)
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "db-1", UID: "5678"}}
	must(t, ours.Update(t.Context(), c))
	c.OwnerReferences = nil
	c.Annotations[pin.AnnotationSelectedNode], c.Annotations[v1alpha1.AnnotationSourceNode] = "n1", "u/n1"
	must(t, ours.Update(t.Context(), c))
}

// TestClaim_recordOfAReplica: the record of a replica goes forward only, and stands only on claims of a StatefulCluster.
func TestClaim_recordOfAReplica(t *testing.T) {
	jane, ours := claimPolicy(t)
	c := newClaim(t, "recorded", map[string]string{v1alpha1.LabelStatefulCluster: "db"})
	for _, state := range []string{v1alpha1.ReplicaNew, v1alpha1.ReplicaServed, v1alpha1.ReplicaFilled, v1alpha1.ReplicaReplaced} {
		c.Annotations[v1alpha1.AnnotationReplicaState] = state
		must(t, ours.Update(t.Context(), c))
	}
	for _, state := range []string{v1alpha1.ReplicaNew, v1alpha1.ReplicaFilled, v1alpha1.ReplicaScaled, ""} {
		changed := c.DeepCopy()
		if changed.Annotations[v1alpha1.AnnotationReplicaState] = state; state == "" {
			delete(changed.Annotations, v1alpha1.AnnotationReplicaState)
		}
		denied(t, ours.Update(t.Context(), changed, client.DryRunAll))
	}
	for was, to := range map[string]string{
		"":                     "New Served Filled Scaled Replaced Rolled",
		v1alpha1.ReplicaNew:    "New Served Filled Scaled Replaced Rolled",
		v1alpha1.ReplicaServed: "Served Filled Scaled Replaced Rolled",
		v1alpha1.ReplicaFilled: "Filled Scaled Replaced Rolled",
		"filled":               "filled Filled Scaled Replaced Rolled",
		v1alpha1.ReplicaScaled: "Scaled",
	} {
		c := newClaim(t, "from-"+strings.ToLower(was)+fmt.Sprint(len(to)), map[string]string{v1alpha1.LabelStatefulCluster: "db"})
		if was != "" {
			c.Annotations[v1alpha1.AnnotationReplicaState] = was
			must(t, jane.Update(t.Context(), c))
		}
		for _, state := range []string{"New", "Served", "Filled", "Scaled", "Replaced", "Rolled", "filled", "Any"} {
			changed := c.DeepCopy()
			changed.Annotations[v1alpha1.AnnotationReplicaState] = state
			err := ours.Update(t.Context(), changed, client.DryRunAll)
			if slices.Contains(strings.Fields(to), state) {
				must(t, err)
			} else {
				denied(t, err, "does not take back")
			}
		}
	}
	made := newClaim(t, "made-of", map[string]string{v1alpha1.LabelStatefulCluster: "db"})
	for _, of := range []string{"data", "data,log"} {
		made.Annotations[v1alpha1.AnnotationClaims] = of
		must(t, ours.Update(t.Context(), made))
	}
	made.Annotations[v1alpha1.AnnotationClaims] = "data"
	denied(t, ours.Update(t.Context(), made.DeepCopy(), client.DryRunAll), "takes no template off")
	made.Annotations[v1alpha1.AnnotationClaims], made.Annotations[v1alpha1.AnnotationGivenUp] = "data,log", "2030-01-01T00:00:00Z"
	must(t, ours.Update(t.Context(), made))
	made.Annotations[v1alpha1.AnnotationGivenUp] = "2020-01-01T00:00:00Z"
	denied(t, ours.Update(t.Context(), made.DeepCopy(), client.DryRunAll), "writes no annotation")
	foreign := newClaim(t, "foreign", nil)
	foreign.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaScaled
	denied(t, ours.Update(t.Context(), foreign, client.DryRunAll), "writes no annotation")
}

// TestClaim_adopted: in one change a kept claim becomes one of another StatefulCluster, or of its own again, and what was on record is that it may have the
// data. Nothing else comes with it, and it is done once.
func TestClaim_adopted(t *testing.T) {
	jane, ours := claimPolicy(t)
	of := map[string]string{v1alpha1.LabelStatefulCluster: "db", v1alpha1.LabelStatefulClusterUID: "old", v1alpha1.LabelIdentity: "1"}
	c := newClaim(t, "adopted", of)
	c.Spec.VolumeName = "pv"
	c.Annotations[v1alpha1.AnnotationReplicaState], c.Annotations[v1alpha1.AnnotationGivenUp] = v1alpha1.ReplicaReplaced, "2030-01-01T00:00:00Z"
	must(t, jane.Update(t.Context(), c))
	// That its pod was one that nobody controls is written once, and taken off by the adoption alone.
	c.Annotations[v1alpha1.AnnotationOrphaned] = "2030-01-02T00:00:00Z"
	must(t, ours.Update(t.Context(), c))
	for _, value := range []string{"", "2030-01-03T00:00:00Z"} {
		changed := c.DeepCopy()
		if changed.Annotations[v1alpha1.AnnotationOrphaned] = value; value == "" {
			delete(changed.Annotations, v1alpha1.AnnotationOrphaned)
		}
		denied(t, ours.Update(t.Context(), changed, client.DryRunAll), "writes no annotation")
	}
	adopt := func(c *corev1.PersistentVolumeClaim, uid string) *corev1.PersistentVolumeClaim {
		changed := c.DeepCopy()
		changed.Labels[v1alpha1.LabelStatefulClusterUID], changed.Annotations[v1alpha1.AnnotationAdopted] = uid, uid
		changed.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaServed
		delete(changed.Annotations, v1alpha1.AnnotationGivenUp)
		delete(changed.Annotations, v1alpha1.AnnotationOrphaned)
		return changed
	}
	must(t, ours.Update(t.Context(), adopt(c, "old"), client.DryRunAll))
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"another state": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaFilled
		},
		"a state of before": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaReplaced
		},
		"no mark":          func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, v1alpha1.AnnotationAdopted) },
		"another mark":     func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationAdopted] = "other" },
		"an empty mark":    func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.AnnotationAdopted] = "" },
		"no UID":           func(c *corev1.PersistentVolumeClaim) { delete(c.Labels, v1alpha1.LabelStatefulClusterUID) },
		"another identity": func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelIdentity] = "2" },
		"another name":     func(c *corev1.PersistentVolumeClaim) { c.Labels[v1alpha1.LabelStatefulCluster] = "other" },
		"an annotation":    func(c *corev1.PersistentVolumeClaim) { c.Annotations["theirs"] = "b" },
		"a finalizer less": func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil },
	} {
		t.Run(name, func(t *testing.T) {
			changed := adopt(c, "new")
			change(changed)
			denied(t, ours.Update(t.Context(), changed, client.DryRunAll))
		})
	}
	// What ran on keeps on record that it has the data.
	for was, may := range map[string]bool{
		v1alpha1.ReplicaFilled: true, "filled": true, "": false, v1alpha1.ReplicaNew: false, v1alpha1.ReplicaServed: false, v1alpha1.ReplicaScaled: false,
	} {
		ran := newClaim(t, "ran-on-"+strings.ToLower(was)+fmt.Sprint(was == "filled"), of)
		if ran.Spec.VolumeName = "pv"; was != "" {
			ran.Annotations[v1alpha1.AnnotationReplicaState] = was
		}
		must(t, jane.Update(t.Context(), ran))
		changed := adopt(ran, "new")
		if changed.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaFilled; may {
			must(t, ours.Update(t.Context(), changed, client.DryRunAll))
		} else {
			denied(t, ours.Update(t.Context(), changed, client.DryRunAll), "does not take back")
		}
	}
	empty := newClaim(t, "empty", of)
	denied(t, ours.Update(t.Context(), adopt(empty, "new"), client.DryRunAll))
	foreign := newClaim(t, "of-nobody", map[string]string{v1alpha1.LabelStatefulClusterUID: "old"})
	foreign.Spec.VolumeName = "pv"
	must(t, jane.Update(t.Context(), foreign))
	denied(t, ours.Update(t.Context(), adopt(foreign, "new"), client.DryRunAll))

	c = adopt(c, "new")
	must(t, ours.Update(t.Context(), c))
	c.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaReplaced
	must(t, ours.Update(t.Context(), c))
	denied(t, ours.Update(t.Context(), adopt(c, "new"), client.DryRunAll), "does not take back")
}

// TestClaim_deletedByTheController: only claims of replicas that were given up.
func TestClaim_deletedByTheController(t *testing.T) {
	jane, ours := claimPolicy(t)
	kept := newClaim(t, "kept", map[string]string{v1alpha1.LabelStatefulCluster: "db"})
	await(t, "deletes only claims", func() error { return ours.Delete(t.Context(), kept.DeepCopy(), client.DryRunAll) })
	for _, state := range []string{v1alpha1.ReplicaNew, v1alpha1.ReplicaServed, v1alpha1.ReplicaFilled} {
		kept.Annotations[v1alpha1.AnnotationReplicaState] = state
		must(t, jane.Update(t.Context(), kept))
		denied(t, ours.Delete(t.Context(), kept.DeepCopy(), client.DryRunAll), "was given up")
	}
	foreign := newClaim(t, "stranger", nil)
	foreign.Annotations[v1alpha1.AnnotationReplicaState] = v1alpha1.ReplicaScaled
	must(t, jane.Update(t.Context(), foreign))
	denied(t, ours.Delete(t.Context(), foreign.DeepCopy(), client.DryRunAll), "was given up")
	for _, state := range []string{v1alpha1.ReplicaScaled, v1alpha1.ReplicaReplaced, v1alpha1.ReplicaRolled} {
		given := newClaim(t, "given-up-"+strings.ToLower(state), map[string]string{v1alpha1.LabelStatefulCluster: "db"})
		given.Annotations[v1alpha1.AnnotationReplicaState] = state
		must(t, jane.Update(t.Context(), given))
		must(t, ours.Delete(t.Context(), given.DeepCopy(), client.DryRunAll))
	}
	must(t, jane.Delete(t.Context(), kept.DeepCopy(), client.DryRunAll))
}
