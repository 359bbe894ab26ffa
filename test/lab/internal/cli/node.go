package cli

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/cluster"
	"quarry.storage/quarry/test/lab/internal/forward"
)

func (a *app) nodeCommand() *cobra.Command {
	cmd := group("node", "Cut a node's power or boot it again")
	cmd.AddCommand(&cobra.Command{
		Use:   "kill NODE",
		Short: "Cut a node's power: its kernel ends without a chance to write",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.KillNode(args[0])
		},
	}, &cobra.Command{
		Use:   "start NODE",
		Short: "Boot a node with the disks it had and wait until it is Ready",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.StartNode(cmd.Context(), args[0])
		},
	})
	cmd.AddCommand(insideCommands()...)
	return cmd
}

func (a *app) netCommand() *cobra.Command {
	cmd := group("net", "Cut or heal a node's link to the cluster network")
	for _, verb := range []struct {
		name, short string
		up          bool
	}{
		{"cut", "Take a node's cluster link down; `lab exec` still works", false},
		{"heal", "Bring a node's cluster link up again", true},
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   verb.name + " NODE",
			Short: verb.short,
			Args:  cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				c, err := a.cluster()
				if err != nil {
					return err
				}
				return c.SetLink(args[0], verb.up)
			},
		})
	}
	return cmd
}

func (a *app) diskCommand() *cobra.Command {
	cmd := group("disk", "Plug disks into a node and out again")
	var bus, serial string
	add := &cobra.Command{
		Use:   "add NODE IMAGEFILE",
		Short: "Plug an image file in as a disk and print its device",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			device, err := c.AddDisk(cmd.Context(), args[0], args[1], cluster.Bus(bus), serial)
			if err == nil {
				fmt.Println(device)
			}
			return err
		},
	}
	add.Flags().StringVar(&bus, "bus", string(cluster.BusUBD), "ubd, or scsi for a disk with serial number and WWN")
	add.Flags().StringVar(&serial, "serial", "", "serial number of a SCSI disk, 32 hexadecimal digits (default: made from the image's path)")
	cmd.AddCommand(add, &cobra.Command{
		Use:   "remove NODE DISK",
		Short: "Unplug a disk, named by its image file, device or serial number",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.RemoveDisk(cmd.Context(), args[0], args[1])
		},
	}, &cobra.Command{
		Use:   "list NODE",
		Short: "List a node's disks",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			disks, err := c.Disks(cmd.Context(), args[0])
			w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
			fmt.Fprintln(w, "BUS\tDEVICE\tSERIAL\tIMAGE")
			for _, d := range disks {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.Bus, d.Device, d.Serial, d.Image)
			}
			w.Flush()
			return err
		},
	})
	return cmd
}

// forwardCommand is what the lab's forwarder process runs.
func forwardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "forward TARGET SERVICE", Hidden: true, Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return forward.Run(args[0], args[1]) },
	}
}
