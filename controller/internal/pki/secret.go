package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// keys of the CA's Secret besides those of type kubernetes.io/tls.
const (
	keyBundle   = "ca.crt"
	keyNextCert = "next.crt"
	keyNextKey  = "next.key"
)

// encode writes the authority into the data of a Secret.
func (a Authority) encode() (map[string][]byte, error) {
	key, err := encodeKey(a.Current.Key)
	if err != nil {
		return nil, err
	}
	data := map[string][]byte{
		corev1.TLSCertKey: encodeCertificate(a.Current.Certificate.Raw), corev1.TLSPrivateKeyKey: key, keyBundle: a.Bundle(),
	}
	if a.Next == nil {
		return data, nil
	}
	data[keyNextCert] = encodeCertificate(a.Next.Certificate.Raw)
	if data[keyNextKey], err = encodeKey(a.Next.Key); err != nil {
		return nil, err
	}
	return data, nil
}

// decode reads an authority from the data of a Secret.
func decode(data map[string][]byte) (Authority, error) {
	var a Authority
	var err error
	if a.Current, err = parseCA(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err != nil {
		return a, fmt.Errorf("read ca: %w", err)
	}
	if len(data[keyNextCert]) > 0 {
		next, err := parseCA(data[keyNextCert], data[keyNextKey])
		if err != nil {
			return a, fmt.Errorf("read next ca: %w", err)
		}
		a.Next = &next
	}
	bundle, err := parseCertificates(data[keyBundle])
	if err != nil {
		return a, fmt.Errorf("read trusted certificates: %w", err)
	}
	for _, c := range bundle {
		known := bytes.Equal(c.Raw, a.Current.Certificate.Raw) || a.Next != nil && bytes.Equal(c.Raw, a.Next.Certificate.Raw)
		if !known {
			a.Old = append(a.Old, c)
		}
	}
	return a, nil
}

// readPublished reads a client certificate, and whom it trusts, from the data of a Secret that a Keeper published.
func readPublished(data map[string][]byte) (tls.Certificate, *x509.CertPool, error) {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return pair, nil, fmt.Errorf("client certificate: %w", err)
	}
	trusted, err := parseCertificates(data[keyBundle])
	if err != nil {
		return pair, nil, fmt.Errorf("trusted certificates: %w", err)
	}
	if len(trusted) == 0 {
		return pair, nil, errors.New("no certificate is trusted")
	}
	roots := x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	return pair, roots, nil
}
