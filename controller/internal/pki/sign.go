package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// leafValidity is how long certificates of agents and of their clients are valid.
const leafValidity = 7 * 24 * time.Hour

// SignAgent signs a request that Policy.Decide found good. It returns the certificate and all trusted CA certificates as PEM:
// agents take from there whom to trust. wish shortens the validity; zero does not.
func (a Authority) SignAgent(req *x509.CertificateRequest, wish time.Duration, now time.Time) ([]byte, error) {
	validity := leafValidity
	if wish > 0 && wish < validity {
		validity = wish
	}
	der, err := a.sign(&x509.Certificate{
		Subject:     req.Subject,
		DNSNames:    req.DNSNames,
		IPAddresses: req.IPAddresses,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, req.PublicKey, validity, now)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", req.Subject.CommonName, err)
	}
	return bytes.Join([][]byte{encodeCertificate(der), a.Bundle()}, nil), nil
}

// Client is a client certificate with its key, as PEM.
type Client struct {
	Certificate, Key []byte
	NotBefore        time.Time
	NotAfter         time.Time
}

// SignClient makes a client certificate with a common name that agents know.
func (a Authority) SignClient(commonName string, now time.Time) (Client, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Client{}, fmt.Errorf("generate key of %s: %w", commonName, err)
	}
	der, err := a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, key.Public(), leafValidity, now)
	if err != nil {
		return Client{}, fmt.Errorf("sign certificate of %s: %w", commonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Client{}, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Client{}, fmt.Errorf("parse certificate of %s: %w", commonName, err)
	}
	return Client{Certificate: encodeCertificate(der), Key: keyPEM, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter}, nil
}

// sign fills in what all certificates have in common. None outlives the CA.
func (a Authority) sign(tmpl *x509.Certificate, key any, validity time.Duration, now time.Time) ([]byte, error) {
	serial, err := serialNumber()
	if err != nil {
		return nil, err
	}
	tmpl.SerialNumber = serial
	tmpl.NotBefore, tmpl.NotAfter = now.Add(-clockSkew), now.Add(validity)
	if tmpl.NotAfter.After(a.Current.Certificate.NotAfter) {
		tmpl.NotAfter = a.Current.Certificate.NotAfter
	}
	tmpl.BasicConstraintsValid = true
	return x509.CreateCertificate(rand.Reader, tmpl, a.Current.Certificate, key, a.Current.Key)
}
