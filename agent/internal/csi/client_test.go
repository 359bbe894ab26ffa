package csi_test

import (
	"errors"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	agentcsi "quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// client is the kubelet's side.
type client struct {
	*csitest.Client
	host *csitest.Host
	dir  string
	// endpoint and registration are the sockets.
	endpoint, registration string
	stop                   func()
}

func kubeletDir(t *testing.T) string { return csitest.KubeletDir(t) }

func start(t *testing.T, host *csitest.Host) *client {
	t.Helper()
	return startConfig(t, host, host.Config())
}

func startConfig(t *testing.T, host *csitest.Host, cfg agentcsi.Config) *client {
	t.Helper()
	c := csitest.Start(t, cfg)
	return &client{Client: c, host: host, dir: c.Dir, endpoint: c.Endpoint, registration: c.Registration, stop: c.Stop}
}

func filesystem(fsType string, options ...string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: mode(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER),
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: options}},
	}
}

func block() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: mode(csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER),
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}

func alone(c *csi.VolumeCapability) *csi.VolumeCapability {
	c.AccessMode = mode(csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
	return c
}

func mode(m csi.VolumeCapability_AccessMode_Mode) *csi.VolumeCapability_AccessMode {
	return &csi.VolumeCapability_AccessMode{Mode: m}
}

func (c *client) path(t *testing.T, name string) string { return c.Path(t, name) }

func (c *client) stage(t *testing.T, handle string, want *csi.VolumeCapability) error {
	t.Helper()
	return c.Stage(t, handle, want)
}

func (c *client) publish(t *testing.T, handle, target string, want *csi.VolumeCapability, readOnly bool) error {
	t.Helper()
	return c.Publish(t, handle, target, want, readOnly)
}

func (c *client) unpublish(t *testing.T, handle, target string) error {
	t.Helper()
	return c.Unpublish(t, handle, target)
}

func (c *client) unstage(t *testing.T, handle string) error {
	t.Helper()
	return c.Unstage(t, handle)
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("code %s (%v), want %s", got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errKilled = errors.New("killed")
