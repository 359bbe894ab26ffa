package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// Resolver follows the links of a device path. Its error is fs.ErrNotExist when the path leads to nothing.
type Resolver func(path string) (string, error)

// ResolveLinks follows links on the file system of this process.
func ResolveLinks(path string) (string, error) { return filepath.EvalSymlinks(path) }

// InspectDevice returns the device as it is at this moment: observed after the call began, and then looked at through an exclusive open. Nobody else works on it for this agent meanwhile.
func (e *Engine) InspectDevice(ctx context.Context, id plan.Identity) (plan.Device, error) {
	keys, err := deviceKeys(e.cfg.Resolve, []plan.Identity{id}, true)
	if err != nil {
		return plan.Device{}, err
	}
	unlock, err := e.locks.tryLock(keys...)
	if err != nil {
		return plan.Device{}, err
	}
	defer unlock()
	snap, err := e.Observe(ctx)
	if err != nil {
		return plan.Device{}, err
	}
	seen, there := snap.Find(id.Path)
	if !there {
		return plan.Device{}, fmt.Errorf("device %s: %w", id.Path, plan.ErrNotFound)
	}
	compare := plan.Match
	if id.Digest == "" {
		compare = plan.MatchHardware
	}
	if err := compare(seen, id); err != nil {
		return plan.Device{}, err
	}
	look, err := e.cfg.Looker.Look(ctx, seen)
	if errors.Is(err, plan.ErrTaken) {
		return plan.Looked(seen, nil, e.cfg.Policy)
	}
	if err != nil {
		return plan.Device{}, fmt.Errorf("look at %s: %w", seen.Path, err)
	}
	return plan.Looked(seen, &look, e.cfg.Policy)
}

// WipeDevice makes the device clean, and returns it as it is seen then.
func (e *Engine) WipeDevice(ctx context.Context, id plan.Identity) (plan.Device, error) {
	keys, err := deviceKeys(e.cfg.Resolve, []plan.Identity{id}, true)
	if err != nil {
		return plan.Device{}, err
	}
	unlock, err := e.locks.tryLock(keys...)
	if err != nil {
		return plan.Device{}, err
	}
	defer unlock()
	after, _, err := e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return plan.Wipe(before, id, e.cfg.Policy) })
	if err != nil {
		return plan.Device{}, err
	}
	d, ok := after.Find(id.Path)
	if !ok {
		return plan.Device{}, fmt.Errorf("device %s went away: %w", id.Path, plan.ErrNotFound)
	}
	return d, nil
}

// InspectOSD says what a disk is to the Cluster that wants the OSD on it, as it is seen now.
func (e *Engine) InspectOSD(ctx context.Context, spec prep.Spec) (osd.Verdict, error) {
	seen, err := e.Observe(ctx)
	if err != nil {
		return osd.Verdict{}, err
	}
	return prep.Inspect(seen, spec, e.cfg.Policy)
}

// PrepareOSD makes a disk the OSD, unless it is that already.
func (e *Engine) PrepareOSD(ctx context.Context, spec prep.Spec) error {
	return e.onOSD(ctx, spec, prep.Prepare)
}

// ZapOSD makes the disk of the OSD clean.
func (e *Engine) ZapOSD(ctx context.Context, spec prep.Spec) error {
	return e.onOSD(ctx, spec, prep.Zap)
}

func (e *Engine) onOSD(ctx context.Context, spec prep.Spec, decide func(plan.Snapshot, prep.Spec, plan.Policy) (plan.Plan, error)) error {
	keys, err := deviceKeys(e.cfg.Resolve, []plan.Identity{spec.Device}, true)
	if err != nil {
		return err
	}
	unlock, err := e.locks.tryLock(keys...)
	if err != nil {
		return err
	}
	defer unlock()
	_, _, err = e.change(ctx, func(before plan.Snapshot) (plan.Plan, error) { return decide(before, spec, e.cfg.Policy) })
	return err
}

// deviceKeys are the keys of the locks on the devices. It returns plan.ErrNotFound for a device that has to be present and is absent.
func deviceKeys(resolve Resolver, ids []plan.Identity, present bool) ([]string, error) {
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		target, err := resolve(id.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && present:
			return nil, fmt.Errorf("device %s: %w", id.Path, plan.ErrNotFound)
		case errors.Is(err, fs.ErrNotExist):
			target = id.Path
		case err != nil:
			return nil, fmt.Errorf("device %s: %w", id.Path, err)
		case !strings.HasPrefix(target, "/dev/"):
			return nil, fmt.Errorf("device path %q leads to %s: %w", id.Path, target, plan.ErrInvalid)
		}
		keys = append(keys, "device "+target)
	}
	return keys, nil
}
