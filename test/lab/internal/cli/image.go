package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"quarry.storage/quarry/test/lab/internal/image"
)

func (a *app) imageCommand() *cobra.Command {
	cmd := group("image", "Build container images without a registry")
	var b image.Build
	build := &cobra.Command{
		Use:   "build -f DOCKERFILE -t TAG -o FILE.tar",
		Short: "Build a Dockerfile and write the image as an archive for `lab load`",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.Run(cmd.Context(), newReporter()); err != nil {
				return err
			}
			fmt.Println(b.Output)
			return nil
		},
	}
	flags := build.Flags()
	flags.StringVarP(&b.Dockerfile, "file", "f", "", "the Dockerfile")
	flags.StringVarP(&b.Tag, "tag", "t", "", "the image's name with its tag")
	flags.StringVar(&b.Context, "context", ".", "the directory COPY takes files from")
	flags.StringArrayVar(&b.Args, "build-arg", nil, "value of an ARG, as NAME=VALUE")
	flags.StringVarP(&b.Output, "output", "o", "", "the archive to write")
	for _, required := range []string{"file", "tag", "output"} {
		if err := build.MarkFlagRequired(required); err != nil {
			panic(err)
		}
	}
	cmd.AddCommand(build)
	return cmd
}
