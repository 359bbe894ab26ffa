package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"quarry.storage/quarry/test/lab/internal/build"
)

// SaveEtcd copies all that the API server has stored into a directory, which must not exist. The control plane is away for some seconds; pods run on.
func (c *Cluster) SaveEtcd(ctx context.Context, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists, or cannot be looked at (%v): a copy is made into a new directory", to, err)
	}
	return c.withoutEtcd(ctx, func() error { return copyTree(ctx, c.dir.Etcd(), to) })
}

// RestoreEtcd replaces all that the API server has stored by a copy that SaveEtcd made. Every resource version since then is gone, as it is after the
// restore of a real cluster.
func (c *Cluster) RestoreEtcd(ctx context.Context, from string) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	return c.withoutEtcd(ctx, func() error {
		if err := os.RemoveAll(c.dir.Etcd()); err != nil {
			return err
		}
		return copyTree(ctx, from, c.dir.Etcd())
	})
}

// withoutEtcd stops the control plane, and starts it again after do.
func (c *Cluster) withoutEtcd(ctx context.Context, do func() error) error {
	programs, err := build.Ensure(ctx, c.report)
	if err != nil {
		return err
	}
	unlock, err := c.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	desc, err := c.withKubernetes()
	if err != nil {
		return err
	}
	for _, name := range []string{controllerName, schedulerName, apiServerName, etcdName} {
		if err := c.processes.Kill(name); err != nil {
			return err
		}
	}
	err = do()
	// Whatever became of the copy, the lab goes on with what is there. The forwarder was not stopped, so it needs no listener.
	return errors.Join(err, c.startControlPlane(ctx, programs, nil), c.waitControlPlane(ctx, desc))
}

// copyTree copies a directory with its modes.
func copyTree(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, strings.TrimSpace(string(out)))
	}
	return nil
}
