package pki

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// Reasons why a request is denied.
const (
	ReasonNotAnAgent     = "NotAnAgent"
	ReasonNodeUnknown    = "NodeUnknown"
	ReasonBadRequest     = "BadRequest"
	ReasonWrongSubject   = "WrongSubject"
	ReasonWrongNames     = "WrongNames"
	ReasonWrongUsages    = "WrongUsages"
	ReasonWrongKey       = "WrongKey"
	ReasonWrongExtension = "WrongExtension"
)

// extraNode is where the API server puts the name of the node that a service account token is bound to.
const extraNode = "authentication.kubernetes.io/node-name"

// Denial is why a request must not be signed.
type Denial struct {
	// Reason is CamelCase, Message one sentence.
	Reason, Message string
}

// Policy says who may have a certificate.
type Policy struct {
	// AgentUser is the user name of the agents' service account.
	AgentUser string
}

// Decide returns the request in parsed form when it may be signed, or why it must not. A request is good only when the agent's
// service account, with a token bound to a node, asks for a serving certificate for exactly that node.
func (p Policy) Decide(csr *certificatesv1.CertificateSigningRequest) (*x509.CertificateRequest, *Denial) {
	if csr.Spec.Username != p.AgentUser {
		return nil, &Denial{ReasonNotAnAgent, fmt.Sprintf("Only %s may ask for certificates of agents, not %q.", p.AgentUser, csr.Spec.Username)}
	}
	bound := csr.Spec.Extra[extraNode]
	if len(bound) != 1 || bound[0] == "" {
		return nil, &Denial{ReasonNodeUnknown, "The token that the request was made with is not bound to a node."}
	}
	node := bound[0]
	req, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return nil, &Denial{ReasonBadRequest, fmt.Sprintf("The request cannot be read: %v.", err)}
	}
	for _, check := range []func(*x509.CertificateRequest, string) *Denial{checkSubject, checkNames, checkExtensions, checkKey} {
		if d := check(req, node); d != nil {
			return nil, d
		}
	}
	if d := checkUsages(csr.Spec.Usages); d != nil {
		return nil, d
	}
	return req, nil
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(data)
	if block == nil || block.Type != blockRequest {
		return nil, errors.New("want PEM of type " + blockRequest)
	}
	if len(strings.TrimSpace(string(rest))) > 0 {
		return nil, errors.New("something follows the request")
	}
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return req, req.CheckSignature()
}

func checkSubject(req *x509.CertificateRequest, node string) *Denial {
	want := v1alpha1.AgentCommonNamePrefix + node
	if req.Subject.CommonName != want || len(req.Subject.Names) != 1 {
		return &Denial{ReasonWrongSubject, fmt.Sprintf("The subject must be the common name %q and nothing else, not %q.", want, req.Subject)}
	}
	return nil
}

// checkNames wants the node's name and nothing else: as a DNS name, or as an IP address where the name is one. TLS looks for it there.
func checkNames(req *x509.CertificateRequest, node string) *Denial {
	var addresses []string
	for _, ip := range req.IPAddresses {
		addresses = append(addresses, ip.String())
	}
	names, kind := req.DNSNames, "DNS name"
	if net.ParseIP(node) != nil {
		names, addresses, kind = addresses, names, "IP address"
	}
	if !slices.Equal(names, []string{node}) {
		return &Denial{ReasonWrongNames, fmt.Sprintf("The request must have the %s %q and no other, not %q.", kind, node, names)}
	}
	if len(addresses)+len(req.URIs)+len(req.EmailAddresses) > 0 {
		return &Denial{ReasonWrongNames, fmt.Sprintf("The request must have no name but the %s: no other kind of name, URI or e-mail address.", kind)}
	}
	return nil
}

// checkExtensions refuses whatever else a request could carry: names of other kinds, constraints, policies.
func checkExtensions(req *x509.CertificateRequest, _ string) *Denial {
	for _, e := range req.Extensions {
		if !e.Id.Equal([]int{2, 5, 29, 17}) {
			return &Denial{ReasonWrongExtension, fmt.Sprintf("The request must have no extension but its DNS name, not %s.", e.Id)}
		}
	}
	return nil
}

func checkKey(req *x509.CertificateRequest, _ string) *Denial {
	switch k := req.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521() {
			return nil
		}
	case ed25519.PublicKey:
		return nil
	}
	return &Denial{ReasonWrongKey, "The key must be ECDSA on P-256, P-384 or P-521, or Ed25519."}
}

// checkUsages wants server auth, and allows only what a serving certificate needs.
func checkUsages(usages []certificatesv1.KeyUsage) *Denial {
	allowed := []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth,
	}
	for _, u := range usages {
		if !slices.Contains(allowed, u) {
			return &Denial{ReasonWrongUsages, fmt.Sprintf("The usage %q is not for agents.", u)}
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageServerAuth) {
		return &Denial{ReasonWrongUsages, "The usages must include server auth."}
	}
	return nil
}
