package csi_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	agentcsi "quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/csitest"
	"quarry.storage/quarry/agent/internal/host/mount"
)

func TestDriver_registers(t *testing.T) {
	c := start(t, csitest.NewHost(kubeletDir(t)))
	got, err := c.GetInfo(t.Context(), &registration.InfoRequest{})
	must(t, err)
	want := &registration.PluginInfo{
		Type: "CSIPlugin", Name: "lvm.quarry.storage", Endpoint: filepath.Join(c.dir, "plugins/lvm.quarry.storage/csi.sock"),
		SupportedVersions: []string{"1.0.0"},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for _, status := range []*registration.RegistrationStatus{{PluginRegistered: true}, {Error: "no"}} {
		_, err = c.NotifyRegistrationStatus(t.Context(), status)
		must(t, err)
	}
	for _, socket := range []string{c.endpoint, c.registration} {
		info, err := os.Stat(socket)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", socket, info.Mode())
		}
	}
	c.stop()
	for _, socket := range []string{c.endpoint, c.registration} {
		if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left behind: %v", socket, err)
		}
	}
}

func TestDriver_replacesSocketsOfAKilledAgent(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	cfg := host.Config()
	stale := filepath.Join(cfg.KubeletDir, "plugins_registry", "lvm.quarry.storage-reg.sock")
	must(t, os.MkdirAll(filepath.Dir(stale), 0o755))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	c := start(t, host)
	// The socket file that start sees first may still be the old one.
	for {
		if _, err := c.GetInfo(t.Context(), &registration.InfoRequest{}); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestDriver_leavesOtherFilesAlone(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	d := agentcsi.New(host.Config())
	must(t, os.MkdirAll(filepath.Dir(d.Endpoint()), 0o755))
	must(t, os.WriteFile(d.Endpoint(), []byte("x"), 0o600))
	if err := d.Run(t.Context()); err == nil {
		t.Error("a file was taken for a socket")
	}
	if _, err := os.Stat(d.Endpoint()); err != nil {
		t.Error(err)
	}
}

func TestDriver_refusesToWorkOnAPrivateMount(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	cfg := host.Config()
	cfg.Mounter = privateMounter{host.Mounter}
	if err := agentcsi.New(cfg).Run(t.Context()); err == nil {
		t.Error("mounts would not reach the host")
	}
}

type privateMounter struct{ *mount.Fake }

func (m privateMounter) Points() ([]mount.Point, error) {
	points, err := m.Fake.Points()
	for i := range points {
		points[i].Shared = false
	}
	return points, err
}

// TestNodeGetInfo: the scheduler is told how many volumes a node takes, and a node of whose name no topology can be made is not registered.
func TestNodeGetInfo(t *testing.T) {
	for name, want := range map[string]codes.Code{
		csitest.NodeName: codes.OK, strings.Repeat("n", 63): codes.OK, strings.Repeat("n", 64): codes.FailedPrecondition,
	} {
		host := csitest.NewHost(kubeletDir(t))
		cfg := host.Config()
		cfg.NodeName = name
		info, err := startConfig(t, host, cfg).NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
		if status.Code(err) != want {
			t.Errorf("%s: %v, want code %s", name, err, want)
		}
		if err == nil && (info.GetNodeId() != name || info.GetMaxVolumesPerNode() != 1000) {
			t.Errorf("%s: %v", name, info)
		}
	}
}
