package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/containerd"
	"quarry.storage/quarry/test/lab/internal/iscsi"
	"quarry.storage/quarry/test/lab/internal/nfs"
	"quarry.storage/quarry/test/lab/internal/node"
	"quarry.storage/quarry/test/lab/internal/spec"
)

// insideCommands are run in a node: by its kernel, or by the machine through
// the exec server. Only seed runs on the machine, on a node's disk.
func insideCommands() []*cobra.Command {
	start := inside("init CONFIG", 1, func(_ *cobra.Command, args []string) error { return node.Init(args[0]) })
	// The user-mode kernel appends parameters of its own to its command line,
	// and init gets them as arguments.
	start.Args = cobra.MinimumNArgs(1)
	start.FParseErrWhitelist = cobra.FParseErrWhitelist{UnknownFlags: true}
	seed := inside("seed DISK ARCHIVE…", 0, func(cmd *cobra.Command, args []string) error {
		return node.Seed(cmd.Context(), args[0], args[1:])
	})
	seed.Args = cobra.MinimumNArgs(1)
	return []*cobra.Command{
		seed,
		start,
		inside("agent CONFIG", 1, func(cmd *cobra.Command, args []string) error {
			config, err := node.Load(args[0])
			if err != nil {
				return err
			}
			return node.Agent(cmd.Context(), config)
		}),
		inside("scsi-add IMAGE SERIAL", 2, func(_ *cobra.Command, args []string) error {
			return printed(node.AddSCSI(node.SCSIDisk{Image: args[0], Serial: args[1]}))
		}),
		inside("scsi-remove SERIAL", 1, func(_ *cobra.Command, args []string) error { return node.RemoveSCSI(args[0]) }),
		inside("scsi-device SERIAL", 1, func(_ *cobra.Command, args []string) error {
			return printed(node.SCSIDevice(args[0]))
		}),
		inside("load ARCHIVE", 1, func(_ *cobra.Command, args []string) error { return containerd.Load(args[0], containerd.Root) }),
		inside("nfs-ready", 0, func(cmd *cobra.Command, _ []string) error { return nfs.Ready(cmd.Context()) }),
		inside("nfs-export JSON", 1, func(cmd *cobra.Command, args []string) error {
			var exports []spec.Export
			if err := json.Unmarshal([]byte(args[0]), &exports); err != nil {
				return err
			}
			return nfs.Apply(cmd.Context(), exports)
		}),
		inside("iscsi-apply", 0, func(cmd *cobra.Command, _ []string) error {
			var wish iscsi.Wish
			if err := json.NewDecoder(cmd.InOrStdin()).Decode(&wish); err != nil {
				return err
			}
			return iscsi.Apply(cmd.Context(), wish)
		}),
		inside("delay-writes IQN TIME", 2, func(_ *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return node.DelayWrites(args[0], by)
		}),
		inside("wait-device DEVICE", 1, func(_ *cobra.Command, args []string) error { return node.WaitDevice(args[0]) }),
	}
}

func inside(use string, args int, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Hidden: true, Args: cobra.ExactArgs(args), RunE: run}
}

func printed(text string, err error) error {
	if err == nil {
		fmt.Println(text)
	}
	return err
}
