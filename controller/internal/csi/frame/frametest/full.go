package frametest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

// Model is Bare with everything that the frame can serve.
type Model struct{ *Bare }

var (
	_ frame.Backend     = (*Bare)(nil)
	_ frame.Snapshotter = Model{}
	_ frame.Measurer    = Model{}
	_ frame.Attacher    = Model{}
)

// CreateSnapshot makes a snapshot.
func (m Model) CreateSnapshot(_ context.Context, name, of string) (frame.Snapshot, error) {
	end, err := m.effect("snapshot", name)
	defer end()
	if err != nil {
		return frame.Snapshot{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.volumes[of]
	if !ok {
		return frame.Snapshot{}, absent(of)
	}
	if s, ok := m.snapshots[name]; ok {
		if s.Of != of {
			return frame.Snapshot{}, volume.Refuse(volume.Conflict, "%s is one of %s", name, s.Of)
		}
		return s, nil
	}
	m.snapshots[name] = frame.Snapshot{Handle: name, Of: of, Bytes: v.Bytes, Created: time.Unix(1_700_000_000, 0)}
	return m.snapshots[name], nil
}

// DeleteSnapshot removes a snapshot.
func (m Model) DeleteSnapshot(_ context.Context, handle string) error {
	end, err := m.effect("delete", handle)
	defer end()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.snapshots, handle)
	}
	return err
}

// Snapshot returns a snapshot.
func (m Model) Snapshot(_ context.Context, handle string) (frame.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.snapshots[handle]; ok {
		return s, nil
	}
	return frame.Snapshot{}, absent(handle)
}

// Snapshots yields the snapshots that fit, ordered by handle.
func (m Model) Snapshots(_ context.Context, f frame.Filter, from string) iter.Seq2[frame.Snapshot, error] {
	m.mu.Lock()
	all := maps.Clone(m.snapshots)
	m.mu.Unlock()
	return func(yield func(frame.Snapshot, error) bool) {
		for _, h := range slices.Sorted(maps.Keys(all)) {
			s := all[h]
			if h >= from && (f.Handle == "" || f.Handle == h) && (f.Of == "" || f.Of == s.Of) && !yield(s, nil) {
				return
			}
		}
	}
}

// Capacity is 10 GiB on the node, and nothing elsewhere.
func (m Model) Capacity(_ context.Context, _ map[string]string, node string) (volume.Capacity, error) {
	if node != "" && node != m.Node {
		return volume.Capacity{}, nil
	}
	return volume.Capacity{Available: 10 << 30, Largest: 10 << 30, Smallest: 1}, nil
}

// Attach attaches a volume to the node.
func (m Model) Attach(_ context.Context, a frame.Attachment) (map[string]string, error) {
	end, err := m.effect("attach", a.Handle)
	defer end()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.volumes[a.Handle]
	switch {
	case !ok:
		return nil, absent(a.Handle)
	case a.Node != m.Node:
		return nil, volume.Refuse(volume.NotFound, "node %s does not exist", a.Node)
	}
	readOnly := a.ReadOnly || a.Access.ReadOnly()
	if len(v.Attached) > 0 && m.readOnly[a.Handle] != readOnly {
		return nil, volume.Refuse(volume.Conflict, "%s is attached with read-only %t", a.Handle, !readOnly)
	}
	v.Attached = []string{a.Node}
	m.volumes[a.Handle], m.readOnly[a.Handle] = v, readOnly
	return map[string]string{"readOnly": fmt.Sprint(readOnly)}, nil
}

// Detach detaches a volume.
func (m Model) Detach(_ context.Context, handle, node string) error {
	end, err := m.effect("detach", handle)
	defer end()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.volumes[handle]; ok {
		v.Attached = slices.DeleteFunc(slices.Clone(v.Attached), func(n string) bool { return node == "" || n == node })
		m.volumes[handle] = v
	}
	return nil
}
