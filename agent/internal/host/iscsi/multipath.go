package iscsi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"quarry.storage/quarry/agent/internal/host/iscsi/pathconf"
	"quarry.storage/quarry/agent/internal/host/run"
)

const (
	multipathd = "multipathd"
	multipath  = "multipath"
)

// multipath reports whether multipathd runs in the host's network.
func (h *Host) multipath() bool {
	text, err := os.ReadFile(filepath.Join(h.cfg.Proc, "1/net/unix"))
	return err == nil && strings.Contains(string(text), "@/org/kernel/linux/storage/multipathd")
}

// PathConfig asks multipathd what it works with.
func (h *Host) PathConfig(ctx context.Context) (pathconf.Config, error) {
	res, err := h.beside(ctx, multipathd, "show", "config")
	if err != nil {
		return pathconf.Config{}, fmt.Errorf("configuration of multipathd: %w", err)
	}
	c, whole := pathconf.Parse(string(res.Stdout))
	if !whole {
		return c, fmt.Errorf("configuration of multipathd: it said %.80q", res.Stdout)
	}
	return c, nil
}

// Flush removes a multipath map by multipathd's own tool: nobody else works on its maps. A map that is not there needs no work. The kernel refuses for one
// that is in use.
func (h *Host) Flush(ctx context.Context, device string) error {
	dir := filepath.Join(h.cfg.Sys, "block", device)
	uuid, err := attribute(dir, "dm/uuid")
	if err != nil || !strings.HasPrefix(uuid, mapPrefix) {
		return unlessGone(err)
	}
	name, err := attribute(dir, "dm/name")
	if err != nil {
		return unlessGone(err)
	}
	return h.flush(ctx, name)
}

// rejoin has multipathd look again at paths that are in no map, even if there are several to their LUN: a logout that was given up leaves them so.
func (h *Host) rejoin(iqn string) error {
	if !h.multipath() {
		return nil
	}
	sessions, err := h.Sessions(iqn)
	if err != nil {
		return err
	}
	luns, err := h.Luns(sessions)
	if err != nil {
		return err
	}
	for _, l := range luns {
		for _, p := range l.Paths {
			if len(l.Paths) == 1 || p.Map != "" {
				continue
			}
			err := os.WriteFile(filepath.Join(h.cfg.Sys, "block", p.Device, "uevent"), []byte("change"), modeOwner)
			if err != nil && !gone(err) {
				return fmt.Errorf("have multipathd look at %s: %w", p.Device, err)
			}
		}
	}
	return nil
}

func unlessGone(err error) error {
	if err != nil && gone(err) {
		return nil
	}
	return err
}

func (h *Host) flush(ctx context.Context, name string) error {
	if _, err := h.beside(ctx, multipath, "-f", name); err != nil {
		return fmt.Errorf("remove the multipath map %s: %w", name, err)
	}
	return nil
}

// beside runs a tool of multipathd's own installation.
func (h *Host) beside(ctx context.Context, tool string, args ...string) (run.Result, error) {
	pid, err := h.process(multipathd)
	if err == nil && pid == 0 {
		err = fmt.Errorf("%s: %w", multipathd, fs.ErrNotExist)
	}
	if err != nil {
		return run.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return h.cfg.Runner.Run(ctx, run.Command{Path: nsenter, Args: append([]string{
		"--mount=" + filepath.Join(h.cfg.Proc, strconv.Itoa(pid), "ns/mnt"), "--net=" + h.network(), "--", tool,
	}, args...)})
}

// process finds a process of a name in the host's network; 0 when there is none.
func (h *Host) process(name string) (pid int, err error) {
	// To look at every process of a node takes long, and is asked for before each command.
	if last := int(h.served.Load()); last != 0 && name == daemon && h.runs(last, name) {
		return last, nil
	}
	found, err := h.processes(name)
	if len(found) == 0 {
		return 0, err
	}
	if name == daemon {
		h.served.Store(int64(found[0]))
	}
	return found[0], nil
}

// runs reports whether a process has that name, and is in the host's network. What cannot be read is looked for anew.
func (h *Host) runs(pid int, name string) bool {
	dir := filepath.Join(h.cfg.Proc, strconv.Itoa(pid))
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || strings.TrimSpace(string(comm)) != name {
		return false
	}
	network, err := os.Readlink(h.network())
	if err != nil {
		return false
	}
	of, err := os.Readlink(filepath.Join(dir, "ns/net"))
	return err == nil && of == network
}

// processes finds all processes of a name in the host's network. With an error there may be more.
func (h *Host) processes(name string) (pids []int, err error) {
	network, err := os.Readlink(h.network())
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(h.cfg.Proc, "[0-9]*", "comm"))
	for _, file := range files {
		dir := filepath.Dir(file)
		comm, _ := os.ReadFile(file)
		if strings.TrimSpace(string(comm)) != name {
			continue
		}
		of, errLink := os.Readlink(filepath.Join(dir, "ns/net"))
		if errLink != nil && !errors.Is(errLink, fs.ErrNotExist) {
			err = errLink
		}
		if number, errNumber := strconv.Atoi(filepath.Base(dir)); errNumber == nil && of == network {
			pids = append(pids, number)
		}
	}
	return pids, err
}
