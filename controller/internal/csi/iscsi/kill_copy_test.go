package iscsi_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/pkg/sharedlun"
)

// snapshotOf and cloneOf are what copies of a volume are called here.
func snapshotOf(name string) string { return sharedlun.SnapshotName(name) }
func cloneOf(name string) string    { return sharedlun.Name("clone of " + name) }

// written has something written into a volume.
func (d *death) written() step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		if err := d.attach("n1")(ctx, b, name); err != nil {
			return err
		}
		uuid := d.volume(name).UUID
		return errors.Join(d.nodes["n1"].Write(uuid, 0), d.nodes["n1"].Write(uuid, extent), d.detach("n1")(ctx, b, name))
	}
}

func (d *death) snapshot() step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		for {
			s, err := b.CreateSnapshot(ctx, snapshotOf(name), d.handle(name))
			if err != nil || !s.Making {
				return err
			}
		}
	}
}

// copying begins a snapshot whose content is not copied yet: the agents stand still, as those of slow disks do.
func (d *death) copying() step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		for _, n := range d.nodes {
			defer n.DelayZeroing()()
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		s, err := b.CreateSnapshot(ctx, snapshotOf(name), d.handle(name))
		if err == nil && !s.Making {
			err = errors.New("it is whole already")
		}
		return err
	}
}

// clone makes a volume with the content of another one, or of its snapshot.
func (d *death) clone(bytes int64, snapshot bool) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		w := d.wish(cloneOf(name), bytes)
		w.Source = &frame.Source{Handle: d.handle(name)}
		if snapshot {
			w.Source = &frame.Source{Handle: d.handle(snapshotOf(name)), Snapshot: true}
		}
		_, err := b.CreateVolume(ctx, w)
		return err
	}
}

func (d *death) deleteSnapshot() step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		return b.DeleteSnapshot(ctx, d.handle(snapshotOf(name)))
	}
}

// wantCopy wants a copy that is whole, that nobody has, and that has what its origin had, with zeroes behind. The origin may have changed since.
func (d *death) wantCopy(of, name string, bytes int64) {
	d.t.Helper()
	d.want(name, "", bytes, bytes, nil)
	got := d.lun.Content(name)
	if want := d.contents[of]; len(want) == 0 || len(got) < len(want) || !slices.Equal(got[:len(want)], want) || slices.ContainsFunc(got[len(want):], func(n int) bool { return n != 0 }) {
		d.t.Errorf("%s has %v, and %s had %v", name, got, of, want)
	}
	if v := d.volume(name); v == nil || !v.Used || v.Copying() || v.CopiedBytes != 0 {
		d.t.Errorf("%+v", v)
	}
}

// noted remembers what a volume has.
func (d *death) noted() step {
	return func(_ context.Context, _ *iscsi.Backend, name string) error {
		d.contents[name] = d.lun.Content(name)
		return nil
	}
}

// swept removes the copies of a volume.
func (d *death) swept(name string) {
	d.t.Helper()
	b, _ := d.process(0, false)
	if err := errors.Join(b.DeleteSnapshot(d.t.Context(), d.handle(snapshotOf(name))), b.DeleteVolume(d.t.Context(), d.handle(cloneOf(name)))); err != nil {
		d.t.Error(err)
	}
	d.gone(snapshotOf(name))
	d.gone(cloneOf(name))
}

// TestKilled_copies is TestKilled for snapshots and clones: a copy is of one moment, whoever dies when.
func TestKilled_copies(t *testing.T) {
	d := &death{suite: newSuite(t), contents: map[string][]int{}}
	small, large := int64(8*mib), int64(16*mib)
	source := []step{d.make(small), d.written(), d.noted()}
	begun := slices.Concat(source, []step{d.copying()})
	for what, c := range map[string]struct {
		before []step
		step   step
		check  func(name string)
	}{
		"snapshot": {source, d.snapshot(), func(name string) { d.wantCopy(name, snapshotOf(name), small) }},
		"clone":    {source, d.clone(small, false), func(name string) { d.wantCopy(name, cloneOf(name), small) }},
		"restore, larger": {
			slices.Concat(source, []step{d.snapshot()}), d.clone(large, true), func(name string) { d.wantCopy(name, cloneOf(name), large) },
		},
		"restore what is being made": {begun, d.clone(small, true), func(name string) {
			d.wantCopy(name, snapshotOf(name), small)
			d.wantCopy(name, cloneOf(name), small)
		}},
		"attach what is being copied": {begun, both(d.attach("n2"), d.write("n2")), func(name string) {
			d.wantCopy(name, snapshotOf(name), small)
			d.want(name, "n2", small, small, map[string]int64{"n2": small})
			if slices.Equal(d.lun.Content(name), d.contents[name]) {
				d.t.Error("nothing was written")
			}
		}},
		"delete what is being copied": {begun, d.delete(), func(name string) {
			d.gone(name)
			d.wantCopy(name, snapshotOf(name), small)
		}},
		"delete what is being made": {begun, d.deleteSnapshot(), func(name string) {
			d.gone(snapshotOf(name))
			d.want(name, "", small, small, nil)
		}},
		"delete a snapshot": {slices.Concat(source, []step{d.snapshot()}), d.deleteSnapshot(), func(name string) { d.gone(snapshotOf(name)) }},
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			for _, after := range []bool{false, true} {
				for n := 1; d.killed(what, n, after, c.before, c.step, func(name string) { c.check(name); d.swept(name) }); n++ {
				}
			}
		})
	}
}

// write has something written where a volume is mapped.
func (d *death) write(node string) step {
	return func(_ context.Context, _ *iscsi.Backend, name string) error {
		return d.nodes[node].Write(d.volume(name).UUID, extent)
	}
}

// TestKilled_copyGivenUp: a call that makes a copy died and is never repeated. The volume that it is of is attached all the same, or removed, once the copy is whole.
func TestKilled_copyGivenUp(t *testing.T) {
	d := &death{suite: newSuite(t), contents: map[string][]int{}}
	for n, died := 1, true; died; n++ {
		name := sharedlun.Name("given-up-" + string(rune('a'+n)))
		whole, _ := d.process(0, false)
		for _, s := range []step{d.make(8 * mib), d.written(), d.noted()} {
			if err := s(t.Context(), whole, name); err != nil {
				t.Fatal(err)
			}
		}
		first, m := d.process(n, true)
		err := d.clone(8*mib, false)(t.Context(), first, name)
		if died = m.dead; !died && err != nil {
			t.Fatal(err)
		}
		second, _ := d.process(0, false)
		for _, s := range []step{d.attach("n3"), d.write("n3"), d.detach("n3"), d.delete()} {
			if err := s(t.Context(), second, name); err != nil {
				t.Fatalf("after a death at call %d: %v", n, err)
			}
		}
		d.gone(name)
		if v := d.volume(cloneOf(name)); v != nil {
			d.wantCopy(name, cloneOf(name), 8*mib)
		}
		d.swept(name)
	}
}
