package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Material is a serving certificate together with the roots that clients are verified against.
type Material struct {
	Certificate tls.Certificate
	Roots       *x509.CertPool
}

// errNoCertificate answers a handshake before the first certificate is there.
var errNoCertificate = errors.New("no serving certificate yet")

// ServerTLS makes the configuration of a server that verifies its clients. The material is asked for at every handshake, so that a
// renewed certificate and renewed roots apply to the next connection. Sessions are not resumed: a resumed one would skip the check
// against the roots of now.
func ServerTLS(current func() *Material) *tls.Config {
	config := func(*tls.ClientHelloInfo) (*tls.Config, error) {
		m := current()
		if m == nil {
			return nil, errNoCertificate
		}
		return &tls.Config{
			Certificates:           []tls.Certificate{m.Certificate},
			ClientCAs:              m.Roots,
			ClientAuth:             tls.RequireAndVerifyClientCert,
			MinVersion:             tls.VersionTLS13,
			NextProtos:             []string{"h2"},
			SessionTicketsDisabled: true,
		}, nil
	}
	return &tls.Config{
		GetConfigForClient: config,
		ClientAuth:         tls.RequireAndVerifyClientCert,
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2"},
	}
}
