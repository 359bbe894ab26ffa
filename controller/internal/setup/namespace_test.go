package setup

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/agentpod"
	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/reconcile/handover"
)

// try asks the API server whether a pod of this template would be admitted, and makes none.
func try(admin client.Client, in string, template corev1.PodTemplateSpec) error {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, GenerateName: "try-", Labels: template.Labels}, Spec: template.Spec}
	return admin.Create(context.Background(), p, client.DryRunAll)
}

// TestDeploy_podSecurity: the controllers' namespace is restricted, and its pods are admitted there; those of agents are not.
func TestDeploy_podSecurity(t *testing.T) {
	admin := apitest.Client(t)
	install(t)
	controller, agent := &appsv1.Deployment{}, &appsv1.DaemonSet{}
	if err := errors.Join(
		admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "quarry-controller"}, controller),
		admin.Get(t.Context(), client.ObjectKey{Namespace: agentNamespace, Name: agentpod.DaemonSet}, agent),
	); err != nil {
		t.Fatal(err)
	}
	if err := try(admin, namespace, controller.Spec.Template); err != nil {
		t.Errorf("the controller: %v", err)
	}
	if err := try(admin, agentNamespace, agent.Spec.Template); err != nil {
		t.Errorf("an agent: %v", err)
	}
	if err := try(admin, namespace, agent.Spec.Template); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("an agent beside the controller: %v", err)
	}
	if err := try(admin, namespace, corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}); err == nil {
		t.Error("a pod that says nothing of its rights is admitted beside the controller")
	}
}

// admitsDrivers looks at the Deployments that the controller itself makes.
func admitsDrivers(t *testing.T, admin client.Client) {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "quarry-csi-lvm"}, d); err != nil {
		t.Fatal(err)
	}
	if err := try(admin, namespace, d.Spec.Template); err != nil {
		t.Errorf("the driver: %v", err)
	}
}

// TestDeploy_neverTwoAgents: what keeps an agent off a node that has another, of an earlier version in the other namespace or of this one.
func TestDeploy_neverTwoAgents(t *testing.T) {
	agent := decode(t, "base/agent.yaml", func(o *appsv1.DaemonSet) bool { return o.Kind == "DaemonSet" })[0]
	pod := agent.Spec.Template.Spec
	if agent.Namespace != defaultAgentNamespace || agent.Name != agentpod.DaemonSet || agent.Spec.Template.Labels[agentpod.Label] != agentpod.Value {
		t.Errorf("DaemonSet %s/%s is not where the controller looks for it", agent.Namespace, agent.Name)
	}
	if !keepsAway(pod.Affinity) {
		t.Error("an agent may be scheduled beside one of before, in namespace " + namespace)
	}
	if u := agent.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge != nil {
		t.Error("the next agent starts before the last one has ended")
	}
	// The lock of agent/internal/host/sole, and the processes of others.
	if !mountsHost(pod, "/var/lib/quarry/lvm") || !pod.HostPID {
		t.Error("agents do not see each other: they need the directory of the lock from the host, and hostPID")
	}
}

// keepsAway reports whether a pod is not scheduled beside an agent in the controllers' namespace.
func keepsAway(a *corev1.Affinity) bool {
	if a == nil || a.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		return term.TopologyKey == corev1.LabelHostname && slices.Equal(term.Namespaces, []string{namespace}) &&
			maps.Equal(term.LabelSelector.MatchLabels, map[string]string{agentpod.Label: agentpod.Value})
	})
}

// mountsHost reports whether a pod has a directory of the host mounted at the same path.
func mountsHost(pod corev1.PodSpec, path string) bool {
	return slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && v.HostPath.Path == path &&
			slices.ContainsFunc(pod.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name && m.MountPath == path })
	})
}

// installEarlier makes what a version left that had its agents beside the controller: a DaemonSet with a pod on n1 and n2.
func installEarlier(t *testing.T, admin client.Client) (*appsv1.DaemonSet, []*corev1.Pod) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: agentpod.DaemonSet}
	labels := map[string]string{agentpod.Label: agentpod.Value}
	set := &appsv1.DaemonSet{ObjectMeta: meta}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: "agent"}}
	objects := []client.Object{set, &corev1.ServiceAccount{ObjectMeta: meta}, &networkingv1.NetworkPolicy{ObjectMeta: meta}}
	// The namespace admitted these pods when it was not restricted.
	privileged := func(level string) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"` + level + `"}}}`)
		if err := admin.Patch(t.Context(), ns, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	privileged("privileged")
	defer privileged("restricted")
	var pods []*corev1.Pod
	for _, node := range []string{"n1", "n2"} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "earlier-" + node, Labels: labels}, Spec: set.Spec.Template.Spec}
		p.Spec.NodeName = node
		pods, objects = append(pods, p), append(objects, p)
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range pods {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := admin.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return set, pods
}

// TestHandover_withItsOwnRights: the agents of before end one after the other, and nothing of them is left in the end.
func TestHandover_withItsOwnRights(t *testing.T) {
	admin := apitest.Client(t)
	install(t)
	set, pods := installEarlier(t, admin)
	r := &handover.Runner{Client: clientOf(t, as(t, "quarry-controller")), Earlier: namespace, Later: agentNamespace, Pause: time.Hour, Log: logr.Discard()}
	// step does one, and looks at the pods: "+" stays, "x" is being deleted, "-" is gone.
	step := func(when, want string) {
		t.Helper()
		if _, err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := states(t, admin, pods); got != want {
			t.Fatalf("%s: pods %s, want %s", when, got, want)
		}
	}
	step("the DaemonSet of now was counted by nobody", "++")
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || !set.DeletionTimestamp.IsZero() {
		t.Fatalf("the DaemonSet of before goes: %v", err)
	}
	report(t, admin, 2, 0)
	step("the DaemonSet goes", "++")
	step("while the DaemonSet is being deleted", "++")
	collect(t, admin, set)
	step("one node of two may be without an agent", "x+")
	step("the first is ending", "x+")
	kubeletEnds(t, admin, pods[0])
	step("its next agent is not ready", "-+")
	report(t, admin, 2, 1)
	step("its next agent is ready", "-x")
	kubeletEnds(t, admin, pods[1])
	// It comes to an end by itself.
	if err := r.Start(t.Context()); err != nil {
		t.Error(err)
	}
	for _, o := range []client.Object{&appsv1.DaemonSet{}, &corev1.ServiceAccount{}, &networkingv1.NetworkPolicy{}} {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: agentpod.DaemonSet}, o); !apierrors.IsNotFound(err) {
			t.Errorf("%T is left: %v", o, err)
		}
	}
}

// states shows which pods stay, are being deleted, and are gone.
func states(t *testing.T, admin client.Client, pods []*corev1.Pod) (out string) {
	t.Helper()
	for _, p := range pods {
		switch err := admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); {
		case apierrors.IsNotFound(err):
			out += "-"
		case err != nil:
			t.Fatal(err)
		case p.DeletionTimestamp.IsZero():
			out += "+"
		default:
			out += "x"
		}
	}
	return out
}

// collect does what the garbage collector does with a DaemonSet whose pods are to stay: they belong to nobody from now on.
func collect(t *testing.T, admin client.Client, set *appsv1.DaemonSet) {
	t.Helper()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || !slices.Equal(set.Finalizers, []string{"orphan"}) {
		t.Fatalf("the DaemonSet is not deleted so that its pods stay: %v %v", set.Finalizers, err)
	}
	set.Finalizers = nil
	if err := admin.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// report says how many nodes are to have an agent of now, and how many have one that is ready.
func report(t *testing.T, admin client.Client, wanted, ready int32) {
	t.Helper()
	d := &appsv1.DaemonSet{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: agentNamespace, Name: agentpod.DaemonSet}, d); err != nil {
		t.Fatal(err)
	}
	d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation, DesiredNumberScheduled: wanted, NumberReady: ready}
	if err := admin.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// kubeletEnds does what a kubelet does once the containers of a pod have ended.
func kubeletEnds(t *testing.T, admin client.Client, p *corev1.Pod) {
	t.Helper()
	if err := admin.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}
