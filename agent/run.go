package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"quarry.storage/quarry/agent/internal/config"
	cephchild "quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/disk"
	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/agent/internal/host/sole"
	"quarry.storage/quarry/agent/internal/identity"
	"quarry.storage/quarry/agent/internal/probe"
	"quarry.storage/quarry/agent/internal/server"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/version"
)

const (
	// memoryLimit makes the garbage collector work harder before the agent grows beyond its share of a node.
	memoryLimit = 48 << 20
	// gcPercent trades a little time for a small heap: the agent has little to do, and shares the node with everything else.
	gcPercent = 50
	// pause between two looks whether another agent still works on the node.
	pause = time.Second
)

// run serves until the context ends.
func run(ctx context.Context, cfg config.Config) error {
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(gcPercent)
	log := newLog(cfg.Verbosity)
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	turn := sole.New(sole.Config{Dir: cfg.LVMDir, Proc: cfg.ProcDir, Except: []string{child.Command, cephchild.Command, doctorCommand}, Pause: pause, Log: log.WithName("sole")})
	id := identity.New(identity.Config{
		NodeName: cfg.NodeName, Log: log.WithName("identity"),
		Signer: identity.API{URL: cfg.APIServer, TokenFile: cfg.TokenFile, CAFile: cfg.CAFile},
	})
	probes, err := net.Listen("tcp", cfg.Probe)
	if err != nil {
		return fmt.Errorf("listen for probes: %w", err)
	}
	log.Info("Starting agent", "version", version.Version, "node", cfg.NodeName)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		ready := func() error { return cmp.Or(turn.Check(), id.Check()) }
		return probe.Serve(ctx, probes, ready, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	})
	// The file of the lock is closed when everything has ended.
	release := func() {}
	defer func() { release() }()
	group.Go(func() error {
		r, err := turn.Take(ctx)
		if err != nil {
			// Told to stop before its turn came.
			return nil
		}
		release = r
		group.Go(func() error { id.Run(ctx); return nil })
		return work(ctx, cfg, log, registry, id)
	})
	return group.Wait()
}

// work touches the node; only the one agent whose turn it is comes here.
func work(ctx context.Context, cfg config.Config, log logr.Logger, registry *prometheus.Registry, id *identity.Manager) error {
	disks := disk.New()
	shared := &sharedLUNs{}
	uses := &csirpc.Locks{}
	serverConfig, volumes, err := newServerConfig(cfg, disks, uses, shared, log)
	if err != nil {
		return err
	}
	serverConfig.Registry = registry
	serverConfig.HandshakeFailed = id.Doubt
	shares := newShares(cfg, log)
	defer shares.Close()
	serverConfig.Shares = shares
	luns, initiator := newLuns(cfg, serverConfig.BootID, log)
	serverConfig.Luns = luns
	groups := newSharedGroups(ctx, cfg, luns, volumes, disks, serverConfig.Node.Changing, log)
	defer groups.Close()
	serverConfig.SharedGroups = groups
	shared.groups.Store(groups)
	shared.luns.Store(luns)
	srv := server.New(serverConfig)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serve(ctx, cfg, id, srv) })
	group.Go(func() error { return initiator.Run(ctx) })
	group.Go(func() error { groups.Watch(ctx); return nil })
	if cfg.KubeletDir != "" {
		for _, driver := range newDrivers(cfg, storages{volumes: serverConfig.Node, uses: uses, shares: shares, groups: groups, luns: luns}, log, registry) {
			group.Go(func() error { return driver.Run(ctx) })
		}
	}
	return group.Wait()
}

// serve listens only when there is a certificate to serve with.
func serve(ctx context.Context, cfg config.Config, id *identity.Manager, srv *server.Server) error {
	select {
	case <-ctx.Done():
		return nil
	case <-id.Ready():
	}
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return srv.Serve(ctx, listener, id.TLSConfig())
}

// newLog writes JSON lines to standard error.
func newLog(verbosity int) logr.Logger {
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)})
	return logr.FromSlogHandler(handler)
}

// nodeFacts are what the kernel says about itself, once per boot.
func nodeFacts(procDir string) (release, bootID string, err error) {
	release, releaseErr := readLine(filepath.Join(procDir, "sys/kernel/osrelease"))
	bootID, bootErr := readLine(filepath.Join(procDir, "sys/kernel/random/boot_id"))
	return release, bootID, errors.Join(releaseErr, bootErr)
}

func readLine(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}
