// Package lun puts sessions, LUNs and reservations of one node together: it logs in to targets and out of them, finds the device of a LUN and makes
// sure that it is the recorded one, and keeps this node's key on every path. It does only what it is asked for: nothing is registered, and no
// session is made, by itself.
package lun

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"quarry.storage/quarry/agent/internal/host/iscsi"
	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Initiator is what this package needs of package host/iscsi.
type Initiator interface {
	Initiator(ctx context.Context) (sharedlun.Initiator, error)
	Sessions(iqn string) ([]iscsi.Session, error)
	Luns(sessions []iscsi.Session) ([]sharedlun.Lun, error)
	Login(ctx context.Context, iqn, portal string, c *sharedlun.Chap) error
	Logout(ctx context.Context, s iscsi.Session) error
	Forget(ctx context.Context, iqn string) error
	Flush(ctx context.Context, device string) error
}

// Reservations is what it needs of package host/reservation.
type Reservations interface {
	Identify(ctx context.Context, device string) (reservation.Identity, error)
	Read(ctx context.Context, device string) (sharedlun.Reservation, error)
	Confirm(ctx context.Context, device string, key uint64) error
	Register(ctx context.Context, device string, key, old uint64) error
	Unregister(ctx context.Context, device string, key uint64) error
	Reserve(ctx context.Context, device string, key uint64) error
	Preempt(ctx context.Context, device string, key, victim uint64) error
}

// Uses finds who uses devices of this node.
type Uses interface {
	// Of names who uses a LUN, in words that follow "in use by". An error means that there may be more.
	Of(ctx context.Context, l sharedlun.Lun) ([]string, error)
	// Holders are the kernel names of what is built on the device of a LUN, or on one of its paths.
	Holders(l sharedlun.Lun) ([]string, error)
	// Claim keeps others from mounting a LUN, or building on it, until it is released. A LUN that is in use is sharedlun.ErrInUse.
	Claim(l sharedlun.Lun) (release func(), err error)
	// Content tells what is on a device, in words; empty when nothing is.
	Content(ctx context.Context, device string) (string, error)
}

// Config is what a Node is made of.
type Config struct {
	NodeName, BootID string
	// Dev is the host's /dev.
	Dev          string
	Initiator    Initiator
	Reservations Reservations
	Uses         Uses
}

// Node is one node and its LUNs. It is safe for concurrent use.
type Node struct {
	Config
	mu sync.Mutex
	// busy are the targets and LUNs that a call works on, with what is closed when it ends.
	busy map[string]chan struct{}
	// looking are the devices whose content is being read.
	looking map[string]bool
}

// New makes a Node.
func New(cfg Config) *Node {
	return &Node{Config: cfg, busy: map[string]chan struct{}{}, looking: map[string]bool{}}
}

// take takes a target, unless another call has it.
func (n *Node) take(name string) (release func(), taken <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c := n.busy[name]; c != nil {
		return nil, c
	}
	c := make(chan struct{})
	n.busy[name] = c
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.busy, name)
		close(c)
	}, nil
}

// lock takes a LUN, as soon as no other call has it.
func (n *Node) lock(ctx context.Context, id sharedlun.Identity) (release func(), err error) {
	for {
		release, taken := n.take("lun " + id.WWID)
		if release != nil {
			return release, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("LUN %s: another call works on it: %w", id.WWID, ctx.Err())
		case <-taken:
		}
	}
}

// found is a LUN with the nodes of its paths that are up.
type found struct {
	sharedlun.Lun
	up []string
}

// find finds the LUN, and makes sure on every path that is up that it is the recorded one. The target itself is asked: the kernel remembers what it
// was told when it found the device.
func (n *Node) find(ctx context.Context, id sharedlun.Identity) (found, error) {
	if err := id.Check(); err != nil {
		return found{}, err
	}
	sessions, err := n.Initiator.Sessions("")
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", sharedlun.ErrUnknown, err)
	}
	luns, err := n.Initiator.Luns(sessions)
	if err != nil {
		return found{}, fmt.Errorf("%w: %w", sharedlun.ErrUnknown, err)
	}
	luns = slices.DeleteFunc(luns, func(l sharedlun.Lun) bool { return l.WWID != id.WWID })
	if len(luns) == 0 {
		return found{}, fmt.Errorf("node %s sees no LUN %s: %w", n.NodeName, id.WWID, sharedlun.ErrNotFound)
	}
	out := found{Lun: luns[0]}
	for _, l := range luns {
		if err := id.Same(l.Identity); err != nil {
			return found{}, fmt.Errorf("node %s, LUN %s: %w", n.NodeName, id.WWID, err)
		}
	}
	for _, p := range out.Paths {
		if !p.Up {
			continue
		}
		path := filepath.Join(n.Dev, p.Device)
		seen, err := n.Reservations.Identify(ctx, path)
		if err != nil {
			return found{}, n.known(err)
		}
		if err := seen.Is(id); err != nil {
			return found{}, fmt.Errorf("node %s, path %s through %s: %w", n.NodeName, p.Device, p.Portal, err)
		}
		out.up = append(out.up, path)
	}
	if len(out.up) == 0 {
		return found{}, fmt.Errorf("node %s, LUN %s: no path is up: %w", n.NodeName, id.WWID, sharedlun.ErrUnknown)
	}
	return out, nil
}

// Device returns the path of the device node that stands for all paths of a LUN, once it is sure that it is this LUN. The errors are
// sharedlun.ErrNotFound, ErrOtherLun, ErrUnknown and ErrInvalid, and a *sharedlun.Problem.
func (n *Node) Device(ctx context.Context, id sharedlun.Identity) (string, error) {
	l, err := n.find(ctx, id)
	if err != nil {
		return "", err
	}
	if l.Device == "" {
		return "", sharedlun.NewProblem(sharedlun.ReasonMultipathMissing,
			"Node %s has %d paths to LUN %s, and nothing that joins them. Run multipathd there.", n.NodeName, len(l.Paths), id.WWID)
	}
	return filepath.Join(n.Dev, l.Device), nil
}

// known makes an error of this package's callers of one of a tool: a path that does not answer is not known.
func (n *Node) known(err error) error {
	switch {
	case errors.Is(err, reservation.ErrPath):
		return fmt.Errorf("node %s: %w: %w", n.NodeName, sharedlun.ErrUnknown, err)
	case errors.Is(err, reservation.ErrConflict):
		return fmt.Errorf("node %s: %w: %w", n.NodeName, sharedlun.ErrNoKey, err)
	}
	return fmt.Errorf("node %s: %w", n.NodeName, err)
}
