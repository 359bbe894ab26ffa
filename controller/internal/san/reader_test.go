package san

import (
	"context"
	"slices"
	"strings"
	"testing"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// TestSan_readerGetsItBack: a node that the volume was taken from by a fence gets it again only once it says that it has no device of it. The boot of its tag is not
// enough: it may be unknown, or come from a Member of a backup.
func TestSan_readerGetsItBack(t *testing.T) {
	for name, c := range map[string]struct {
		boot   string
		change func(f *fleet)
		says   string
	}{
		"fenced in a boot nobody knows, and it has none":            {sharedlun.UnknownBoot, nil, ""},
		"fenced in a boot nobody knows, and it has it open":         {sharedlun.UnknownBoot, func(f *fleet) { f.inUse["ua"] = true }, "mounted"},
		"fenced in a boot nobody knows, and another may be the one": {sharedlun.UnknownBoot, func(f *fleet) { f.keys[99] = true }, "no member's"},
		"fenced in an earlier boot, and it has none":                {"n2-boot-0", nil, ""},
		"fenced in an earlier boot, and it has it open":             {"n2-boot-0", func(f *fleet) { f.inUse["ua"] = true }, "mounted"},
		"fenced in its boot, and it has none":                       {"n2-boot-1", nil, "boot it"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			f.group.Volume("a").Readers = []sharedlun.Boot{{Node: "n3", ID: sharedlun.UnknownBoot}, {Node: "n2", ID: c.boot}}
			f.mapped["ua"] = []string{"n2"}
			if c.change != nil {
				c.change(f)
			}
			_, err := s.Attach(t.Context(), ref, "a", "n2")
			if c.says == "" {
				if asked, held := slices.Index(f.calls, "unmap n2"), slices.Index(f.calls, "map n2"); err != nil || asked < 0 || held < asked {
					t.Errorf("%v, %v", err, f.calls)
				}
				if left := f.group.Volume("a").Readers; !slices.Equal(left, []sharedlun.Boot{{Node: "n3", ID: sharedlun.UnknownBoot}}) {
					t.Errorf("readers %v", left)
				}
				f.askedOnce(t, s)
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			}
			if v := f.group.Volume("a"); v.HeldBy != "" {
				t.Errorf("%+v", v)
			}
			if _, err := s.Attach(t.Context(), ref, "a", "n1"); err != nil && len(f.keys) == 3 {
				t.Errorf("n1 reads nothing of it: %v", err)
			}
		})
	}
}

// askedOnce wants n2, which is no reader of the volume any more and has it, to get it again without a question of its own: only taking the volume from it asks.
func (f *fleet) askedOnce(t *testing.T, s *San) {
	t.Helper()
	asked := len(f.calls)
	leave := sharedlun.Change{Leave: &sharedlun.Hold{Name: "a", UUID: "ua", Node: "n2"}}
	if err := s.Turn(t.Context(), ref, func(ctx context.Context, turn *Turn) error { return turn.Change(ctx, leave) }); err != nil {
		t.Error(err)
	}
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil || strings.Count(strings.Join(f.calls[asked:], ","), "unmap n2") != 1 {
		t.Errorf("%v, %v", err, f.calls[asked:])
	}
}

// TestSan_unknownBoot: a node was fenced of which no key was on record. What nobody knows of it stands in no way as long as it is silent; once it answers its word counts, and
// a volume that it has open stays with it until it was booted, for nobody knows since when.
func TestSan_unknownBoot(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *fleet)
		says    string
		readers []sharedlun.Boot
	}{
		"it is silent":                         {func(f *fleet) { f.silent["n2"] = true }, "", []sharedlun.Boot{{Node: "n2", ID: sharedlun.UnknownBoot}}},
		"it answers, and lets go":              {func(*fleet) {}, "", nil},
		"it answers, and has it open":          {func(f *fleet) { f.inUse["ua"] = true }, "mounted", nil},
		"it is silent, and its key is there":   {func(f *fleet) { f.silent["n2"] = true; f.keys[2] = true }, "no member's", nil},
		"it answers, and its key is there":     {func(f *fleet) { f.keys[2] = true }, "no member's", nil},
		"it is silent, and nobody reserves it": {func(f *fleet) { f.silent["n2"] = true; f.loseOnceLeaving() }, "no connection", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("csi/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			m := &f.members[1]
			m.Key, m.BootID, m.Fenced, m.Up = 77, sharedlun.UnknownBoot, true, false
			delete(f.keys, 2)
			c.change(f)
			err := s.Detach(t.Context(), ref, "a", "n2")
			v := f.group.Volume("a")
			if c.says == "" {
				if err != nil || v.HeldBy != "" || !slices.Equal(v.Readers, c.readers) {
					t.Errorf("%v, %+v", err, v)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || v.HeldBy != "n2" || len(v.Readers) > 0 {
				t.Errorf("%v, want an error that says %q; %+v", err, c.says, v)
			}
		})
	}
}

// TestSan_releaseAbandoned: a volume that nobody is taking away is taken from a fenced node, and from no other.
func TestSan_releaseAbandoned(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(f *fleet)
		holder  string
		leaving bool
	}{
		"fenced, and silent":          {func(f *fleet) { f.fence(1); f.silent["n2"] = true }, "", false},
		"it is not fenced":            {func(*fleet) {}, "n2", false},
		"silent, and not fenced":      {func(f *fleet) { f.silent["n2"] = true }, "n2", false},
		"it is no member any more":    {func(f *fleet) { f.members = slices.Delete(f.members, 1, 2) }, "n2", false},
		"fenced, and its key is back": {func(f *fleet) { f.fence(1); f.keys[2], f.silent["n2"] = true, true }, "n2", true},
		"another node has it":         {func(f *fleet) { f.fence(1); f.group.Volume("a").HeldBy = "n3" }, "n3", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2", "n3")
			s := f.san("engine/1")
			if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
				t.Fatal(err)
			}
			c.change(f)
			err := s.Release(t.Context(), ref, sharedlun.Volume{Name: "a", UUID: "ua", HeldBy: "n2"})
			if v := f.group.Volume("a"); v.HeldBy != c.holder || v.Leaving != c.leaving || err == nil == c.leaving {
				t.Errorf("%v, %+v", err, v)
			}
		})
	}
}

// TestSan_readerOfJustNow: taking a volume away, which somebody else began, makes the node a reader of it. It does not get it back in the same turn, whatever its Member says.
func TestSan_readerOfJustNow(t *testing.T) {
	f := newFleet("n1", "n2", "n3")
	s := f.san("csi/1")
	if _, err := s.Attach(t.Context(), ref, "a", "n2"); err != nil {
		t.Fatal(err)
	}
	f.group.Volume("a").Leaving, f.inUse["ua"] = true, true
	f.fence(1)
	f.during = func(call, _ string) {
		if call == "change" && f.group.Volume("a").Leaving {
			f.members[1].Fenced, f.keys[2] = false, true
		}
	}
	_, err := s.Attach(t.Context(), ref, "a", "n2")
	wantFault(t, err, decide.FaultUnavailable, "boot it")
	f.want(t, "a", "", "n2")
}

// TestSan_forgetAsksWhoAnswers: a person vouches for a node that is no member. One that answers has to agree.
func TestSan_forgetAsksWhoAnswers(t *testing.T) {
	tag := sharedlun.Boot{Node: "n9", ID: "n9-boot-1"}
	for name, c := range map[string]struct {
		reported string
		change   func(*fleet)
		says     string
	}{
		"it does not answer":                 {"", func(f *fleet) { f.silent["n9"] = true }, ""},
		"it was booted":                      {"n9-boot-2", func(*fleet) {}, ""},
		"it is in the boot of its tag":       {"n9-boot-1", func(*fleet) {}, "boot it"},
		"it has the volume mounted":          {"n9-boot-2", func(f *fleet) { f.inUse["ua"] = true }, "mounted"},
		"it answered, and does not any more": {"n9-boot-2", func(f *fleet) { f.silent["n9"] = true }, "no connection"},
		"somebody else may have its name by now": {"n9-boot-2", func(f *fleet) {
			f.during = func(call, _ string) {
				if call == "unmap" {
					f.keys[99] = true
				}
			}
		}, "does not count"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2")
			f.group.Volume("a").Readers = []sharedlun.Boot{tag}
			f.mapped["ua"] = []string{"n9"}
			c.change(f)
			err := f.san("engine/1").Forget(t.Context(), ref, sharedlun.Volume{Name: "a", UUID: "ua"}, []sharedlun.Boot{tag}, c.reported)
			if left := len(f.group.Volume("a").Readers); (err == nil) != (c.says == "") || (err == nil) != (left == 0) || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, %d readers, want an error that says %q", err, left, c.says)
			}
			if asked := slices.Contains(f.calls, "unmap n9"); asked != (c.reported == "n9-boot-2") {
				t.Errorf("asked: %t, %v", asked, f.calls)
			}
		})
	}
}

// TestSan_removeOrigin: a node that was fenced while it filled a copy may read the origin, and is a reader of the copy only. The origin is removed once the node was booted, and said that it has
// no device of the copy; who holds the copy said so when it got it.
func TestSan_removeOrigin(t *testing.T) {
	for name, c := range map[string]struct {
		boot   string
		change func(f *fleet)
		asked  bool
		says   string
	}{
		"it is in the boot of its tag":        {"n2-boot-1", func(*fleet) {}, false, "boot it"},
		"it does not answer":                  {"n2-boot-0", func(f *fleet) { f.fence(1); f.silent["n2"] = true }, false, "boot it"},
		"it was booted":                       {"n2-boot-0", func(*fleet) {}, true, ""},
		"it was booted, and has it open":      {"n2-boot-0", func(f *fleet) { f.inUse["ub"] = true }, true, "mounted"},
		"it was booted, and got the copy":     {"n2-boot-0", func(f *fleet) { f.group.Volume("b").HeldBy = "n2"; f.inUse["ub"] = true }, false, ""},
		"it was booted, others have the copy": {"n2-boot-0", func(f *fleet) { f.group.Volume("b").HeldBy = "n1" }, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet("n1", "n2")
			s := f.san("csi/1")
			b := f.group.Volume("b")
			b.Origin, b.ReadyBytes, b.Readers = sharedlun.Origin{Name: "a", UUID: "ua", Bytes: 1}, 1, []sharedlun.Boot{{Node: "n2", ID: c.boot}}
			f.mapped["ub"] = []string{"n2"}
			c.change(f)
			err := s.Turn(t.Context(), ref, func(ctx context.Context, turn *Turn) error { return turn.Remove(ctx, "a", "ua") })
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || (err == nil) != (f.group.Volume("a") == nil) {
				t.Errorf("%v, want an error that says %q", err, c.says)
			}
			if asked := slices.Contains(f.calls, "unmap n2"); asked != c.asked {
				t.Errorf("asked: %t, %v", asked, f.calls)
			}
		})
	}
}
