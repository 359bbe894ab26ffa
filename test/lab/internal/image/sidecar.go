package image

import (
	"context"
	"os"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/build"
	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/progress"
)

// sidecarRepository is where the images of CSI sidecars usually come from.
const sidecarRepository = "registry.k8s.io/sig-storage/"

// EnsureSidecars gives the archives of the CSI sidecars' images, building what
// is missing.
func EnsureSidecars(ctx context.Context, report *progress.Reporter) ([]string, error) {
	sidecars, err := build.Sidecars()
	if err != nil {
		return nil, err
	}
	var archives []string
	for _, s := range sidecars {
		dir, err := cache.Ensure(sidecarKey(s), func(dir string) error {
			program, err := s.Ensure(ctx, report)
			if err != nil {
				return err
			}
			return composeSidecar(dir, s, program)
		})
		if err != nil {
			return nil, err
		}
		archives = append(archives, filepath.Join(dir, archiveName))
	}
	return archives, nil
}

// CachedSidecars lists the archives of sidecars that were made before.
func CachedSidecars() []string {
	sidecars, err := build.Sidecars()
	if err != nil {
		return nil
	}
	var archives []string
	for _, s := range sidecars {
		if dir, ok := cache.Find(sidecarKey(s)); ok {
			archives = append(archives, filepath.Join(dir, archiveName))
		}
	}
	return archives
}

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
		Name:   sidecarRepository + s.Name + ":" + s.Version,
		Config: config{Env: []string{standardPath}, Entrypoint: []string{"/" + s.Name}},
	}
	return a.compose(dir, func(l layerWriter) error {
		if err := l.dir("tmp", 0o1777); err != nil {
			return err
		}
		return l.file(s.Name, 0o755, content)
	})
}
