package agents

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"quarry.storage/quarry/pkg/certlife"
)

// bufferBytes keeps the buffers of a connection small: there is one per node, and they are idle nearly always.
const bufferBytes = 4 << 10

// maxMessageBytes bounds a report: thousands of devices fit.
const maxMessageBytes = 16 << 20

// dialLimit bounds the TCP part of an attempt to connect, which the kernel of a machine answers however busy its agent is; it begins one again after a second. The handshake that follows has what is left of
// attemptLimit.
const (
	dialLimit    = 2500 * time.Millisecond
	attemptLimit = 5 * time.Second
)

// connect prepares a connection; it is made when it is first used. tried is told of each attempt.
func (p *Pool) connect(node, address string, tried func(began time.Time, err error)) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(&freshTLS{node: node, config: p.cfg.TLS}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			began := time.Now()
			conn, err := p.cfg.Dial(ctx, address)
			tried(began, err)
			return conn, err
		}),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: attemptLimit, Backoff: backoff.Config{
			BaseDelay: minPause, Multiplier: 1.6, Jitter: max(0, p.cfg.Jitter), MaxDelay: maxPause,
		}}),
		grpc.WithReadBufferSize(bufferBytes), grpc.WithWriteBufferSize(bufferBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
		grpc.WithIdleTimeout(0),
		// An agent that hangs while its kernel answers is noticed too. Agents accept one ping in 10 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 8 * time.Second, PermitWithoutStream: true}),
		// No call is tried again by itself. Once an agent has refused a change of a shared group nothing of it may come later (decision 0038).
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("dial agent of node %s at %s: %w", node, address, err)
	}
	return conn, nil
}

// dialTCP connects to an agent over the network.
func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	// The kernel notices a peer that went away without a word after 4 + 2×2 s.
	dialer := net.Dialer{Timeout: dialLimit, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 4 * time.Second, Interval: 2 * time.Second, Count: 2,
	}}
	return dialer.DialContext(ctx, "tcp", address)
}

// unanswered reports whether nobody answered an attempt to connect: the machine is away, or what leads to it. A machine whose agent is not there yet refuses it.
func unanswered(err error) bool {
	late, is := errors.AsType[net.Error](err)
	return errors.Is(err, unix.EHOSTUNREACH) || is && late.Timeout()
}

// freshTLS asks for the TLS configuration at every handshake, so that renewed certificates and roots are used.
type freshTLS struct {
	node   string
	config func(node string) (*tls.Config, error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *freshTLS) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.config(f.node)
	if err != nil {
		return nil, nil, fmt.Errorf("configure tls: %w", err)
	}
	conn, info, err := credentials.NewTLS(cfg).ClientHandshake(ctx, f.node, raw)
	if err != nil {
		return nil, nil, err
	}
	return certlife.Bound(conn, info), info, nil
}

// ServerHandshake implements credentials.TransportCredentials; clients have none.
func (f *freshTLS) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("client credentials have no server handshake")
}

// Info implements credentials.TransportCredentials.
func (f *freshTLS) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone implements credentials.TransportCredentials.
func (f *freshTLS) Clone() credentials.TransportCredentials {
	c := *f
	return &c
}

// OverrideServerName implements credentials.TransportCredentials. The node's name is the only name an agent has.
func (f *freshTLS) OverrideServerName(string) error { return nil }
