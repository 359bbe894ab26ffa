package main

import (
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/csi/nfs"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/version"
)

// newShares makes the client of NFS shares. They are mounted in the network namespace of the host's process 1, which outlives this pod.
func newShares(cfg config.Config, log logr.Logger) *hostnfs.Client {
	return hostnfs.New(hostnfs.Config{
		NodeName: cfg.NodeName, Namespace: filepath.Join(cfg.ProcDir, "1/ns/net"), Log: log.WithName("nfs"),
	})
}

// newDrivers connects the CSI services to the tools of this node, one driver per storage. Local volumes are looked up and activated
// through the engine, under the same locks as the controller's calls.
func newDrivers(
	cfg config.Config, volumes lvm.Volumes, shares *hostnfs.Client, log logr.Logger, registry prometheus.Registerer,
) []*csi.Driver {
	// The library that checks and grows filesystems logs through klog.
	klog.SetLogger(log.WithName("mount"))
	kernel := mount.NewKernel(cfg.KubeletDir)
	files := fs.New(hostrun.Real{})
	common := csi.Config{
		Version: version.Version, NodeName: cfg.NodeName, KubeletDir: cfg.KubeletDir, Filesystems: files, Mounter: kernel, Places: kernel,
		Log: log.WithName("csi"), Registry: registry,
	}
	var drivers []*csi.Driver
	for _, source := range []csi.Source{
		lvm.New(lvm.Config{NodeName: cfg.NodeName, Volumes: volumes, Devices: dm.New(dm.Config{}), Filesystems: files}),
		nfs.New(nfs.Config{Shares: shares, Places: kernel, Table: kernel, Log: common.Log, Registry: registry}),
	} {
		common.Source = source
		drivers = append(drivers, csi.New(common))
	}
	return drivers
}
