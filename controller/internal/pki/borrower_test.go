package pki

import (
	"context"
	"crypto/x509"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// oneSecret has the data of the client certificate's Secret; none when it is nil.
type oneSecret struct {
	client.Reader
	data map[string][]byte
}

func (s *oneSecret) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if s.data == nil || key.Name != SecretCSI || key.Namespace != "ns" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
	}
	o.(*corev1.Secret).Data = s.data
	return nil
}

func TestBorrower(t *testing.T) {
	now := time.Now()
	secret := &oneSecret{}
	b := &Borrower{Client: secret, Namespace: "ns"}
	if _, err := b.ClientConfig("node-1"); !errors.Is(err, ErrNotReady) || b.Ready() {
		t.Errorf("ready without a certificate: %v", err)
	}
	if err := b.Borrow(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("error is %v", err)
	}
	first := borrow(t, b, secret, now)
	if borrow(t, b, secret, now).Equal(first) {
		t.Error("a renewed certificate was not taken")
	}
	good := secret.data
	for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, keyBundle} {
		secret.data = maps.Clone(good)
		delete(secret.data, key)
		if err := b.Borrow(t.Context()); err == nil || !b.Ready() {
			t.Errorf("without %s: error is %v, ready %t", key, err, b.Ready())
		}
	}
}

// borrow publishes a certificate of a new CA, borrows it, and returns what agents are shown.
func borrow(t *testing.T, b *Borrower, secret *oneSecret, now time.Time) *x509.Certificate {
	t.Helper()
	a, err := NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	own, err := a.SignClient(v1alpha1.CSICommonName, now)
	if err != nil {
		t.Fatal(err)
	}
	secret.data = map[string][]byte{corev1.TLSCertKey: own.Certificate, corev1.TLSPrivateKeyKey: own.Key, keyBundle: a.Bundle()}
	if err := b.Borrow(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := b.ClientConfig("node-1")
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(cfg.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		Roots: cfg.RootCAs, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil || leaf.Subject.CommonName != v1alpha1.CSICommonName || cfg.ServerName != "node-1" {
		t.Errorf("certificate of %s for server %s: %v", leaf.Subject.CommonName, cfg.ServerName, err)
	}
	return leaf
}
