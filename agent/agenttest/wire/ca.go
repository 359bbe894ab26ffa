// Package wire has what agents in tests are reached by: a certificate authority, and a network in memory.
package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/identity"
	"quarry.storage/quarry/pkg/quarry"
)

// CA is a certificate authority for tests.
type CA struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	short       time.Duration
}

// For returns the same authority, whose certificates are valid for a short time.
func (c *CA) For(d time.Duration) *CA {
	return &CA{certificate: c.certificate, key: c.key, short: d}
}

func (c *CA) validity() time.Duration {
	if c.short > 0 {
		return c.short
	}
	return validity
}

// validity of what a CA issues.
const validity = 24 * time.Hour

// NewCA makes an authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "quarry:test-ca"},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	return &CA{certificate: issue(t, template, template, key.Public(), key), key: key}
}

// CAFromPEM takes an authority that a test has already.
func CAFromPEM(t testing.TB, certPEM, keyPEM []byte) *CA {
	t.Helper()
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("key of the authority is a %T, not ECDSA", pair.PrivateKey)
	}
	return &CA{certificate: pair.Leaf, key: key}
}

// CertPEM is the authority's certificate.
func (c *CA) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})
}

// KeyPEM is the authority's private key, in PKCS #8.
func (c *CA) KeyPEM(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Pool holds the authority's certificate.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.certificate)
	return pool
}

// AgentCertificate is a serving certificate as the controller issues them.
func (c *CA) AgentCertificate(t testing.TB, node string) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: quarry.AgentCommonNamePrefix + node},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(node); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{node}
	}
	return c.certify(t, template)
}

// ClientCertificate is a client certificate with any common name.
func (c *CA) ClientCertificate(t testing.TB, commonName string) tls.Certificate {
	t.Helper()
	return c.certify(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: commonName}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// ControllerCertificate is the controller's client certificate.
func (c *CA) ControllerCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	return c.ClientCertificate(t, quarry.ControllerCommonName)
}

// CSITLS is what the controller of a CSI driver dials the agent of a node with.
func (c *CA) CSITLS(t testing.TB, node string) *tls.Config {
	t.Helper()
	config := c.ControllerTLS(t, node)
	config.Certificates = []tls.Certificate{c.ClientCertificate(t, quarry.CSICommonName)}
	return config
}

// ControllerTLS is what the controller dials the agent of a node with.
func (c *CA) ControllerTLS(t testing.TB, node string) *tls.Config {
	t.Helper()
	return &tls.Config{
		Certificates: []tls.Certificate{c.ControllerCertificate(t)}, RootCAs: c.Pool(), ServerName: node, MinVersion: tls.VersionTLS13,
	}
}

// ServerTLS is what the agent of a node serves with.
func (c *CA) ServerTLS(t testing.TB, node string) *tls.Config {
	t.Helper()
	material := &identity.Material{Certificate: c.AgentCertificate(t, node), Roots: c.Pool()}
	return identity.ServerTLS(func() *identity.Material { return material })
}

// Sign answers a certificate signing request in PEM with the chain, leaf first, as the certificates API would.
func (c *CA) Sign(t testing.TB, request []byte) []byte {
	t.Helper()
	block, _ := pem.Decode(request)
	if block == nil {
		t.Fatal("request is not PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	leaf := c.sign(t, &x509.Certificate{
		Subject: csr.Subject, DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, csr.PublicKey)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Raw}), c.CertPEM()...)
}

func (c *CA) certify(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := c.sign(t, template, key.Public())
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, c.certificate.Raw}, PrivateKey: key, Leaf: leaf}
}

func (c *CA) sign(t testing.TB, template *x509.Certificate, public any) *x509.Certificate {
	t.Helper()
	template.SerialNumber = serial(t)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Minute), time.Now().Add(c.validity())
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return issue(t, template, c.certificate, public, c.key)
}

func issue(t testing.TB, template, parent *x509.Certificate, public any, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
