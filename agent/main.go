// Command agent is Quarry's part on a node: it shows the node's block devices and works on them when the controller asks. It knows
// how to work on disks, never which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quarry.storage/quarry/agent/internal/config"
	cephchild "quarry.storage/quarry/agent/internal/host/cephfs/child"
	"quarry.storage/quarry/agent/internal/host/nfs/child"
	"quarry.storage/quarry/pkg/version"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	os.Exit(start())
}

func start() int {
	if len(os.Args) > 1 && os.Args[1] == child.Command {
		return child.Main(os.Args, os.Stdin, os.Stdout)
	}
	if len(os.Args) > 1 && os.Args[1] == cephchild.Command {
		return cephchild.Main(os.Args, os.Stdin, os.Stdout)
	}
	if len(os.Args) > 1 && os.Args[1] == doctorCommand {
		return examine(context.Background(), os.Args[2:], os.Stdout, os.Stderr)
	}
	cfg, err := config.Parse(os.Args[1:], os.Getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, "agent:", err)
		return exitUsage
	case cfg.ShowVersion:
		fmt.Println("agent", version.Version)
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, cfg); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return exitFailure
	}
	return 0
}
