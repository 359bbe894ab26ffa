package access

import (
	"crypto/tls"
	"net"

	"google.golang.org/grpc/credentials"

	"quarry.storage/quarry/pkg/certlife"
)

// Credentials are those of a server whose connections end with the certificates of their clients. failed is told of every handshake that fails;
// it may be nil.
func Credentials(config *tls.Config, failed func(error)) credentials.TransportCredentials {
	if failed == nil {
		failed = func(error) {}
	}
	return &bounded{TransportCredentials: credentials.NewTLS(config), failed: failed}
}

type bounded struct {
	credentials.TransportCredentials
	failed func(error)
}

// ServerHandshake implements credentials.TransportCredentials.
func (b *bounded) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		b.failed(err)
		return nil, nil, err
	}
	if c, ok := raw.(*limited); ok {
		c.prove()
	}
	return certlife.Bound(conn, info), info, nil
}

// Clone implements credentials.TransportCredentials.
func (b *bounded) Clone() credentials.TransportCredentials {
	return &bounded{TransportCredentials: b.TransportCredentials.Clone(), failed: b.failed}
}
