package pki

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// load returns the CA that is in force, rotated when it is time, and writes it where the Secret has another. What this process holds outranks
// the Secret, unless the Secret goes on from it. published is the Secret of the controller's certificate; nil without one.
func (k *Keeper) load(ctx context.Context, published *corev1.Secret) (Authority, error) {
	secret, err := k.get(ctx, SecretCA)
	if err != nil {
		return Authority{}, err
	}
	k.mu.RLock()
	held := k.authority
	k.mu.RUnlock()
	switch {
	case wantsNew(published):
		return k.begin(ctx, secret)
	case secret == nil && held != nil:
		return *held, k.putBack(ctx, nil, *held, "the secret is gone")
	case secret == nil && published != nil:
		return Authority{}, fmt.Errorf("secret %s: %w", SecretCA, errLost)
	case secret == nil:
		return k.begin(ctx, nil)
	}
	authority, wrong, err := k.read(secret, held, published)
	if err != nil {
		return Authority{}, err
	}
	if wrong != "" {
		return *held, k.putBack(ctx, secret, *held, wrong)
	}
	rotated, changed, err := authority.Rotate(k.Now())
	if err != nil || !changed {
		return rotated, err
	}
	return rotated, k.write(ctx, secret, rotated)
}

// read reads the CA from its Secret. It returns why the CA that is held must be put back in its place, or an error where none is held.
func (k *Keeper) read(secret *corev1.Secret, held *Authority, published *corev1.Secret) (Authority, string, error) {
	authority, err := decode(secret.Data)
	switch {
	case held != nil && err != nil:
		return authority, "the secret cannot be read: " + err.Error(), nil
	case err != nil:
		return authority, "", fmt.Errorf("secret %s: %w: %w", SecretCA, errBroken, err)
	case held != nil && !authority.follows(*held, k.Now()):
		return authority, "the secret has another certificate authority", nil
	case held == nil && published != nil && !authority.knows(published.Data[corev1.TLSCertKey]):
		return authority, "", fmt.Errorf("secret %s has another certificate authority than %s: %w", SecretCA, SecretClient, errLost)
	}
	return authority, "", nil
}

// wantsNew reports whether a person said that a new CA is meant.
func wantsNew(published *corev1.Secret) bool {
	return published != nil && published.UID != "" && published.Annotations[v1alpha1.AnnotationNewCA] == string(published.UID)
}

// follows reports whether an authority goes on from another, as after a rotation: it trusts all that the other trusts.
func (a Authority) follows(before Authority, now time.Time) bool {
	known := a.Pool()
	for _, c := range unexpired(before.Trusted(), now) {
		with := known.Clone()
		with.AddCert(c)
		if !with.Equal(known) {
			return false
		}
	}
	return true
}

// knows reports whether a trusted CA signed a certificate. One that cannot be read says nothing against the authority.
func (a Authority) knows(leafPEM []byte) bool {
	leaf, err := parseCertificates(leafPEM)
	if err != nil || len(leaf) == 0 {
		return true
	}
	return slices.ContainsFunc(a.Trusted(), func(c *x509.Certificate) bool { return leaf[0].CheckSignatureFrom(c) == nil })
}

// begin makes a new CA. It trusts no earlier one.
func (k *Keeper) begin(ctx context.Context, secret *corev1.Secret) (Authority, error) {
	authority, err := NewAuthority(k.Now())
	if err != nil {
		return Authority{}, err
	}
	logf.FromContext(ctx).Info("Beginning with a new certificate authority", "name", authority.Current.Certificate.Subject.CommonName)
	return authority, k.write(ctx, secret, authority)
}

func (k *Keeper) putBack(ctx context.Context, secret *corev1.Secret, a Authority, why string) error {
	logf.FromContext(ctx).Info("Putting back the certificate authority", "secret", SecretCA, "why", why)
	return k.write(ctx, secret, a)
}

// write writes the CA, into the Secret that was read or into a new one. It carries the resource version: of two writers one fails, and loads
// what the other wrote.
func (k *Keeper) write(ctx context.Context, secret *corev1.Secret, a Authority) error {
	data, err := a.encode()
	if err != nil {
		return err
	}
	return k.put(ctx, SecretCA, secret, data)
}

// publish keeps the copy of a client certificate up to date, and takes off the word for a new CA, which has been made.
func (k *Keeper) publish(ctx context.Context, name string, own Client, a Authority) error {
	data := map[string][]byte{
		corev1.TLSCertKey: own.Certificate, corev1.TLSPrivateKeyKey: own.Key, keyBundle: a.Bundle(),
	}
	secret, err := k.get(ctx, name)
	if err != nil {
		return err
	}
	done := name == SecretClient && wantsNew(secret)
	if secret != nil && !done && maps.EqualFunc(secret.Data, data, bytes.Equal) {
		return nil
	}
	if done {
		delete(secret.Annotations, v1alpha1.AnnotationNewCA)
	}
	return k.put(ctx, name, secret, data)
}

// get returns a Secret; nil when it does not exist.
func (k *Keeper) get(ctx context.Context, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, types.NamespacedName{Namespace: k.Namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get secret %s: %w", name, err)
	}
	return secret, nil
}

// put changes the data of a Secret, or makes one when it is nil.
func (k *Keeper) put(ctx context.Context, name string, secret *corev1.Secret, data map[string][]byte) error {
	var err error
	if secret == nil {
		err = k.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: name}, Type: corev1.SecretTypeTLS, Data: data,
		})
	} else {
		secret.Data = data
		err = k.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write secret %s: %w", name, err)
	}
	return nil
}
