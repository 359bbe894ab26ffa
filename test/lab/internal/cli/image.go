package cli

import (
	"github.com/spf13/cobra"
)

func (a *app) imageCommand() *cobra.Command {
	return &cobra.Command{Use: "image", Short: "Build container images"}
}
