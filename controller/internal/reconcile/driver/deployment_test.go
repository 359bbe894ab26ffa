package driver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quarry.storage/quarry/controller/internal/decide/backend"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// withCluster runs the reconciler for one Cluster, and sees to it that nothing of both is left.
func withCluster(t *testing.T, r *Reconciler) *appsv1.Deployment {
	t.Helper()
	c := newCluster("one")
	must(t, r.Client.Create(t.Context(), c))
	t.Cleanup(func() { leave(t, r, c) })
	run(t, r)
	d, _ := deployed(t, r)
	if d == nil {
		t.Fatal("no driver is deployed")
	}
	return d
}

func containerOf(t *testing.T, d *appsv1.Deployment, name string) corev1.Container {
	t.Helper()
	i := slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no container %s", name)
	}
	return d.Spec.Template.Spec.Containers[i]
}

func TestReconcile_argumentsOfTheContainers(t *testing.T) {
	r := reconciler(t)
	r.Verbosity = 4
	d := withCluster(t, r)
	elected := []string{"--csi-address=/csi/csi.sock", "--leader-election", "--leader-election-namespace=" + namespace, "--v=5"}
	limits := []string{"--timeout=60s", "--retry-interval-max=1m"}
	for name, want := range map[string][]string{
		Driver: {"csi", "--driver=" + v1alpha1.DriverLVM, "--csi-address=/csi/csi.sock", "--v=4"},
		Provisioner: slices.Concat(elected, limits, []string{
			"--feature-gates=Topology=true", "--strict-topology", "--immediate-topology=false", "--extra-create-metadata",
			"--enable-capacity", "--capacity-ownerref-level=2",
		}),
		Resizer:     slices.Concat(elected, limits),
		Snapshotter: slices.Concat(elected, limits, []string{"--extra-create-metadata"}),
	} {
		c := containerOf(t, d, name)
		for _, arg := range want {
			if !slices.Contains(c.Args, arg) {
				t.Errorf("%s lacks %s: %v", name, arg, c.Args)
			}
		}
		if len(c.Args) != len(slices.Compact(slices.Sorted(slices.Values(c.Args)))) {
			t.Errorf("%s has an argument twice: %v", name, c.Args)
		}
		for _, arg := range c.Args {
			if strings.HasPrefix(arg, "--leader-election") && name == Driver {
				t.Errorf("the driver elects a leader: it keeps no state")
			}
		}
	}
	if n := len(d.Spec.Template.Spec.Containers); n != 4 {
		t.Errorf("%d containers, want the driver and three sidecars; local volumes are not attached", n)
	}
}

// TestDeployment_strategy: two processes of a driver that attaches would take each other's turn at a shared LUN.
func TestDeployment_strategy(t *testing.T) {
	r := &Reconciler{Namespace: namespace}
	for attach, want := range map[bool]appsv1.DeploymentStrategyType{true: appsv1.RecreateDeploymentStrategyType, false: ""} {
		got := appsv1.DeploymentStrategyType("")
		if s := r.deployment(backend.Driver{Name: "d", Deployment: "d", Attach: attach}).Spec.Strategy; s != nil {
			got = *s.Type
		}
		if got != want {
			t.Errorf("a driver of which Attach is %t is rolled out by %q, want %q", attach, got, want)
		}
	}
}

// TestReconcile_leavesASilentNode: a driver on a node that fell silent is made again elsewhere before a person has vouched for the node, and not five minutes later.
func TestReconcile_leavesASilentNode(t *testing.T) {
	d := withCluster(t, reconciler(t))
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		found := 0
		for _, is := range d.Spec.Template.Spec.Tolerations {
			if !is.ToleratesTaint(klog.Background(), &corev1.Taint{Key: taint, Effect: corev1.TaintEffectNoExecute}, false) {
				continue
			}
			found++
			if is.TolerationSeconds == nil || *is.TolerationSeconds < 10 || *is.TolerationSeconds > 60 {
				t.Errorf("the driver stays on a node with %s: %+v", taint, is)
			}
		}
		if found != 1 {
			t.Errorf("%d tolerations of %s, want one: Kubernetes adds its own otherwise", found, taint)
		}
	}
	for _, is := range d.Spec.Template.Spec.Tolerations {
		if is.ToleratesTaint(klog.Background(), &corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}, false) {
			t.Errorf("the driver stays on a node that is out of service: %+v", is)
		}
	}
}

func TestReconcile_containersAreConfined(t *testing.T) {
	r := reconciler(t)
	d := withCluster(t, r)
	pod := d.Spec.Template.Spec
	if s := pod.SecurityContext; s == nil || !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("security context of the pod: %+v", s)
	}
	if pod.ServiceAccountName != serviceAccount || pod.HostNetwork || pod.HostPID {
		t.Errorf("service account %s, host network %t, host pids %t", pod.ServiceAccountName, pod.HostNetwork, pod.HostPID)
	}
	for _, v := range pod.Volumes {
		if v.EmptyDir == nil {
			t.Errorf("volume %s is not the pod's own", v.Name)
		}
	}
	for _, c := range pod.Containers {
		checkConfined(t, c)
	}
}

func checkConfined(t *testing.T, c corev1.Container) {
	t.Helper()
	s := c.SecurityContext
	if s == nil || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !slices.Contains(s.Capabilities.Drop, "ALL") || s.Privileged != nil {
		t.Errorf("security context of %s: %+v", c.Name, s)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() {
		t.Errorf("%s requests nothing", c.Name)
	}
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"="+e.ValueFrom.FieldRef.FieldPath)
	}
	variable := "NAMESPACE=metadata.namespace"
	if c.Name == Driver {
		variable = "POD_NAMESPACE=metadata.namespace"
	}
	if diff := cmp.Diff([]string{variable, "POD_NAME=metadata.name"}, env); diff != "" {
		t.Errorf("environment of %s: %s", c.Name, diff)
	}
}

func imagesOf(d *appsv1.Deployment) map[string]string {
	images := map[string]string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		images[c.Name] = c.Image
	}
	return images
}

func TestReconcile_imagesFromAMirrorAndOverridden(t *testing.T) {
	r := reconciler(t)
	images, err := NewImages("mirror.example:5000/quarry/controller:v1", "mirror.example:5000/k8s", "csi-resizer=x.example/r@sha256:00")
	must(t, err)
	r.Images = images
	d := withCluster(t, r)
	want := map[string]string{
		Driver:      "mirror.example:5000/quarry/controller:v1",
		Provisioner: "mirror.example:5000/k8s/csi-provisioner:" + versions[Provisioner],
		Resizer:     "x.example/r@sha256:00",
		Snapshotter: "mirror.example:5000/k8s/csi-snapshotter:" + versions[Snapshotter],
	}
	if diff := cmp.Diff(want, imagesOf(d)); diff != "" {
		t.Error(diff)
	}
	// A controller of a new version brings the driver along.
	if r.Images, err = NewImages("mirror.example:5000/quarry/controller:v2", "mirror.example:5000/k8s", ""); err != nil {
		t.Fatal(err)
	}
	run(t, r)
	d, _ = deployed(t, r)
	want[Driver], want[Resizer] = "mirror.example:5000/quarry/controller:v2", "mirror.example:5000/k8s/csi-resizer:"+versions[Resizer]
	if diff := cmp.Diff(want, imagesOf(d)); diff != "" {
		t.Error(diff)
	}
}

func TestReconcile_bringsBackWhatWasChanged(t *testing.T) {
	r := reconciler(t)
	d := withCluster(t, r)
	d.Spec.Replicas = new(int32(0))
	d.Spec.Template.Spec.Containers[0].Image = "elsewhere.example/driver:x"
	must(t, r.Client.Update(t.Context(), d))
	run(t, r)
	d, _ = deployed(t, r)
	if *d.Spec.Replicas != 1 || containerOf(t, d, Driver).Image != r.Images[Driver] {
		t.Errorf("%d replicas of %s", *d.Spec.Replicas, containerOf(t, d, Driver).Image)
	}
	must(t, r.Client.Delete(t.Context(), d))
	run(t, r)
	if d, _ = deployed(t, r); d == nil {
		t.Error("a deleted Deployment is not made again")
	}
}

func TestState_followsTheDeployment(t *testing.T) {
	r := reconciler(t)
	state := func() string {
		s, err := r.State(t.Context(), v1alpha1.DriverLVM)
		must(t, err)
		return fmt.Sprintf("exists %t, ready %t, failed %t", s.Exists, s.Ready, s.Failed != "")
	}
	want := func(what, want string) {
		t.Helper()
		if got := state(); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	want("before the first Cluster", "exists false, ready false, failed false")
	d := withCluster(t, r)
	want("just deployed", "exists true, ready false, failed false")
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: "the image cannot be pulled",
	}}
	must(t, r.Client.Status().Update(t.Context(), d))
	want("stuck", "exists true, ready false, failed true")
	d.Status.Conditions = nil
	d.Status.Replicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 1, 1, 1
	must(t, r.Client.Status().Update(t.Context(), d))
	want("available", "exists true, ready true, failed false")
}
