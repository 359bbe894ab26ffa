//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// TestAgentAnswersGrpcurl looks at an agent the way the README says, and without its certificate gets nothing.
func TestAgentAnswersGrpcurl(t *testing.T) {
	address, ca, ours := agentAccess(t, "n1")

	services, err := grpcurl(append(ours, address, "list")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"quarry.agent.v1.NodeService", "quarry.agent.v1.DeviceService", "quarry.agent.v1.VolumeGroupService", "grpc.health.v1.Health"} {
		if !strings.Contains(services, s) {
			t.Errorf("%s is not listed:\n%s", s, services)
		}
	}
	for method, want := range map[string]string{
		"quarry.agent.v1.NodeService/GetNode":                 `"nodeName": "n1"`,
		"quarry.agent.v1.DeviceService/ListDevices":           `"kernelName": "ubdb"`,
		"quarry.agent.v1.VolumeGroupService/ListVolumeGroups": `{`,
		"grpc.health.v1.Health/Check":                         `SERVING`,
	} {
		out, err := grpcurl(append(ours, address, method)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", method, err, out)
		}
	}
	for name, args := range map[string][]string{
		"without a certificate":  append(ca, address, "list"),
		"as another node's name": append(append([]string{}, ours...), "-servername", "n2", address, "list"),
		"in plaintext":           {"-plaintext", address, "list"},
	} {
		if out, err := grpcurl(args...); err == nil {
			t.Errorf("%s the agent answers:\n%s", name, out)
		}
	}
}

// agentAccess returns the address of an agent, and grpcurl's arguments: those for its certificate only, and those for ours too.
func agentAccess(t *testing.T, node string) (address string, ca, ours []string) {
	t.Helper()
	dir := t.TempDir()
	secret := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-controller-client"}, secret); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ca = []string{"-cacert", filepath.Join(dir, "ca.crt"), "-servername", node}
	ours = append(slices.Clone(ca), "-cert", filepath.Join(dir, "tls.crt"), "-key", filepath.Join(dir, "tls.key"))
	return agentPod(t, node).Status.PodIP + ":7443", ca, ours
}

// agentCaller returns a function that calls a method of a node's agent with a request in JSON, as the controller would. It asks for the
// agent's address at each call, since other tests restart nodes. A call that reached no agent is made again.
func agentCaller(t *testing.T, node string) func(method, request string) (string, error) {
	t.Helper()
	return func(method, request string) (out string, err error) {
		t.Helper()
		for deadline := time.Now().Add(limitReady); ; time.Sleep(time.Second) {
			address, _, ours := agentAccess(t, node)
			out, err = grpcurl(append(ours, "-d", request, address, method)...)
			if err == nil || !strings.Contains(err.Error(), "Failed to dial target host") || time.Now().After(deadline) {
				return out, err
			}
		}
	}
}

// grpcurl runs in the lab's network, where the agents' addresses are.
func grpcurl(args ...string) (string, error) {
	path := os.Getenv("GRPCURL")
	if path == "" {
		var err error
		if path, err = exec.LookPath("grpcurl"); err != nil {
			return "", err
		}
	}
	return tryLab(append([]string{"netns", "--", path, "-max-time", "20"}, args...)...)
}

// agentPod returns the agent of a node, and waits for it if the node is between two agents.
func agentPod(t *testing.T, node string) (agent *corev1.Pod) {
	t.Helper()
	find := func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := kube.List(ctx, pods, client.InNamespace(agentNamespace)); err != nil {
			return err
		}
		for i, p := range pods.Items {
			if p.Spec.NodeName == node && strings.HasPrefix(p.Name, "quarry-agent-") && p.DeletionTimestamp == nil && p.Status.PodIP != "" {
				agent = &pods.Items[i]
				return nil
			}
		}
		return fmt.Errorf("no agent on %s", node)
	}
	if find(t.Context()) != nil {
		eventually(t, limitReady, node+" has an agent", find)
	}
	return agent
}

// TestAgentAccountMayDoNothingElse asks the API server what a stolen token of an agent is worth.
func TestAgentAccountMayDoNothingElse(t *testing.T) {
	const account = "--as=system:serviceaccount:" + agentNamespace + ":quarry-agent"
	can := func(args ...string) bool {
		out, _ := tryLab(append([]string{"kubectl", "auth", "can-i", account}, args...)...) // Exit code 1 says no.
		return strings.HasPrefix(strings.TrimSpace(out), "yes")
	}
	if !can("create", "certificatesigningrequests.certificates.k8s.io") {
		t.Error("the agent may not create certificate requests")
	}
	for _, args := range [][]string{
		{"list", "certificatesigningrequests.certificates.k8s.io"},
		{"watch", "certificatesigningrequests.certificates.k8s.io"},
		{"update", "certificatesigningrequests.certificates.k8s.io"},
		{"delete", "certificatesigningrequests.certificates.k8s.io"},
		{"update", "certificatesigningrequests.certificates.k8s.io", "--subresource=approval"},
		{"update", "certificatesigningrequests.certificates.k8s.io", "--subresource=status"},
		{"get", "secrets", "--all-namespaces"},
		{"get", "nodes"},
		{"patch", "nodes"},
		{"get", "clusters.quarry.storage"},
		{"patch", "storagenodes.quarry.storage"},
		{"list", "pods", "--all-namespaces"},
		{"create", "pods", "--all-namespaces"},
		{"get", "persistentvolumes"},
	} {
		if can(args...) {
			t.Errorf("the agent's account may %s", strings.Join(args, " "))
		}
	}
}

// TestPowerCut takes the power from a node: the member goes offline, the others go on, and it comes back by itself.
func TestPowerCut(t *testing.T) {
	turn(t, 7, 20)
	const name = "power-cut"
	create(t, newCluster(name, nodes...))
	waitReady(t, name, limitReady)
	lab(t, "node", "kill", "n3")
	started := false
	t.Cleanup(func() {
		if !started {
			lab(t, "node", "start", "n3")
		}
	})
	eventually(t, limitReady, "n3 is offline and the others are online", func(ctx context.Context) error {
		return memberStates(ctx, name, map[string]v1alpha1State{"n1": "online", "n2": "online", "n3": "offline"})
	})
	// The controller writes the Members before their Cluster.
	eventually(t, limitReady, "the Cluster warns of n3", func(ctx context.Context) error {
		c, err := getCluster(ctx, name)
		if err == nil && (c.Status.Phase != v1alpha1.PhaseWarning || !strings.Contains(c.Status.Message, "n3")) {
			err = fmt.Errorf("phase %s, message %q; want Warning and a message that names n3", c.Status.Phase, c.Status.Message)
		}
		return err
	})
	if m, err := memberOf(t.Context(), name, "n3"); err != nil || m.Status.Flags.IsUp || m.Status.Capacity.Total == nil || len(m.Status.Devices) == 0 {
		t.Errorf("member of n3: %+v, %v; want its last capacity and devices", m, err)
	}
	lab(t, "node", "start", "n3")
	started = true
	waitMembers(t, name, nodes...)
}
