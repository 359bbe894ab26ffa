package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// authority signs requests as told.
type authority struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	now         time.Time
	life        time.Duration
	signed      int
	change      func(*x509.Certificate)
	chain       func(leaf, ca []byte) []byte
	fail        error
}

func newAuthority(t *testing.T, now time.Time) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, now: now, life: time.Hour, chain: func(leaf, ca []byte) []byte { return append(leaf, ca...) }}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.certificate = a.issue(template, template, key.Public())
	return a
}

func (a *authority) issue(template, parent *x509.Certificate, public any) *x509.Certificate {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

func (a *authority) Sign(_ context.Context, request []byte) ([]byte, error) {
	a.signed++
	if a.fail != nil {
		return nil, a.fail
	}
	block, _ := pem.Decode(request)
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: csr.Subject, DNSNames: csr.DNSNames, NotBefore: a.now, NotAfter: a.now.Add(a.life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if a.change != nil {
		a.change(template)
	}
	encode := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	return a.chain(encode(a.issue(template, a.certificate, csr.PublicKey)), encode(a.certificate)), nil
}

func TestManager_refusesWhatItCannotUse(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*x509.Certificate)
		chain  func(leaf, ca []byte) []byte
		says   string
	}{
		"no authority":     {nil, func(leaf, _ []byte) []byte { return leaf }, "no certificate of the authority"},
		"nothing":          {nil, func(_, _ []byte) []byte { return nil }, "empty"},
		"the wrong order":  {nil, func(leaf, ca []byte) []byte { return append(ca, leaf...) }, "no authority"},
		"a leaf twice":     {nil, func(leaf, ca []byte) []byte { return append(append(leaf, leaf...), ca...) }, "no authority"},
		"no certificate":   {nil, func(_, _ []byte) []byte { return []byte("-----BEGIN KEY-----\n-----END KEY-----\n") }, "holds a KEY"},
		"a bad one":        {nil, func(_, _ []byte) []byte { return []byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n") }, "parse"},
		"another name":     {func(c *x509.Certificate) { c.Subject.CommonName = "quarry:agent:b" }, nil, "quarry:agent:b"},
		"another DNS name": {func(c *x509.Certificate) { c.DNSNames = []string{"b"} }, nil, "verify"},
		"another usage":    {func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, nil, "verify"},
		"an expired one":   {func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(-time.Second) }, nil, "verify"},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			a := newAuthority(t, now)
			a.change = tt.change
			if tt.chain != nil {
				a.chain = tt.chain
			}
			m := New(Config{NodeName: "a", Signer: a, Log: logr.Discard()})
			if _, err := m.renew(t.Context()); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
			if m.Check() == nil {
				t.Error("it is ready")
			}
		})
	}
}

func TestManager_renews(t *testing.T) {
	now := time.Now()
	a := newAuthority(t, now)
	m := New(Config{NodeName: "a", Signer: a, Log: logr.Discard(), Now: func() time.Time { return now }})
	wait, err := m.renew(t.Context())
	if err != nil || wait < 41*time.Minute || wait > 49*time.Minute {
		t.Fatalf("renew in %s, %v", wait, err)
	}
	first := current(t, m)
	now = now.Add(45 * time.Minute)
	a.fail = errors.New("API server is away")
	if _, err := m.renew(t.Context()); !errors.Is(err, a.fail) {
		t.Errorf("error %v", err)
	}
	if m.Check() != nil || current(t, m) != first {
		t.Error("a renewal that failed took the certificate away")
	}
	now = now.Add(30 * time.Minute)
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "expired") || !errors.Is(err, a.fail) {
		t.Errorf("after it expired: %v", err)
	}
	a.fail, a.now = nil, now
	if _, err := m.renew(t.Context()); err != nil || m.Check() != nil {
		t.Errorf("renewed: %v, %v", err, m.Check())
	}
	if current(t, m) == first {
		t.Error("new connections see the old certificate")
	}
}

func current(t *testing.T, m *Manager) *x509.Certificate {
	t.Helper()
	config, err := m.TLSConfig().GetConfigForClient(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return config.Certificates[0].Leaf
}

func TestManager_runRetries(t *testing.T) {
	a := newAuthority(t, time.Now())
	a.fail = errors.New("not yet")
	m := New(Config{NodeName: "a", Signer: a, Log: logr.Discard()})
	if _, err := m.TLSConfig().GetConfigForClient(&tls.ClientHelloInfo{}); !errors.Is(err, errNoCertificate) {
		t.Errorf("a handshake before the certificate: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
	defer cancel()
	m.Run(ctx)
	if a.signed < 2 {
		t.Errorf("tried %d times", a.signed)
	}
	if renewIn(time.Now(), &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now()}) != minBackoff {
		t.Error("an old certificate is not renewed at once")
	}
}
