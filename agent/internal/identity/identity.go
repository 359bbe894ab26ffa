// Package identity obtains the agent's serving certificate through the Kubernetes certificates API and renews it before it expires.
// The key never leaves the process and is not stored: an agent that starts asks anew. The package knows nothing about disks or
// about what is served under the certificate.
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
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/pkg/quarry"
)

// Signer hands a certificate signing request in and waits for the certificate chain, both in PEM.
type Signer interface {
	Sign(ctx context.Context, request []byte) ([]byte, error)
}

// Config is what a Manager is made of.
type Config struct {
	// NodeName is written into the certificate and checked by who dials the agent.
	NodeName string
	Signer   Signer
	Log      logr.Logger
	// Now is the clock; time.Now when it is nil.
	Now func() time.Time
}

const (
	// minBackoff and maxBackoff bound the wait after a request that failed.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// requestTimeout bounds one request, the wait for its approval included.
	requestTimeout = 15 * time.Minute
	// doubtPause is between two requests that a failed handshake is the reason for. Anybody who reaches the port can make one fail.
	doubtPause = 5 * time.Minute
)

// Manager keeps a valid certificate.
type Manager struct {
	cfg   Config
	first chan struct{}

	// doubts wakes Run when the certificate may be of no use any more.
	doubts chan struct{}

	mu       sync.Mutex
	material *Material
	err      error
	// doubted is when a doubt was followed last.
	doubted time.Time
}

// New makes a Manager; Run makes it work.
func New(cfg Config) *Manager {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Manager{cfg: cfg, first: make(chan struct{}), doubts: make(chan struct{}, 1), err: errNoCertificate}
}

// Ready is closed when the first certificate is there.
func (m *Manager) Ready() <-chan struct{} { return m.first }

// Check says why the agent cannot serve; nil when it can.
func (m *Manager) Check() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.material == nil {
		return fmt.Errorf("waiting for the serving certificate: %w", m.err)
	}
	if leaf := m.material.Certificate.Leaf; !m.cfg.Now().Before(leaf.NotAfter) {
		return fmt.Errorf("the serving certificate expired at %s: %w", leaf.NotAfter.UTC().Format(time.RFC3339), m.err)
	}
	return nil
}

// TLSConfig serves with the newest certificate.
func (m *Manager) TLSConfig() *tls.Config {
	return ServerTLS(func() *Material {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.material
	})
}

// Run obtains a certificate and renews it, each in good time, until the context ends. What fails is tried again.
func (m *Manager) Run(ctx context.Context) {
	for backoff := minBackoff; ; {
		wait, err := m.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.cfg.Log.Error(err, "Failed to obtain a serving certificate", "retryIn", backoff.String())
			wait, backoff = backoff+jitter(backoff/2), min(2*backoff, maxBackoff)
		default:
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-m.doubts:
		}
	}
}

// Doubt is told of a handshake that failed. Where the reason is that one side does not know the other's authority, the CA may be another now: the
// agent asks for a certificate anew, and so learns whom to trust; at most once in doubtPause.
func (m *Manager) Doubt(failure error) {
	unknown, refused := x509.UnknownAuthorityError{}, (*net.OpError)(nil)
	// A client that does not trust the agent ends the handshake with an alert, which says no more than that the certificate is bad.
	if !errors.As(failure, &unknown) && (!errors.As(failure, &refused) || refused.Op != "remote error") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.cfg.Now()
	if !m.doubted.IsZero() && now.Sub(m.doubted) < doubtPause {
		return
	}
	m.doubted = now
	m.cfg.Log.Info("Asking for a new certificate: a handshake failed for want of a known authority", "reason", failure.Error())
	select {
	case m.doubts <- struct{}{}:
	default:
	}
}

// renew obtains one certificate and returns how long to wait before the next.
func (m *Manager) renew(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	material, err := m.request(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
	if err != nil {
		return 0, err
	}
	if m.material == nil {
		close(m.first)
	}
	m.material = material
	leaf := material.Certificate.Leaf
	m.cfg.Log.Info("Obtained serving certificate", "expires", leaf.NotAfter.UTC().Format(time.RFC3339))
	return renewIn(m.cfg.Now(), leaf), nil
}

// renewIn is the time until 70 to 80 percent of the certificate's life have passed.
func renewIn(now time.Time, leaf *x509.Certificate) time.Duration {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	at := leaf.NotBefore.Add(life*7/10 + jitter(life/10))
	return max(at.Sub(now), minBackoff)
}

func jitter(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return mathrand.N(limit)
}

// request makes a key and has it certified.
func (m *Manager) request(ctx context.Context) (*Material, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName(m.cfg.NodeName)}}
	// TLS looks for a name that is an IP address among the addresses only.
	if ip := net.ParseIP(m.cfg.NodeName); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{m.cfg.NodeName}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("create certificate request: %w", err)
	}
	chain, err := m.cfg.Signer.Sign(ctx, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	if err != nil {
		return nil, err
	}
	return newMaterial(chain, key, m.cfg.NodeName, m.cfg.Now())
}

func commonName(node string) string { return quarry.AgentCommonNamePrefix + node }

// newMaterial reads the issued chain: the leaf, and after it the certificates of the authority. Those are the roots that the
// controller's client certificate is verified against, so a chain without them cannot be used.
func newMaterial(chain []byte, key *ecdsa.PrivateKey, node string, now time.Time) (*Material, error) {
	certificates, err := parseChain(chain)
	if err != nil {
		return nil, err
	}
	leaf, roots := certificates[0], x509.NewCertPool()
	found := false
	out := tls.Certificate{PrivateKey: key, Leaf: leaf, Certificate: [][]byte{leaf.Raw}}
	for _, c := range certificates[1:] {
		if !c.IsCA {
			return nil, fmt.Errorf("issued chain holds %q, which is no authority", c.Subject.CommonName)
		}
		roots.AddCert(c)
		out.Certificate = append(out.Certificate, c.Raw)
		found = true
	}
	switch public, ok := leaf.PublicKey.(*ecdsa.PublicKey); {
	case !found:
		return nil, errors.New("issued chain holds no certificate of the authority")
	case !ok || !public.Equal(&key.PublicKey):
		return nil, errors.New("issued certificate is for another key")
	case leaf.Subject.CommonName != commonName(node):
		return nil, fmt.Errorf("issued certificate is for %q, not %q", leaf.Subject.CommonName, commonName(node))
	}
	_, err = leaf.Verify(x509.VerifyOptions{
		DNSName: node, Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("verify issued certificate: %w", err)
	}
	return &Material{Certificate: out, Roots: roots}, nil
}

func parseChain(chain []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block, rest := pem.Decode(chain); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("issued chain holds a %s", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse issued certificate: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("issued chain is empty")
	}
	return out, nil
}
