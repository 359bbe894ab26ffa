// Package pki is the project's certificate authority: it keeps one CA in a Secret, says which requests of agents may be signed,
// signs them, and keeps the controller's own client certificate. It knows nothing of the kinds of this project.
package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// Times of the CA. A new CA is trusted for overlap before anything is signed with it: by then every certificate of an agent
// has been renewed, and with it what the agent trusts.
const (
	caValidity    = 10 * 365 * 24 * time.Hour
	caRenewBefore = 365 * 24 * time.Hour
	caOverlap     = 30 * 24 * time.Hour
	// clockSkew is how far certificates are dated back.
	clockSkew = 5 * time.Minute
)

// blocks in PEM.
const (
	blockCertificate = "CERTIFICATE"
	blockKey         = "PRIVATE KEY"
	blockRequest     = "CERTIFICATE REQUEST"
)

// CA is a certificate and its key.
type CA struct {
	Certificate *x509.Certificate
	Key         crypto.Signer
}

// Authority is the CA that signs, the one that is going to, and those that are trusted besides.
type Authority struct {
	// Current signs.
	Current CA
	// Next is trusted already and signs after the overlap; nil most of the time.
	Next *CA
	// Old are trusted until they expire.
	Old []*x509.Certificate
}

// NewAuthority makes a CA.
func NewAuthority(now time.Time) (Authority, error) {
	ca, err := newCA(now)
	return Authority{Current: ca}, err
}

func newCA(now time.Time) (CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return CA{}, fmt.Errorf("generate key of ca: %w", err)
	}
	serial, err := serialNumber()
	if err != nil {
		return CA{}, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "quarry ca " + now.UTC().Format("2006-01-02T15:04:05Z")},
		NotBefore:    now.Add(-clockSkew), NotAfter: now.Add(caValidity),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		return CA{}, fmt.Errorf("sign ca: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return CA{}, fmt.Errorf("parse ca: %w", err)
	}
	return CA{Certificate: cert, Key: key}, nil
}

// Rotate returns the authority as it should be now, and whether that is a change.
func (a Authority) Rotate(now time.Time) (Authority, bool, error) {
	changed := false
	if kept := unexpired(a.Old, now); len(kept) != len(a.Old) {
		a.Old, changed = kept, true
	}
	switch {
	case a.Next != nil && now.Sub(a.Next.Certificate.NotBefore) >= caOverlap:
		a.Old = append(a.Old, a.Current.Certificate)
		a.Current, a.Next, changed = *a.Next, nil, true
	case a.Next == nil && a.Current.Certificate.NotAfter.Sub(now) < caRenewBefore:
		next, err := newCA(now)
		if err != nil {
			return a, changed, err
		}
		a.Next, changed = &next, true
	}
	return a, changed, nil
}

func unexpired(certs []*x509.Certificate, now time.Time) []*x509.Certificate {
	var kept []*x509.Certificate
	for _, c := range certs {
		if now.Before(c.NotAfter) {
			kept = append(kept, c)
		}
	}
	return kept
}

// Trusted returns every CA certificate that is trusted, the one that signs first.
func (a Authority) Trusted() []*x509.Certificate {
	all := []*x509.Certificate{a.Current.Certificate}
	if a.Next != nil {
		all = append(all, a.Next.Certificate)
	}
	return append(all, a.Old...)
}

// Pool returns the trusted certificates as TLS wants them.
func (a Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	for _, c := range a.Trusted() {
		p.AddCert(c)
	}
	return p
}

// Bundle returns the trusted certificates as PEM.
func (a Authority) Bundle() []byte {
	var b bytes.Buffer
	for _, c := range a.Trusted() {
		b.Write(encodeCertificate(c.Raw))
	}
	return b.Bytes()
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: der})
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockKey, Bytes: der}), nil
}

// parseCA reads a certificate and the key that belongs to it.
func parseCA(certPEM, keyPEM []byte) (CA, error) {
	certs, err := parseCertificates(certPEM)
	if err != nil {
		return CA{}, err
	}
	if len(certs) != 1 || !certs[0].IsCA {
		return CA{}, errors.New("want exactly one certificate, of a ca")
	}
	block, _ := pem.Decode(keyPEM)
	if block == nil {
		return CA{}, errors.New("no key")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return CA{}, fmt.Errorf("parse key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certs[0].PublicKey) {
		return CA{}, errors.New("key does not belong to the certificate")
	}
	return CA{Certificate: certs[0], Key: key}, nil
}

func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return certs, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		certs = append(certs, c)
	}
}

// serialNumber returns 159 random bits: at most 20 octets, never negative.
func serialNumber() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 159))
	if err != nil {
		return nil, fmt.Errorf("draw serial number: %w", err)
	}
	return n, nil
}
