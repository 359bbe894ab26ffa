package sharedgroup

import (
	"context"
	"fmt"
	"strings"

	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// mapper is where the devices of volumes are.
const mapper = "/dev/model/mapper/"

// filesystems are those on the volumes of the node.
type filesystems struct{ n *Node }

var _ sharedgroup.Filesystems = filesystems{}

// at is the device at a path, with the LUN that it lies on, and the extent in which its filesystem begins. The lock is held by the caller.
func (f filesystems) at(device string) (m *mapped, l *LUN, begins int64, err error) {
	m = f.n.mapped[strings.TrimPrefix(device, mapper)]
	if m == nil || !m.Live || !m.Linear || f.n.blind {
		return nil, nil, 0, fmt.Errorf("open %s: I/O error", device)
	}
	l, err = f.n.san.find(wwidOf(m.Lun))
	return m, l, m.Ranges[0].Start, err
}

// Content tells what is on a device.
func (f filesystems) Content(_ context.Context, device string) (decide.VolumeContent, error) {
	f.n.san.mu.Lock()
	defer f.n.san.mu.Unlock()
	m, l, begins, err := f.at(device)
	if err != nil {
		return decide.VolumeContent{}, err
	}
	if have, ok := l.files[begins]; ok {
		return have, nil
	}
	for _, at := range extents(m.Ranges) {
		if l.written[at] != 0 {
			return decide.VolumeContent{Unknown: true}, nil
		}
	}
	return decide.VolumeContent{}, nil
}

// Make makes a filesystem. Killed halfway it leaves what nobody recognises.
func (f filesystems) Make(ctx context.Context, device, fsType, uuid string) error {
	f.n.san.mu.Lock()
	defer f.n.san.mu.Unlock()
	m, l, begins, err := f.at(device)
	switch {
	case err != nil:
		return err
	case m.open > 0:
		return fmt.Errorf("%w: %s is open", sharedlun.ErrInUse, device)
	}
	m.open++
	defer func() { m.open-- }()
	if have := l.files[begins]; have.Type != "" && !have.Unfinished && have.UUID == uuid {
		l.lost = fmt.Sprintf("a filesystem was made on %s over its own one, which was whole, of type %s", m.volume, have.Type)
	}
	if err := f.n.touch(m, 0, true); err != nil {
		return err
	}
	delete(l.files, begins)
	f.n.san.mu.Unlock()
	select {
	case <-f.n.gated(&f.n.zeroGate):
	case <-ctx.Done():
	}
	f.n.san.mu.Lock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f.n.strikes(formatStep); err != nil {
		return err
	}
	if err := f.n.touch(m, 0, true); err != nil {
		return err
	}
	l.files[begins] = decide.VolumeContent{Type: fsType, UUID: uuid}
	return nil
}

// KillFormat has the next program killed that makes a filesystem, before it ends.
func (n *Node) KillFormat() { n.once(formatStep, 0) }

// Filesystem is the type of the whole filesystem on a volume; empty when there is none.
func (l *LUN) Filesystem(volume string) string {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	if v := l.group.Volume(volume); v != nil {
		return l.files[v.Ranges[0].Start].Type
	}
	return ""
}

// Lose makes a volume look as if nothing were on it.
func (l *LUN) Lose(volume string) {
	l.san.mu.Lock()
	defer l.san.mu.Unlock()
	for _, at := range extents(l.group.Volume(volume).Ranges) {
		delete(l.files, at)
		delete(l.written, at)
	}
}

// several is what is left of two filesystems.
var several = decide.VolumeContent{Unknown: true, Type: "several"}

// Contradict leaves two filesystems on a volume.
func (n *Node) Contradict(volume string) error {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	_, l, begins, err := filesystems{n}.at(mapper + volume)
	if err == nil {
		l.files[begins] = several
	}
	return err
}

// Several reports whether two filesystems are on a volume.
func (n *Node) Several(volume string) bool {
	n.san.mu.Lock()
	defer n.san.mu.Unlock()
	_, l, begins, err := filesystems{n}.at(mapper + volume)
	return err == nil && l.files[begins] == several
}
