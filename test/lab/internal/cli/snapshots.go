package cli

import (
	"os"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/build"
)

func (a *app) snapshotsCommand() *cobra.Command {
	var definitions bool
	cmd := &cobra.Command{
		Use:   "snapshots",
		Short: "Make the cluster know VolumeSnapshots and run their controller",
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
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.Snapshots(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&definitions, "definitions", false, "print the definitions of the snapshot API and do nothing else")
	return cmd
}
