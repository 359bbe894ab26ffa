package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/network"
	"quarry.storage/quarry/test/lab/internal/remote"
)

func (a *app) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl …",
		Short:              "Run kubectl as the lab's administrator",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			args = a.takeName(args)
			c, err := a.cluster()
			if err != nil {
				return err
			}
			assets, err := build.Assets(cmd.Context(), newReporter())
			if err != nil {
				return err
			}
			kubectl := exec.CommandContext(cmd.Context(), filepath.Join(assets, "kubectl"), args...)
			kubectl.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
			return passThrough(kubectl, (*exec.Cmd).Run)
		},
	}
}

// takeName takes the lab's own flag off the front of arguments that are not
// parsed because they are another program's.
func (a *app) takeName(args []string) []string {
	if len(args) > 1 && args[0] == "--name" {
		a.name = args[1]
		return args[2:]
	}
	if len(args) > 0 {
		if name, ok := strings.CutPrefix(args[0], "--name="); ok {
			a.name = name
			return args[1:]
		}
	}
	return args
}

func (a *app) netnsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "netns -- CMD…",
		Short: "Run a command of the machine inside the lab's network namespace",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return passThrough(exec.CommandContext(cmd.Context(), args[0], args[1:]...), func(command *exec.Cmd) error {
				if err := network.Inside(c.Namespace(), command.Start); err != nil {
					return err
				}
				return command.Wait()
			})
		},
	}
}

// passThrough runs a command on this program's own streams and turns its exit
// code into ours.
func passThrough(command *exec.Cmd, run func(*exec.Cmd) error) error {
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := run(command)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ExitError{Code: exit.ExitCode()}
	}
	return err
}

func (a *app) execCommand() *cobra.Command {
	var env []string
	var dir string
	cmd := &cobra.Command{
		Use:   "exec NODE -- CMD…",
		Short: "Run a command in a node",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			code, err := c.Exec(cmd.Context(), args[0], remote.Request{Args: args[1:], Env: env, Dir: dir},
				remote.Streams{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
			if err == nil && code != 0 {
				return ExitError{Code: code}
			}
			return err
		},
	}
	cmd.Flags().StringArrayVarP(&env, "env", "e", nil, "environment variable to set, as NAME=VALUE")
	cmd.Flags().StringVar(&dir, "dir", "", "working directory in the node")
	return cmd
}

func (a *app) loadCommand() *cobra.Command {
	var nodes []string
	cmd := &cobra.Command{
		Use:   "load IMAGE.tar",
		Short: "Import an image archive into the nodes' container runtime",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.Load(cmd.Context(), args[0], nodes)
		},
	}
	cmd.Flags().StringSliceVar(&nodes, "node", nil, "only into these nodes")
	return cmd
}
