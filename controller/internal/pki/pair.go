package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"
)

// Pair is a certificate for servers and clients with its key, as PEM, and whom they trust.
type Pair struct{ Certificate, Key, CA []byte }

// SignPair makes a certificate with names for a server that is a client, too. It ends with the authority: who has it reads it once, at start.
func (c CA) SignPair(names []string, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate key of %s: %w", names[0], err)
	}
	der, err := Authority{Current: c}.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "quarry"}, DNSNames: names, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key.Public(), caValidity, now)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate of %s: %w", names[0], err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encodeCertificate(der), Key: encoded, CA: encodeCertificate(c.Certificate.Raw)}, nil
}

// GivenCA reads the authority of a person: any key that can sign, in any form that is usual.
func GivenCA(certificate, key []byte) (CA, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return CA{}, fmt.Errorf("read the authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return CA{}, errors.New("read the authority: its key cannot sign")
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return CA{}, fmt.Errorf("read the authority: %w", err)
	}
	if !cert.IsCA || cert.KeyUsage != 0 && cert.KeyUsage&x509.KeyUsageCertSign == 0 {
		return CA{}, errors.New("the certificate is none of an authority: it must not sign others")
	}
	return CA{Certificate: cert, Key: signer}, nil
}

// Serves reports whether a pair has these names, is of this authority, and is valid for long enough.
func (p Pair) Serves(ca CA, names []string, now time.Time) bool {
	pair, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return false
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil || cert.CheckSignatureFrom(ca.Certificate) != nil || !now.Before(cert.NotAfter) {
		return false
	}
	have := map[string]bool{}
	for _, n := range cert.DNSNames {
		have[n] = true
	}
	for _, n := range names {
		if !have[n] {
			return false
		}
	}
	return true
}

// Encode returns the certificate and the key of an authority as PEM.
func (c CA) Encode() (certificate, key []byte, err error) {
	if key, err = encodeKey(c.Key); err != nil {
		return nil, nil, err
	}
	return encodeCertificate(c.Certificate.Raw), key, nil
}
