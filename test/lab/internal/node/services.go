package node

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"quarry.storage/quarry/test/lab/internal/containerd"
	"quarry.storage/quarry/test/lab/internal/service"
)

// runServices starts containerd and the kubelet and restarts each when it
// ends.
func runServices(ctx context.Context, c Config) error {
	if err := writeServiceFiles(c); err != nil {
		return fmt.Errorf("write service configuration: %w", err)
	}
	go service.FlushLogs(ctx, logDir)
	var services sync.WaitGroup
	services.Go(func() { service.Supervise(ctx, logDir, "containerd", "containerd", "--config", containerdFile) })
	if err := waitForSocket(containerdSocket, time.Minute); err != nil {
		logf("containerd does not answer: %v", err)
	}
	if err := importImages(c); err != nil {
		logf("import images: %v", err)
	}
	services.Go(func() { service.Supervise(ctx, logDir, "kubelet", "kubelet", kubeletArgs(c)...) })
	services.Wait()
	return ctx.Err()
}

// importImages loads the images every node has. A node that was started again
// has them still.
func importImages(c Config) error {
	out, err := exec.Command("ctr", "-n", "k8s.io", "images", "ls", "-q").Output()
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	present := strings.Fields(string(out))
	var errs []error
	for _, image := range c.Images {
		if slices.Contains(present, image.Name) {
			continue
		}
		errs = append(errs, containerd.Load(filepath.Join(MachineView, image.Archive), containerd.Root))
	}
	return errors.Join(errs...)
}
