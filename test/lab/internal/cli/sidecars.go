package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/image"
)

func (a *app) sidecarsCommand() *cobra.Command {
	var load, definitions bool
	var nodes []string
	cmd := &cobra.Command{
		Use:   "sidecars",
		Short: "Build the images of the CSI sidecars and print their archives",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if definitions {
				text, err := build.SnapshotDefinitions(cmd.Context())
				if err != nil {
					return err
				}
				_, err = os.Stdout.Write(text)
				return err
			}
			archives, err := image.EnsureSidecars(cmd.Context(), newReporter())
			if err != nil {
				return err
			}
			for _, archive := range archives {
				fmt.Println(archive)
			}
			if !load {
				return nil
			}
			c, err := a.cluster()
			if err != nil {
				return err
			}
			for _, archive := range archives {
				if err := c.Load(cmd.Context(), archive, nodes); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&load, "load", false, "import the images into the nodes' container runtime too")
	flags.StringSliceVar(&nodes, "node", nil, "with --load: only into these nodes")
	flags.BoolVar(&definitions, "crds", false, "print the definitions of the snapshot API and do nothing else")
	cmd.MarkFlagsMutuallyExclusive("load", "crds")
	return cmd
}

func (a *app) snapshotsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "snapshots",
		Short: "Make the cluster know VolumeSnapshots and run their controller",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.Snapshots(cmd.Context())
		},
	}
}
