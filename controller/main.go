// Command controller decides what happens to the disks of storage nodes, and lets the agents do it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"

	"quarry.storage/quarry/controller/internal/setup"
	"quarry.storage/quarry/pkg/version"
)

func main() { os.Exit(run(os.Args[1:])) }

// run picks the subcommand; without one it is "manager".
func run(args []string) int {
	command := "manager"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	var err error
	switch command {
	case "manager":
		err = manage(args)
	case "csi":
		err = serveCSI(args)
	case "version":
		fmt.Println(version.Version)
	default:
		err = fmt.Errorf("unknown command %q: want manager, csi or version", command)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "controller:", err)
		return 1
	}
	return 0
}

func manage(args []string) error {
	cfg, err := setup.Parse(args)
	if err != nil {
		return err
	}
	return setup.Start(cfg.Verbosity, func(ctx context.Context, rc *rest.Config) error { return setup.Run(ctx, rc, cfg) })
}

func serveCSI(args []string) error {
	cfg, err := setup.ParseCSI(args)
	if err != nil {
		return err
	}
	return setup.Start(cfg.Verbosity, func(ctx context.Context, rc *rest.Config) error { return setup.RunCSI(ctx, rc, cfg) })
}
