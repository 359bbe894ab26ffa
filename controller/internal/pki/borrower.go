package pki

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// borrowEvery is how often the borrower looks whether the CA was changed, and borrowRetry how soon after it could not.
const (
	borrowEvery = 5 * time.Minute
	borrowRetry = time.Second
)

// Borrower signs a client certificate of its own with the CA that a Keeper keeps. It only reads.
type Borrower struct {
	// Client reads the Secret. It should not cache it.
	Client client.Reader
	// Namespace of the Secret.
	Namespace string
	// Now is the clock.
	Now func() time.Time

	mu        sync.RWMutex
	authority *Authority
	client    Client
	pair      tls.Certificate
}

// ClientConfig returns the TLS configuration for a connection to the agent of a node.
func (b *Borrower) ClientConfig(node string) (*tls.Config, error) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.authority == nil {
		return nil, ErrNotReady
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: node, RootCAs: b.authority.Pool(), Certificates: []tls.Certificate{b.pair},
	}, nil
}

// Ready says whether there is a certificate.
func (b *Borrower) Ready() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.authority != nil
}

// NeedLeaderElection says that every replica needs a certificate.
func (b *Borrower) NeedLeaderElection() bool { return false }

// Start keeps the certificate fresh until the context ends. Without a CA it waits for one.
func (b *Borrower) Start(ctx context.Context) error {
	for {
		pause := borrowEvery
		if err := b.Borrow(ctx); err != nil {
			pause = borrowRetry
			if errors.Is(err, errBroken) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Borrow does once what Start does again and again.
func (b *Borrower) Borrow(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := b.Client.Get(ctx, types.NamespacedName{Namespace: b.Namespace, Name: SecretCA}, secret); err != nil {
		return fmt.Errorf("get secret %s: %w", SecretCA, err)
	}
	authority, err := decode(secret.Data)
	if err != nil {
		return fmt.Errorf("secret %s: %w: %w", SecretCA, errBroken, err)
	}
	now := b.Now()
	b.mu.RLock()
	own, pair := b.client, b.pair
	fresh := b.authority != nil && b.authority.Current.Certificate.Equal(authority.Current.Certificate)
	b.mu.RUnlock()
	if !fresh || renewAt(own).Before(now) {
		if own, err = authority.SignClient(now); err != nil {
			return err
		}
		if pair, err = tls.X509KeyPair(own.Certificate, own.Key); err != nil {
			return fmt.Errorf("load client certificate: %w", err)
		}
	}
	b.mu.Lock()
	b.authority, b.client, b.pair = &authority, own, pair
	b.mu.Unlock()
	return nil
}
