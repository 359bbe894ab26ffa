package frametest

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/decide/volume"
)

// Names of the model's driver, and the label of nodes in its topology.
const (
	ModelDriver   = "model.quarry.storage"
	ModelTopology = "topology.model/node"
)

// prefixes of the handles of the model.
const (
	volumePrefix   = "model/vol-"
	snapshotPrefix = "model/snap-"
)

// Bare is a Backend in memory that has nothing but volumes. It is strict: it panics when two calls change one volume at once, and
// when a name or handle gets through that is none of the model.
type Bare struct {
	// Node that volumes are on.
	Node string
	// Before is called before every effect with its name; an error takes the place of the effect.
	Before func(effect string) error

	mu        sync.Mutex
	busy      map[string]bool
	volumes   map[string]frame.Volume
	snapshots map[string]frame.Snapshot
	sources   map[string]string
	readOnly  map[string]bool
}

// NewBare makes an empty storage.
func NewBare() *Bare {
	return &Bare{
		Node: "node-1", busy: map[string]bool{}, volumes: map[string]frame.Volume{}, snapshots: map[string]frame.Snapshot{},
		sources: map[string]string{}, readOnly: map[string]bool{},
	}
}

// Driver describes the driver of the model.
func Driver() frame.Driver {
	return frame.Driver{
		Name: ModelDriver, Volumes: naming(volumePrefix), Snapshots: naming(snapshotPrefix), Clones: true, NodeExpansion: true,
		Offer:      volume.Offer{Block: true, Shared: true, Filesystems: []string{"ext4"}},
		Parameters: func(own map[string]string) error { return volume.Known(own, "pool") }, Topology: ModelTopology, AttachReadOnly: true,
	}
}

func naming(prefix string) frame.Naming {
	return frame.Naming{
		Name: func(asked string) string { return prefix + asked },
		Parse: func(handle string) (string, error) {
			if !strings.HasPrefix(handle, prefix) {
				return "", fmt.Errorf("%w: %q", volume.ErrNotOurs, handle)
			}
			return handle, nil
		},
	}
}

// Existing returns the handles of the volumes that exist, ordered.
func (m *Bare) Existing() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.volumes))
}

// effect begins a change of one volume or snapshot.
func (m *Bare) effect(name, handle string) (end func(), err error) {
	if !strings.HasPrefix(handle, volumePrefix) && !strings.HasPrefix(handle, snapshotPrefix) {
		panic("the frame passed on " + handle)
	}
	m.setBusy(handle)
	if m.Before != nil {
		err = m.Before(name)
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.busy, handle)
	}, err
}

func (m *Bare) setBusy(handle string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[handle] {
		panic("the frame let two calls change " + handle + " at once")
	}
	m.busy[handle] = true
}

func absent(handle string) error { return volume.Refuse(volume.NotFound, "%s does not exist", handle) }

// CreateVolume makes a volume of the size that was asked for.
func (m *Bare) CreateVolume(_ context.Context, w frame.Wish) (frame.Volume, error) {
	end, err := m.effect("create", w.Name)
	defer end()
	if err != nil {
		return frame.Volume{}, err
	}
	if len(w.Access) == 0 || !w.Topology.Allows(m.Node) {
		return frame.Volume{}, volume.Refuse(volume.Exhausted, "no capability, or not on %s", m.Node)
	}
	size, err := w.Size.Size(1)
	if err != nil {
		return frame.Volume{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from := ""
	if w.Source != nil {
		if from = w.Source.Handle; !m.has(from) {
			return frame.Volume{}, absent(from)
		}
	}
	if v, ok := m.volumes[w.Name]; ok {
		if v.Bytes != size || m.sources[w.Name] != from {
			return frame.Volume{}, volume.Refuse(volume.Conflict, "%s exists and is another", w.Name)
		}
		return v, nil
	}
	v := frame.Volume{
		Handle: w.Name, Bytes: size, Nodes: []string{m.Node}, Condition: volume.Healthy(),
		Context: map[string]string{"claim": w.Claim.Namespace + "/" + w.Claim.Name},
	}
	m.volumes[w.Name], m.sources[w.Name] = v, from
	return v, nil
}

func (m *Bare) has(handle string) bool {
	_, isVolume := m.volumes[handle]
	_, isSnapshot := m.snapshots[handle]
	return isVolume || isSnapshot
}

// DeleteVolume removes a volume.
func (m *Bare) DeleteVolume(_ context.Context, handle string) error {
	end, err := m.effect("delete", handle)
	defer end()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.volumes, handle)
	return nil
}

// ExpandVolume makes a volume larger.
func (m *Bare) ExpandVolume(_ context.Context, handle string, size volume.Range) (int64, error) {
	end, err := m.effect("expand", handle)
	defer end()
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.volumes[handle]
	if !ok {
		return 0, absent(handle)
	}
	v.Bytes = max(v.Bytes, size.Required)
	m.volumes[handle] = v
	return v.Bytes, nil
}

// Volume returns a volume.
func (m *Bare) Volume(_ context.Context, handle string) (frame.Volume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.volumes[handle]; ok {
		return v, nil
	}
	return frame.Volume{}, absent(handle)
}

// Volumes yields the volumes, ordered by handle.
func (m *Bare) Volumes(ctx context.Context, from string) iter.Seq2[frame.Volume, error] {
	return func(yield func(frame.Volume, error) bool) {
		for _, h := range m.Existing() {
			if h < from {
				continue
			}
			if v, err := m.Volume(ctx, h); !yield(v, err) {
				return
			}
		}
	}
}
