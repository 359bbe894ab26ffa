package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) etcdCommand() *cobra.Command {
	cmd := group("etcd", "Save and restore what the API server has stored")
	for _, c := range []struct {
		name, short string
		restore     bool
	}{
		{name: "save", short: "Copy all that the API server has stored into a new directory"},
		{name: "restore", short: "Put a copy in the place of all that the API server has stored", restore: true},
	} {
		cmd.AddCommand(&cobra.Command{
			Use: c.name + " DIR", Short: c.short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				lab, err := a.cluster()
				if err != nil {
					return err
				}
				dir, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				if c.restore {
					return lab.RestoreEtcd(cmd.Context(), dir)
				}
				return lab.SaveEtcd(cmd.Context(), dir)
			},
		})
	}
	return cmd
}
