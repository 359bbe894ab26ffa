package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"quarry.storage/quarry/test/lab/internal/cache"
	"quarry.storage/quarry/test/lab/internal/progress"
)

// Assets gives a directory with kube-apiserver, etcd and kubectl, as
// controller-runtime's envtest wants them.
func Assets(ctx context.Context, report *progress.Reporter) (string, error) {
	programs, err := kubernetes.ensure(ctx, report)
	if err != nil {
		return "", err
	}
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return "", fmt.Errorf("etcd is not installed, run `lab deps`: %w", err)
	}
	links := map[string]string{
		"etcd":           etcd,
		"kube-apiserver": filepath.Join(programs, "kube-apiserver"),
		"kubectl":        filepath.Join(programs, "kubectl"),
	}
	key := "assets-" + cache.Hash(links["etcd"], programs)
	return cache.Ensure(key, func(dir string) error {
		for name, target := range links {
			if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	})
}
