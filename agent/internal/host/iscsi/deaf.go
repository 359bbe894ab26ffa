package iscsi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	// deafTimeout is how long our iscsid may be deaf: it works on one thing at a time.
	deafTimeout = 30 * time.Second
	// endTimeout is how long a process that was killed may take to end.
	endTimeout = 10 * time.Second
)

// errDeaf means that somebody has iscsid's socket, and nobody answers there. A child in which iscsid takes sessions over has that socket, too; one that outlives
// its parent keeps every later iscsid from starting.
var errDeaf = errors.New("it does not answer")

// heard remembers since when iscsid has been deaf.
func (h *Host) heard(err error) {
	switch {
	case !errors.Is(err, errDeaf):
		h.deaf.Store(nil)
	case h.deaf.Load() == nil:
		now := time.Now()
		h.deaf.Store(&now)
	}
}

func (h *Host) deafProblem() *sharedlun.Problem {
	if others := h.strangers(); len(others) > 0 {
		return sharedlun.NewProblem(sharedlun.ReasonNoTools,
			"iscsid on node %s does not answer. Programs of the host talk to it that may be of another version, and keep it waiting for as long as they run: end iscsiadm (%s) there. Sessions go on meanwhile.",
			h.cfg.NodeName, strings.Join(others, ", "))
	}
	return sharedlun.NewProblem(sharedlun.ReasonNoTools,
		"iscsid on node %s does not answer. Restart it there, unless it is the agent's, which is restarted by itself. Sessions go on meanwhile.", h.cfg.NodeName)
}

// strangers are the processes of iscsiadm beside iscsid that see other mounts than it does: they are of another installation. The length of a request is another one in each
// version of open-iscsi, and iscsid reads each to its end before it serves anybody else. What cannot be read names nobody.
func (h *Host) strangers() (pids []string) {
	mounts := func(pid int) string {
		of, err := os.Readlink(filepath.Join(h.cfg.Proc, strconv.Itoa(pid), "ns/mnt"))
		if err != nil {
			return ""
		}
		return of
	}
	daemons, err := h.processes(daemon)
	if err != nil || len(daemons) == 0 {
		return nil
	}
	own := mounts(daemons[0])
	clients, err := h.processes(iscsiadm)
	if err != nil || own == "" {
		return nil
	}
	for _, pid := range clients {
		if of := mounts(pid); of != "" && of != own {
			pids = append(pids, fmt.Sprintf("process %d", pid))
		}
	}
	return pids
}

// clear ends what is left of our iscsid once it has been deaf for long. It leaves that of others alone.
func (h *Host) clear(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.deaf.Load()
	if since == nil || time.Since(*since) < h.deafness {
		return h.deafProblem()
	}
	ours, err := h.alone()
	if err != nil {
		return err
	}
	if !ours {
		return h.deafProblem()
	}
	h.cfg.Log.Info("Ending iscsid: it does not answer", "since", *since)
	return h.endOwn(ctx)
}

// alone reports whether every iscsid in the host's network is ours, or an earlier one of ours. Its command line says so.
func (h *Host) alone() (bool, error) {
	pids, err := h.processes(daemon)
	if err != nil || h.cfg.Start == nil || len(pids) == 0 {
		return false, err
	}
	for _, pid := range pids {
		if !h.marked(pid) {
			return false, nil
		}
	}
	return true, nil
}

func (h *Host) marked(pid int) bool {
	text, err := os.ReadFile(filepath.Join(h.cfg.Proc, strconv.Itoa(pid), "cmdline"))
	return err == nil && string(text) == strings.Join(h.daemon(), "\x00")+"\x00"
}

// endOwn ends every iscsid of ours, with the children that it left. Whoever calls has the lock.
func (h *Host) endOwn(ctx context.Context) error {
	if h.own != nil {
		h.own.Kill()
		<-h.own.Done()
		h.own = nil
	}
	deadline := time.Now().Add(endTimeout)
	for {
		pids, err := h.processes(daemon)
		if err != nil {
			return err
		}
		left := 0
		for _, pid := range pids {
			if !h.marked(pid) {
				continue
			}
			left++
			if err := h.kill(pid); err != nil {
				return fmt.Errorf("end iscsid: %w", err)
			}
		}
		switch {
		case left == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("iscsid was killed, and has not ended after %s: the kernel has it", endTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(startPause):
		}
	}
}

// killProcess kills a process. One that is gone needs no work.
func killProcess(pid int) error {
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
