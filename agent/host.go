package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/apply"
	applyceph "quarry.storage/quarry/agent/internal/apply/ceph"
	applydisk "quarry.storage/quarry/agent/internal/apply/disk"
	applylvm "quarry.storage/quarry/agent/internal/apply/lvm"
	"quarry.storage/quarry/agent/internal/config"
	csilvm "quarry.storage/quarry/agent/internal/csi/lvm"
	"quarry.storage/quarry/agent/internal/host/block"
	hostceph "quarry.storage/quarry/agent/internal/host/ceph"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/dm"
	"quarry.storage/quarry/agent/internal/host/dm/crypt"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/module"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/inventory"
	"quarry.storage/quarry/agent/internal/node"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/quiet"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/pkg/systemid"
	"quarry.storage/quarry/pkg/version"
)

// newServerConfig connects the server and its engine to the tools of this node. disks is the one that all of the agent works with, uses are the locks
// that the CSI services have, too.
func newServerConfig(
	cfg config.Config, disks *disk.Tool, uses node.Uses, shared inventory.SharedLUNs, log logr.Logger,
) (server.Config, *lvm.LVM, error) {
	release, bootID, factsErr := nodeFacts(cfg.ProcDir)
	volumes, lvmErr := lvm.New(lvm.Config{
		Runner: hostrun.Real{}, Dir: cfg.LVMDir, Binary: cfg.LVMBinary, WithoutDeviceMapper: cfg.WithoutDeviceMapper,
		SystemID: systemid.Of(cfg.NodeName),
	})
	if err := errors.Join(factsErr, lvmErr); err != nil {
		return server.Config{}, nil, err
	}
	engine, err := newEngine(cfg, volumes, disks, uses, shared, log)
	return server.Config{
		NodeName: cfg.NodeName, Version: version.Version, KernelRelease: release, BootID: bootID, Node: engine, LVM: volumes,
		Uptime: block.Uptime, Log: log,
	}, volumes, err
}

// newEngine connects the engine to the observer and the adapters of this node's tools.
func newEngine(
	cfg config.Config, volumes *lvm.LVM, disks *disk.Tool, uses node.Uses, shared inventory.SharedLUNs, log logr.Logger,
) (*node.Engine, error) {
	devices := block.New(block.Config{Sys: cfg.SysDir, Dev: cfg.DevDir, Udev: cfg.UdevDir, WithoutUdev: cfg.WithoutUdev})
	observer, err := inventory.New(inventory.Config{
		Block: devices, Mounts: mount.New(mount.Config{Proc: cfg.ProcDir, Dev: cfg.DevDir}), Prober: disks, LVM: volumes,
		SystemID: systemid.Of(cfg.NodeName), ProbeTypes: cfg.AllowTypes, SharedLUNs: shared,
		Occupants: occupant.New(occupant.Config{Sys: cfg.SysDir, Dev: cfg.DevDir, Proc: cfg.ProcDir}),
	})
	if err != nil {
		return nil, fmt.Errorf("set up: %w", err)
	}
	onDisk := applydisk.Adapter{Tool: disks, Devices: observer, Udev: devices}
	mapped := dm.New(dm.Config{Sys: cfg.SysDir, Dev: cfg.DevDir})
	onGroup := applylvm.Adapter{Tool: volumes, Devices: onDisk, Zeroes: mapped}
	onCeph := applyceph.Adapter{
		Tool: hostceph.New(hostceph.Config{
			Runner: hostrun.Real{}, Proc: cfg.ProcDir, Kernel: loads(module.New(module.Config{Runner: hostrun.Real{}, Sys: cfg.SysDir, Proc: cfg.ProcDir})),
		}),
		Devices: onDisk, Mappings: crypt.New(crypt.Config{Runner: hostrun.Real{}, Dev: cfg.DevDir}),
	}
	policy := plan.Policy{MinSizeBytes: cfg.MinDeviceBytes, AllowTypes: cfg.AllowTypes}
	watcher := quiet.New(quiet.Config{
		Source: observer, Devices: observer, Guard: onDisk, Policy: policy, Quiet: quiet.Time, Log: log.WithName("quiet"),
	})
	return node.New(node.Config{
		Policy: policy, Observer: watcher, Looker: observer, Groups: observer, Resolve: node.ResolveLinks, Uses: uses,
		Applier:  apply.Applier{Adapter: apply.Adapters{onDisk, onGroup, onCeph}, Guard: watcher},
		Contents: csilvm.Contents{Devices: mapped, Filesystems: fs.New(hostrun.Real{})},
	}), nil
}

// loads reports whether the kernel has a part, or can load it.
func loads(kernel module.Tool) func(context.Context, string) (bool, error) {
	return func(ctx context.Context, name string) (bool, error) {
		state, err := kernel.State(ctx, name)
		if err == nil && state == module.Unknown {
			err = errors.New("nobody can tell")
		}
		return state == module.Present || state == module.Loadable, err
	}
}
