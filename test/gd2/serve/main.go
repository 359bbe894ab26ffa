// Command serve is the stand-in for glusterd2 as programs of a lab: the hub with the model, or the server of one pod. It also starts with the
// arguments of glusterd2, as the workload of a GlusterNode has them.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
