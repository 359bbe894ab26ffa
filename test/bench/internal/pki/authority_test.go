package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"testing"
)

func TestAPIServer_signsAtOnce(t *testing.T) {
	ca, err := New()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Serve(ca)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "somebody"}, DNSNames: []string{"bench"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	var req request
	req.Metadata.Name = "one"
	req.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.certificate)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	post, err := client.Post(s.URL+"/requests", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	post.Body.Close()
	get, err := client.Get(s.URL + "/requests/one")
	if err != nil {
		t.Fatal(err)
	}
	defer get.Body.Close()
	var answer request
	if err := json.NewDecoder(get.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(answer.Status.Certificate)
	if block == nil || !bytes.Equal(rest, ca.Bundle()) {
		t.Fatalf("chain %s", answer.Status.Certificate)
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "bench", Roots: roots}); err != nil || leaf.Subject.CommonName != "somebody" {
		t.Errorf("%v: %v", leaf.Subject, err)
	}
}
