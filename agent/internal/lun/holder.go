package lun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/agent/internal/host/dm/linear"
	"quarry.storage/quarry/agent/internal/host/reservation"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Holders are what is built on a LUN. The map over its paths is no use of it.
func (u HostUses) Holders(l sharedlun.Lun) ([]string, error) {
	own, out := devices(l), []string{}
	stale, err := u.stale(l)
	if err != nil {
		return nil, err
	}
	own = slices.Compact(slices.Sorted(slices.Values(append(own, stale...))))
	for _, name := range own {
		family, err := u.family(name)
		if err != nil {
			return nil, err
		}
		for _, h := range family[0].Holders {
			if !slices.Contains(own, h) {
				out = append(out, h)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// On reads what is built on one device. On one that is gone nothing is.
func (u HostUses) On(device string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(u.Sys, "class/block", device, "holders"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("what is built on device %s: %w", device, err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// Volume reads which volume a device stands for.
func (u HostUses) Volume(device string) (group, uuid string, err error) {
	text, err := os.ReadFile(filepath.Join(u.Sys, "class/block", device, "dm/uuid"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("device %s: %w", device, err)
	}
	v, _ := linear.VolumeOf(strings.TrimSpace(string(text)))
	return v.Group, v.UUID, nil
}

// stale are maps of a LUN that none of its paths is a part of. multipathd puts the next path into them, and then what is built on them writes again.
func (u HostUses) stale(l sharedlun.Lun) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(u.Sys, "class/block"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(u.Sys, "class/block", e.Name(), "dm/uuid"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", e.Name(), err)
		}
		wwid, joins := strings.CutPrefix(strings.TrimSpace(string(text)), mapPrefix)
		if !joins {
			continue
		}
		paths, err := os.ReadDir(filepath.Join(u.Sys, "class/block", e.Name(), "slaves"))
		if err != nil {
			return nil, fmt.Errorf("device %s: %w", e.Name(), err)
		}
		if mapOf(l, wwid, len(paths) == 0) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// mapPrefix begins the UUIDs of maps in device-mapper. The WWID in multipathd's words follows.
const mapPrefix = "mpath-"

// mapOf reports whether a map with multipathd's WWID may be that of a LUN. multipathd writes those of hexadecimal digits as the kernel does, after a digit for
// their kind; of others it is not known, so that each one without paths may be it.
func mapOf(l sharedlun.Lun, multipath string, empty bool) bool {
	kind, digits, _ := strings.Cut(l.WWID, ".")
	if kind == "naa" || kind == "eui" {
		return len(multipath) > 1 && strings.EqualFold(multipath[1:], digits)
	}
	return empty
}

// askPatience is how long a look waits for the answers of all paths. A LUN that works answers at once.
const askPatience = 2 * time.Second

// Astray tells which volumes of a group have devices here that write to another LUN than the recorded one, and says in words which paths lead there. Each path
// that is up is asked, of the LUN as the kernel remembers it and of everything that the group's devices stand on: the kernel may have been told of the other LUN
// meanwhile. A path that does not answer, or does not say who it is, tells nothing, and is an error beside what the others tell.
func (n *Node) Astray(ctx context.Context, id sharedlun.Identity, group string) (volumes []string, says string, err error) {
	if err := id.Check(); err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	stands, err := n.stands(id, group)
	others, errAsk := n.others(ctx, id, stands)
	err = errors.Join(err, errAsk)
	if len(others) == 0 {
		return nil, "", err
	}
	// What was asked by its name may have been another device already. One that is a path of the same session still was not.
	again, errAgain := n.stands(id, group)
	var lines []string
	for _, s := range again {
		if other := others[s.path()]; other != nil {
			lines = append(lines, fmt.Sprintf("path %s through %s: %v", s.Device, s.Portal, other))
			volumes = append(volumes, s.volumes...)
		}
	}
	slices.Sort(volumes)
	return slices.Compact(volumes), strings.Join(lines, "; "), errors.Join(err, errAgain)
}

// stand is a path that is up, with the volumes whose devices stand on it or on its map.
type stand struct {
	sharedlun.Path
	volumes []string
}

// way tells one path from all others, before and later.
type way struct {
	device  string
	session int64
}

func (s stand) path() way { return way{s.Device, s.Session} }

// stands are the paths of a LUN that are up, and others on which devices of the group stand. What can be read is returned beside an error.
func (n *Node) stands(id sharedlun.Identity, group string) (out []stand, err error) {
	_, luns, err := n.look("")
	if err != nil {
		return nil, fmt.Errorf("node %s: %w: %w", n.cfg.NodeName, sharedlun.ErrUnread, err)
	}
	for _, l := range luns {
		for _, p := range l.Paths {
			volumes, errOn := n.volumesOn(p, group)
			err = errors.Join(err, errOn)
			if p.Up && (l.WWID == id.WWID || len(volumes) > 0) {
				out = append(out, stand{p, volumes})
			}
		}
	}
	return out, err
}

// volumesOn are the volumes of a group whose devices stand on a path, or on the map that it is a part of.
func (n *Node) volumesOn(p sharedlun.Path, group string) (out []string, err error) {
	for _, below := range []string{p.Device, p.Map} {
		if below == "" {
			continue
		}
		on, errOn := n.cfg.Uses.On(below)
		err = errors.Join(err, errOn)
		for _, device := range on {
			of, uuid, errVolume := n.cfg.Uses.Volume(device)
			if err = errors.Join(err, errVolume); uuid != "" && of == group {
				out = append(out, uuid)
			}
		}
	}
	return out, err
}

// others asks all paths at once which LUN they lead to, and returns those that lead to another one.
func (n *Node) others(ctx context.Context, id sharedlun.Identity, paths []stand) (map[way]error, error) {
	type answer struct {
		of         way
		other, err error
	}
	answers := make(chan answer, len(paths))
	for _, p := range paths {
		go func() {
			seen, err := n.ask(ctx, p.Path)
			if err != nil {
				answers <- answer{of: p.path(), err: err}
				return
			}
			answers <- answer{of: p.path(), other: seen.Other(id)}
		}()
	}
	out, err := map[way]error{}, error(nil)
	for range paths {
		a := <-answers
		if err = errors.Join(err, a.err); a.other != nil {
			out[a.of] = a.other
		}
	}
	return out, err
}

// ask asks the target behind a path which LUN it is. A path that does not answer keeps one question, no more.
func (n *Node) ask(ctx context.Context, p sharedlun.Path) (reservation.Identity, error) {
	type answer struct {
		seen reservation.Identity
		err  error
	}
	question := "identity of " + p.Device
	n.mu.Lock()
	before := n.looking[question]
	n.looking[question] = true
	n.mu.Unlock()
	if before {
		return reservation.Identity{}, fmt.Errorf("%s: %w: it was asked before, and has not answered", p.Device, sharedlun.ErrUnread)
	}
	got := make(chan answer, 1)
	go func() {
		seen, err := n.cfg.Reservations.Identify(ctx, filepath.Join(n.cfg.Dev, p.Device))
		n.mu.Lock()
		delete(n.looking, question)
		n.mu.Unlock()
		got <- answer{seen, err}
	}()
	select {
	case a := <-got:
		return a.seen, a.err
	case <-ctx.Done():
		return reservation.Identity{}, fmt.Errorf("%s: %w: %w", p.Device, sharedlun.ErrUnread, ctx.Err())
	}
}
