package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/debian"
)

func (a *app) depsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "deps",
		Short: "Install the Debian packages the lab uses",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			missing, err := debian.Missing(cmd.Context(), debian.ParseList(a.packageList))
			if err != nil || len(missing) == 0 {
				return err
			}
			log := filepath.Join(os.TempDir(), "quarry-lab-deps.log")
			report := newReporter()
			stop := report.While("installing %d packages: %s", len(missing), strings.Join(missing, " "))
			defer stop()
			return debian.Install(cmd.Context(), missing, log, report.Step)
		},
	}
}

func (a *app) buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build Kubernetes and containerd into the cache",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			programs, err := build.Ensure(cmd.Context(), newReporter())
			if err != nil {
				return err
			}
			fmt.Println(programs.Kubernetes)
			fmt.Println(programs.Containerd)
			return nil
		},
	}
}

func (a *app) assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets",
		Short: "Print a directory with kube-apiserver, etcd and kubectl for envtest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := build.Assets(cmd.Context(), newReporter())
			if err == nil {
				fmt.Println(dir)
			}
			return err
		},
	}
}
