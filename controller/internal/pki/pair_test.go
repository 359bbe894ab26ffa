package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// given makes an authority as a person would.
func given(t *testing.T, isCA bool) (certificate, key []byte) {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mine"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: isCA, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	return encodeCertificate(der), pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(k)})
}

// TestSignPair signs with an authority of ours, and with one of a person.
func TestSignPair(t *testing.T) {
	own, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := GivenCA(given(t, true))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"*.pool.storage.svc", "localhost"}
	for _, ca := range []CA{own.Current, theirs} {
		p, err := ca.SignPair(names, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(p.CA)
		block, _ := pem.Decode(p.Certificate)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "a.pool.storage.svc", KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
				t.Error(err)
			}
		}
		if cert.NotAfter.After(ca.Certificate.NotAfter) {
			t.Errorf("it outlives the authority: %s", cert.NotAfter)
		}
		other := own.Current
		if ca.Certificate == other.Certificate {
			other = theirs
		}
		for want, got := range map[string]bool{
			"yes": p.Serves(ca, names, time.Now()), "no: another authority": !p.Serves(other, names, time.Now()), "no: another name": !p.Serves(ca, append(names, "x"), time.Now()),
			"no: it ended": !p.Serves(ca, names, time.Now().Add(20*365*24*time.Hour)), "no: it is none": !Pair{}.Serves(ca, names, time.Now()),
		} {
			if !got {
				t.Errorf("want %s", want)
			}
		}
	}
}

func TestGivenCA_refuses(t *testing.T) {
	certificate, key := given(t, true)
	leaf, leafKey := given(t, false)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	another, err := encodeKey(k)
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string][2][]byte{
		"nothing": {}, "no key": {certificate, nil}, "garbage": {[]byte("<html>"), key}, "the key of another": {certificate, another}, "no authority": {leaf, leafKey},
	} {
		if _, err := GivenCA(pair[0], pair[1]); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
