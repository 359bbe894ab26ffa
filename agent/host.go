package main

import (
	"errors"
	"fmt"

	"quarry.storage/quarry/agent/internal/apply"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/mount"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/inventory"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/pkg/version"
)

// newServerConfig connects the server to the tools of this node.
func newServerConfig(cfg config.Config) (server.Config, error) {
	release, bootID, factsErr := nodeFacts(cfg.ProcDir)
	volumes, lvmErr := lvm.New(lvm.Config{
		Runner: hostrun.Real{}, Dir: cfg.LVMDir, Binary: cfg.LVMBinary, WithoutDeviceMapper: cfg.WithoutDeviceMapper,
	})
	if err := errors.Join(factsErr, lvmErr); err != nil {
		return server.Config{}, err
	}
	devices := block.New(block.Config{Sys: cfg.SysDir, Dev: cfg.DevDir, Udev: cfg.UdevDir, WithoutUdev: cfg.WithoutUdev})
	disks := disk.New()
	observer, err := inventory.New(inventory.Config{
		Block: devices, Mounts: mount.New(mount.Config{Proc: cfg.ProcDir, Dev: cfg.DevDir}), Prober: disks, LVM: volumes, ProbeTypes: cfg.AllowTypes,
	})
	if err != nil {
		return server.Config{}, fmt.Errorf("set up: %w", err)
	}
	onDisk := applydisk.Adapter{Tool: disks, Devices: applydisk.Reader{Block: devices}}
	onGroup := applylvm.Adapter{Tool: volumes, Devices: onDisk}
	return server.Config{
		NodeName: cfg.NodeName, Version: version.Version, KernelRelease: release, BootID: bootID,
		Policy:   plan.Policy{MinSizeBytes: cfg.MinDeviceBytes, AllowTypes: cfg.AllowTypes},
		Observer: observer, Groups: observer, Applier: apply.Applier{Adapter: apply.Adapters{onDisk, onGroup}, Guard: onDisk},
		LVM: volumes, Resolve: server.ResolveLinks,
	}, nil
}
