package setup

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// replicasAreKept makes a StatefulCluster, lets the controller work in its namespace, moves its pods on as the node would, scales it down, and sees what the controller can do with
// its own rights.
func replicasAreKept(t *testing.T, admin client.Client, node string) {
	t.Helper()
	ctx := context.Background()
	c := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	c.Spec.Replicas = new(int32(2))
	c.Spec.Selector.MatchLabels = map[string]v1alpha1.LabelValue{"app": "db"}
	c.Spec.Template.Metadata.Labels = c.Spec.Selector.MatchLabels
	c.Spec.Template.Spec = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"main","image":"image"}]}`)}
	c.Spec.VolumeClaimTemplates = []v1alpha1.ClaimTemplate{{
		Metadata: v1alpha1.ClaimMetadata{Name: "data"},
		Spec:     runtime.RawExtension{Raw: []byte(`{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}`)},
	}}
	if err := admin.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	await(t, "the right that is missing is named", func() string {
		if err := admin.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err.Error()
		}
		ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonAccessDenied || !strings.Contains(ready.Message, "ClusterRole quarry-statefulcluster") {
			return fmt.Sprintf("%+v", ready)
		}
		return ""
	})
	bind(t, admin, "default", "quarry-statefulcluster")
	answers(t, admin, node)
	await(t, "two replicas", func() string {
		for _, p := range replicasOf(t, admin) {
			if p.Spec.NodeName == "" {
				runOn(t, admin, &p, node)
			}
		}
		return statusIs(admin, c, 2)
	})
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: c.Status.UpdateRevision}}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(revision), revision); err != nil || !metav1.IsControlledBy(revision, c) {
		t.Errorf("the template is not remembered as %q: %v, %+v", c.Status.UpdateRevision, err, revision.OwnerReferences)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(ctx, &claims, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelStatefulCluster: "db"}); err != nil {
		t.Fatal(err)
	}
	for _, claim := range claims.Items {
		if !metav1.IsControlledBy(&claim, c) {
			t.Errorf("claim %s: %+v", claim.Name, claim.OwnerReferences)
		}
	}
	c = replicasAreAdopted(t, admin, c, revision)
	c.Spec.Replicas = new(int32(1))
	if err := admin.Update(ctx, c); err != nil {
		t.Fatal(err)
	}
	await(t, "one replica is evicted", func() string { return statusIs(admin, c, 1) })
	if err := admin.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// replicasAreAdopted deletes a StatefulCluster as with --cascade=orphan, doing the work of the garbage collector, and makes it again. Its pods run on under the new one.
func replicasAreAdopted(t *testing.T, admin client.Client, c *v1alpha1.StatefulCluster, revision *appsv1.ControllerRevision) *v1alpha1.StatefulCluster {
	t.Helper()
	ctx := context.Background()
	pods := replicasOf(t, admin)
	claims := claimsAreBound(t, admin)
	if err := admin.Delete(ctx, c, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	dependents := []client.Object{revision}
	for i := range pods {
		dependents = append(dependents, &pods[i], &claims[i])
	}
	for _, o := range dependents {
		if err := admin.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Patch(ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	again := &v1alpha1.StatefulCluster{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Spec: c.Spec}
	if err := admin.Create(ctx, again); err != nil {
		t.Fatal(err)
	}
	await(t, "both are adopted", func() string { return statusIs(admin, again, 2) })
	for _, o := range dependents {
		uid := o.GetUID()
		if err := admin.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil || o.GetUID() != uid || !metav1.IsControlledBy(o, again) {
			t.Errorf("%T %s is not adopted: %v, %+v", o, o.GetName(), err, o.GetOwnerReferences())
		}
	}
	if now := replicasOf(t, admin); len(now) != 2 {
		t.Errorf("%d pods", len(now))
	}
	return again
}

// claimsAreBound does what binds claims to their volumes.
func claimsAreBound(t *testing.T, admin client.Client) []corev1.PersistentVolumeClaim {
	t.Helper()
	ctx := context.Background()
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(ctx, &claims, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelStatefulCluster: "db"}); err != nil {
		t.Fatal(err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if err := admin.Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"volumeName":"pv-`+claim.Name+`"}}`))); err != nil {
			t.Fatal(err)
		}
		// The controller may write at the same time.
		if err := admin.Status().Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`))); err != nil {
			t.Fatal(err)
		}
	}
	return claims.Items
}

// TestWorkloadCache_keepsWhatIsDecidedOn: what the cache drops is taken for not there.
func TestWorkloadCache_keepsWhatIsDecidedOn(t *testing.T) {
	kept := map[string]string{
		v1alpha1.AnnotationReplicaState: "Filled", v1alpha1.AnnotationTemplateBase: "b", v1alpha1.AnnotationUpdated: "u", corev1.PodDeletionCost: "3",
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"large": "x"}}, Spec: corev1.PodSpec{NodeName: "n1", Hostname: "p"}}
	maps.Copy(p.Annotations, kept)
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", ContainerID: "c://1"}}
	p.Status.InitContainerStatuses = p.Status.ContainerStatuses
	p.Spec.Volumes = []corev1.Volume{
		{Name: "large", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}},
	}
	out, err := stripReplica(p)
	if err != nil {
		t.Fatal(err)
	}
	got := out.(*corev1.Pod)
	if !maps.Equal(got.Annotations, kept) || got.Spec.NodeName != "n1" || got.Spec.Hostname != "" || len(got.Status.ContainerStatuses)+len(got.Status.InitContainerStatuses) != 2 || p.Annotations["large"] != "x" {
		t.Errorf("%+v", got)
	}
	if len(got.Spec.Volumes) != 1 || got.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "c" {
		t.Errorf("the claims that it uses: %+v", got.Spec.Volumes)
	}
	n := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}, PodCIDR: "x"}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}, {Type: corev1.NodeDiskPressure}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("110")}
	if out, err = stripNode(n); err != nil {
		t.Fatal(err)
	}
	if got := out.(*corev1.Node); !got.Spec.Unschedulable || len(got.Spec.Taints) != 1 || got.Spec.PodCIDR != "" || len(got.Status.Conditions) != 1 || len(got.Status.Allocatable) != 1 {
		t.Errorf("%+v", got)
	}
}

// answers has a node be ready: of one whose kubelet never said so, nothing is believed.
func answers(t *testing.T, admin client.Client, name string) {
	t.Helper()
	n := &corev1.Node{}
	if err := admin.Get(context.Background(), client.ObjectKey{Name: name}, n); err != nil {
		t.Fatal(err)
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
	if err := admin.Status().Update(context.Background(), n); err != nil {
		t.Fatal(err)
	}
}

func statusIs(admin client.Client, c *v1alpha1.StatefulCluster, ready int32) string {
	if err := admin.Get(context.Background(), client.ObjectKeyFromObject(c), c); err != nil {
		return err.Error()
	}
	if c.Status.Replicas != ready || c.Status.ReadyReplicas != ready || c.Status.ObservedGeneration != c.Generation {
		return fmt.Sprintf("%+v", c.Status)
	}
	return ""
}

func replicasOf(t *testing.T, admin client.Client) []corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	if err := admin.List(context.Background(), &pods, client.InNamespace("default"), client.MatchingLabels{v1alpha1.LabelStatefulCluster: "db"}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// runOn does what a scheduler and a kubelet do.
func runOn(t *testing.T, admin client.Client, p *corev1.Pod, node string) {
	t.Helper()
	ctx := context.Background()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := admin.SubResource("binding").Create(ctx, p, binding); err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if err := admin.Status().Update(ctx, p); err != nil {
		t.Fatal(err)
	}
}
