package main

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/version"
)

// newDriver connects the CSI services of local volumes to the tools of this node. Volumes are looked up and activated through the
// engine, under the same locks as the controller's calls.
func newDriver(cfg config.Config, volumes csi.Volumes, log logr.Logger, registry prometheus.Registerer) *csi.Driver {
	// The library that checks and grows filesystems logs through klog.
	klog.SetLogger(log.WithName("mount"))
	kernel := mount.NewKernel(cfg.KubeletDir)
	return csi.New(csi.Config{
		Version: version.Version, NodeName: cfg.NodeName, KubeletDir: cfg.KubeletDir,
		Volumes: volumes, Devices: dm.New(dm.Config{}), Filesystems: fs.New(hostrun.Real{}), Mounter: kernel, Places: kernel,
		Log: log.WithName("csi"), Registry: registry,
	})
}
