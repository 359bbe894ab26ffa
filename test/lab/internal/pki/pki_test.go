package pki

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func TestAuthority_ensureIsStableAndVerifies(t *testing.T) {
	dir := t.TempDir()
	ca, err := EnsureAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	id := Identity{File: "node", CommonName: "system:node:n1", Organizations: []string{"system:nodes"}, IPs: []string{"10.99.0.11"}}
	if err := ca.Ensure(id); err != nil {
		t.Fatal(err)
	}
	first, err := os.ReadFile(filepath.Join(dir, "node.crt"))
	if err != nil {
		t.Fatal(err)
	}

	again, err := EnsureAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Ensure(id); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(dir, "node.crt"))
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(second) {
		t.Error("a second Ensure replaced the certificate")
	}

	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "node.crt"), filepath.Join(dir, "node.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(again.cert)
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
		t.Errorf("verify: %v", err)
	}
	if err := pair.Leaf.VerifyHostname("10.99.0.11"); err != nil {
		t.Errorf("verify address: %v", err)
	}
}
