// Command lab runs a real Kubernetes on one machine: its nodes are user-mode
// Linux kernels with disks of their own, all in one network namespace. The
// tests that need real kernels and real disks run on it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quarry.storage/quarry/test/lab/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := cli.New(packageList).ExecuteContext(ctx)
	var exit cli.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		os.Exit(exit.Code)
	default:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}
