package main

import (
	"io"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/config"
	"quarry.storage/quarry/agent/internal/host/block"
	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/mount"
	"quarry.storage/quarry/agent/internal/host/occupant"
	"quarry.storage/quarry/agent/internal/host/reservation"
	hostrun "quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/agent/internal/lun"
)

// newLuns connects work on iSCSI targets and their LUNs to the tools of this node. The initiator keeps iscsid running where the host has none.
func newLuns(cfg config.Config, bootID string, log logr.Logger) (*lun.Node, *iscsi.Host) {
	initiator := iscsi.New(iscsi.Config{
		Runner: hostrun.Real{}, Start: startDaemon, Sys: cfg.SysDir, Proc: cfg.ProcDir, NodeName: cfg.NodeName, Log: log.WithName("iscsi"),
	})
	return lun.New(lun.Config{
		NodeName: cfg.NodeName, BootID: bootID, Dev: cfg.DevDir, Initiator: initiator, Reservations: reservation.New(),
		Uses: lun.HostUses{Tools: lun.Tools{
			Sys: cfg.SysDir, Dev: cfg.DevDir,
			Block:     block.New(block.Config{Sys: cfg.SysDir, Dev: cfg.DevDir, Udev: cfg.UdevDir, WithoutUdev: cfg.WithoutUdev}),
			Mounts:    mount.New(mount.Config{Proc: cfg.ProcDir, Dev: cfg.DevDir}),
			Occupants: occupant.New(occupant.Config{Sys: cfg.SysDir, Dev: cfg.DevDir, Proc: cfg.ProcDir}),
		}},
	}), initiator
}

// startDaemon starts a process that talks to nobody.
func startDaemon(cmd hostrun.Command) (iscsi.Process, error) {
	p, err := hostrun.Real{}.Start(cmd)
	if err != nil {
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stdout) }() // What it says is in its standard error.
	return p, nil
}
