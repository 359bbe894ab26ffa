package csi_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	"quarry.storage/quarry/agent/internal/csi/csitest"
)

func TestNode_refusesUnsafePaths(t *testing.T) {
	c, v, handle := newNode(t)
	outside := t.TempDir()
	must(t, os.Symlink(outside, filepath.Join(c.dir, "link")))
	must(t, os.Mkdir(filepath.Join(outside, "dir"), 0o755))
	for name, path := range map[string]string{
		"relative": "pods/x", "outside": outside + "/x", "root": c.dir, "parent": c.dir + "/../x", "dots inside": c.dir + "/a/../b",
		"not clean": c.dir + "//x", "a trailing slash": c.dir + "/x/", "a link": c.dir + "/link", "through a link": c.dir + "/link/dir",
		"a prefix only": c.dir + "x/y", "NUL": c.dir + "/x\x00y", "very long": c.dir + strings.Repeat("/x", 4096), "the system": "/etc",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
				VolumeId: handle, StagingTargetPath: path, VolumeCapability: filesystem("ext4"),
			})
			wantCode(t, err, codes.InvalidArgument)
			_, err = c.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{
				VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"), TargetPath: path, VolumeCapability: block(),
			})
			wantCode(t, err, codes.InvalidArgument)
			_, err = c.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: handle, TargetPath: path})
			wantCode(t, err, codes.InvalidArgument)
			_, err = c.NodeUnstageVolume(t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: handle, StagingTargetPath: path})
			wantCode(t, err, codes.InvalidArgument)
		})
	}
	if !v.New {
		t.Error("the volume was touched")
	}
	if entries, _ := os.ReadDir(filepath.Join(outside, "dir")); len(entries) != 0 {
		t.Errorf("made outside: %v", entries)
	}
}

func TestNode_refusesBadCapabilities(t *testing.T) {
	c, v, handle := newNode(t)
	shared := filesystem("ext4")
	shared.AccessMode = mode(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
	group := filesystem("ext4")
	group.GetMount().VolumeMountGroup = "1000"
	for name, want := range map[string]*csi.VolumeCapability{
		"none": nil, "several nodes": shared, "no access type": {AccessMode: mode(csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)},
		"no mode": {AccessType: block().AccessType}, "another filesystem": filesystem("ntfs"), "an option as filesystem": filesystem("-t"),
		"a mount group": group, "another device": filesystem("xfs", "logdev=/dev/sda"), "suid": filesystem("ext4", "suid"),
		"dev": filesystem("ext4", "dev"), "a second option behind a comma": filesystem("ext4", "noatime,journal_path=/etc/shadow"),
		"an option of another filesystem": filesystem("ext4", "nouuid"), "a bind mount": filesystem("ext4", "bind"),
		"a remount": filesystem("ext4", "remount"), "an empty option": filesystem("ext4", ""),
		"a value with a comma": filesystem("ext4", "commit=5,dev"), "propagation": filesystem("ext4", "shared"),
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, c.stage(t, handle, want), codes.InvalidArgument)
		})
	}
	if !v.New {
		t.Error("the volume was touched")
	}
}

func TestDriver_countsAndKeepsSecretsOutOfItsLog(t *testing.T) {
	host := csitest.NewHost(kubeletDir(t))
	handle := csitest.ID("pvc-1").String()
	host.Add(csitest.ID("pvc-1"), gib)
	cfg := host.Config()
	registry := prometheus.NewRegistry()
	var log bytes.Buffer
	var mu sync.Mutex
	cfg.Registry = registry
	cfg.Log = funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		log.WriteString(prefix + args + "\n")
	}, funcr.Options{Verbosity: 10})
	c := startConfig(t, host, cfg)
	_, err := c.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{
		VolumeId: handle, StagingTargetPath: c.path(t, "staging/globalmount"), VolumeCapability: filesystem("ext4"),
		Secrets: map[string]string{"passphrase": "hunter2"},
	})
	must(t, err)
	wantCode(t, c.stage(t, "x", filesystem("ext4")), codes.NotFound)
	c.stop()
	if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), handle) {
		t.Errorf("log is:\n%s", log.String())
	}
	counted := map[string]float64{}
	families, err := registry.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != "quarry_agent_csi_handled_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			key := ""
			for _, l := range m.GetLabel() {
				key += l.GetValue() + " "
			}
			counted[key] = m.GetCounter().GetValue()
		}
	}
	for _, key := range []string{"OK lvm.quarry.storage NodeStageVolume ", "NotFound lvm.quarry.storage NodeStageVolume "} {
		if counted[key] != 1 {
			t.Errorf("%q is not counted once: %v", key, counted)
		}
	}
}
