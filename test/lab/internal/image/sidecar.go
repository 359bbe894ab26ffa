package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/progress"
)

// sidecarRepository is where the images of CSI sidecars usually come from.
const sidecarRepository = "registry.k8s.io/sig-storage/"

// Sidecar is the image of a CSI sidecar.
type Sidecar struct {
	// Name of the image, with its tag.
	Name string
	// Archive is the path of the image.
	Archive string
}

// EnsureSidecars gives the images of the CSI sidecars, building what is missing.
func EnsureSidecars(ctx context.Context, report *progress.Reporter) ([]Sidecar, error) {
	sidecars, err := build.Sidecars()
	if err != nil {
		return nil, err
	}
	var images []Sidecar
	for _, s := range sidecars {
		dir, err := cache.Ensure(sidecarKey(s), func(dir string) error {
			program, err := s.Ensure(ctx, report)
			if err != nil {
				return err
			}
			return composeSidecar(dir, s, program)
		})
		if err != nil {
			return nil, fmt.Errorf("make the image of %s: %w", s.Name, err)
		}
		images = append(images, Sidecar{Name: sidecarName(s), Archive: filepath.Join(dir, archiveName)})
	}
	return images, nil
}

func sidecarName(s build.Sidecar) string { return sidecarRepository + s.Name + ":" + s.Version }

func sidecarKey(s build.Sidecar) string {
	return "image-" + s.Name + "-" + revision + "-" + cache.Hash(s.Name, s.Key())
}

// composeSidecar makes an image like the published one: the program in the root
// directory and no user, so that whoever deploys it has to choose one.
func composeSidecar(dir string, s build.Sidecar, program string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	a := archive{
		Name:   sidecarName(s),
		Config: config{Env: []string{standardPath}, Entrypoint: []string{"/" + s.Name}},
	}
	return a.compose(dir, func(l layerWriter) error {
		if err := l.dir("tmp", 0o1777); err != nil {
			return err
		}
		return l.file(s.Name, 0o755, content)
	})
}
