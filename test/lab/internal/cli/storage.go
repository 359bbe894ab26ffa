package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/cluster"
	"quarry.storage/quarry/test/lab/internal/spec"
)

func (a *app) storageCommand() *cobra.Command {
	cmd := group("storage", "Run a node that serves storage over NFS and iSCSI to the others")
	cmd.AddCommand(
		a.storageUpCommand(), a.storageExportCommand(),
		a.storageVerb("down", "End the storage node and remove its disks", func(_ context.Context, c *cluster.Cluster) error {
			return c.StorageDown()
		}),
		a.storageVerb("kill", "Cut its power: its kernel ends without a chance to write; `up` boots it with the same disks",
			func(_ context.Context, c *cluster.Cluster) error { return c.KillNode(spec.StorageName) }),
		a.storageVerb("cut", "Take its link to the nodes down while it runs; `lab exec storage` still works",
			func(_ context.Context, c *cluster.Cluster) error { return c.SetLink(spec.StorageName, false) }),
		a.storageVerb("heal", "Bring its link to the nodes up again",
			func(_ context.Context, c *cluster.Cluster) error { return c.SetLink(spec.StorageName, true) }),
	)
	cmd.AddCommand(a.targetCommands()...)
	return cmd
}

// storageVerb is a command without arguments that changes the storage node.
func (a *app) storageVerb(name, short string, do func(context.Context, *cluster.Cluster) error) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return do(cmd.Context(), c)
		},
	}
}

func (a *app) storageUpCommand() *cobra.Command {
	var memory, disk string
	cmd := a.storageVerb("up", "Boot the storage node, with the disks it had if it was killed, and print its address", nil)
	flags := cmd.Flags()
	flags.StringVar(&memory, "memory", "384M", "its memory")
	flags.StringVar(&disk, "disk", "4G", "size of the disk that has the exports")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		memoryBytes, err := spec.ParseSize(memory)
		if err != nil {
			return err
		}
		diskBytes, err := spec.ParseSize(disk)
		if err != nil {
			return err
		}
		c, err := a.cluster()
		if err != nil {
			return err
		}
		asked := flags.Changed("memory") || flags.Changed("disk")
		address, err := c.StorageUp(cmd.Context(), spec.NewStorage(memoryBytes, diskBytes), !asked)
		if err == nil {
			fmt.Println(address)
		}
		return err
	}
	return cmd
}

func (a *app) storageExportCommand() *cobra.Command {
	var options string
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Serve the directory /export/NAME, made when missing, and print what to mount",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			source, err := c.Export(cmd.Context(), args[0], options)
			if err == nil {
				fmt.Println(source)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&options, "options", spec.DefaultExportOptions, "options in the words of exports(5); the lab adds no_subtree_check and fsid")
	return cmd
}
