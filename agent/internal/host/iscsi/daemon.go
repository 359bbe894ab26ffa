package iscsi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

const (
	startTimeout = 15 * time.Second
	startPause   = 100 * time.Millisecond
	// watchPause is between two looks whether iscsid still runs. The kernel holds I/O back meanwhile only where a connection is lost, too.
	watchPause = 5 * time.Second
	// madeName begins the name of an initiator that had none. The name of its node and a random text follow.
	madeName = "iqn.2026-01.storage.quarry:"
)

// serve has iscsid run: the host's, and ours where it has none.
func (h *Host) serve(ctx context.Context) error {
	pid, err := h.server()
	if errors.Is(err, errDeaf) {
		err = h.clear(ctx)
	}
	if err != nil || pid != 0 {
		return err
	}
	if h.cfg.Start == nil {
		return sharedlun.NewProblem(sharedlun.ReasonNoTools, "No iscsid runs on node %s. Install open-iscsi there.", h.cfg.NodeName)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if yes, err := h.listens(); err != nil || yes {
		return err
	}
	if err := h.start(ctx); err != nil {
		return sharedlun.NewProblem(sharedlun.ReasonNoTools, "iscsid cannot be started on node %s: %v.", h.cfg.NodeName, err)
	}
	return nil
}

// daemon is the command line of our iscsid.
func (h *Host) daemon() []string {
	return []string{daemon, "--foreground", "--no-pid-file", "--initiatorname=/" + h.ownName()}
}

// start starts our iscsid, in the host's network, and waits until it serves.
func (h *Host) start(ctx context.Context) error {
	if h.own != nil {
		// One that does not listen helps nobody.
		h.own.Kill()
		<-h.own.Done()
		h.own = nil
	}
	if err := h.prepare(); err != nil {
		return err
	}
	p, err := h.cfg.Start(run.Command{Path: nsenter, Args: append([]string{"--net=" + h.network(), "--"}, h.daemon()...)})
	if err != nil {
		return err
	}
	deadline := time.After(startTimeout)
	for {
		var reason string
		if yes, err := h.listens(); err == nil && yes {
			h.own = p
			h.cfg.Log.Info("Started iscsid: the host has none")
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it ended: %s", p.LastWords())
		case <-ctx.Done():
			reason = ctx.Err().Error()
		case <-deadline:
			reason = fmt.Sprintf("it does not listen after %s", startTimeout)
		case <-time.After(startPause):
			continue
		}
		p.Kill()
		<-p.Done()
		return fmt.Errorf("%s %s", reason, p.LastWords())
	}
}

// prepare makes what our iscsid needs: the directories of its records, and a name, which is the host's where the host has one.
func (h *Host) prepare() error {
	for _, dir := range []string{"nodes", "send_targets", "static", "ifaces", "isns", "fw"} {
		if err := os.MkdirAll(filepath.Join(h.cfg.Dir, dir), 0o700); err != nil {
			return err
		}
	}
	file := "/" + h.ownName()
	host, _ := readRooted(h.rootOf(1), nameFile)
	name := parseName(host)
	if own, err := os.ReadFile(file); name == "" && err == nil {
		name = parseName(string(own))
	}
	if name == "" {
		name = madeName + strings.ToLower(h.cfg.NodeName) + "-" + uuid.NewString()[:8]
	}
	next := path.Join(h.cfg.Dir, draft)
	if err := os.WriteFile(next, []byte("InitiatorName="+name+"\n"), modeOwner); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// Run keeps iscsid running for the sessions of this node until the context ends, where it is ours. Sessions outlive it.
func (h *Host) Run(ctx context.Context) error {
	if h.cfg.Start == nil {
		return nil
	}
	said := ""
	for {
		if h.needed() {
			switch err := h.serve(ctx); {
			case err == nil:
				said = ""
			case ctx.Err() == nil && err.Error() != said:
				// Once, not at each try.
				said = err.Error()
				h.cfg.Log.Error(err, "Sessions that lose their connection will not connect again")
			}
		}
		select {
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.own != nil {
				h.own.Kill()
				<-h.own.Done()
			}
			return nil
		case <-time.After(watchPause):
		}
	}
}

// needed reports whether there are sessions which our iscsid serves: our records say so.
func (h *Host) needed() bool {
	records, err := os.ReadDir(filepath.Join(h.cfg.Dir, "nodes"))
	if err != nil || len(records) == 0 {
		return false
	}
	sessions, err := h.Sessions("")
	return err == nil && len(sessions) > 0
}
