package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/spec"
)

func (a *app) upCommand() *cobra.Command {
	var nodes int
	var disk, memory string
	var images, shares []string
	var bare bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Bring the lab up and print the path of its kubeconfig if it has Kubernetes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			lab, err := a.shape(nodes, disk, memory, shares)
			if err != nil {
				return err
			}
			lab.Bare = bare
			if lab.Images, err = absolute(images); err != nil {
				return err
			}
			c, err := a.cluster()
			if err != nil {
				return err
			}
			flags := cmd.Flags()
			adopt := !flags.Changed("nodes") && !flags.Changed("disk") && !flags.Changed("memory") && !flags.Changed("bare")
			if err := c.Up(cmd.Context(), lab, adopt); err != nil {
				return err
			}
			if _, err := os.Stat(c.Kubeconfig()); err == nil {
				fmt.Println(c.Kubeconfig())
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 3, "how many nodes")
	cmd.Flags().StringVar(&disk, "disk", "2x2G", "data disks per node, as COUNTxSIZE")
	cmd.Flags().StringVar(&memory, "memory", "2G", "memory per node")
	cmd.Flags().BoolVar(&bare, "bare", false, "nodes with a kernel, udev and disks only: no Kubernetes")
	cmd.Flags().StringSliceVar(&images, "image", nil, "archive of an image that new nodes have from the start: on the machine that is several times faster than `lab load`")
	cmd.Flags().StringSliceVar(&shares, "share", nil, "directory the nodes see live and read-only at the same path (default: the checkout)")
	return cmd
}

// absolute makes paths independent of the directory of this process.
func absolute(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		var err error
		if out[i], err = filepath.Abs(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (a *app) shape(nodes int, disk, memory string, shares []string) (spec.Lab, error) {
	disks, err := spec.ParseDisks(disk)
	if err != nil {
		return spec.Lab{}, err
	}
	bytes, err := spec.ParseSize(memory)
	if err != nil {
		return spec.Lab{}, err
	}
	checkout, err := build.Checkout()
	if err != nil {
		return spec.Lab{}, err
	}
	return spec.Lab{
		Name: a.name, Nodes: nodes, Disks: disks, Memory: bytes,
		Shares: append(shares, checkout),
	}, nil
}

func (a *app) downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End the lab and remove all of it but its logs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.Down()
		},
	}
}

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print what of the lab runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.Status(cmd.Context(), os.Stdout)
		},
	}
}

func (a *app) logsCommand() *cobra.Command {
	var service string
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NODE|COMPONENT",
		Short: "Print a log: of a node's kubelet or other service, or of a control plane component",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			path, err := c.LogFile(args[0], service)
			if err != nil {
				return err
			}
			if follow {
				tail := exec.CommandContext(cmd.Context(), "tail", "-n", "100", "-F", path)
				tail.Stdout, tail.Stderr = os.Stdout, os.Stderr
				return tail.Run()
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(os.Stdout, f)
			return err
		},
	}
	cmd.Flags().StringVar(&service, "service", "", "of a node: kubelet, containerd or console")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing")
	return cmd
}
