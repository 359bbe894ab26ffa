package sharedgroup

import (
	"context"
	"fmt"
	"slices"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Filesystems makes filesystems on the devices of volumes.
type Filesystems interface {
	// Content tells what is on a device.
	Content(ctx context.Context, device string) (decide.VolumeContent, error)
	// Make empties a device and makes a filesystem with that UUID on it. It returns when no process works on the device any more.
	Make(ctx context.Context, device, fsType, uuid string) error
}

// Format makes the first filesystem of a volume that is mapped on this node, and reports whether it is there. It returns at once: the making goes on in between, and
// an order to unmap the volume ends it. The LUN says whether this node may: a volume that a pod may have seen is done, whatever is on it.
func (s *Service) Format(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume, fsType string,
) (done bool, err error) {
	if err := checkVolume(ref, v, 1); err != nil {
		return false, err
	}
	if !slices.Contains(filesystem.Names(), fsType) {
		return false, fmt.Errorf("%w: no filesystem of type %.40q can be made", sharedlun.ErrInvalid, fsType)
	}
	unlock, err := s.lock(ctx, key(ref.UUID, v.UUID))
	if err != nil {
		return false, err
	}
	defer unlock()
	k := formatKey(key(ref.UUID, v.UUID))
	s.mu.Lock()
	t := s.tasks[k]
	s.mu.Unlock()
	switch {
	case t != nil && t.running():
		return false, nil
	case t != nil:
		// How it ended is told once. Whether a filesystem is there, the volume says.
		s.forget(k)
		if t.err != nil {
			return false, unknown(t.err)
		}
	}
	device, done, err := s.formattable(ctx, ref, cred, v)
	if done || err != nil {
		return done, unread(err)
	}
	s.beginFormat(k, v, device, fsType)
	return false, nil
}

func formatKey(k string) string { return k + " filesystem" }

// Making reports whether a program works on the first filesystem of a volume on this node. Where the LUN said before the call that the volume was used, none
// begins later.
func (s *Service) Making(ctx context.Context, ref sharedlun.Ref, volume string) (bool, error) {
	k := key(ref.UUID, volume)
	// A call of Format that looked at the LUN earlier has begun, or has refused, once the lock is free.
	unlock, err := s.lock(ctx, k)
	if err != nil {
		return false, err
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[formatKey(k)]
	return t != nil && t.running(), nil
}

// formattable looks at the LUN, at the device and at what is on it, and returns the device on which a filesystem is to be made. The caller holds the lock of
// the volume: nobody unmaps it.
func (s *Service) formattable(
	ctx context.Context, ref sharedlun.Ref, cred sharedlun.Credential, v sharedlun.Volume,
) (device string, done bool, err error) {
	number, _, err := s.lun(ctx, ref)
	if err != nil {
		return "", false, err
	}
	m, err := s.mapped(ctx, ref.UUID, v.UUID)
	if err != nil {
		return "", false, err
	}
	f, err := s.look(ctx, ref)
	if err != nil {
		return "", false, err
	}
	g, err := decide.Same(ref, f)
	if err != nil {
		return "", false, err
	}
	if done, err = decide.Format(g, v, s.cfg.Node, m, number); done || err != nil {
		return "", done, err
	}
	if err := s.mayWrite(ctx, ref.Lun, cred); err != nil {
		return "", false, err
	}
	have, err := s.cfg.Filesystems.Content(ctx, m.Path)
	return m.Path, err == nil && !decide.Unmade(have, decide.FilesystemUUID(v.UUID)), err
}

// beginFormat has a filesystem made in the background.
func (s *Service) beginFormat(k string, v sharedlun.Volume, device, fsType string) {
	ctx, cancel := context.WithCancel(s.background)
	t := &task{cancel: cancel, ended: make(chan struct{})}
	s.mu.Lock()
	s.tasks[k] = t
	s.mu.Unlock()
	s.work.Go(func() {
		defer close(t.ended)
		defer cancel()
		t.err = s.cfg.Filesystems.Make(ctx, device, fsType, decide.FilesystemUUID(v.UUID))
		if t.err != nil {
			s.cfg.Log.Error(t.err, "Could not make the first filesystem of a volume", "volume", v.Name, "type", fsType)
			return
		}
		s.cfg.Log.Info("Made the first filesystem of a volume", "volume", v.Name, "type", fsType)
	})
}
