package csi

import (
	"context"
	"errors"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quarry.storage/quarry/pkg/csirpc"
)

// bufferBytes is for each direction of a connection; the kubelet is all that connects.
const bufferBytes = 8 << 10

// socketMode lets only root connect. The directories belong to root as well: nobody else gets in between.
const socketMode = 0o600

func (d *Driver) newServer() *grpc.Server {
	return grpc.NewServer(grpc.UnaryInterceptor(d.calls.Handle), grpc.ReadBufferSize(bufferBytes), grpc.WriteBufferSize(bufferBytes))
}

func (d *Driver) serveServices() (*csirpc.Served, error) {
	g := d.newServer()
	csi.RegisterIdentityServer(g, d.newIdentity())
	csi.RegisterNodeServer(g, &node{Driver: d})
	return csirpc.Serve(d.Endpoint(), socketMode, g)
}

func (d *Driver) serveRegistration() (*csirpc.Served, error) {
	g := d.newServer()
	registration.RegisterRegistrationServer(g, &registrar{Driver: d})
	return csirpc.Serve(d.registrationEndpoint(), socketMode, g)
}

// registrar serves the kubelet, which watches the directory of the sockets: it asks when the socket appears, and when the kubelet starts.
type registrar struct {
	*Driver
	registration.UnimplementedRegistrationServer
}

// GetInfo returns where the CSI services are.
func (d *registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: d.profile.Name, Endpoint: d.Endpoint(), SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus records the outcome. The kubelet itself tries again after a failure.
func (d *registrar) NotifyRegistrationStatus(
	_ context.Context, req *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	d.registered.Set(map[bool]float64{true: 1}[req.GetPluginRegistered()])
	if req.GetPluginRegistered() {
		d.cfg.Log.Info("Registered with the kubelet")
	} else {
		d.cfg.Log.Error(errors.New(req.GetError()), "Refused by the kubelet")
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// newRegistered makes the metric of the registration.
func newRegistered(registry prometheus.Registerer, driver string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "quarry_agent_csi_registered", Help: "Whether the kubelet said that the driver is registered.",
		ConstLabels: prometheus.Labels{"driver": driver},
	})
	if registry != nil {
		registry.MustRegister(g)
	}
	return g
}
