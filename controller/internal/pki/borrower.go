package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// borrowEvery is how often the borrower looks for a renewed certificate, and borrowRetry how soon after there was none.
const (
	borrowEvery = time.Minute
	borrowRetry = time.Second
)

// Borrower uses the client certificate that a Keeper publishes for the CSI drivers. It only reads, and never sees the key of the CA, nor that
// of the controller.
type Borrower struct {
	// Client reads the Secret. It should not cache it.
	Client client.Reader
	// Namespace of the Secret.
	Namespace string

	mu    sync.RWMutex
	roots *x509.CertPool
	pair  tls.Certificate
}

// ClientConfig returns the TLS configuration for a connection to the agent of a node.
func (b *Borrower) ClientConfig(node string) (*tls.Config, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.roots == nil {
		return nil, ErrNotReady
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: node, RootCAs: b.roots, Certificates: []tls.Certificate{b.pair},
	}, nil
}

// Ready says whether there is a certificate.
func (b *Borrower) Ready() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.roots != nil
}

// NeedLeaderElection says that every replica needs a certificate.
func (b *Borrower) NeedLeaderElection() bool { return false }

// Start keeps the certificate fresh until the context ends. Without one it waits for the Keeper.
func (b *Borrower) Start(ctx context.Context) error {
	for {
		pause := borrowEvery
		if err := b.Borrow(ctx); err != nil {
			logf.FromContext(ctx).Info("Waiting for the client certificate", "reason", err.Error())
			pause = borrowRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Borrow does once what Start does again and again. What was there before stays when it fails.
func (b *Borrower) Borrow(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := b.Client.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: SecretCSI}, secret); err != nil {
		return fmt.Errorf("get secret %s: %w", SecretCSI, err)
	}
	pair, roots, err := readPublished(secret.Data)
	if err != nil {
		return fmt.Errorf("secret %s: %w", SecretCSI, err)
	}
	b.mu.Lock()
	b.roots, b.pair = roots, pair
	b.mu.Unlock()
	return nil
}
