package pki

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/spec"
	"quarry.storage/quarry/test/lab/internal/state"
)

// EnsureCluster makes every key, certificate and kubeconfig of a lab. The
// administrator's kubeconfig goes through the forwarder's port on the machine.
func EnsureCluster(dir state.Dir, lab spec.Lab, port int) error {
	ca, err := EnsureAuthority(dir.PKI(), "ca")
	if err != nil {
		return err
	}
	frontProxyCA, err := EnsureAuthority(dir.PKI(), "front-proxy-ca")
	if err != nil {
		return err
	}
	if err := frontProxyCA.Ensure(Identity{File: "front-proxy-client", CommonName: "front-proxy-client"}); err != nil {
		return err
	}
	if err := EnsureKeyPair(dir.PKI(), "service-account"); err != nil {
		return err
	}
	identities := append(controlPlaneIdentities(), nodeIdentities(lab)...)
	for _, id := range identities {
		if err := ca.Ensure(id); err != nil {
			return err
		}
	}
	inside := fmt.Sprintf("https://%s:%d", spec.ControlPlane, spec.APIServerPort)
	clients := []string{"admin", "controller-manager", "scheduler"}
	for _, node := range lab.NodeNames() {
		clients = append(clients, "kubelet-"+node)
	}
	for _, client := range clients {
		if err := writeKubeconfig(dir, client, inside, dir.ComponentKubeconfig(client)); err != nil {
			return err
		}
	}
	return writeKubeconfig(dir, "admin", fmt.Sprintf("https://127.0.0.1:%d", port), dir.Kubeconfig())
}

func controlPlaneIdentities() []Identity {
	return []Identity{
		{
			File: "apiserver", CommonName: "kube-apiserver",
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default",
				"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
			},
			IPs: []string{"127.0.0.1", spec.ControlPlane, spec.APIServiceIP},
		},
		{File: "apiserver-kubelet-client", CommonName: "apiserver-kubelet-client", Organizations: []string{"system:masters"}},
		{File: "admin", CommonName: "admin", Organizations: []string{"system:masters"}},
		{File: "controller-manager", CommonName: "system:kube-controller-manager"},
		{File: "scheduler", CommonName: "system:kube-scheduler"},
	}
}

func nodeIdentities(lab spec.Lab) []Identity {
	var ids []Identity
	for i, node := range lab.NodeNames() {
		ids = append(ids, Identity{
			File: "kubelet-" + node, CommonName: "system:node:" + node,
			Organizations: []string{"system:nodes"},
			DNSNames:      []string{node}, IPs: []string{spec.NodeIP(i + 1)},
		})
	}
	return ids
}

// writeKubeconfig embeds the credentials, so that the file works wherever it is
// copied to.
func writeKubeconfig(dir state.Dir, identity, server, path string) error {
	encoded := make(map[string]string, 3)
	for _, file := range []string{"ca.crt", identity + ".crt", identity + ".key"} {
		b, err := os.ReadFile(filepath.Join(dir.PKI(), file))
		if err != nil {
			return err
		}
		encoded[file] = base64.StdEncoding.EncodeToString(b)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: lab
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: lab
  context: {cluster: lab, user: %s}
current-context: lab
`, server, encoded["ca.crt"], identity, encoded[identity+".crt"], encoded[identity+".key"], identity)
	return state.WriteFile(path, []byte(text), 0o600)
}
