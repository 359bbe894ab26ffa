package san

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/controller/internal/apitest"
)

func TestProcessName(t *testing.T) {
	a, b := ProcessName(RoleCSI, "pod-1"), ProcessName(RoleCSI, "pod-1")
	if a == b || !strings.HasPrefix(a, "csi/pod-1/") {
		t.Errorf("%s, %s", a, b)
	}
	if !sameRole(a, b) || sameRole(a, ProcessName(RoleEngine, "pod-1")) {
		t.Error("a role is known by the first part")
	}
}

// TestPods_gone: a process is gone with its pod. Nothing is known of one without a pod in its name, nor while the API server does not say.
func TestPods_gone(t *testing.T) {
	c := apitest.Client(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "processes-"}}
	if err := c.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	for name, phase := range map[string]corev1.PodPhase{"running": corev1.PodRunning, "failed": corev1.PodFailed, "done": corev1.PodSucceeded} {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "driver", Image: "x"}}},
		}
		if err := c.Create(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.Status.Phase = phase
		if err := c.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	pods := Pods{Live: c, Namespace: ns.Name}
	for name, want := range map[string]bool{
		ProcessName(RoleCSI, "running"): false, ProcessName(RoleCSI, "failed"): true, ProcessName(RoleCSI, "done"): true, ProcessName(RoleCSI, "other"): true,
		ProcessName(RoleCSI, ""): false, "csi/6d1f8f3e": false, "engine/0123456789abcdef": false, "": false,
	} {
		if got := pods.Gone(t.Context(), name); got != want {
			t.Errorf("%q is gone: %t", name, got)
		}
	}
	if (Pods{Live: silent{c}, Namespace: ns.Name}).Gone(t.Context(), ProcessName(RoleCSI, "other")) {
		t.Error("an API server that does not answer knows nothing")
	}
}

// silent is an API server that does not answer.
type silent struct{ client.Reader }

func (silent) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}
