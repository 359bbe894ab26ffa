//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// limitReplicas is how long a few replicas with new volumes may take in the lab, one after another.
const limitReplicas = 4 * time.Minute

// raw writes a part of a spec the way a manifest has it.
func raw(t *testing.T, v any) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// template is one container that writes its own name to its volume and then is idle; the release makes templates differ.
func template(t *testing.T, release string) runtime.RawExtension {
	t.Helper()
	return raw(t, corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}},
		}},
		// Preferred: with a node less, the new replica must share one with another.
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "replicas"}},
				},
			}},
		}},
		Containers: []corev1.Container{{
			Name: "main", Image: busybox, ImagePullPolicy: corev1.PullIfNotPresent,
			Command:      []string{"sh", "-ec", "hostname > /data/who; sync; sleep 100000"},
			Env:          []corev1.EnvVar{{Name: "RELEASE", Value: release}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
	})
}

// stateful makes a StatefulCluster on the volumes of a class, and sees to it that nothing of it is left at the end.
func stateful(t *testing.T, name, class string, replicas int32, change ...func(*v1alpha1.StatefulCluster)) *v1alpha1.StatefulCluster {
	t.Helper()
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Annotations: map[string]string{v1alpha1.AnnotationNodeGrace: "20s", v1alpha1.AnnotationStartUpGrace: "2m"},
	}}
	c.Spec.Replicas = ptr.To(replicas)
	c.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": "replicas"}
	c.Spec.Template.Metadata.Labels = c.Spec.Selector.MatchLabels
	c.Spec.Template.Spec = template(t, "1")
	c.Spec.VolumeClaimTemplates = []v1alpha1.ClaimTemplate{{
		Metadata: v1alpha1.ClaimMetadata{Name: "data"},
		Spec: raw(t, corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Mi")}},
		}),
	}}
	for _, f := range change {
		f(c)
	}
	// As deploy/samples/statefulcluster.yaml does.
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "quarry-statefulcluster"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "quarry-statefulcluster"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: "quarry-controller", Namespace: controllerNamespace}},
	}
	if err := client.IgnoreAlreadyExists(kube.Create(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	if err := kube.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			dumpStateful(t, name)
		}
		remove(t, c)
		// The test's own context has ended by now.
		for end := time.Now().Add(limitPod); ; time.Sleep(200 * time.Millisecond) {
			left := leftOf(context.Background(), name)
			if left == nil {
				return
			}
			if time.Now().After(end) {
				t.Errorf("of StatefulCluster %s there is still: %v", name, left)
				return
			}
		}
	})
	return c
}

func dumpStateful(t *testing.T, name string) {
	t.Helper()
	for _, args := range [][]string{
		{"kubectl", "describe", "statefulcluster.quarry.storage", name},
		{"kubectl", "get", "pods,persistentvolumeclaims", "-o", "wide"},
		{"kubectl", "get", "nodes"},
		// Of one that ends again and again: what it said last.
		{"kubectl", "logs", "-l", v1alpha1.LabelStatefulCluster + "=" + name, "--all-containers", "--prefix", "--tail=25", "--ignore-errors"},
	} {
		out, err := tryLab(args...)
		t.Logf("%s\n%s%v", strings.Join(args, " "), out, err)
	}
}

// leftOf tells which pods and claims of a StatefulCluster there are; nil when there are none.
func leftOf(ctx context.Context, name string) error {
	of := []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: name}}
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&pods, &claims} {
		if err := kube.List(ctx, list, of...); err != nil {
			return err
		}
	}
	if n, m := len(pods.Items), len(claims.Items); n+m > 0 {
		return fmt.Errorf("%d pods and %d claims", n, m)
	}
	return nil
}

// replicas returns the pods that are not being deleted, by name.
func replicas(t *testing.T, name string) map[string]corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := kube.List(t.Context(), &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: name}); err != nil {
		t.Fatal(err)
	}
	out := map[string]corev1.Pod{}
	for _, p := range list.Items {
		if p.DeletionTimestamp.IsZero() {
			out[p.Name] = p
		}
	}
	return out
}

// waitReplicas waits until a StatefulCluster is Ready for its present spec.
func waitReplicas(t *testing.T, c *v1alpha1.StatefulCluster, want int32) {
	t.Helper()
	eventually(t, limitReplicas, fmt.Sprintf("%d replicas of %s are ready", want, c.Name), func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != c.Generation || c.Status.ReadyReplicas != want {
			return fmt.Errorf("%d are ready, condition %+v", c.Status.ReadyReplicas, ready)
		}
		return nil
	})
}

// claimOf returns the claim of a replica.
func claimOf(t *testing.T, c *v1alpha1.StatefulCluster, p corev1.Pod) *corev1.PersistentVolumeClaim {
	t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	key := client.ObjectKey{Namespace: namespace, Name: c.Name + "-data-" + p.Labels[v1alpha1.LabelIdentity]}
	if err := kube.Get(t.Context(), key, claim); err != nil {
		t.Fatal(err)
	}
	return claim
}

// spareNode returns a node on which no CSI driver's controller runs: Kubernetes takes half a minute or more to make that again elsewhere, and it is not
// what is looked at. Where there is none it returns one without the controllers of these drivers, which have to run by then. The controller of Quarry itself has a second one that takes over.
func spareNode(t *testing.T, drivers ...string) string {
	t.Helper()
	var list corev1.PodList
	if err := kube.List(t.Context(), &list, client.InNamespace(controllerNamespace), client.HasLabels{v1alpha1.LabelDriver}); err != nil {
		t.Fatal(err)
	}
	busy, needed := map[string]bool{}, map[string]bool{}
	for _, p := range list.Items {
		busy[p.Spec.NodeName] = true
		needed[p.Spec.NodeName] = needed[p.Spec.NodeName] || slices.Contains(drivers, p.Labels[v1alpha1.LabelDriver])
	}
	i := slices.IndexFunc(nodes, func(n string) bool { return !busy[n] })
	if i < 0 && len(drivers) > 0 {
		i = slices.IndexFunc(nodes, func(n string) bool { return !needed[n] })
	}
	if i < 0 {
		t.Fatalf("CSI controllers run on every node: %v", slices.Sorted(maps.Keys(busy)))
	}
	return nodes[i]
}

// onlyOn returns the replica on a node, when each replica is on a node of its own.
func onlyOn(t *testing.T, pods map[string]corev1.Pod, node string) corev1.Pod {
	t.Helper()
	on := map[string]corev1.Pod{}
	for _, p := range pods {
		on[p.Spec.NodeName] = p
	}
	found, ok := on[node]
	if !ok || len(on) != len(pods) {
		t.Fatalf("the replicas are on %v", slices.Sorted(maps.Keys(on)))
	}
	return found
}

// undisturbed holds that a replica is the one that it was, and that none of its containers was started again.
func undisturbed(t *testing.T, before, after corev1.Pod) {
	t.Helper()
	if before.UID != after.UID {
		t.Errorf("%s was made again", after.Name)
	}
	for _, c := range after.Status.ContainerStatuses {
		if c.RestartCount != 0 {
			t.Errorf("%s in %s was started again %d times", c.Name, after.Name, c.RestartCount)
		}
	}
}

// waitCapacities waits until the scheduler knows how much room every node has for a class. Until then it puts replicas that would rather be apart on the nodes
// that it knows of.
func waitCapacities(t *testing.T, class string) {
	t.Helper()
	eventually(t, limitPod, "the capacity of every node is published for "+class, func(ctx context.Context) error {
		published := &storagev1.CSIStorageCapacityList{}
		if err := kube.List(ctx, published); err != nil {
			return err
		}
		known := 0
		for _, p := range published.Items {
			if p.StorageClassName == class && p.Capacity != nil && !p.Capacity.IsZero() {
				known++
			}
		}
		if known < len(nodes) {
			return fmt.Errorf("%d of %d", known, len(nodes))
		}
		return nil
	})
}

// TestStatefulClusterReplacesDeadNode: three replicas on three nodes with local volumes, and one node loses its power for good. The
// replica comes back elsewhere with a new identity and a new claim; the other two never restart.
func TestStatefulClusterReplacesDeadNode(t *testing.T) {
	turn(t, 18, 20)
	create(t, newCluster("replicated", nodes...))
	waitReady(t, "replicated", limitPod)
	waitCapacities(t, "replicated")
	c := stateful(t, "replicas", "replicated", 3)
	waitReplicas(t, c, 3)
	before := replicas(t, c.Name)
	victim := spareNode(t)
	dead := onlyOn(t, before, victim)
	oldClaim := claimOf(t, c, dead)

	lab(t, "node", "kill", victim)
	t.Cleanup(func() {
		if _, err := tryLab("node", "start", victim); err != nil {
			t.Error(err)
		}
	})
	eventually(t, limitReplicas, "three replicas are ready without the dead node", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if _, there := replicas(t, c.Name)[dead.Name]; there || c.Status.ReadyReplicas != 3 {
			return fmt.Errorf("%d are ready; the dead one still counts: %t; %+v", c.Status.ReadyReplicas, there, c.Status.Conditions)
		}
		return nil
	})
	after := replicas(t, c.Name)
	if len(after) != 3 {
		t.Errorf("replicas %v", slices.Sorted(maps.Keys(after)))
	}
	for name, p := range after {
		if old, same := before[name]; same {
			undisturbed(t, old, p)
			continue
		}
		claim := claimOf(t, c, p)
		node, _, _ := handle(t, volumeOf(t, claim))
		if node == victim || p.Spec.NodeName != node || claim.UID == oldClaim.UID {
			t.Errorf("the new replica %s is on %s, its claim %s on %s", name, p.Spec.NodeName, claim.Name, node)
		}
	}

	// When the node is back, its kubelet ends the old pod. The claim stays, and is listed.
	lab(t, "node", "start", victim)
	eventually(t, limitReplicas, "the old claim is listed as orphaned", func(ctx context.Context) error {
		if err := kube.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		if !slices.Contains(c.Status.OrphanedClaims, oldClaim.Name) {
			return fmt.Errorf("orphaned are %v", c.Status.OrphanedClaims)
		}
		return nil
	})
	for name, p := range replicas(t, c.Name) {
		undisturbed(t, after[name], p)
	}
}

// TestStatefulClusterScalesAndRolls: more replicas, fewer, another template one by one, and an end that leaves nothing.
func TestStatefulClusterScalesAndRolls(t *testing.T) {
	turn(t, 17, 20)
	create(t, newCluster("scaled", nodes...))
	waitReady(t, "scaled", limitPod)
	waitCapacities(t, "scaled")
	c := stateful(t, "scaling", "scaled", 1, func(c *v1alpha1.StatefulCluster) {
		c.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.ClaimRetention{WhenScaled: v1alpha1.DeleteClaims, WhenReplaced: v1alpha1.DeleteClaims}
	})
	waitReplicas(t, c, 1)
	lab(t, "kubectl", "scale", "statefulcluster.quarry.storage/scaling", "--replicas=3")
	waitReplicas(t, c, 3)
	lab(t, "kubectl", "scale", "statefulcluster.quarry.storage/scaling", "--replicas=2")
	waitReplicas(t, c, 2)
	waitClaims(t, c, 2)
	first := replicas(t, c.Name)

	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(c), c); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(c.DeepCopy())
	c.Spec.Template.Spec = template(t, "2")
	if err := kube.Patch(t.Context(), c, patch); err != nil {
		t.Fatal(err)
	}
	waitReplicas(t, c, 2)
	for name, p := range replicas(t, c.Name) {
		if _, old := first[name]; old || p.Spec.Containers[0].Env[0].Value != "2" {
			t.Errorf("%s has template %v", name, p.Spec.Containers[0].Env)
		}
		if out := inPod(t, &p, "cat /data/who"); strings.TrimSpace(out) != name {
			t.Errorf("the volume of %s was written by %q", name, out)
		}
	}
	waitClaims(t, c, 2)

	remove(t, c)
	eventually(t, limitPod, "pods and claims are gone", func(ctx context.Context) error { return leftOf(ctx, c.Name) })
	eventually(t, limitPod, "the volumes are gone", func(ctx context.Context) error {
		var list corev1.PersistentVolumeList
		if err := kube.List(ctx, &list); err != nil {
			return err
		}
		for _, v := range list.Items {
			if v.Spec.StorageClassName == "scaled" {
				return fmt.Errorf("%s is %s", v.Name, v.Status.Phase)
			}
		}
		return nil
	})
}

// waitClaims waits until as many claims are there: those of replicas that left are collected.
func waitClaims(t *testing.T, c *v1alpha1.StatefulCluster, want int) {
	t.Helper()
	eventually(t, limitPod, fmt.Sprintf("%d claims of %s are left", want, c.Name), func(ctx context.Context) error {
		var list corev1.PersistentVolumeClaimList
		if err := kube.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelStatefulCluster: c.Name}); err != nil {
			return err
		}
		if len(list.Items) != want {
			return fmt.Errorf("there are %d", len(list.Items))
		}
		return nil
	})
}
