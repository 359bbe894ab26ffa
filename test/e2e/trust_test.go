//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCSICertificateOpensVolumesOnly asks an agent with the certificate of the CSI drivers.
func TestCSICertificateOpensVolumesOnly(t *testing.T) {
	address, ca, _ := agentAccess(t, "n1")
	secret := &corev1.Secret{}
	if err := kube.Get(t.Context(), client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-csi-client"}, secret); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, key := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, key), secret.Data[key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Without reflection, which it may not use either, grpcurl reads the contract from the repository.
	csi := append(slices.Clone(ca), "-cert", filepath.Join(dir, "tls.crt"), "-key", filepath.Join(dir, "tls.key"))
	if out, err := grpcurl(append(csi, address, "list")...); err == nil {
		t.Errorf("the CSI drivers may list the services:\n%s", out)
	}
	root, err := filepath.Abs("../../proto")
	if err != nil {
		t.Fatal(err)
	}
	call := func(file, method string) (string, error) {
		return grpcurl(append(slices.Clone(csi), "-import-path", root, "-proto", "agent/v1/"+file+".proto", address, "quarry.agent.v1."+method)...)
	}
	if out, err := call("node", "NodeService/GetNode"); err != nil || !strings.Contains(out, `"nodeName": "n1"`) {
		t.Errorf("%v\n%s", err, out)
	}
	for file, method := range map[string]string{
		"device": "DeviceService/ListDevices", "volumegroup": "VolumeGroupService/RemoveVolumeGroup",
	} {
		if out, err := call(file, method); err == nil || !strings.Contains(err.Error()+out, "PermissionDenied") {
			t.Errorf("%s: %v\n%s", method, err, out)
		}
	}
}

// TestDeletedCAIsPutBack deletes the Secret of the CA: the leader puts back the one that it holds, and no agent notices.
func TestDeletedCAIsPutBack(t *testing.T) {
	turn(t, 3, 20)
	key := client.ObjectKey{Namespace: controllerNamespace, Name: "quarry-ca"}
	before := &corev1.Secret{}
	if err := kube.Get(t.Context(), key, before); err != nil {
		t.Fatal(err)
	}
	if err := kube.Delete(t.Context(), before.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 100*time.Second, "the CA is back", func(ctx context.Context) error {
		after := &corev1.Secret{}
		if err := kube.Get(ctx, key, after); err != nil {
			return err
		}
		if !bytes.Equal(after.Data["tls.crt"], before.Data["tls.crt"]) || !bytes.Equal(after.Data["tls.key"], before.Data["tls.key"]) {
			return errors.New("another CA is there")
		}
		return nil
	})
	address, _, ours := agentAccess(t, "n1")
	if _, err := grpcurl(append(ours, address, "list")...); err != nil {
		t.Error(err)
	}
}
