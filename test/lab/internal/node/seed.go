package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/containerd"
)

// seedConfig is a container runtime that only takes images.
const seedConfig = `version = 3
root = "%s"
state = "%s"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images"]

[grpc]
address = "%s"
`

// Seed fills the container runtime's store on a system disk with images. It
// runs on the machine, not in a node, where it is ten times as fast. It expects
// mount and process namespaces of its own: what it mounts and starts ends with
// it, however it ends.
func Seed(ctx context.Context, disk string, archives []string) (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := (mount{source: "tmpfs", target: scratch, fstype: "tmpfs"}).do(); err != nil {
		return err
	}
	target := filepath.Join(scratch, "disk")
	if err := os.Mkdir(target, 0o755); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mount", "-o", "loop", disk, target).CombinedOutput(); err != nil {
		return fmt.Errorf("mount %s: %w: %s", disk, err, out)
	}
	defer func() { err = errors.Join(err, unix.Unmount(target, 0)) }()
	socket := filepath.Join(scratch, "containerd.sock")
	configFile := filepath.Join(scratch, "containerd.toml")
	// The machine has no such directory, and what it has of that name is not the disk's.
	root := filepath.Join(target, containerd.Root)
	config := fmt.Sprintf(seedConfig, root, filepath.Join(scratch, "state"), socket)
	if err := writeFile(configFile, config); err != nil {
		return err
	}
	runtime := exec.CommandContext(ctx, "containerd", "--config", configFile, "--log-level", "warn")
	runtime.Stderr = os.Stderr
	if err := runtime.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, runtime.Process.Signal(syscall.SIGTERM))
		// Its own complaint about the signal says nothing.
		_ = runtime.Wait()
	}()
	if err := waitForSocket(socket, 30*time.Second); err != nil {
		return fmt.Errorf("containerd does not answer: %w", err)
	}
	if err := os.Setenv("CONTAINERD_ADDRESS", socket); err != nil {
		return err
	}
	for _, archive := range archives {
		if err := containerd.Load(archive, root); err != nil {
			return err
		}
	}
	return nil
}
