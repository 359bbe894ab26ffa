package main

import (
	"context"
	"sync/atomic"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/agent/internal/host/fs"
	"quarry.storage/quarry/agent/internal/host/lvm"
	"quarry.storage/quarry/agent/internal/host/lvm/shared"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/lun"
	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/epoch"
	"quarry.storage/quarry/agent/internal/sharedgroup/tools"
)

// newSharedGroups connects work on the groups of shared LUNs to the tools of this node. disks is the one that the engine works with, too.
func newSharedGroups(
	ctx context.Context, cfg config.Config, luns sharedgroup.Luns, volumes *lvm.LVM, disks *disk.Tool, changing func() (end func()), log logr.Logger,
) *sharedgroup.Service {
	return sharedgroup.New(ctx, sharedgroup.Config{
		Node:        cfg.NodeName,
		Luns:        luns,
		Groups:      tools.Groups{LVM: shared.New(volumes), Disks: disks, Proc: cfg.ProcDir},
		Devices:     newLinear(cfg),
		Epochs:      epoch.Files{Dir: cfg.SharedDir},
		Changing:    changing,
		Filesystems: tools.Filesystems{FS: fs.New(hostrun.Real{})},
		Log:         log.WithName("sharedgroup"),
	})
}

// sharedLUNs tells the observer which devices are the LUNs of Iscsis. What tells that is made after the observer.
type sharedLUNs struct {
	groups atomic.Pointer[sharedgroup.Service]
	luns   atomic.Pointer[lun.Node]
}

// Devices are the kernel names of the devices that the controller has on record as the LUN of an Iscsi.
func (s *sharedLUNs) Devices() ([]string, error) {
	groups, luns := s.groups.Load(), s.luns.Load()
	if groups == nil || luns == nil {
		return nil, nil
	}
	recorded := groups.Recorded()
	if len(recorded) == 0 {
		return nil, nil
	}
	return luns.Known(recorded)
}

// newLinear makes what works on the devices of volumes of shared LUNs.
func newLinear(cfg config.Config) tools.Devices {
	return tools.Devices{DM: linear.New(linear.Config{Runner: hostrun.Real{}, Sys: cfg.SysDir, Dev: cfg.DevDir, Proc: cfg.ProcDir})}
}
