package csirpc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
)

// stopTimeout is how long Stop waits for calls in progress.
const stopTimeout = 20 * time.Second

// Served is one gRPC server on a unix socket.
type Served struct {
	server *grpc.Server
	failed chan error
}

// Serve makes the directory of a socket, listens on it and serves. It replaces a socket that a killed process left, and nothing else.
func Serve(path string, mode fs.FileMode, server *grpc.Server) (*Served, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := listen(path, mode)
	if err != nil {
		return nil, err
	}
	s := &Served{server: server, failed: make(chan error, 1)}
	go func() {
		if err := server.Serve(listener); err != nil {
			s.failed <- fmt.Errorf("serve %s: %w", path, err)
		}
	}()
	return s, nil
}

// Failed delivers the error that ended the server before Stop did.
func (s *Served) Failed() <-chan error { return s.failed }

// Stop removes the socket and waits for calls in progress, at most 20 s.
func (s *Served) Stop() {
	timer := time.AfterFunc(stopTimeout, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
}

func listen(path string, mode fs.FileMode) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("socket %s: something else is there", path)
	case err == nil:
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("socket: %w", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		listener.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	return listener, nil
}
