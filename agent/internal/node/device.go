package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"quarry.storage/quarry/agent/internal/plan"
)

// Resolver follows the links of a device path. Its error is fs.ErrNotExist when the path leads to nothing.
type Resolver func(path string) (string, error)

// ResolveLinks follows links on the file system of this process.
func ResolveLinks(path string) (string, error) { return filepath.EvalSymlinks(path) }

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
