// Package iscsi runs open-iscsi for one node: it finds out whose iscsid serves sessions and runs iscsiadm beside it, or starts iscsid where the host has
// none. It reads sessions and LUNs from the kernel, never from a process. It changes only what belongs to the target that it is asked about,
// and does not know whether a session is in use.
package iscsi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"quarry.storage/quarry/agent/internal/host/run"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Config says what to run, and where to look. Empty fields mean the host's own.
type Config struct {
	Runner run.Runner
	// Start starts iscsid where the host has none; nil where the host's is to be used alone.
	Start func(cmd run.Command) (Process, error)
	// Sys, Proc and Dev are the host's /sys, /proc and /dev. Proc has to show all processes of the host.
	Sys, Proc, Dev string
	// Dir is where our own iscsid keeps its records. It outlives this process.
	Dir string
	// NodeName becomes a part of the initiator's name where the host has none.
	NodeName string
	// Iface is the interface of open-iscsi that sessions are made through; only its sessions count. Empty: the default one, and the sessions of all count.
	Iface string
	Log   logr.Logger
}

// Process is a running iscsid.
type Process interface {
	// Done is closed when it is gone; LastWords are what it said then.
	Done() <-chan struct{}
	LastWords() string
	Kill()
}

// Host is the initiator of one node. It is safe for concurrent use; whoever uses it keeps calls on one target apart.
type Host struct {
	cfg Config
	// listens reports whether somebody serves sessions, probe connects to a portal, both in the host's network.
	listens func() (bool, error)
	probe   func(ctx context.Context, portal string) error
	// tell tells the kernel to do something with a session, and kill ends a process.
	tell func(ctx context.Context, what event, session int) error
	kill func(pid int) error
	// patience is how long the LUNs of a new session may take, deafness how long our iscsid may be deaf, and parting how long iscsid may take to end a session.
	patience, deafness, parting time.Duration
	// unserved is how long iscsid may not know a session.
	unserved time.Duration

	// deaf is when iscsid was found not to answer first; nil when it answers.
	deaf atomic.Pointer[time.Time]
	// served is the iscsid that was found last; 0 before.
	served atomic.Int64
	mu     sync.Mutex
	// own is our iscsid while it runs.
	own Process

	servingMu sync.Mutex
	serving   serving
}

const (
	nsenter  = "/usr/bin/nsenter"
	iscsiadm = "iscsiadm"
	daemon   = "iscsid"
	// timeout is for one command. A login ends before, see settings.
	timeout = 60 * time.Second
	// DefaultDir is where open-iscsi keeps its records in the agent's image: a directory of the host is mounted there.
	DefaultDir = "/var/lib/iscsi"
)

// New makes a Host.
func New(cfg Config) *Host {
	cfg.Sys, cfg.Proc, cfg.Dev, cfg.Dir = cmp.Or(cfg.Sys, "/sys"), cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Dev, "/dev"), cmp.Or(cfg.Dir, DefaultDir)
	h := &Host{cfg: cfg, patience: awaitTimeout, deafness: deafTimeout, parting: partTimeout, unserved: unservedFor, kill: killProcess}
	h.listens = func() (bool, error) { return listening(h.network()) }
	h.tell = func(ctx context.Context, what event, session int) error { return h.send(ctx, what, session) }
	h.probe = func(ctx context.Context, portal string) error { return dial(ctx, h.network(), portal) }
	return h
}

// network is the network of the host. The kernel talks with iscsid in that one only.
func (h *Host) network() string { return filepath.Join(h.cfg.Proc, "1/ns/net") }

// Initiator describes the initiator, as far as it can be seen without a change.
func (h *Host) Initiator(ctx context.Context) (sharedlun.Initiator, error) {
	out := sharedlun.Initiator{Multipath: h.multipath()}
	pid, err := h.server()
	out.OfHost = err == nil && pid != 0 && !h.ours(pid)
	out.Name, _ = h.name(pid)
	switch {
	case errors.Is(err, errDeaf):
		out.Problem = h.deafProblem()
	case err != nil:
		out.Problem = sharedlun.NewProblem(sharedlun.ReasonNoTools, "Node %s: whether iscsid runs is not known: %v.", h.cfg.NodeName, err)
	case pid == 0 && h.cfg.Start == nil:
		out.Problem = sharedlun.NewProblem(sharedlun.ReasonNoTools, "No iscsid runs on node %s. Install open-iscsi there.", h.cfg.NodeName)
	case !h.modules():
		out.Problem = h.loadable(ctx)
	}
	return out, ctx.Err()
}

// name reads the name of the initiator where the process that serves sessions has it; 0 stands for the host.
func (h *Host) name(pid int) (string, error) {
	places := []string{h.rootOf(max(pid, 1))}
	if h.ours(pid) || pid == 0 {
		places = append([]string{""}, places...)
	}
	for _, place := range places {
		for _, file := range h.nameFiles(place) {
			text, err := readRooted(cmp.Or(place, "/"), file)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if name := parseName(text); err == nil && name != "" {
				return name, nil
			}
		}
	}
	return "", fmt.Errorf("name of the initiator: %w", fs.ErrNotExist)
}

const nameFile = "etc/iscsi/initiatorname.iscsi"

func (h *Host) nameFiles(place string) []string {
	if place == "" {
		return []string{h.ownName()}
	}
	return []string{nameFile}
}

// ownName is where our iscsid reads its name, below the root.
func (h *Host) ownName() string {
	return strings.TrimPrefix(filepath.Join(h.cfg.Dir, "initiatorname.iscsi"), "/")
}

func parseName(text string) string {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "InitiatorName="); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// modules reports whether the kernel can make sessions over TCP.
func (h *Host) modules() bool {
	_, err := os.Stat(filepath.Join(h.cfg.Sys, "class/iscsi_transport/tcp"))
	return err == nil
}

// loadable looks whether the kernel has what it did not load yet.
func (h *Host) loadable(ctx context.Context) *sharedlun.Problem { return h.load(ctx, "--dry-run") }

// load loads the initiator of the kernel, with the host's own tools.
func (h *Host) load(ctx context.Context, flags ...string) *sharedlun.Problem {
	args := []string{"--mount=" + filepath.Join(h.cfg.Proc, "1/ns/mnt"), "--", "modprobe"}
	_, err := h.cfg.Runner.Run(ctx, run.Command{Path: nsenter, Args: append(append(args, flags...), "iscsi_tcp")})
	if err != nil {
		return sharedlun.NewProblem(sharedlun.ReasonNoModules, "The kernel of node %s has no iSCSI initiator (module iscsi_tcp): %v.", h.cfg.NodeName, err)
	}
	return nil
}

// readRooted reads a file below a root whose links do not lead out of it.
func readRooted(root, path string) (string, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }() // Nothing was written.
	text, err := r.ReadFile(path)
	return string(text), err
}
