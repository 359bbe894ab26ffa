// Package pki makes the lab's certificate authorities, certificates and
// kubeconfigs. It knows who talks to whom in Kubernetes, not how the programs
// are run.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"quarry.storage/quarry/test/lab/internal/state"
)

// lifetime is far longer than any lab is up.
const lifetime = 10 * 365 * 24 * time.Hour

// Authority is a certificate authority whose files lie in a directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Identity is what a certificate says about its holder.
type Identity struct {
	// File is the name of the .crt and .key files.
	File          string
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []string
}

// EnsureAuthority loads the authority with the given file name, or makes it.
func EnsureAuthority(dir, file string) (*Authority, error) {
	certPath, keyPath := filepath.Join(dir, file+".crt"), filepath.Join(dir, file+".key")
	if cert, key, err := load(certPath, keyPath); err == nil {
		return &Authority{dir: dir, cert: cert, key: key}, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "lab-" + file})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", file, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &Authority{dir: dir, cert: cert, key: key}, save(certPath, keyPath, der, key)
}

// Ensure makes a key and certificate for an identity unless they are there.
func (a *Authority) Ensure(id Identity) error {
	certPath, keyPath := filepath.Join(a.dir, id.File+".crt"), filepath.Join(a.dir, id.File+".key")
	if _, _, err := load(certPath, keyPath); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate(pkix.Name{CommonName: id.CommonName, Organization: id.Organizations})
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	template.DNSNames = id.DNSNames
	for _, ip := range id.IPs {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("create certificate %s: %w", id.File, err)
	}
	return save(certPath, keyPath, der, key)
}

// EnsureKeyPair makes the bare key pair that service account tokens are signed
// with: FILE.key and FILE.pub.
func EnsureKeyPair(dir, file string) error {
	keyPath, pubPath := filepath.Join(dir, file+".key"), filepath.Join(dir, file+".pub")
	if _, err := os.Stat(pubPath); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := saveKey(keyPath, key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return state.WriteFile(pubPath, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	// An hour back, for a node whose clock is a little behind.
	from := time.Now().Add(-time.Hour)
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: from, NotAfter: from.Add(lifetime),
	}, nil
}

func load(certPath, keyPath string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certPEM, err := os.ReadFile(certPath)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := os.ReadFile(keyPath)
	if err != nil {
		return nil, nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, nil, fmt.Errorf("%s or its key is not PEM", certPath)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", certPath, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	return cert, key, nil
}

// save writes the key first, so that a certificate without a key never shows.
func save(certPath, keyPath string, der []byte, key *ecdsa.PrivateKey) error {
	if err := saveKey(keyPath, key); err != nil {
		return err
	}
	return state.WriteFile(certPath, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func saveKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return state.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}
