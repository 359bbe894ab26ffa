package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func authorityAt(t *testing.T, now time.Time) Authority {
	t.Helper()
	a, err := NewAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSignAgent(t *testing.T) {
	a := authorityAt(t, start)
	req, denial := Policy{AgentUser: agentUser}.Decide(csrOf(requestOf(t, ecKey(t), nil), nil))
	if denial != nil {
		t.Fatal(denial)
	}
	for name, c := range map[string]struct{ wish, want time.Duration }{
		"no wish":      {0, leafValidity},
		"a short wish": {time.Hour, time.Hour},
		"a long wish":  {1000 * time.Hour, leafValidity},
	} {
		chain, err := a.SignAgent(req, c.wish, start)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := parseCertificates(chain)
		if err != nil || len(certs) != 2 || !certs[1].Equal(a.Current.Certificate) {
			t.Fatalf("%s: %d certificates, %v", name, len(certs), err)
		}
		leaf := certs[0]
		if !leaf.NotAfter.Equal(start.Add(c.want)) || leaf.IsCA || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
			t.Errorf("%s: %s, ca %t, usages %v", name, leaf.NotAfter, leaf.IsCA, leaf.ExtKeyUsage)
		}
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: "n1", Roots: a.Pool(), CurrentTime: start}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSignAgent_neverOutlivesTheCA(t *testing.T) {
	a := authorityAt(t, start)
	req, _ := Policy{AgentUser: agentUser}.Decide(csrOf(requestOf(t, ecKey(t), nil), nil))
	chain, err := a.SignAgent(req, 0, start.Add(caValidity-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	certs, err := parseCertificates(chain)
	if err != nil || certs[0].NotAfter.After(a.Current.Certificate.NotAfter) {
		t.Errorf("%v after %v", certs[0].NotAfter, a.Current.Certificate.NotAfter)
	}
}

func TestSignClient(t *testing.T) {
	a := authorityAt(t, start)
	for _, name := range []string{v1alpha1.ControllerCommonName, v1alpha1.CSICommonName} {
		c, err := a.SignClient(name, start)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(c.Certificate, c.Key)
		if err != nil {
			t.Fatal(err)
		}
		if pair.Leaf.Subject.CommonName != name {
			t.Errorf("common name %q, want %q", pair.Leaf.Subject.CommonName, name)
		}
		opts := x509.VerifyOptions{Roots: a.Pool(), CurrentTime: start, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		if _, err := pair.Leaf.Verify(opts); err != nil {
			t.Error(err)
		}
		opts.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if _, err := pair.Leaf.Verify(opts); err == nil {
			t.Error("the client certificate serves")
		}
	}
}

// TestRotate_nobodyIsCutOff walks through the life of a CA in days and checks that an agent which renewed within two weeks always trusts
// what is presented to it.
func TestRotate_nobodyIsCutOff(t *testing.T) {
	a := authorityAt(t, start)
	type trust struct {
		at   time.Time
		pool *x509.CertPool
	}
	var past []trust
	rotations := 0
	for now := start; now.Before(start.Add(2 * caValidity)); now = now.Add(24 * time.Hour) {
		next, changed, err := a.Rotate(now)
		if err != nil {
			t.Fatal(err)
		}
		if changed {
			rotations++
			data, err := next.encode()
			if err != nil {
				t.Fatal(err)
			}
			if next, err = decode(data); err != nil {
				t.Fatal(err)
			}
		}
		a = next
		past = append(past, trust{now, a.Pool()})
		if len(past) > 14 {
			past = past[1:]
		}
		for _, p := range past {
			_, err := a.Current.Certificate.Verify(x509.VerifyOptions{Roots: p.pool, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			if err != nil {
				t.Fatalf("on %s, who renewed on %s does not trust the ca: %v", now, p.at, err)
			}
		}
	}
	if rotations < 4 || len(a.Trusted()) > 3 {
		t.Errorf("%d rotations, %d certificates are trusted", rotations, len(a.Trusted()))
	}
}

func keeper(c client.Client, now *time.Time) *Keeper {
	return &Keeper{Client: c, Namespace: "quarry-system", Now: func() time.Time { return *now }}
}

func TestKeeper_manyStartAtOnceAndAgree(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	keepers := make([]*Keeper, 8)
	var group sync.WaitGroup
	for i := range keepers {
		keepers[i] = keeper(c, &now)
		group.Go(func() {
			// Writers of the copy of the client certificate meet; who loses tries again.
			for range 20 {
				if keepers[i].Keep(context.Background()) == nil {
					return
				}
			}
			t.Error("no success in 20 attempts")
		})
	}
	group.Wait()
	first, err := keepers[0].Authority()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keepers {
		a, err := k.Authority()
		if err != nil || !a.Current.Certificate.Equal(first.Current.Certificate) {
			t.Errorf("another ca, or none: %v", err)
		}
	}
}

func TestKeeper_renewsTheClientCertificate(t *testing.T) {
	c, now := fake.NewClientBuilder().Build(), time.Now()
	k := keeper(c, &now)
	if _, err := k.ClientConfig("n1"); !errors.Is(err, ErrNotReady) {
		t.Errorf("before the ca is loaded: %v", err)
	}
	leaf := func() *x509.Certificate {
		if err := k.Keep(context.Background()); err != nil {
			t.Fatal(err)
		}
		cfg, err := k.ClientConfig("n1")
		if err != nil || cfg.ServerName != "n1" || cfg.MinVersion != tls.VersionTLS13 {
			t.Fatalf("%+v, %v", cfg, err)
		}
		var s corev1.Secret
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "quarry-system", Name: SecretClient}, &s); err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
		if string(block.Bytes) != string(cfg.Certificates[0].Certificate[0]) {
			t.Error("the copy in the secret is another certificate")
		}
		return cfg.Certificates[0].Leaf
	}
	first := leaf()
	now = now.Add(leafValidity / 2)
	if !leaf().Equal(first) {
		t.Error("renewed too early")
	}
	now = now.Add(leafValidity / 4)
	if leaf().Equal(first) {
		t.Error("not renewed in time")
	}
}

func TestKeeper_damagedSecretIsNotOverwritten(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "quarry-system", Name: SecretCA}, Data: map[string][]byte{corev1.TLSCertKey: []byte("x")},
	}
	c, now := fake.NewClientBuilder().WithObjects(secret).Build(), time.Now()
	k := keeper(c, &now)
	if err := k.Start(context.Background()); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(secret), secret); err != nil || string(secret.Data[corev1.TLSCertKey]) != "x" {
		t.Errorf("the secret was changed: %v", err)
	}
}
