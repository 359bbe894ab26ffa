package agenttest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"quarry.storage/quarry/agent/agenttest/marks"
	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// ceph is what matters of the host to Ceph.
type ceph struct {
	// tools is the container with Ceph's programs; plain is true if it has no program that encrypts disks.
	tools string
	plain bool
	// ahead is how far the clock is ahead of the real one.
	ahead time.Duration
}

// SetClock sets the clock of the node so far ahead of the real one.
func (h *Host) SetClock(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = ahead
}

// now is the clock of the node.
func (h *Host) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// AddTools lets a container with Ceph's programs run on the node. Without its ID none does any more.
func (h *Host) AddTools(container string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tools = container
}

// RemoveEncryption takes the program that encrypts disks away, or brings it back.
func (h *Host) RemoveEncryption(away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plain = away
}

// Replug has an encrypted disk open, as the device that it was before it was away, or as the one that it is now.
func (h *Host) Replug(name string, before bool) {
	h.edit(name, func(d *disk) { d.marks.Mapped, d.marks.Moved = true, before })
}

// Marks are what tells of an OSD on a disk.
func (h *Host) Marks(name string) marks.Marks {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.disks[name].marks
}

// AddOSD writes a label of an OSD on a disk, at one of its places.
func (h *Host) AddOSD(name string, offset int64, label osd.Label) {
	h.edit(name, func(d *disk) {
		d.marks.Labels = append(d.marks.Labels, osd.Found{Offset: offset, Label: label})
		slices.SortFunc(d.marks.Labels, func(a, b osd.Found) int { return int(a.Offset>>12) - int(b.Offset>>12) })
	})
}

// Labels are the labels of OSDs on a disk.
func (h *Host) Labels(name string) []osd.Found {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.disks[name].marks.Labels)
}

// ZeroEnds zeroes the first and the last MiB of a disk, as a person does who takes that for enough.
func (h *Host) ZeroEnds(name string) {
	h.edit(name, func(d *disk) {
		left := d.marks.WithoutEnds()
		d.erase()
		d.marks = left
	})
}

// showLabels adds the marks of OSDs to what an observation shows of a disk.
func (d *disk) showLabels(out *plan.Device) {
	d.marks.Show(out)
	unmarked := *d
	unmarked.marks = marks.Marks{}
	out.HeadTailZero = unmarked.empty() && d.marks.AtStart() == ""
}

// performOnOSD makes the change that a step on an OSD describes, or one on a volume.
func (s session) performOnOSD(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case prep.FindTools:
		return s.findTools(st.Tools, st.Encryption)
	case prep.SealOSD:
		return s.sealOSD(ctx, st)
	case prep.FinishOSD:
		return s.finishOSD(ctx, st)
	case prep.CloseOSD:
		return s.mapOSD(ctx, st.Touches()[0], osd.Key{})
	case prep.MakeOSD:
		if st.Want.Encrypted {
			return s.makeSealed(ctx, st)
		}
		return s.makeOSD(ctx, st)
	case prep.ClearOSD:
		return s.clearOSD(ctx, st)
	}
	return s.performOnVolume(ctx, step)
}

// makeOSD writes the label first, as ceph-osd does, its copies then, and what makes it ready in the end: the agent can die between any two. Like
// ceph-osd it overwrites whatever is there, and checks no token: the adapter does, before it and after it.
func (s session) makeOSD(ctx context.Context, step prep.MakeOSD) error {
	path := step.Token().Device().Path
	if err := s.checked(path, step.Token().Verify); err != nil {
		return err
	}
	if err := s.findTools(step.Tools, false); err != nil {
		return err
	}
	for pass := range 2 {
		for i := range osd.Places(s.sizeOf(path)) {
			if err := s.change(ctx, func() error { return s.writeLabel(path, step.Want, i, pass > 0) }); err != nil {
				return err
			}
		}
	}
	return s.checked(path, step.Made)
}

// findTools looks for the container.
func (s session) findTools(container string, encryption bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case container == "" || container != s.tools:
		return fmt.Errorf("%w: container %s", prep.ErrNoTools, container)
	case encryption && s.plain:
		return prep.ErrNoEncryption
	}
	return nil
}

// sealOSD encrypts a disk.
func (s session) sealOSD(ctx context.Context, step prep.SealOSD) error {
	if err := s.findTools(step.Tools, true); err != nil {
		return err
	}
	return s.write(ctx, step.Token().Device().Path, step.Token().Verify, marks.Sealing(step.Want, step.Key, step.SizeBytes()))
}

// finishOSD writes that the making ended.
func (s session) finishOSD(ctx context.Context, step prep.FinishOSD) error {
	path := step.Token().Device().Path
	states, err := s.marksOf(path).Finishing()
	if err != nil {
		return err
	}
	if err := s.write(ctx, path, step.Token().Verify, states); err != nil {
		return err
	}
	return s.checked(path, step.Made)
}

func (s session) marksOf(path string) marks.Marks {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.find(path); d != nil {
		return d.marks
	}
	return marks.Marks{}
}

// write writes one state of a disk after the other.
func (s session) write(ctx context.Context, path string, verify func(plan.Device) error, states []marks.Marks) error {
	for i, m := range states {
		err := s.change(ctx, func() error {
			if err := s.verified(path, verify); i == 0 && err != nil {
				return err
			}
			d, err := s.present(path)
			if err == nil {
				d.marks = m
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mapOSD opens an encrypted disk with a key, or closes it without one.
func (s session) mapOSD(ctx context.Context, path string, key osd.Key) error {
	if s.marksOf(path).Mapped == !key.IsZero() {
		return nil
	}
	return s.change(ctx, func() error {
		d, err := s.present(path)
		switch {
		case err != nil:
			return err
		case len(d.users) > 0:
			return fmt.Errorf("%w: the encrypted OSD is open", plan.ErrRefused)
		}
		return d.marks.Map(key)
	})
}

// makeSealed opens the disk, makes the OSD in it, and closes it.
func (s session) makeSealed(ctx context.Context, step prep.MakeOSD) error {
	path := step.Token().Device().Path
	if err := s.checked(path, step.Token().Verify); err != nil {
		return err
	}
	if err := s.mapOSD(ctx, path, step.Key); err != nil {
		return err
	}
	err := s.change(ctx, func() error {
		d, err := s.present(path)
		if err == nil {
			d.marks.Inner = true
		}
		return err
	})
	if err != nil {
		return err
	}
	if err := s.mapOSD(ctx, path, osd.Key{}); err != nil {
		return err
	}
	return s.checked(path, step.Made)
}

// writeLabel writes the label, or one of its copies, as it is before the making ends, or after.
func (s session) writeLabel(path string, want osd.Wanted, place int, ready bool) error {
	d, err := s.present(path)
	if err != nil {
		return err
	}
	if place == 0 && !ready {
		d.erase()
	}
	d.marks.Label(want, d.SizeBytes, place, ready)
	return nil
}

// clearOSD removes everything but one label, and that one last. It refuses labels that are not that OSD's.
func (s session) clearOSD(ctx context.Context, step prep.ClearOSD) error {
	path := step.Token().Device().Path
	for _, left := range []int{1, 0} {
		err := s.change(ctx, func() error {
			if err := s.verified(path, step.Token().Verify); left > 0 && err != nil {
				return err
			}
			d, err := s.present(path)
			if err != nil {
				return err
			}
			rest, err := d.marks.Cleared(step.UUID(), left)
			if err != nil {
				return fmt.Errorf("%s: %w", step, err)
			}
			d.erase()
			d.marks = rest
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checked is verified for a step that does not hold the lock.
func (s session) checked(path string, verify func(plan.Device) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verified(path, verify)
}

func (s session) sizeOf(path string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.find(path)
	if d == nil {
		return 0
	}
	return d.SizeBytes
}
