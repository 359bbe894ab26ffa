package iscsi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"quarry.storage/quarry/controller/internal/agents/shared"
	"quarry.storage/quarry/controller/internal/csi/frame"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/controller/internal/decide/writer"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/csirpc"
	"quarry.storage/quarry/pkg/sharedlun"
)

// mortal is a process that dies at one of its calls to agents and to the API server: before the call has its effect, or after that.
type mortal struct {
	shared.Calls
	records san.Leases
	// look is called after every effect.
	look func()

	mu    sync.Mutex
	left  int
	after bool
	dead  bool
}

// effect performs one call.
func (m *mortal) effect(call string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	killed := &decide.Fault{Kind: decide.FaultUnavailable, Call: call, Message: "this process is dead"}
	if m.dead {
		return killed
	}
	m.left--
	m.dead = m.left == 0
	if m.dead && !m.after {
		return killed
	}
	err := do()
	m.look()
	if m.dead {
		return killed
	}
	return err
}

func (m *mortal) Contents(ctx context.Context, node string, ref sharedlun.Ref) (out sharedlun.Contents, err error) {
	err = m.effect("Contents", func() (err error) { out, err = m.Calls.Contents(ctx, node, ref); return err })
	return out, err
}

func (m *mortal) Change(
	ctx context.Context, node string, ref sharedlun.Ref, w sharedlun.Mandate, sequence uint64, c sharedlun.Change,
) (out sharedlun.Group, err error) {
	err = m.effect("Change", func() (err error) { out, err = m.Calls.Change(ctx, node, ref, w, sequence, c); return err })
	return out, err
}

func (m *mortal) Promise(ctx context.Context, node string, ref sharedlun.Ref, epoch uint64) (out uint64, err error) {
	err = m.effect("Promise", func() (err error) { out, err = m.Calls.Promise(ctx, node, ref, epoch); return err })
	return out, err
}

func (m *mortal) Map(
	ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, sequence uint64,
) (out sharedlun.Mapping, err error) {
	err = m.effect("Map", func() (err error) { out, err = m.Calls.Map(ctx, node, ref, c, v, sequence); return err })
	return out, err
}

func (m *mortal) Unmap(ctx context.Context, node string, ref sharedlun.Ref, uuid string, sequence uint64, fenced bool) error {
	return m.effect("Unmap", func() error { return m.Calls.Unmap(ctx, node, ref, uuid, sequence, fenced) })
}

func (m *mortal) Zero(
	ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, discard bool,
) (out sharedlun.Progress, err error) {
	err = m.effect("Zero", func() (err error) { out, err = m.Calls.Zero(ctx, node, ref, c, v, discard); return err })
	return out, err
}

func (m *mortal) Copy(
	ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, discard bool, rate int64,
) (out sharedlun.Progress, err error) {
	err = m.effect("Copy", func() (err error) { out, err = m.Calls.Copy(ctx, node, ref, c, v, discard, rate); return err })
	return out, err
}

func (m *mortal) Format(
	ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, fsType string,
) (done bool, err error) {
	err = m.effect("Format", func() (err error) { done, err = m.Calls.Format(ctx, node, ref, c, v, fsType); return err })
	return done, err
}

func (m *mortal) Load(ctx context.Context, ownerUID string) (r writer.Record, version string, err error) {
	err = m.effect("Load", func() (err error) { r, version, err = m.records.Load(ctx, ownerUID); return err })
	return r, version, err
}

func (m *mortal) Store(ctx context.Context, ownerUID string, r writer.Record, version string) (out string, err error) {
	err = m.effect("Store", func() (err error) { out, err = m.records.Store(ctx, ownerUID, r, version); return err })
	return out, err
}

// death is a suite in which processes die. Each is called as no other one before.
type death struct {
	*suite
	processes int
	// contents is what volumes had at some moment.
	contents map[string][]int
}

// process starts one that dies at its call number n; never when that is 0.
func (d *death) process(n int, after bool) (*iscsi.Backend, *mortal) {
	d.processes++
	m := &mortal{Calls: d.calls, records: d.leases, look: d.sane, left: n, after: after}
	cfg := iscsi.Config{Reader: d.cache, Nodes: m, Fleet: d.fleet, Leases: m, Pause: 1}
	cfg.SAN = san.New(san.Config{Self: fmt.Sprintf("csi/%d", d.processes), Nodes: m, Fleet: d.fleet, Leases: m, Pause: 1})
	return iscsi.New(cfg), m
}

// sane refuses a volume that is mapped twice, a lost update, a device of a volume that nobody holds there, and one of a volume that is being copied.
func (d *death) sane() {
	g := d.lun.Group()
	if damage := d.lun.Damage(); damage != "" {
		d.t.Error(damage)
	}
	for _, v := range g.Volumes {
		if all := g.Copies(v.UUID); len(all) > 0 && v.HeldBy != "" {
			d.t.Errorf("volume %s is held by %s while %s is copied from it", v.Name, v.HeldBy, all[0].Name)
		}
	}
	for node, n := range d.nodes {
		all, err := n.Mappings(d.t.Context(), d.ref)
		if err != nil {
			d.t.Error(err)
		}
		for _, m := range all {
			if copies := g.Copies(m.VolumeUUID); len(copies) > 0 {
				d.t.Errorf("%s is copied from a volume that is mapped on %s", copies[0].Name, node)
			}
			for _, v := range g.Volumes {
				if v.UUID == m.VolumeUUID && v.HeldBy != node {
					d.t.Errorf("volume %s is held by %q and mapped on %s", v.Name, v.HeldBy, node)
				}
			}
		}
	}
}

func (d *death) wish(name string, bytes int64) frame.Wish {
	return frame.Wish{
		Name: name, Parameters: map[string]string{v1alpha1.ParameterIscsi: owner}, Access: []csirpc.Access{{Block: true}},
		Size: volume.Range{Given: true, Required: bytes},
	}
}

func (d *death) handle(name string) string {
	return sharedlun.ID{Group: d.ref.UUID, Name: name}.String()
}

// step is something that a process is asked for.
type step func(ctx context.Context, b *iscsi.Backend, name string) error

func (d *death) make(bytes int64) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		_, err := b.CreateVolume(ctx, d.wish(name, bytes))
		return err
	}
}

func (d *death) attach(node string) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		_, err := b.Attach(ctx, frame.Attachment{Handle: d.handle(name), Node: node, Access: csirpc.Access{Block: true}})
		return err
	}
}

// format attaches a volume that is wanted with a filesystem.
func (d *death) format(node string) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		_, err := b.Attach(ctx, frame.Attachment{Handle: d.handle(name), Node: node, Access: csirpc.Access{FSType: "xfs"}})
		return err
	}
}

// both does two things, one after the other.
func both(first, second step) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		if err := first(ctx, b, name); err != nil {
			return err
		}
		return second(ctx, b, name)
	}
}

func (d *death) detach(node string) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		return b.Detach(ctx, d.handle(name), node)
	}
}

func (d *death) grow(bytes int64) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		_, err := b.ExpandVolume(ctx, d.handle(name), volume.Range{Given: true, Required: bytes})
		return err
	}
}

func (d *death) delete() step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		return b.DeleteVolume(ctx, d.handle(name))
	}
}

// TestKilled has a process die at each of its calls, before and after the call's effect, and another one repeat what it was asked for. The end is the
// same, and at no instant a volume is mapped on two nodes, or where it is not held.
func TestKilled(t *testing.T) {
	d := &death{suite: newSuite(t)}
	small, large := int64(8*mib), int64(16*mib)
	for what, c := range map[string]struct {
		policy v1alpha1.CleanupPolicy
		before []step
		step   step
		check  func(name string)
	}{
		"make": {step: d.make(small), check: func(name string) { d.want(name, "", small, small, nil) }},
		"make, showing what was there": {
			policy: v1alpha1.CleanupNone, step: d.make(small), check: func(name string) { d.want(name, "", small, small, nil) },
		},
		"attach": {
			before: []step{d.make(small)}, step: d.attach("n2"),
			check: func(name string) { d.want(name, "n2", small, small, map[string]int64{"n2": small}) },
		},
		"attach with a filesystem": {
			before: []step{d.make(small)}, step: d.format("n2"), check: func(name string) { d.wantFiles(name, "n2", small) },
		},
		"attach with a filesystem that another node began": {
			before: []step{d.make(small), d.begun("n1")}, step: d.format("n2"), check: func(name string) { d.wantFiles(name, "n2", small) },
		},
		"move with a filesystem": {
			before: []step{d.make(small), d.format("n1")}, step: both(d.detach("n1"), d.format("n3")),
			check: func(name string) { d.wantFiles(name, "n3", small) },
		},
		"attach a volume that grew": {
			before: []step{d.make(small), d.grow(large)}, step: d.attach("n2"),
			check: func(name string) { d.want(name, "n2", large, large, map[string]int64{"n2": large}) },
		},
		"move": {
			before: []step{d.make(small), d.attach("n1")},
			step:   both(d.detach("n1"), d.attach("n3")),
			check:  func(name string) { d.want(name, "n3", small, small, map[string]int64{"n3": small}) },
		},
		"detach": {
			before: []step{d.make(small), d.attach("n3")}, step: d.detach("n3"), check: func(name string) { d.want(name, "", small, small, nil) },
		},
		"expand": {before: []step{d.make(small)}, step: d.grow(large), check: func(name string) { d.want(name, "", large, small, nil) }},
		"expand where it is attached": {
			before: []step{d.make(small), d.attach("n2")}, step: d.grow(large),
			check: func(name string) { d.want(name, "n2", large, large, map[string]int64{"n2": large}) },
		},
		"delete": {before: []step{d.make(small)}, step: d.delete(), check: d.gone},
	} {
		t.Run(what, func(t *testing.T) {
			d.t = t
			d.cache.iscsis[0].Spec.Cleanup = c.policy
			for _, after := range []bool{false, true} {
				for n := 1; d.killed(what, n, after, c.before, c.step, c.check); n++ {
				}
			}
			d.cache.iscsis[0].Spec.Cleanup = v1alpha1.CleanupZero
		})
	}
}

// begun attaches a volume to a node on which the program is killed that makes its filesystem, and detaches it.
func (d *death) begun(node string) step {
	return func(ctx context.Context, b *iscsi.Backend, name string) error {
		d.nodes[node].KillFormat()
		if err := d.format(node)(ctx, b, name); err == nil {
			d.t.Error("the program was not killed")
		}
		if v := d.volume(name); v.Used || v.MakingOn != node || d.lun.Filesystem(name) != "" {
			d.t.Errorf("begun: %+v", v)
		}
		return d.detach(node)(ctx, b, name)
	}
}

// wantFiles wants a volume attached to a node, with its filesystem.
func (d *death) wantFiles(name, node string, bytes int64) {
	d.t.Helper()
	d.want(name, node, bytes, bytes, map[string]int64{node: bytes})
	if v := d.volume(name); !v.Used || v.MakingOn != "" || d.lun.Filesystem(name) != "xfs" {
		d.t.Errorf("volume %+v has a filesystem %q", v, d.lun.Filesystem(name))
	}
}

func (d *death) gone(name string) {
	if v := d.volume(name); v != nil {
		d.t.Errorf("volume %s is left: %+v", name, v)
	}
}

// killed runs one schedule, and reports whether the process died in it.
func (d *death) killed(what string, n int, after bool, before []step, s step, check func(name string)) bool {
	d.t.Helper()
	name := sharedlun.Name(fmt.Sprintf("%s-%d-%t", what, n, after))
	ctx := d.t.Context()
	whole, _ := d.process(0, false)
	for i, b := range before {
		if err := b(ctx, whole, name); err != nil {
			d.t.Fatalf("step %d before: %v", i, err)
		}
	}
	first, m := d.process(n, after)
	err := s(ctx, first, name)
	died := m.dead
	if !died && err != nil {
		d.t.Fatalf("call %d: %v", n, err)
	}
	if died {
		second, _ := d.process(0, false)
		if err := s(ctx, second, name); err != nil {
			d.t.Fatalf("repeated after a death at call %d, after its effect %t: %v", n, after, err)
		}
	}
	check(name)
	last, _ := d.process(0, false)
	for _, end := range []step{d.detach(""), d.delete()} {
		if err := end(ctx, last, name); err != nil {
			d.t.Fatalf("taking it away after a death at call %d, after its effect %t: %v", n, after, err)
		}
	}
	d.gone(name)
	return died
}

// TestKilled_given up: a call that died is never repeated, and the volume is deleted instead.
func TestKilled_givenUp(t *testing.T) {
	d := &death{suite: newSuite(t)}
	for n := 1; ; n++ {
		name := sharedlun.Name(fmt.Sprintf("given-up-%d", n))
		first, m := d.process(n, true)
		err := d.make(8*mib)(t.Context(), first, name)
		second, _ := d.process(0, false)
		if err := d.delete()(t.Context(), second, name); err != nil {
			t.Fatalf("after a death at call %d: %v", n, err)
		}
		d.gone(name)
		if !m.dead {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}

// TestSweep: the turn of a process that died is given back by the next one of its kind, even if nobody asks that for anything. The turn of another role is
// left to it.
func TestSweep(t *testing.T) {
	d := &death{suite: newSuite(t)}
	first, m := d.process(7, true)
	if err := d.make(8*mib)(t.Context(), first, sharedlun.Name("a")); err == nil || !m.dead {
		t.Fatal("it did not die")
	}
	taken := func() string {
		r, _, err := d.leases.Load(t.Context(), owner)
		if err != nil {
			t.Fatal(err)
		}
		return r.Taken
	}
	if taken() == "" {
		t.Fatal("it died without the turn")
	}
	second, _ := d.process(0, false)
	for n, want := range []bool{true, false, false} {
		if _, err := second.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := taken() != ""; got != want {
			t.Errorf("after %d times the turn is taken by %q", n+1, taken())
		}
	}
	r, version, err := d.leases.Load(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	r.Taken = "controller/1"
	if _, err := d.leases.Store(t.Context(), owner, r, version); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for range 2 {
		_, err = second.Sweep(ctx)
	}
	if err == nil || taken() != "controller/1" {
		t.Errorf("%v, taken by %q", err, taken())
	}
}
