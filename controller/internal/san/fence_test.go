package san

import (
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestSan_slowUnmap: an unmap that has no answer takes long. What Members and keys said before it proves nothing.
func TestSan_slowUnmap(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile, heal func(f *fleet)
		says            string
	}{
		"the key came back": {func(f *fleet) { f.keys[2] = true }, func(f *fleet) { delete(f.keys, 2) }, "of n2, which is fenced"},
		"a key of nobody":   {func(f *fleet) { f.keys[99] = true }, func(f *fleet) { delete(f.keys, 99) }, "no member's"},
		"it was asked to register": {
			func(f *fleet) { f.members[1].Registering = true }, func(f *fleet) { f.members[1].Registering = false }, "did not answer",
		},
		"it is not fenced any more": {func(f *fleet) { f.members[1].Fenced = false }, func(f *fleet) { f.members[1].Fenced = true }, "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.fence(1)
			f.silent["n2"] = true
			f.during = func(call, _ string) {
				if call == "unmap" {
					c.meanwhile(f)
				}
			}
			wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, "")
			if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			}
			if v := f.group.Volume("a"); v.HeldBy != "n2" || len(v.Readers) > 0 {
				t.Fatalf("%+v", v)
			}
			f.during = nil
			c.heal(f)
			if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.want(t, "a", "", "n2")
		})
	}
}

// TestSan_fencedInUse: a fenced node that answers and has the volume open keeps nobody from it: it cannot write, and what it reads is told on the volume, which is
// removed, and comes back to it, only once it was booted.
func TestSan_fencedInUse(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.inUse["ua"] = true
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultPrecondition, "mounted")
	if v := f.group.Volume("a"); v.HeldBy != "n2" {
		t.Fatalf("a node that may write lost it: %+v", v)
	}
	f.fence(1)
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "", "n2")
	if v := f.group.Volume("a"); !f.cut["n2"] || !slices.Equal(v.Readers, []sharedlun.Boot{{Node: "n2", ID: "n2-boot-1"}}) {
		t.Errorf("%+v, its I/O ended: %t", v, f.cut["n2"])
	}
	if _, err := s.Attach(t.Context(), ref, "a", "n3"); err != nil {
		t.Fatal(err)
	}
	if err := s.Detach(t.Context(), ref, "a", "n3"); err == nil {
		t.Fatal("n3 has it open, and is not fenced")
	}
	f.inUse["ua"] = false
	if err := s.Detach(t.Context(), ref, "a", "n3"); err != nil {
		t.Fatal(err)
	}
	wantFault(t, s.Remove(t.Context(), ref, "a", "ua"), decide.FaultConflict, "may still read")
	// A Member of a backup says that it is not fenced.
	f.members[1].Fenced, f.keys[2] = false, true
	_, err := s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "boot it")
	f.members[1].BootID, f.members[1].ReportedBootID = "n2-boot-2", "n2-boot-2"
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Error(err)
	}
}

// TestSan_fencedInUseInDoubt: as long as the fence does not count the volume stays, also when it stopped counting while the node was asked.
func TestSan_fencedInUseInDoubt(t *testing.T) {
	for name, doubt := range map[string]func(f *fleet){
		"its key is on the LUN":     func(f *fleet) { f.keys[2] = true },
		"nobody has reserved it":    func(f *fleet) { f.reserved = false },
		"the Member says otherwise": func(f *fleet) { f.members[1].Fenced = false },
	} {
		for when, during := range map[string]bool{"before": false, "meanwhile": true} {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.fence(1)
			f.inUse["ua"] = true
			if !during {
				doubt(f)
			}
			f.during = func(call, _ string) {
				if during && call == "unmap" {
					doubt(f)
				}
			}
			says := "mounted"
			if !f.reserved {
				// Nobody makes a change then.
				says = "no key"
			}
			if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, %s: %v", name, when, err)
			}
			if v := f.group.Volume("a"); v.HeldBy != "n2" || len(v.Readers) > 0 {
				t.Errorf("%s, %s: %+v", name, when, v)
			}
		}
	}
}

// TestSan_anotherMachine: what a node says counts only once no key of an earlier boot of it is on the LUN. Another machine may have its name by now.
func TestSan_anotherMachine(t *testing.T) {
	for name, change := range map[string]func(m *Member, f *fleet){
		"another boot":                         func(m *Member, _ *fleet) { m.ReportedBootID, m.Up = "n2-boot-2", false },
		"it went away right after it answered": func(m *Member, _ *fleet) { m.ReportedBootID, m.Up = "", false },
		"another boot, with its own key": func(m *Member, f *fleet) {
			m.BootID, m.ReportedBootID, m.Key, m.Previous = "n2-boot-2", "n2-boot-2", 5, []uint64{2}
			f.keys[5] = true
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			change(&f.members[1], f)
			why := "its key of an earlier boot (0000000000000002) is on the LUN"
			if f.members[1].ReportedBootID == "" {
				why = "its agent does not answer now"
			}
			wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, why)
			if v := f.group.Volume("a"); v.HeldBy != "n2" {
				t.Fatalf("%+v", v)
			}
			delete(f.keys, 2)
			if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.want(t, "a", "")
		})
	}
}

// TestSan_restored: nor does it while the LUN has a key that is no member's. The Members come from a backup then, and say that the node has one boot only.
func TestSan_restored(t *testing.T) {
	for name, change := range map[string]func(m *Member){
		"its boot is the one on record": func(*Member) {},
		"another one that has no key on record": func(m *Member) {
			m.Credential, m.BootID, m.ReportedBootID, m.Up = sharedlun.Credential{}, "", "n2-boot-3", false
		},
		"another one, and the key on record is gone for long": func(m *Member) {
			m.Key, m.BootID, m.ReportedBootID, m.Up = 77, "n2-boot-0", "n2-boot-3", false
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			change(&f.members[1])
			if f.keys[99] = true; !f.members[1].Up {
				delete(f.keys, 2)
			}
			_, err := s.Attach(t.Context(), ref, "a", "n2")
			wantFault(t, err, decide.FaultUnavailable, "key 0000000000000063 on the LUN is no member's")
			wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, "key 0000000000000063 on the LUN is no member's")
			if v := f.group.Volume("a"); v.HeldBy != "n2" {
				t.Fatalf("%+v", v)
			}
			delete(f.keys, 99)
			if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			f.want(t, "a", "")
		})
	}
}

// TestSan_anotherMachinePromises: nor does its promise.
func TestSan_anotherMachinePromises(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.lose = 1
	if err := s.Detach(t.Context(), ref, "a", "n2"); err == nil {
		t.Fatal("the answer was not lost")
	}
	f.members[0].ReportedBootID, f.members[0].Up = "n1-boot-2", false
	wantFault(t, s.Detach(t.Context(), ref, "a", "n2"), decide.FaultUnavailable, "its key of an earlier boot (0000000000000001) is on the LUN")
	if f.record.Writer != "n2" || len(f.record.Pending) != 1 {
		t.Errorf("%+v", f.record)
	}
	delete(f.keys, 1)
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
}

// TestSan_release: whoever ends what another one began takes no volume from a node that got it again since.
func TestSan_release(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("engine/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	seen := sharedlun.Volume{Name: "a", UUID: "ua", HeldBy: "n2", Leaving: true}
	for name, change := range map[string]func(v *sharedlun.Volume){
		"it was taken away and given back": func(*sharedlun.Volume) {},
		"it is another volume":             func(v *sharedlun.Volume) { v.UUID, v.Leaving = "ux", true },
		"another node has it":              func(v *sharedlun.Volume) { v.HeldBy, v.Leaving = "n1", true },
	} {
		v := f.group.Volume("a")
		before := *v
		change(v)
		changed := *v
		if err := s.Release(t.Context(), ref, seen); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if now := f.group.Volume("a"); now.HeldBy != changed.HeldBy || now.Leaving != changed.Leaving {
			t.Errorf("%s: %+v", name, now)
		}
		*f.group.Volume("a") = before
	}
	f.group.Volume("a").Leaving = true
	if err := s.Release(t.Context(), ref, seen); err != nil {
		t.Fatal(err)
	}
	f.want(t, "a", "")
	if err := s.Release(t.Context(), ref, sharedlun.Volume{Name: "gone"}); err != nil {
		t.Error(err)
	}
}

// TestSan_forget: once a person vouched for it, a volume that a node could read that is away for good is removed.
func TestSan_forget(t *testing.T) {
	f := newFleet("n1", "n2")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.silent["n2"] = true
	f.fence(1)
	if err := s.Detach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	remove := func() error { return s.Remove(t.Context(), ref, "a", "ua") }
	wantFault(t, remove(), decide.FaultConflict, "may still read")
	v := sharedlun.Volume{Name: "a", UUID: "ua"}
	for _, boots := range [][]sharedlun.Boot{nil, {{Node: "n2", ID: "n2-boot-2"}}, {{Node: "n1", ID: "n2-boot-1"}}} {
		if err := s.Forget(t.Context(), ref, v, boots, ""); err != nil {
			t.Error(err)
		}
		wantFault(t, remove(), decide.FaultConflict, "may still read")
	}
	for range 2 {
		if err := s.Forget(t.Context(), ref, v, []sharedlun.Boot{{Node: "n2", ID: "n2-boot-1"}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if err := remove(); err != nil {
		t.Fatal(err)
	}
}
