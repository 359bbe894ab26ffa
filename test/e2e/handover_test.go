//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podEvent is what test/upgrade/watch writes down.
type podEvent struct {
	Type   string
	Object corev1.Pod
}

// TestAgentsTakeTurns looks at an upgrade from a version whose agents ran beside the controller: at no time did two agents work on one node,
// and nothing is left of those of before. UPGRADE_AGENTS names what test/upgrade/watch wrote down.
func TestAgentsTakeTurns(t *testing.T) {
	path := os.Getenv("UPGRADE_AGENTS")
	if path == "" {
		t.Skip("no upgrade was watched: make upgrade does that")
	}
	events := readEvents(t, path)
	for node, seen := range checkTurns(t, events) {
		if want := []string{controllerNamespace, agentNamespace}; !slices.Equal(slices.Compact(seen), want) {
			t.Errorf("the agents of %s ran in the namespaces %v, not one after the other in %v", node, seen, want)
		}
	}
	for _, o := range []client.Object{&appsv1.DaemonSet{}, &corev1.ServiceAccount{}, &networkingv1.NetworkPolicy{}} {
		key := client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-agent"}
		if err := kube.Get(t.Context(), key, o); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s of before is left: %v", o, key, err)
		}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: controllerNamespace}}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(ns), ns); err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("the controllers' namespace has the labels %v, %v", ns.Labels, err)
	}
	for _, node := range nodes {
		pod := agentPod(t, node)
		if holder := onNode(t, node, "cat /var/lib/quarry/lvm/agent.lock"); !strings.HasPrefix(holder, pod.Name+" ") {
			t.Errorf("%s: the turn is that of %q, the agent is %s", node, holder, pod.Name)
		}
	}
}

func readEvents(t *testing.T, path string) (out []podEvent) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		var e podEvent
		switch err := d.Decode(&e); {
		// The watch was ended while it wrote, perhaps.
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, e)
	}
}

// checkTurns fails when two agents ran on one node. It returns the namespaces of those that ran there, in their order.
func checkTurns(t *testing.T, events []podEvent) map[string][]string {
	t.Helper()
	pods, seen := map[types.UID]corev1.Pod{}, map[string][]string{}
	for _, node := range nodes {
		seen[node] = nil
	}
	for _, e := range events {
		if e.Type == "DELETED" {
			delete(pods, e.Object.UID)
			continue
		}
		pods[e.Object.UID] = e.Object
		working := map[string][]string{}
		for _, p := range pods {
			if runs(p) {
				working[p.Spec.NodeName] = append(working[p.Spec.NodeName], p.Namespace+"/"+p.Name)
			}
		}
		for node, names := range working {
			if len(names) > 1 {
				t.Errorf("two agents on %s: %v", node, names)
			}
		}
		if p := e.Object; runs(p) {
			seen[p.Spec.NodeName] = append(seen[p.Spec.NodeName], p.Namespace)
		}
	}
	t.Log(fmt.Sprintf("%d events, ", len(events)), seen)
	return seen
}

// runs reports whether the container of an agent runs.
func runs(p corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}
