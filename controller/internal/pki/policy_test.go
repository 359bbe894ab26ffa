package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

const agentUser = "system:serviceaccount:quarry-system:quarry-agent"

func ecKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// requestOf returns a request as the agent of n1 makes it.
func requestOf(t *testing.T, key crypto.Signer, edit func(*x509.CertificateRequest)) []byte {
	t.Helper()
	tmpl := &x509.CertificateRequest{Subject: pkix.Name{CommonName: v1alpha1.AgentCommonNamePrefix + "n1"}, DNSNames: []string{"n1"}}
	if edit != nil {
		edit(tmpl)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, tmpl, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: der})
}

func csrOf(request []byte, edit func(*certificatesv1.CertificateSigningRequestSpec)) *certificatesv1.CertificateSigningRequest {
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: v1alpha1.SignerAgent, Username: agentUser, Request: request,
		Extra:  map[string]certificatesv1.ExtraValue{extraNode: {"n1"}},
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}}
	if edit != nil {
		edit(&csr.Spec)
	}
	return csr
}

func TestDecide_good(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"P-256": ecKey(t), "Ed25519": ed} {
		req, denial := Policy{AgentUser: agentUser}.Decide(csrOf(requestOf(t, key, nil), nil))
		if denial != nil || req.Subject.CommonName != "quarry:agent:n1" {
			t.Errorf("%s: %+v", name, denial)
		}
	}
}

// TestDecide_nodeNamedByAddress: TLS looks for a name that is an IP address among the addresses, and nowhere else.
func TestDecide_nodeNamedByAddress(t *testing.T) {
	type request = x509.CertificateRequest
	address := net.IPv4(10, 1, 2, 3)
	for name, tt := range map[string]struct {
		edit func(*request)
		want string
	}{
		"its address":        {func(r *request) { r.DNSNames, r.IPAddresses = nil, []net.IP{address} }, ""},
		"a DNS name":         {func(r *request) { r.DNSNames = []string{"10.1.2.3"} }, ReasonWrongNames},
		"both":               {func(r *request) { r.DNSNames, r.IPAddresses = []string{"10.1.2.3"}, []net.IP{address} }, ReasonWrongNames},
		"another's address":  {func(r *request) { r.DNSNames, r.IPAddresses = nil, []net.IP{net.IPv4(10, 1, 2, 4)} }, ReasonWrongNames},
		"another's, besides": {func(r *request) { r.DNSNames, r.IPAddresses = nil, []net.IP{address, net.IPv4(10, 1, 2, 4)} }, ReasonWrongNames},
		"nothing":            {func(r *request) { r.DNSNames = nil }, ReasonWrongNames},
	} {
		csr := csrOf(requestOf(t, ecKey(t), func(r *request) {
			r.Subject.CommonName = v1alpha1.AgentCommonNamePrefix + "10.1.2.3"
			tt.edit(r)
		}), func(s *certificatesv1.CertificateSigningRequestSpec) {
			s.Extra[extraNode] = certificatesv1.ExtraValue{"10.1.2.3"}
		})
		req, denial := Policy{AgentUser: agentUser}.Decide(csr)
		if denial != nil && denial.Reason != tt.want || denial == nil && tt.want != "" {
			t.Errorf("%s: %+v", name, denial)
		}
		if denial != nil {
			continue
		}
		a := authorityAt(t, start)
		chain, err := a.SignAgent(req, 0, start)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := parseCertificates(chain)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := certs[0].Verify(x509.VerifyOptions{DNSName: "10.1.2.3", Roots: a.Pool(), CurrentTime: start}); err != nil {
			t.Error(err)
		}
	}
}

func TestDecide_badSpec(t *testing.T) {
	type spec = certificatesv1.CertificateSigningRequestSpec
	good := requestOf(t, ecKey(t), nil)
	for name, c := range map[string]struct {
		edit   func(*spec)
		reason string
	}{
		"another user":                       {func(s *spec) { s.Username = "system:serviceaccount:quarry-system:default" }, ReasonNotAnAgent},
		"the same name in another namespace": {func(s *spec) { s.Username = "system:serviceaccount:evil:quarry-agent" }, ReasonNotAnAgent},
		"no user":                            {func(s *spec) { s.Username = "" }, ReasonNotAnAgent},
		"a token without a node":             {func(s *spec) { s.Extra = nil }, ReasonNodeUnknown},
		"a token with two nodes": {func(s *spec) {
			s.Extra = map[string]certificatesv1.ExtraValue{extraNode: {"n1", "n2"}}
		}, ReasonNodeUnknown},
		"an empty node": {func(s *spec) { s.Extra = map[string]certificatesv1.ExtraValue{extraNode: {""}} }, ReasonNodeUnknown},
		"the token of another node": {func(s *spec) {
			s.Extra = map[string]certificatesv1.ExtraValue{extraNode: {"n2"}}
		}, ReasonWrongSubject},
		"no PEM": {func(s *spec) { s.Request = []byte("hello") }, ReasonBadRequest},
		"PEM of another kind": {func(s *spec) {
			s.Request = bytes.ReplaceAll(good, []byte("CERTIFICATE REQUEST"), []byte("NEW CERTIFICATE"))
		}, ReasonBadRequest},
		"two requests": {func(s *spec) { s.Request = append(bytes.Clone(good), good...) }, ReasonBadRequest},
		"broken content": {func(s *spec) {
			s.Request = pem.EncodeToMemory(&pem.Block{Type: blockRequest, Bytes: []byte{1, 2, 3}})
		}, ReasonBadRequest},
		"a broken signature": {func(s *spec) {
			block, _ := pem.Decode(good)
			block.Bytes[len(block.Bytes)-1] ^= 1
			s.Request = pem.EncodeToMemory(block)
		}, ReasonBadRequest},
		"client auth":    {func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageClientAuth) }, ReasonWrongUsages},
		"signing":        {func(s *spec) { s.Usages = append(s.Usages, certificatesv1.UsageCertSign) }, ReasonWrongUsages},
		"no server auth": {func(s *spec) { s.Usages = s.Usages[:1] }, ReasonWrongUsages},
	} {
		t.Run(name, func(t *testing.T) {
			expectDenied(t, csrOf(good, c.edit), c.reason)
		})
	}
}

func TestDecide_badRequest(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	type request = x509.CertificateRequest
	for name, c := range map[string]struct {
		key    crypto.Signer
		edit   func(*request)
		reason string
	}{
		"the name of another node":     {nil, func(r *request) { r.Subject.CommonName = "quarry:agent:n2" }, ReasonWrongSubject},
		"the name of the controller":   {nil, func(r *request) { r.Subject.CommonName = v1alpha1.ControllerCommonName }, ReasonWrongSubject},
		"an organisation":              {nil, func(r *request) { r.Subject.Organization = []string{"system:masters"} }, ReasonWrongSubject},
		"the DNS name of another node": {nil, func(r *request) { r.DNSNames = []string{"n2"} }, ReasonWrongNames},
		"a second DNS name":            {nil, func(r *request) { r.DNSNames = []string{"n1", "n2"} }, ReasonWrongNames},
		"no DNS name":                  {nil, func(r *request) { r.DNSNames = nil }, ReasonWrongNames},
		"an IP address":                {nil, func(r *request) { r.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }, ReasonWrongNames},
		"a URI":                        {nil, func(r *request) { r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }, ReasonWrongNames},
		"an e-mail address":            {nil, func(r *request) { r.EmailAddresses = []string{"a@b.c"} }, ReasonWrongNames},
		"an extension": {nil, func(r *request) {
			r.ExtraExtensions = []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
		}, ReasonWrongExtension},
		"an RSA key":    {rsaKey, nil, ReasonWrongKey},
		"a small curve": {p224, nil, ReasonWrongKey},
	} {
		t.Run(name, func(t *testing.T) {
			key := c.key
			if key == nil {
				key = ecKey(t)
			}
			expectDenied(t, csrOf(requestOf(t, key, c.edit), nil), c.reason)
		})
	}
}

func expectDenied(t *testing.T, csr *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	req, denial := Policy{AgentUser: agentUser}.Decide(csr)
	if denial == nil || denial.Reason != reason || denial.Message == "" || req != nil {
		t.Errorf("got %+v, want %s", denial, reason)
	}
}
