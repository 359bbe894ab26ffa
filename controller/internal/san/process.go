package san

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Roles of the processes that work on shared groups. Of each role one process works at a time.
const (
	RoleEngine = "engine"
	RoleCSI    = "csi"
)

// ProcessName returns a name that no other process ever had: its role, its pod if that is known, and a random text.
func ProcessName(role, pod string) string {
	return strings.Join([]string{role, pod, string(uuid.NewUUID())}, "/")
}

// Processes tells which other processes are gone.
type Processes interface {
	// Gone reports whether a process is known to have ended. What cannot be told is not known.
	Gone(ctx context.Context, name string) bool
}

// Pods tells it by the pods of the processes. Live asks the API server itself.
type Pods struct {
	Live      client.Reader
	Namespace string
}

// Gone reports whether the pod of a process is not there any more, or has ended. A pod that was deleted by force may run on: what it still sends is of an earlier
// epoch, as after any process that is taken for gone.
func (p Pods) Gone(ctx context.Context, name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 3 || parts[1] == "" {
		// The name is of a version before pods were in it, or of a process outside a pod.
		return false
	}
	pod := &corev1.Pod{}
	err := p.Live.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: parts[1]}, pod)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
