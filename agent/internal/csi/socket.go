package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// served is one gRPC server on a unix socket.
type served struct {
	server *grpc.Server
	failed chan error
}

// serve listens on a socket. One that a killed agent left is replaced; anything else at the path is not.
func serve(path string, server *grpc.Server) (*served, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
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
	// The directories belong to root as well: nobody else gets in between.
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("socket: %w", err)
	}
	s := &served{server: server, failed: make(chan error, 1)}
	go func() {
		if err := server.Serve(listener); err != nil {
			s.failed <- fmt.Errorf("serve %s: %w", path, err)
		}
	}()
	return s, nil
}

// stop removes the socket and waits for calls in progress.
func (s *served) stop() {
	timer := time.AfterFunc(stopTimeout, s.server.Stop)
	defer timer.Stop()
	s.server.GracefulStop()
}

// bufferBytes is for each direction of a connection; the kubelet is all that connects.
const bufferBytes = 8 << 10

func (d *Driver) newServer() *grpc.Server {
	return grpc.NewServer(grpc.UnaryInterceptor(d.handle), grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes))
}

func (d *Driver) serveServices() (*served, error) {
	g := d.newServer()
	csi.RegisterIdentityServer(g, &identity{Driver: d})
	csi.RegisterNodeServer(g, &node{Driver: d})
	return serve(d.Endpoint(), g)
}

func (d *Driver) serveRegistration() (*served, error) {
	g := d.newServer()
	registration.RegisterRegistrationServer(g, &registrar{Driver: d})
	return serve(d.registrationEndpoint(), g)
}

// registrar answers the kubelet, which watches the directory of the sockets: it asks when the socket appears, and when it starts.
type registrar struct {
	*Driver
	registration.UnimplementedRegistrationServer
}

// GetInfo tells where the CSI services are.
func (d *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: d.cfg.Name, Endpoint: d.Endpoint(), SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus takes note of the outcome. The kubelet itself tries again where it failed.
func (d *registrar) NotifyRegistrationStatus(
	_ context.Context, req *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	d.metrics.registration(req.GetPluginRegistered())
	if req.GetPluginRegistered() {
		d.cfg.Log.Info("Registered with the kubelet")
	} else {
		d.cfg.Log.Error(errors.New(req.GetError()), "Refused by the kubelet")
	}
	return &registration.RegistrationStatusResponse{}, nil
}
