package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// restartDelay keeps a service that fails at once from taking the whole core.
const restartDelay = time.Second

// runServices starts containerd and the kubelet and restarts each when it
// ends.
func runServices(ctx context.Context, c Config) error {
	if err := writeServiceFiles(c); err != nil {
		return fmt.Errorf("write service configuration: %w", err)
	}
	go flushLogs(ctx)
	var services sync.WaitGroup
	services.Go(func() { supervise(ctx, "containerd", "containerd", "--config", containerdFile) })
	if err := waitForSocket(containerdSocket, time.Minute); err != nil {
		logf("containerd does not answer: %v", err)
	}
	if err := importImages(c); err != nil {
		logf("import images: %v", err)
	}
	services.Go(func() { supervise(ctx, "kubelet", "kubelet", kubeletArgs(c)...) })
	services.Wait()
	return ctx.Err()
}

// supervise keeps a service running. Its log goes to the machine.
func supervise(ctx context.Context, name, path string, args ...string) {
	for ctx.Err() == nil {
		err := runOnce(ctx, name, path, args)
		logf("%s ended: %v", name, err)
		time.Sleep(restartDelay)
	}
}

func runOnce(ctx context.Context, name, path string, args []string) error {
	log, err := os.OpenFile(filepath.Join(logDir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	return cmd.Run()
}

// flushLogs pushes the logs to the machine every second. Without it they stay
// in the node's memory for half a minute, and a power cut takes them along.
// A full fsync would make the machine's disk wait for every node.
func flushLogs(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(time.Second)
		logs, err := filepath.Glob(filepath.Join(logDir, "*.log"))
		if err != nil {
			continue
		}
		for _, log := range logs {
			f, err := os.Open(log)
			if err != nil {
				continue
			}
			_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
			f.Close()
		}
	}
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
		errs = append(errs, LoadImage(filepath.Join(MachineView, image.Archive)))
	}
	return errors.Join(errs...)
}
