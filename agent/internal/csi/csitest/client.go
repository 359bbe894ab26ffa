package csitest

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"quarry.storage/quarry/agent/internal/csi"
)

// Client is the kubelet's side of a driver that runs.
type Client struct {
	csipb.NodeClient
	csipb.IdentityClient
	registration.RegistrationClient
	// Dir is the kubelet's directory.
	Dir string
	// Endpoint and Registration are the sockets.
	Endpoint, Registration string
	// Context is what staging and publishing say of volumes, and Attached what they say of their attachments, by handle.
	Context, Attached map[string]map[string]string
	// Secrets are those that staging carries; nil for a driver that needs none.
	Secrets map[string]string
	// Stop stops the driver, and waits until it has.
	Stop func()
}

// KubeletDir makes a directory with a path short enough for sockets.
func KubeletDir(t *testing.T) string {
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

// Start runs a driver until the test ends.
func Start(t *testing.T, cfg csi.Config) *Client {
	t.Helper()
	d := csi.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	c := &Client{
		Dir: cfg.KubeletDir, Endpoint: d.Endpoint(), Context: map[string]map[string]string{}, Attached: map[string]map[string]string{},
		Registration: filepath.Join(cfg.KubeletDir, "plugins_registry", cfg.Source.Profile().Name+"-reg.sock"),
	}
	stopped := false
	c.Stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(c.Stop)
	c.wait(t, done)
	node := dial(t, c.Endpoint)
	c.NodeClient, c.IdentityClient = csipb.NewNodeClient(node), csipb.NewIdentityClient(node)
	c.RegistrationClient = registration.NewRegistrationClient(dial(t, c.Registration))
	return c
}

func (c *Client) wait(t *testing.T, done <-chan error) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		// The file is there a moment before anybody listens.
		if conn, err := net.Dial("unix", c.Registration); err == nil {
			conn.Close()
			return
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

// StagingPath is the staging path of all volumes, below the kubelet's directory.
const StagingPath = "staging/globalmount"

// Path is one below the kubelet's directory, in a directory that exists.
func (c *Client) Path(t *testing.T, name string) string {
	t.Helper()
	p := filepath.Join(c.Dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// Stage stages a volume at StagingPath.
func (c *Client) Stage(t *testing.T, handle string, want *csipb.VolumeCapability) error {
	t.Helper()
	return c.StageAt(t, handle, StagingPath, want)
}

// StageAt stages a volume at a path below the kubelet's directory.
func (c *Client) StageAt(t *testing.T, handle, path string, want *csipb.VolumeCapability) error {
	t.Helper()
	_, err := c.NodeStageVolume(t.Context(), &csipb.NodeStageVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.Path(t, path), VolumeCapability: want,
		VolumeContext: c.Context[handle], PublishContext: c.Attached[handle], Secrets: c.Secrets,
	})
	return err
}

// Publish publishes a staged volume.
func (c *Client) Publish(t *testing.T, handle, target string, want *csipb.VolumeCapability, readOnly bool) error {
	t.Helper()
	_, err := c.NodePublishVolume(t.Context(), &csipb.NodePublishVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.Path(t, StagingPath), TargetPath: c.Path(t, target), VolumeCapability: want,
		Readonly: readOnly, VolumeContext: c.Context[handle], PublishContext: c.Attached[handle],
	})
	return err
}

// Unpublish takes a volume away from a pod.
func (c *Client) Unpublish(t *testing.T, handle, target string) error {
	t.Helper()
	_, err := c.NodeUnpublishVolume(t.Context(), &csipb.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: c.Path(t, target)})
	return err
}

// Unstage unstages a volume from StagingPath.
func (c *Client) Unstage(t *testing.T, handle string) error {
	t.Helper()
	_, err := c.NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: c.Path(t, StagingPath)})
	return err
}
