// Package forward carries connections from the machine's loopback address into
// the lab's network namespace. It knows addresses, not what is said over them.
package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// ListenerFD is the descriptor a forwarder gets its outer listener on. The
// socket was opened in the machine's namespace, the process runs in the lab's:
// so it reaches both.
const ListenerFD = 3

// Run serves the inherited listener, one on the same address inside the
// namespace, so that a kubeconfig works on both sides, and one on the target's
// service address there.
func Run(target, service string) error {
	f := os.NewFile(ListenerFD, "listener")
	outer, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("inherited listener: %w", err)
	}
	f.Close()
	inner, err := net.Listen("tcp", outer.Addr().String())
	if err != nil {
		return err
	}
	serving, err := net.Listen("tcp", service)
	if err != nil {
		return err
	}
	failures := make(chan error, 3)
	for _, l := range []net.Listener{outer, inner, serving} {
		go func() { failures <- serve(l, target) }()
	}
	return <-failures
}

func serve(l net.Listener, target string) error {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go carry(conn, target)
	}
}

// carry copies both ways and passes the end of each direction on.
func carry(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(pair[1], pair[0])
			if half, ok := pair[1].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}
