package agenttest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"quarry.storage/quarry/agent/internal/plan"
	"quarry.storage/quarry/agent/internal/plan/prep"
	"quarry.storage/quarry/pkg/osd"
)

// ceph is what matters of the host to Ceph.
type ceph struct {
	// tools is the container with Ceph's programs.
	tools string
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

// AddOSD writes a label of an OSD on a disk, at one of its places.
func (h *Host) AddOSD(name string, offset int64, label osd.Label) {
	h.edit(name, func(d *disk) {
		d.labels = append(d.labels, osd.Found{Offset: offset, Label: label})
		slices.SortFunc(d.labels, func(a, b osd.Found) int { return int(a.Offset>>12) - int(b.Offset>>12) })
	})
}

// Labels are the labels of OSDs on a disk.
func (h *Host) Labels(name string) []osd.Found {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.disks[name].labels)
}

// ZeroEnds zeroes the first and the last MiB of a disk, as a person does who takes that for enough.
func (h *Host) ZeroEnds(name string) {
	h.edit(name, func(d *disk) {
		labels := slices.DeleteFunc(d.labels, func(f osd.Found) bool { return f.Offset == 0 })
		d.erase()
		d.labels = labels
	})
}

// showLabels adds the labels to what an observation shows of a disk.
func (d *disk) showLabels(out *plan.Device) {
	out.Labels = slices.Clone(d.labels)
	for _, f := range d.labels {
		out.Signatures = append(out.Signatures, plan.Signature{Type: "ceph_bluestore", Offset: f.Offset, UUID: f.Label.UUID})
	}
	unlabelled := *d
	unlabelled.labels = nil
	out.HeadTailZero = unlabelled.empty() && len(d.labelAtStart()) == 0
	if slices.ContainsFunc(d.labels, func(f osd.Found) bool { return f.Offset > 0 }) {
		out.LabelDigest = fmt.Sprint(d.labels)
	}
}

// labelAtStart is the label in the first MiB, if there is one.
func (d *disk) labelAtStart() []osd.Found {
	if len(d.labels) > 0 && d.labels[0].Offset == 0 {
		return d.labels[:1]
	}
	return nil
}

// performOnOSD makes the change that a step on an OSD describes, or one on a volume.
func (s session) performOnOSD(ctx context.Context, step plan.Step) error {
	switch st := step.(type) {
	case prep.FindTools:
		return s.findTools(st.Tools)
	case prep.MakeOSD:
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
	if err := s.findTools(step.Tools); err != nil {
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
func (s session) findTools(container string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if container == "" || container != s.tools {
		return fmt.Errorf("%w: container %s", prep.ErrNoTools, container)
	}
	return nil
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
	l := osd.Label{UUID: want.UUID, SizeBytes: d.SizeBytes, Description: "main", Epoch: 2}
	if ready {
		l.FSID, l.ID, l.Ready, l.Epoch = want.FSID, strconv.Itoa(want.ID), true, 15
	}
	f := osd.Found{Offset: osd.Places(d.SizeBytes)[place], Label: l}
	if place < len(d.labels) {
		d.labels[place] = f
		return nil
	}
	d.labels = append(d.labels, f)
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
			for _, f := range d.labels {
				if f.Err != nil || f.Label.UUID != step.UUID() {
					return fmt.Errorf("%s: the label at %d is of %s", step, f.Offset, f.Label.UUID)
				}
			}
			labels := d.labels[:min(left, len(d.labels))]
			d.erase()
			d.labels = labels
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
