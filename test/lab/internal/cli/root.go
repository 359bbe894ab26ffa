// Package cli is the lab's command line: flags and arguments in, calls of the
// other packages, plain text out.
package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/cluster"
	"quarry.storage/quarry/test/lab/internal/progress"
	"quarry.storage/quarry/test/lab/internal/spec"
)

// ExitError makes the program end with the exit code of a command it ran.
type ExitError struct{ Code int }

func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// app is what the commands share.
type app struct {
	name        string
	packageList string
}

// cluster opens the lab the command is about.
func (a *app) cluster() (*cluster.Cluster, error) {
	return cluster.For(a.name, newReporter())
}

// newReporter writes progress to standard error: standard output is for
// answers.
func newReporter() *progress.Reporter { return progress.New(os.Stderr) }

// group is a command that only has others below it. Without a function of its
// own it would take an unknown one for a success.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			return fmt.Errorf("%s: unknown command %q, see `%s --help`", cmd.CommandPath(), args, cmd.CommandPath())
		},
	}
}

// New gives the root command. The package list is the one of `lab deps`.
func New(packageList string) *cobra.Command {
	a := &app{packageList: packageList}
	root := &cobra.Command{
		Use:           "lab",
		Short:         "A real Kubernetes with real kernels and disks on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	name := os.Getenv("QUARRY_LAB")
	if name == "" {
		name = spec.DefaultName
	}
	root.PersistentFlags().StringVar(&a.name, "name", name, "which lab; the environment variable QUARRY_LAB sets the default")
	root.AddCommand(
		a.depsCommand(), a.buildCommand(), a.assetsCommand(), a.imageCommand(),
		a.upCommand(), a.downCommand(), a.statusCommand(), a.logsCommand(),
		a.kubectlCommand(), a.execCommand(), a.netnsCommand(), a.loadCommand(), a.snapshotsCommand(),
		a.diskCommand(), a.nodeCommand(), a.netCommand(), a.storageCommand(), a.etcdCommand(),
		forwardCommand(),
	)
	return root
}
