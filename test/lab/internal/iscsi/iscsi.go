// Package iscsi runs the kernel's iSCSI target (LIO) in the lab's storage node.
// It knows the target's files and the addresses of its portals, not the lab. It
// runs nowhere but in a node.
package iscsi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/test/lab/internal/spec"
)

const (
	configfs = "/sys/kernel/config"
	root     = configfs + "/target"
	// Records is the directory in which the kernel keeps what has to survive a
	// restart of the target.
	Records = "/var/target"
)

// Wish is all that the storage node is to serve.
type Wish struct {
	Targets []spec.Target `json:"targets"`
	// Initiators are known from the start. Others are taken too, but what the
	// kernel has on record of their reservations counts only from their first
	// login after a restart on.
	Initiators []string `json:"initiators"`
}

// Apply makes the kernel serve the targets of a wish and no others. It may be
// repeated, and touches no session that it need not end.
func Apply(ctx context.Context, w Wish) error {
	if err := load(ctx); err != nil {
		return err
	}
	here := tree{root}
	if err := here.drop(w); err != nil {
		return fmt.Errorf("remove what is not served any more: %w", err)
	}
	for _, t := range w.Targets {
		if err := plug(t); err != nil {
			return fmt.Errorf("portals of %s: %w", t.Name, err)
		}
		if err := here.serve(t, w.Initiators); err != nil {
			return fmt.Errorf("target %s: %w", t.Name, err)
		}
	}
	return errors.Join(unplugOthers(w.Targets), forget(w.Targets))
}

// load loads the target and its fabric, and prepares where the kernel keeps
// its records. It writes them without waiting for the disk: only synchronous
// files are still there after a power cut.
func load(ctx context.Context) error {
	records := filepath.Join(Records, "pr")
	if err := os.MkdirAll(records, 0o700); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"chattr", "+S", records},
		{"modprobe", "-a", "configfs", "target_core_mod", "target_core_iblock", "iscsi_target_mod"},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command[0], err, strings.TrimSpace(string(out)))
		}
	}
	// A portal that is cut is listened on all the same.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_nonlocal_bind", []byte("1"), 0o644); err != nil {
		return err
	}
	if err := unix.Mount("configfs", configfs, "configfs", 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount %s: %w", configfs, err)
	}
	here, err := os.ReadFile(filepath.Join(root, "dbroot"))
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(here)) != Records {
		return fmt.Errorf("the kernel keeps its records in %s, want %s", strings.TrimSpace(string(here)), Records)
	}
	return nil
}

// forget removes the records about disks that are not there any more.
func forget(targets []spec.Target) error {
	wanted := map[string]bool{}
	for _, l := range (spec.Storage{Targets: targets}).LUNs() {
		wanted[record(l)] = true
	}
	files, err := filepath.Glob(filepath.Join(Records, "pr", "aptpl_*"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if !wanted[f] {
			err = errors.Join(err, os.Remove(f))
		}
	}
	return err
}
