package ceph

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"quarry.storage/quarry/controller/internal/decide/ceph/view"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/osd"
)

// unused takes back that the key of keyed was used. An OSD of an earlier version has no name of a Secret on record.
func unused(t *testing.T, earlier bool) (*Backend, view.Step) {
	t.Helper()
	b, _, m, s := keyed(t, func(s *corev1.Secret) {
		if earlier {
			s.Name = cephname.DiskKey("files", disk)
		}
	})
	another := &corev1.Secret{}
	another.Name, another.Namespace = "another", cephname.Namespace
	if err := b.Client.Create(t.Context(), another); err != nil {
		t.Fatal(err)
	}
	o := &m.Spec.Ceph.OSDs[0]
	if o.Keyed = false; earlier {
		o.Secret, s.Daemon.Secret = "", ""
	}
	if err := b.Client.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return b, s
}

// onDisk returns the record of the OSD of keyed, nil if it is off the record.
func onDisk(t *testing.T, b *Backend, s view.Step) *v1alpha1.MemberOSD {
	t.Helper()
	m := &v1alpha1.Member{}
	if err := b.Client.Get(t.Context(), client.ObjectKey{Name: s.Member}, m); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.Ceph.OSDs) == 0 {
		return nil
	}
	return &m.Spec.Ceph.OSDs[0]
}

// opens wants the key that is on record as used to be there.
func opens(t *testing.T, label string, b *Backend, s view.Step) {
	t.Helper()
	o := onDisk(t, b, s)
	if o == nil || !o.Keyed {
		t.Errorf("%s: on record is %+v", label, o)
		return
	}
	if _, err := b.useKey(t.Context(), s); err != nil {
		t.Errorf("%s: %v", label, err)
	}
}

// keys are the names of all Secrets with keys. The other one is never touched.
func keys(t *testing.T, b *Backend) []string {
	t.Helper()
	var all corev1.SecretList
	if err := b.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all.Items {
		if s.Name != "another" {
			out = append(out, s.Name)
		}
	}
	if len(out) == len(all.Items) {
		t.Error("a Secret of others is gone")
	}
	return out
}

// before has f called before the write of a number, from 1 on, of those that a Backend makes from then on. An error of it is that of the write.
func before(b *Backend, number int, f func() error) *Backend {
	writes := 0
	due := func() error {
		if writes++; writes == number {
			return f()
		}
		return nil
	}
	out := New(b.Config)
	out.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := due(); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if err := due(); err != nil {
				return err
			}
			return c.Patch(ctx, o, p, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := due(); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
	})
	return out
}

// again takes a disk that is off the record, and makes a key for it.
func again(t *testing.T, b *Backend, s view.Step) osd.Key {
	t.Helper()
	err := b.member(t.Context(), s, func(r *v1alpha1.MemberCeph) error {
		r.OSDs = append(r.OSDs, v1alpha1.MemberOSD{UUID: disk, Encrypted: true})
		return nil
	})
	key, used := b.useKey(t.Context(), s)
	if err = errors.Join(err, used); err != nil {
		t.Fatal(err)
	}
	return key
}

// TestUseKey_first: the first use makes a key in a Secret of a name of its own, and no other one is left. From then on that one is used, until the disk is clean.
func TestUseKey_first(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		b, s := unused(t, earlier)
		key, err := b.useKey(t.Context(), s)
		o := onDisk(t, b, s)
		if err != nil || !o.Keyed || o.KeyDigest != key.Digest(disk) || o.Secret == name || !strings.HasPrefix(o.Secret, cephname.DiskKey("files", disk)+"-") {
			t.Fatalf("earlier %t: %+v, %v", earlier, o, err)
		}
		if same, err := b.useKey(t.Context(), s); err != nil || !same.Equal(key) {
			t.Errorf("earlier %t: another key, %v", earlier, err)
		}
		if have := keys(t, b); len(have) != 1 || have[0] != o.Secret {
			t.Errorf("earlier %t: %q", earlier, have)
		}
		s.Daemon.Secret = o.Secret
		if err := b.zap(t.Context(), s); err != nil || onDisk(t, b, s) != nil || len(keys(t, b)) > 0 {
			t.Errorf("earlier %t: %q, %v", earlier, keys(t, b), err)
		}
	}
}

// TestUseKey_killed: a process that ends before any of its writes is followed by one that makes a key. Whatever is left of the first one goes with the disk.
func TestUseKey_killed(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		for number := 1; number <= 4; number++ {
			b, s := unused(t, earlier)
			killed := errors.New("killed")
			if _, err := before(b, number, func() error { return killed }).useKey(t.Context(), s); !errors.Is(err, killed) {
				t.Fatalf("write %d: %v", number, err)
			}
			if _, err := b.useKey(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			opens(t, "killed", b, s)
			// What nobody used may stay as long as the disk is an OSD.
			s.Daemon.Secret = onDisk(t, b, s).Secret
			if err := b.zap(t.Context(), s); err != nil || len(keys(t, b)) > 0 {
				t.Errorf("earlier %t, write %d: %q, %v", earlier, number, keys(t, b), err)
			}
		}
	}
}

// TestUseKey_two: of two processes at once one makes the key, whichever comes first, and the other one harms none.
func TestUseKey_two(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		for number := 1; number <= 4; number++ {
			b, s := unused(t, earlier)
			_, err := before(b, number, func() error {
				_, err := b.useKey(t.Context(), s)
				return err
			}).useKey(t.Context(), s)
			if err == nil {
				t.Errorf("write %d: both made a key", number)
			}
			opens(t, "two", b, s)
		}
	}
}

// TestZap_late: a process that wakes before any of its writes, once another one has given the disk back and made an OSD on it anew, leaves that one alone and its key.
func TestZap_late(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		for number := 1; number <= 4; number++ {
			b, s := unused(t, earlier)
			err := b.osd(t.Context(), s, func(o *v1alpha1.MemberOSD) { o.Keyed = true })
			if err != nil {
				t.Fatal(err)
			}
			awake := false
			_ = before(b, number, func() error {
				awake = true
				if err := b.zap(t.Context(), s); err != nil {
					return err
				}
				again(t, b, s)
				return nil
			}).zap(t.Context(), s)
			opens(t, "late", b, s)
			if o := onDisk(t, b, s); !awake || o == nil || o.Purged {
				t.Errorf("earlier %t, write %d: %t, %+v", earlier, number, awake, o)
			}
		}
		// One that was decided on and not begun.
		b, s := unused(t, earlier)
		if err := b.zap(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		again(t, b, s)
		if err := b.zap(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another one by now") {
			t.Errorf("earlier %t: %v", earlier, err)
		}
		opens(t, "not begun", b, s)
	}
}

// TestZap_lateInTheClear: a disk in the clear that another process gave back, and put on record anew, is not given back by one that is late.
func TestZap_lateInTheClear(t *testing.T) {
	b, s := unused(t, true)
	clean := func(r *v1alpha1.MemberCeph) error {
		r.OSDs = []v1alpha1.MemberOSD{{UUID: disk, Purged: true}}
		return nil
	}
	if err := b.member(t.Context(), s, clean); err != nil {
		t.Fatal(err)
	}
	s.Purged = true
	if err := b.zap(t.Context(), s); err != nil || onDisk(t, b, s) != nil {
		t.Fatalf("%+v, %v", onDisk(t, b, s), err)
	}
	again := func(r *v1alpha1.MemberCeph) error {
		r.OSDs = []v1alpha1.MemberOSD{{UUID: disk}}
		return nil
	}
	if err := b.member(t.Context(), s, again); err != nil {
		t.Fatal(err)
	}
	if err := b.zap(t.Context(), s); err == nil || !strings.Contains(err.Error(), "another one by now") || onDisk(t, b, s) == nil || onDisk(t, b, s).Purged {
		t.Errorf("%+v, %v", onDisk(t, b, s), err)
	}
}

// TestZap_killed: a process that ends before any of its writes is followed by one that gives the disk back, without a key.
func TestZap_killed(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		for number := 1; number <= 4; number++ {
			b, s := unused(t, earlier)
			if err := b.osd(t.Context(), s, func(o *v1alpha1.MemberOSD) { o.Keyed = true }); err != nil {
				t.Fatal(err)
			}
			killed := errors.New("killed")
			if err := before(b, number, func() error { return killed }).zap(t.Context(), s); !errors.Is(err, killed) {
				t.Fatalf("write %d: %v", number, err)
			}
			if err := b.zap(t.Context(), s); err != nil || onDisk(t, b, s) != nil || len(keys(t, b)) > 0 {
				t.Errorf("earlier %t, write %d: %q, %v", earlier, number, keys(t, b), err)
			}
		}
	}
}

// TestZap_gone: of a disk that is not there nobody says that it may be cleared before all else is done. It is there again in the meantime, with what is on it.
func TestZap_gone(t *testing.T) {
	for number := 1; number <= 3; number++ {
		b, s := unused(t, true)
		s.Devices = nil
		if err := b.osd(t.Context(), s, func(o *v1alpha1.MemberOSD) { o.Keyed, o.Replaced, o.Purged = true, true, false }); err != nil {
			t.Fatal(err)
		}
		killed := errors.New("killed")
		if err := before(b, number, func() error { return killed }).zap(t.Context(), s); !errors.Is(err, killed) {
			t.Fatalf("write %d: %v", number, err)
		}
		if o := onDisk(t, b, s); o == nil || o.Purged {
			t.Errorf("killed before write %d: %+v", number, o)
		}
		if err := b.zap(t.Context(), s); err != nil || onDisk(t, b, s) != nil || len(keys(t, b)) > 0 {
			t.Errorf("killed before write %d, and repeated: %+v, %q, %v", number, onDisk(t, b, s), keys(t, b), err)
		}
	}
}

// earlierDefinitions is a Backend over an API server that drops what it does not know of a record.
func earlierDefinitions(b *Backend) *Backend {
	out := New(b.Config)
	out.Client = interceptor.NewClient(b.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			r := &o.(*v1alpha1.Member).Spec.Ceph.OSDs[0]
			r.Secret, r.AutoReplaced = "", false
			return c.Patch(ctx, o, p, options...)
		},
	})
	return out
}

// TestReplace_earlierDefinitions: an API server that does not keep that no person approved it has no OSD given up. What a person approved needs no such word.
func TestReplace_earlierDefinitions(t *testing.T) {
	b, s := unused(t, true)
	if err := earlierDefinitions(b).replace(t.Context(), s); err == nil || !strings.Contains(err.Error(), "autoReplaced") || onDisk(t, b, s).Replaced {
		t.Errorf("%+v, %v", onDisk(t, b, s), err)
	}
	if err := b.replace(t.Context(), s); err != nil || !onDisk(t, b, s).Replaced || !onDisk(t, b, s).AutoReplaced {
		t.Errorf("%+v, %v", onDisk(t, b, s), err)
	}
	s.Loses = "what is on it"
	if err := earlierDefinitions(b).replace(t.Context(), s); err != nil || !onDisk(t, b, s).Replaced || onDisk(t, b, s).AutoReplaced {
		t.Errorf("%+v, %v", onDisk(t, b, s), err)
	}
}

// TestUseKey_earlierDefinitions: an API server that does not keep the name of the Secret gets no Secret that nobody would find again.
func TestUseKey_earlierDefinitions(t *testing.T) {
	b, s := unused(t, true)
	if _, err := earlierDefinitions(b).useKey(t.Context(), s); err == nil || !strings.Contains(err.Error(), "deploy/crd") || len(keys(t, b)) != 1 {
		t.Errorf("%q, %v", keys(t, b), err)
	}
}
