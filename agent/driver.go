package main

import (
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/csi"
	"quarry.storage/quarry/agent/internal/csi/ceph"
	"quarry.storage/quarry/agent/internal/csi/iscsi"
	"quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/csi/nfs"
	"quarry.storage/quarry/agent/internal/host/cephfs"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostnfs "quarry.storage/quarry/agent/internal/host/nfs"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/version"
)

// newShares makes the client of NFS shares. They are mounted in the network namespace of the host's process 1, which outlives this pod.
func newShares(cfg config.Config, log logr.Logger) *hostnfs.Client {
	return hostnfs.New(hostnfs.Config{
		NodeName: cfg.NodeName, Namespace: filepath.Join(cfg.ProcDir, "1/ns/net"), Log: log.WithName("nfs"),
	})
}

// newCephMounts makes what mounts volumes of Ceph, in the same network namespace.
func newCephMounts(cfg config.Config, log logr.Logger) *cephfs.Client {
	return cephfs.New(cephfs.Config{Namespace: filepath.Join(cfg.ProcDir, "1/ns/net"), Log: log.WithName("ceph")})
}

// storages are what the sources of volumes work with. Local volumes are looked up and activated through the engine, under the same locks as the
// controller's calls.
type storages struct {
	volumes lvm.Volumes
	// uses keep calls on one volume apart from each other, and from the beginning of its removal.
	uses   *csirpc.Locks
	shares *hostnfs.Client
	groups iscsi.Groups
	luns   iscsi.Luns
}

// newDrivers connects the CSI services to the tools of this node, one driver per storage.
func newDrivers(cfg config.Config, on storages, log logr.Logger, registry prometheus.Registerer) []*csi.Driver {
	// The library that checks and grows filesystems logs through klog.
	klog.SetLogger(log.WithName("mount"))
	kernel := mount.NewKernel(cfg.KubeletDir)
	files := fs.New(hostrun.Real{})
	common := csi.Config{
		Version: version.Version, NodeName: cfg.NodeName, KubeletDir: cfg.KubeletDir, Filesystems: files, Mounter: kernel, Places: kernel,
		Locks: on.uses, Log: log.WithName("csi"), Registry: registry,
	}
	var drivers []*csi.Driver
	for _, source := range []csi.Source{
		lvm.New(lvm.Config{NodeName: cfg.NodeName, Volumes: on.volumes, Devices: dm.New(dm.Config{}), Filesystems: files}),
		iscsi.New(iscsi.Config{
			Node: cfg.NodeName, Groups: on.groups, Luns: on.luns, Devices: newLinear(cfg),
			Records: iscsi.Records{Dir: filepath.Join(cfg.SharedDir, "volumes")},
		}),
		ceph.New(ceph.Config{Mounts: newCephMounts(cfg, log), Places: kernel, Table: kernel, Log: common.Log}),
		nfs.New(nfs.Config{Shares: on.shares, Places: kernel, Table: kernel, Log: common.Log, Registry: registry}),
	} {
		common.Source = source
		drivers = append(drivers, csi.New(common))
	}
	return drivers
}
