package csi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	agentcsi "quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
)

// client is the kubelet's side.
type client struct {
	csi.NodeClient
	csi.IdentityClient
	registration.RegistrationClient
	host *csitest.Host
	dir  string
	// endpoint and registration are the sockets.
	endpoint, registration string
	stop                   func()
}

// kubeletDir is a directory with a path short enough for sockets.
func kubeletDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func start(t *testing.T, host *csitest.Host) *client {
	t.Helper()
	return startConfig(t, host, host.Config())
}

func startConfig(t *testing.T, host *csitest.Host, cfg agentcsi.Config) *client {
	t.Helper()
	d := agentcsi.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	c := &client{
		host: host, dir: cfg.KubeletDir, endpoint: d.Endpoint(),
		registration: filepath.Join(cfg.KubeletDir, "plugins_registry", "lvm.quarry.storage-reg.sock"),
	}
	stopped := false
	c.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(c.stop)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(c.registration); err == nil {
			break
		}
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatal("the driver does not listen")
		}
	}
	node := dial(t, c.endpoint)
	c.NodeClient, c.IdentityClient = csi.NewNodeClient(node), csi.NewIdentityClient(node)
	c.RegistrationClient = registration.NewRegistrationClient(dial(t, c.registration))
	return c
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
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

// path is one below the kubelet's directory, in a directory that exists.
func (c *client) path(t *testing.T, name string) string {
	t.Helper()
	p := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *client) stage(t *testing.T, handle string, want *csi.VolumeCapability) error {
	t.Helper()
	_, err := c.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"), VolumeCapability: want,
	})
	return err
}

func (c *client) publish(t *testing.T, handle, target string, want *csi.VolumeCapability, readOnly bool) error {
	t.Helper()
	_, err := c.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"), TargetPath: c.path(t, target), VolumeCapability: want,
		Readonly: readOnly,
	})
	return err
}

func (c *client) unpublish(t *testing.T, handle, target string) error {
	t.Helper()
	_, err := c.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: c.path(t, target)})
	return err
}

func (c *client) unstage(t *testing.T, handle string) error {
	t.Helper()
	_, err := c.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"),
	})
	return err
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
