package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// keepEvery is how often the keeper looks whether anything must be renewed.
const keepEvery = time.Hour

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

	mu        sync.RWMutex
	authority *Authority
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
	if k.authority == nil {
		return nil, ErrNotReady
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: node, RootCAs: k.authority.Pool(), Certificates: []tls.Certificate{k.pair},
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

// errBroken means that a Secret is there and makes no sense: overwriting it would cut off every agent.
var errBroken = errors.New("secret is damaged; restore it, or delete it to begin with a new ca")

// Keep does once what Start does again and again.
func (k *Keeper) Keep(ctx context.Context) error {
	authority, err := k.load(ctx)
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
	k.authority, k.clients, k.pair = &authority, clients, pair
	k.mu.Unlock()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		errs = append(errs, k.publish(ctx, name, clients[name], authority))
	}
	return errors.Join(errs...)
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

// load reads the CA, makes it when there is none, and rotates it when it is time.
func (k *Keeper) load(ctx context.Context) (Authority, error) {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: SecretCA}, secret)
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return Authority{}, fmt.Errorf("get secret %s: %w", SecretCA, err)
	}
	authority, err := decode(secret.Data)
	if err != nil {
		return Authority{}, fmt.Errorf("secret %s: %w: %w", SecretCA, errBroken, err)
	}
	rotated, changed, err := authority.Rotate(k.Now())
	if err != nil || !changed {
		return rotated, err
	}
	if secret.Data, err = rotated.encode(); err != nil {
		return Authority{}, err
	}
	// The update carries the resource version: of two writers one fails and loads what the other wrote.
	if err := k.Client.Update(ctx, secret); err != nil {
		return Authority{}, fmt.Errorf("update secret %s: %w", SecretCA, err)
	}
	return rotated, nil
}

// create makes the CA. Who comes second takes what the first one made.
func (k *Keeper) create(ctx context.Context) (Authority, error) {
	authority, err := NewAuthority(k.Now())
	if err != nil {
		return Authority{}, err
	}
	data, err := authority.encode()
	if err != nil {
		return Authority{}, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: SecretCA}, Type: corev1.SecretTypeTLS, Data: data,
	}
	err = k.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		return k.load(ctx)
	}
	if err != nil {
		return Authority{}, fmt.Errorf("create secret %s: %w", SecretCA, err)
	}
	return authority, nil
}

// publish keeps the copy of a client certificate up to date.
func (k *Keeper) publish(ctx context.Context, name string, own Client, a Authority) error {
	data := map[string][]byte{
		corev1.TLSCertKey: own.Certificate, corev1.TLSPrivateKeyKey: own.Key, keyBundle: a.Bundle(),
	}
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}, Type: corev1.SecretTypeTLS, Data: data,
		}
		err = k.Client.Create(ctx, secret)
	case err == nil && !maps.EqualFunc(secret.Data, data, bytes.Equal):
		secret.Data = data
		err = k.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write secret %s: %w", name, err)
	}
	return nil
}
