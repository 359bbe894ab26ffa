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
	"quarry.storage/quarry/agent/internal/keylock"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Initiator is what this package needs of package host/iscsi.
type Initiator interface {
	Initiator(ctx context.Context) (sharedlun.Initiator, error)
	Sessions(iqn string) ([]iscsi.Session, error)
	// MarkUnserved says of sessions which ones iscsid does not serve.
	MarkUnserved(ctx context.Context, sessions []iscsi.Session)
	Luns(sessions []iscsi.Session) ([]sharedlun.Lun, error)
	Login(ctx context.Context, iqn, portal string, c *sharedlun.Chap) error
	Logout(ctx context.Context, s iscsi.Session) error
	Forget(ctx context.Context, iqn string) error
	// Recorded reports whether there are records of a target.
	Recorded(ctx context.Context, iqn string) (bool, error)
	Flush(ctx context.Context, device string) error
}

// Reservations is what it needs of package host/reservation.
type Reservations interface {
	Identify(ctx context.Context, device string) (reservation.Identity, error)
	Read(ctx context.Context, device string) (sharedlun.Reservation, error)
	Registrations(ctx context.Context, device string, key uint64) (int, error)
	Confirm(ctx context.Context, device string, key uint64) error
	Register(ctx context.Context, device string, key uint64, old ...uint64) error
	Unregister(ctx context.Context, device string, key uint64) error
	Reserve(ctx context.Context, device string, key uint64) error
	Convert(ctx context.Context, device string, key uint64) error
	Preempt(ctx context.Context, device string, key, victim uint64) error
}

// Uses finds who uses devices of this node.
type Uses interface {
	// Of names who uses a LUN, in words that follow "in use by": a device that is built on it is UsedByDevice and its kernel name. An error means that there
	// may be more.
	Of(ctx context.Context, l sharedlun.Lun) ([]string, error)
	// Holders are the kernel names of what is built on the device of a LUN, on one of its paths, or on a map of it that has lost its paths.
	Holders(l sharedlun.Lun) ([]string, error)
	// On are the kernel names of what is built on one device.
	On(device string) ([]string, error)
	// Volume are the UUIDs in LVM of the shared group, and of its volume, that a device stands for; empty when it stands for none.
	Volume(device string) (group, uuid string, err error)
	// Claim keeps others from mounting a LUN, or building on it, until it is released. A LUN that is in use is sharedlun.ErrInUse.
	Claim(l sharedlun.Lun) (release func(), err error)
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
	cfg Config
	// locks are of the targets and LUNs that a call works on.
	locks keylock.Locks
	mu    sync.Mutex
	// looking are the questions to paths that are under way.
	looking map[string]bool
}

// New makes a Node.
func New(cfg Config) *Node { return &Node{cfg: cfg, looking: map[string]bool{}} }

// lockTarget takes a target, unless another call has it.
func (n *Node) lockTarget(iqn string) (release func(), err error) {
	release, ok := n.locks.Try(targetLock(iqn))
	if !ok {
		return nil, fmt.Errorf("target %s: %w", iqn, sharedlun.ErrTargetBusy)
	}
	return release, nil
}

// lock takes a LUN, as soon as no other call has it.
func (n *Node) lock(ctx context.Context, id sharedlun.Identity) (release func(), err error) {
	if release, err = n.locks.Lock(ctx, lunLock(id)); err != nil {
		return nil, fmt.Errorf("LUN %s: %w: %w", id.WWID, sharedlun.ErrBusy, err)
	}
	return release, nil
}

func targetLock(iqn string) string { return "target " + iqn }

func lunLock(id sharedlun.Identity) string { return "lun " + id.WWID }

// found is a LUN with the nodes of its paths that are up.
type found struct {
	sharedlun.Lun
	up []string
}

// find finds the LUN, and makes sure on every path that is up that it is the recorded one. The target itself is asked: the kernel remembers what it
// was told when it found the device.
func (n *Node) find(ctx context.Context, id sharedlun.Identity) (found, error) {
	out, err := n.remembered(id)
	if err != nil {
		return found{}, err
	}
	for _, p := range out.Paths {
		if !p.Up {
			continue
		}
		if err := n.identify(ctx, id, p); err != nil {
			return found{}, err
		}
		out.up = append(out.up, filepath.Join(n.cfg.Dev, p.Device))
	}
	if len(out.up) == 0 {
		return found{}, fmt.Errorf("node %s, LUN %s: no path is up: %w", n.cfg.NodeName, id.WWID, sharedlun.ErrUnread)
	}
	return out, nil
}

// remembered finds the LUN as the kernel remembers it.
func (n *Node) remembered(id sharedlun.Identity) (found, error) {
	if err := id.Check(); err != nil {
		return found{}, err
	}
	_, luns, err := n.look("")
	if err != nil {
		return found{}, fmt.Errorf("node %s: %w: %w", n.cfg.NodeName, sharedlun.ErrUnread, err)
	}
	luns = slices.DeleteFunc(luns, func(l sharedlun.Lun) bool { return l.WWID != id.WWID })
	if len(luns) == 0 {
		return found{}, fmt.Errorf("node %s sees no LUN %s: %w", n.cfg.NodeName, id.WWID, sharedlun.ErrNotFound)
	}
	out := found{Lun: luns[0]}
	for _, l := range luns {
		if err := id.Same(l.Identity); err != nil {
			return found{}, fmt.Errorf("node %s, LUN %s: %w", n.cfg.NodeName, id.WWID, err)
		}
	}
	return out, nil
}

// identify makes sure that a path leads to the recorded LUN.
func (n *Node) identify(ctx context.Context, id sharedlun.Identity, p sharedlun.Path) error {
	seen, err := n.cfg.Reservations.Identify(ctx, filepath.Join(n.cfg.Dev, p.Device))
	if err != nil {
		return n.unread(err)
	}
	if err := seen.Is(id); err != nil {
		return fmt.Errorf("node %s, path %s through %s: %w", n.cfg.NodeName, p.Device, p.Portal, err)
	}
	return nil
}

// Device returns the path of the device node that stands for all paths of a LUN, once it is sure that it is this LUN. The errors are
// sharedlun.ErrNotFound, ErrOtherLun, ErrUnread and ErrInvalid, and a *sharedlun.Problem.
func (n *Node) Device(ctx context.Context, id sharedlun.Identity) (string, error) {
	l, err := n.find(ctx, id)
	if err != nil {
		return "", err
	}
	return n.device(l)
}

func (n *Node) device(l found) (string, error) {
	if l.Device == "" {
		return "", sharedlun.NewProblem(sharedlun.ReasonMultipathMissing,
			"Node %s has %d paths to LUN %s, and nothing that joins them. Run multipathd there.", n.cfg.NodeName, len(l.Paths), l.WWID)
	}
	return filepath.Join(n.cfg.Dev, l.Device), nil
}

// unread makes an error of this package's callers of one of a tool that only looked: what does not answer could not be read, and nothing was changed.
func (n *Node) unread(err error) error { return n.known(err, sharedlun.ErrUnread) }

// unknown does so where something may have been changed.
func (n *Node) unknown(err error) error { return n.known(err, sharedlun.ErrUnknown) }

// known hides the tool's own kind, of which callers would believe less, or more.
func (n *Node) known(err, silent error) error {
	silence := errors.Is(err, reservation.ErrPath) || errors.Is(err, sharedlun.ErrUnread)
	switch {
	case err == nil:
		return nil
	case silence:
		return fmt.Errorf("node %s: %w: %s", n.cfg.NodeName, silent, err.Error())
	case errors.Is(err, reservation.ErrConflict):
		return fmt.Errorf("node %s: %w: %w", n.cfg.NodeName, sharedlun.ErrNoKey, err)
	}
	return fmt.Errorf("node %s: %w", n.cfg.NodeName, err)
}
