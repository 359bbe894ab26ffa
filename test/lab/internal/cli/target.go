package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/spec"
)

// targetCommands change what the storage node serves over iSCSI.
func (a *app) targetCommands() []*cobra.Command {
	return []*cobra.Command{
		a.targetCommand(),
		a.targetVerb("target-stop NAME", "End the sessions of a target and take no new ones", func(s spec.Storage, args []string) (spec.Storage, error) {
			return s.WithStopped(args[0], true)
		}),
		a.targetVerb("target-start NAME", "Let a target that was stopped take sessions again", func(s spec.Storage, args []string) (spec.Storage, error) {
			return s.WithStopped(args[0], false)
		}),
		a.targetVerb("target-remove NAME", "End the sessions of a target and remove it with its disks", func(s spec.Storage, args []string) (spec.Storage, error) {
			return s.WithoutTarget(args[0])
		}),
		a.targetWipeCommand(),
		a.targetVerb("portal-cut NAME N", "Take one path of a target off the network, without a word to those who use it", withCut(true)),
		a.targetVerb("portal-heal NAME N", "Bring a path of a target back", withCut(false)),
		a.delayCommand(),
	}
}

func withCut(cut bool) func(spec.Storage, []string) (spec.Storage, error) {
	return func(s spec.Storage, args []string) (spec.Storage, error) {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return s, fmt.Errorf("portal %q: want a number", args[1])
		}
		return s.WithCut(args[0], n, cut)
	}
}

// targetVerb is a command that changes targets; use names its arguments.
func (a *app) targetVerb(use, short string, change func(spec.Storage, []string) (spec.Storage, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(len(strings.Fields(use)) - 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.ChangeTargets(cmd.Context(), func(s spec.Storage) (spec.Storage, error) { return change(s, args) })
		},
	}
}

func (a *app) targetWipeCommand() *cobra.Command {
	cmd := a.targetVerb("target-wipe NAME", "Put other, empty disks behind the LUN numbers of a target, while its sessions go on", nil)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.cluster()
		if err != nil {
			return err
		}
		return c.WipeTarget(cmd.Context(), args[0])
	}
	return cmd
}

func (a *app) delayCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "writes-delay NAME NODE TIME",
		Short: "Keep back what a node writes to the volumes that it has on a target; 0s sends it and delays nothing more",
		Args:  cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			by, err := time.ParseDuration(args[2])
			if err != nil || by < 0 || by%time.Millisecond != 0 {
				return fmt.Errorf("time %q: want milliseconds or more, such as 1500ms or 1h", args[2])
			}
			c, err := a.cluster()
			if err != nil {
				return err
			}
			return c.DelayWrites(cmd.Context(), args[0], args[1], by)
		},
	}
}

func (a *app) targetCommand() *cobra.Command {
	var size, chap, mutual string
	var wish spec.TargetWish
	var without bool
	cmd := &cobra.Command{
		Use:   "target NAME",
		Short: "Serve an iSCSI target, made when missing, and print its name and its portals",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			flags := cmd.Flags()
			if size != "" {
				if wish.Bytes, err = spec.ParseSize(size); err != nil {
					return err
				}
			}
			if flags.Changed("chap") {
				wish.CHAP = credentials(chap)
			}
			if flags.Changed("mutual") {
				wish.Mutual = credentials(mutual)
			}
			if flags.Changed("no-reservations") {
				wish.NoReservations = &without
			}
			c, err := a.cluster()
			if err != nil {
				return err
			}
			t, err := c.Target(cmd.Context(), args[0], wish)
			if err != nil {
				return err
			}
			fmt.Println(t.IQN())
			for _, address := range t.Addresses() {
				fmt.Printf("%s:%d\n", address, spec.PortalPort)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&size, "size", "", "size of each LUN, 1G unless given; it never changes")
	flags.IntVar(&wish.LUNs, "luns", 0, "number of LUNs, 1 unless given; it only grows")
	flags.IntVar(&wish.Portals, "portals", 0, fmt.Sprintf("number of paths, 1 unless given, %d at most", spec.MaxPortals))
	flags.StringVar(&chap, "chap", "", "USER:PASSWORD that initiators have to know; empty to take all")
	flags.StringVar(&mutual, "mutual", "", "USER:PASSWORD that the target tells in return; empty for none")
	flags.BoolVar(&without, "no-reservations", false, "refuse persistent reservations")
	return cmd
}

// credentials reads USER:PASSWORD; a text without either stands for none.
func credentials(text string) *spec.Credentials {
	user, password, _ := strings.Cut(text, ":")
	return &spec.Credentials{User: user, Password: password}
}
