package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"quarry.storage/quarry/test/lab/internal/cache"
)

// systemDiskBytes is the size of a node's own disk; the file is sparse.
const systemDiskBytes = 20 << 30

// systemDiskRevision is raised when system disks are to be made differently.
const systemDiskRevision = "1"

const systemDiskName = "system.img"

// ensureSystemDisk gives the disk that every node's own starts as a copy of: a
// file system with the images in the container runtime's store.
func (c *Cluster) ensureSystemDisk(ctx context.Context, containerd string, archives []string) (string, error) {
	key := "system-" + cache.Hash(append([]string{systemDiskRevision, containerd}, archives...)...)
	dir, err := cache.Ensure(key, func(dir string) error {
		stop := c.report.While("preparing the nodes' system disk")
		defer stop()
		disk := filepath.Join(dir, systemDiskName)
		if err := makeFileSystem(ctx, disk, systemDiskBytes); err != nil {
			return err
		}
		return seed(ctx, disk, containerd, archives)
	})
	return filepath.Join(dir, systemDiskName), err
}

// withImages gives a copy of a system disk that has more images in the store. It
// is the lab's own, for its images are others with each build, and goes with the lab.
func (c *Cluster) withImages(ctx context.Context, base, containerd string, archives []string) (string, error) {
	content, err := cache.HashFiles(archives...)
	if err != nil {
		return "", err
	}
	path := filepath.Join(c.dir.Path(), "system-"+cache.Hash(base, content)+".img")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	stop := c.report.While("putting more images on the nodes' system disk")
	defer stop()
	tmp := path + ".seed"
	if err := makeSystemDisk(ctx, base, tmp); err != nil {
		return "", err
	}
	if err := seed(ctx, tmp, containerd, archives); err != nil {
		return "", err
	}
	return path, os.Rename(tmp, path)
}

// makeFileSystem makes the file system. Few inodes and no initialisation later
// on keep the file small and the boot quiet.
func makeFileSystem(ctx context.Context, disk string, bytes int64) error {
	if err := makeSparse(disk, bytes); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-i", "65536", "-J", "size=32",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", disk).CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkfs.ext4 %s: %w: %s", disk, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// seed runs this program again, in namespaces that end with it.
func seed(ctx context.Context, disk, containerd string, archives []string) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{"node", "seed", disk}, archives...)...)
	cmd.Env = append(os.Environ(), "PATH="+containerd+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		Pdeathsig:  syscall.SIGKILL,
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("put images on the system disk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// makeSystemDisk gives a node its own copy of the template, holes left out, or
// an empty one if there is no template.
func makeSystemDisk(ctx context.Context, template, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp := path + ".new"
	if template == "" {
		if err := makeFileSystem(ctx, tmp, systemDiskBytes); err != nil {
			return err
		}
		return os.Rename(tmp, path)
	}
	if out, err := exec.CommandContext(ctx, "cp", "--sparse=always", template, tmp).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the system disk: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(tmp, path)
}
