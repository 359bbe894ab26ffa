// Package pki issues the certificates that an agent needs to serve, and its caller to be heard, without a Kubernetes.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	"quarry.storage/quarry/pkg/quarry"
)

// validity of what an authority issues, longer than any run.
const validity = 24 * time.Hour

// Authority issues the certificates of one run: the agent's, its API server's, and the client's.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// New makes an authority that nobody else trusts.
func New() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &Authority{key: key}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "quarry:bench"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if a.certificate, err = a.issue(template, template, key.Public()); err != nil {
		return nil, fmt.Errorf("make authority: %w", err)
	}
	return a, nil
}

func (a *Authority) issue(template, parent *x509.Certificate, public any) (*x509.Certificate, error) {
	a.serial++
	template.SerialNumber = big.NewInt(a.serial)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// pair makes a certificate with its key.
func (a *Authority) pair(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := a.issue(template, a.certificate, key.Public())
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issue certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, a.certificate.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// sign answers an agent's request as the controller does: the leaf, then the authority, both in PEM.
func (a *Authority) sign(request []byte) ([]byte, error) {
	block, _ := pem.Decode(request)
	if block == nil {
		return nil, errors.New("request is not PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse request: %w", err)
	}
	leaf, err := a.issue(&x509.Certificate{
		Subject: csr.Subject, DNSNames: csr.DNSNames, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.certificate, csr.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	return append(inPEM(leaf), a.Bundle()...), nil
}

// Bundle is the authority's own certificate, in PEM.
func (a *Authority) Bundle() []byte { return inPEM(a.certificate) }

func inPEM(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// Client is what the controller dials an agent with.
func (a *Authority) Client(node string) (*tls.Config, error) {
	pair, err := a.pair(&x509.Certificate{
		Subject: pkix.Name{CommonName: quarry.ControllerCommonName}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(a.certificate)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, ServerName: node, MinVersion: tls.VersionTLS13}, nil
}
