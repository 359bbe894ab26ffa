package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Names of the Secrets.
const (
	// SecretCA holds the CA.
	SecretCA = "quarry-ca"
	// SecretClient holds a copy of the controller's client certificate, for people who look into an agent.
	SecretClient = "quarry-controller-client"
	// SecretCSI holds the client certificate of the CSI drivers' controllers.
	SecretCSI = "quarry-csi-client"
)

// identities are the client certificates that the keeper keeps: the common name, by the Secret that holds it.
var identities = map[string]string{SecretClient: v1alpha1.ControllerCommonName, SecretCSI: v1alpha1.CSICommonName}

// keepEvery is how often the keeper looks whether anything must be renewed, or put back: a CA that is nowhere but in the memory of a leader is
// lost with the leader.
const keepEvery = time.Minute

// ErrNotReady means that the CA has not been loaded yet.
var ErrNotReady = errors.New("certificate authority is not loaded yet")

// Keeper loads the CA or makes it, rotates it, and keeps the client certificates of controller and CSI drivers fresh.
type Keeper struct {
	// Client reads and writes the Secrets. It should not cache them.
	Client client.Client
	// Namespace of the Secrets.
	Namespace string
	// Now is the clock.
	Now func() time.Time

	mu sync.RWMutex
	// authority is what the leader holds; it outranks what the Secret says.
	authority *Authority
	// roots are whom agents are verified against.
	roots *x509.CertPool
	// clients are the client certificates, by the Secret that holds a copy. They are replaced, never changed.
	clients map[string]Client
	pair    tls.Certificate
}

// Authority returns the CA.
func (k *Keeper) Authority() (Authority, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.authority == nil {
		return Authority{}, ErrNotReady
	}
	return *k.authority, nil
}

// ClientConfig returns the TLS configuration for a connection to the agent of a node.
func (k *Keeper) ClientConfig(node string) (*tls.Config, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.roots == nil {
		return nil, ErrNotReady
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: node, RootCAs: k.roots, Certificates: []tls.Certificate{k.pair},
	}, nil
}

// Start keeps everything fresh until the context ends. It fails only when the CA cannot be had at all.
func (k *Keeper) Start(ctx context.Context) error {
	for pause := time.Second; ; {
		err := k.Keep(ctx)
		switch {
		case err == nil:
			pause = keepEvery
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errBroken):
			return err
		case errors.Is(err, errLost):
			logf.FromContext(ctx).Error(err, "Waiting for the certificate authority")
			pause = lostRetry
		case pause == keepEvery:
			pause = time.Second
		default:
			pause = min(2*pause, time.Minute)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// NeedLeaderElection says that only the leader writes the Secrets.
func (k *Keeper) NeedLeaderElection() bool { return true }

// lostRetry is how soon the keeper looks again whether somebody brought the CA back.
const lostRetry = 10 * time.Second

var (
	// errBroken means that the Secret of the CA is there and makes no sense: overwriting it would cut off every agent.
	errBroken = errors.New("secret is damaged: restore it, or begin with a new ca as docs/certificates.md says")
	// errLost means that there was a CA, and that neither the Secret nor this process has it.
	errLost = errors.New("the certificate authority is lost: restore the secret, or begin with a new ca as docs/certificates.md says")
)

// Keep does once what Start does again and again.
func (k *Keeper) Keep(ctx context.Context) error {
	// The order matters: the certificate is written after the CA, so where it is found first there was a CA.
	published, err := k.get(ctx, SecretClient)
	if err != nil {
		return err
	}
	authority, err := k.load(ctx, published)
	if errors.Is(err, errLost) {
		return errors.Join(err, k.goOn(published))
	}
	if err != nil {
		return err
	}
	clients, err := k.renew(authority)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(clients[SecretClient].Certificate, clients[SecretClient].Key)
	if err != nil {
		return fmt.Errorf("load client certificate: %w", err)
	}
	k.mu.Lock()
	k.authority, k.roots, k.clients, k.pair = &authority, authority.Pool(), clients, pair
	k.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		errs = append(errs, k.publish(ctx, name, clients[name], authority))
	}
	return errors.Join(errs...)
}

// goOn lets a process that never had the CA talk to the agents with the certificate that was published, for as long as that is valid.
func (k *Keeper) goOn(published *corev1.Secret) error {
	pair, roots, err := readPublished(published.Data)
	if err != nil {
		return fmt.Errorf("secret %s: %w", SecretClient, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pair, k.roots = pair, roots
	return nil
}

// renew returns the client certificates, new ones where it is time or where another CA signs.
func (k *Keeper) renew(authority Authority) (map[string]Client, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	now := k.Now()
	same := k.authority != nil && k.authority.Current.Certificate.Equal(authority.Current.Certificate)
	clients := map[string]Client{}
	for name, commonName := range identities {
		own := k.clients[name]
		if !same || renewAt(own).Before(now) {
			var err error
			if own, err = authority.SignClient(commonName, now); err != nil {
				return nil, err
			}
		}
		clients[name] = own
	}
	return clients, nil
}

// renewAt is when two thirds of a certificate's life are over.
func renewAt(c Client) time.Time { return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) * 2 / 3) }
