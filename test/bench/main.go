// Command bench takes the measurements of docs/benchmarks.md inside a node of the lab, and writes that page from them. test/bench/run
// calls it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"quarry.storage/quarry/test/bench/internal/node"
)

func main() {
	if filepath.Base(os.Args[0]) == node.CountedName {
		code, err := node.Counted(os.Args)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
