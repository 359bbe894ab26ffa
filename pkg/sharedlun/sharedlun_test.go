package sharedlun

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const group = "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"

func TestParse(t *testing.T) {
	id, err := New(group, Name("pvc-00000000-0000-0000-0000-000000000001"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Parse(id.String()); err != nil || again != id {
		t.Errorf("%+v, %v", again, err)
	}
	for _, handle := range []string{
		"", "/", group, group + "/", group + "/-a", group + "/A", group + "/a/b", group + "/..", "x/" + id.Name, group + "/" + strings.Repeat("a", 65),
		" " + id.String(), id.String() + "\n",
	} {
		if id, err := Parse(handle); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%q: %+v, %v", handle, id, err)
		}
	}
	long := ID{Group: group, Name: strings.Repeat("a", 64)}
	if n := len(long.String()); n > 128 {
		t.Errorf("a handle of %d bytes", n)
	}
}

func TestIdentity_same(t *testing.T) {
	was := Identity{WWID: "naa.6001", Serial: "s1", SizeBytes: 100}
	for name, c := range map[string]struct {
		seen Identity
		want error
	}{
		"the same":        {was, nil},
		"grown":           {Identity{"naa.6001", "s1", 200}, nil},
		"shrunk":          {Identity{"naa.6001", "s1", 99}, ErrOtherLun},
		"another serial":  {Identity{"naa.6001", "s2", 100}, ErrOtherLun},
		"another WWID":    {Identity{"naa.6002", "s1", 100}, ErrOtherLun},
		"without any":     {Identity{"", "", 100}, ErrOtherLun},
		"without its own": {Identity{"naa.6001", "", 100}, ErrOtherLun},
	} {
		if err := was.Same(c.seen); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, i := range []Identity{{"", "s", 1}, {"w", "", 1}, {"w", "s", 0}} {
		if err := i.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

func TestReservation_writable(t *testing.T) {
	const key = 0x71
	held := Reservation{Supported: true, Keys: []uint64{key, 0x72}, Type: WriteExclusiveAllRegistrants}
	with := func(change func(*Reservation)) Reservation {
		r := held
		r.Keys = slices.Clone(r.Keys)
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		r    Reservation
		key  uint64
		want error
	}{
		"registered":                  {held, key, nil},
		"reserved by an earlier one":  {with(func(r *Reservation) { r.Type, r.Holder = WriteExclusiveRegistrantsOnly, 0x72 }), key, nil},
		"fenced":                      {with(func(r *Reservation) { r.Keys = []uint64{0x72} }), key, ErrNoKey},
		"no key was granted":          {with(func(r *Reservation) { r.Keys = []uint64{0} }), 0, ErrNoKey},
		"nobody reserved it":          {with(func(r *Reservation) { r.Type, r.Holder = 0, 0 }), key, ErrNotReserved},
		"somebody reserved it alone":  {with(func(r *Reservation) { r.Type = 1 }), key, ErrNotReserved},
		"a target without them":       {Reservation{}, key, ErrNoReservations},
		"a target that lost all keys": {Reservation{Supported: true}, key, ErrNoKey},
	} {
		if err := c.r.Writable(c.key); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	free := with(func(r *Reservation) { r.Type = 0 })
	if free.Reservable() != nil || !errors.Is(free.Guarded(), ErrNotReserved) || held.Guarded() != nil {
		t.Errorf("%v, %v, %v", free.Reservable(), free.Guarded(), held.Guarded())
	}
}

func TestGrant(t *testing.T) {
	const name = "iqn.2026-01.storage.quarry:a"
	good := Grant{Key: 2, Old: []uint64{1}, BootID: "b", Initiator: name, Others: []string{name + "b", "eui.0123456789abcdef"}}
	for what, c := range map[string]struct {
		change func(*Grant)
		want   error
	}{
		"whole":                         {func(*Grant) {}, nil},
		"no key":                        {func(g *Grant) { g.Key = 0 }, ErrInvalid},
		"no boot":                       {func(g *Grant) { g.BootID = "" }, ErrInvalid},
		"no name":                       {func(g *Grant) { g.Initiator = "" }, ErrInvalid},
		"another node's name":           {func(g *Grant) { g.Others = []string{"iqn.2026-01.x:b", name} }, ErrInitiator},
		"another node's, in large ones": {func(g *Grant) { g.Others = []string{strings.ToUpper(name)} }, ErrInitiator},
	} {
		g := good
		c.change(&g)
		if err := g.Check(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestVolume_mark(t *testing.T) {
	v := Volume{SizeBytes: 100}
	for _, tag := range []string{TagHeldBy + "n1", TagReady + "40"} {
		if !v.Mark(tag) {
			t.Errorf("%s is no mark", tag)
		}
	}
	if v.Mark("quarry.storage/other=1") || v.HeldBy != "n1" || v.ReadyBytes != 40 || !v.Unready() {
		t.Errorf("%+v", v)
	}
	if !v.Mark(TagReady+"all of it") || v.ReadyBytes != 0 {
		t.Errorf("a number that cannot be read: %+v", v)
	}
	if v.Mark(TagReady + "100"); v.Unready() {
		t.Error("all of it is ready")
	}
	g := Group{Volumes: []Volume{{Name: "a"}, {Name: "c"}}}
	if g.Volume("c") == nil || g.Volume("b") != nil {
		t.Error("volumes are not found by their names")
	}
}

func TestMapping_Shows(t *testing.T) {
	v := Volume{Ranges: []Range{{Start: 8, Size: 4}, {Start: 20, Size: 6}}, SizeBytes: 10, ReadyBytes: 7}
	for name, c := range map[string]struct {
		mapping Mapping
		want    bool
	}{
		"the ready part":            {Mapping{Ranges: []Range{{Start: 8, Size: 4}, {Start: 20, Size: 3}}}, true},
		"the same in more pieces":   {Mapping{Ranges: []Range{{Start: 8, Size: 1}, {Start: 9, Size: 3}, {Start: 20, Size: 3}}}, true},
		"what is not ready, too":    {Mapping{Ranges: v.Ranges}, false},
		"less":                      {Mapping{Ranges: []Range{{Start: 8, Size: 4}}}, false},
		"another place":             {Mapping{Ranges: []Range{{Start: 8, Size: 4}, {Start: 24, Size: 3}}}, false},
		"another order":             {Mapping{Ranges: []Range{{Start: 20, Size: 3}, {Start: 8, Size: 4}}}, false},
		"nothing":                   {Mapping{}, false},
		"only errors":               {Mapping{Ranges: []Range{{Start: 8, Size: 4}, {Start: 20, Size: 3}}, Cut: true}, false},
		"what is held back for now": {Mapping{Ranges: []Range{{Start: 8, Size: 4}, {Start: 20, Size: 3}}, Suspended: true}, false},
	} {
		if got := c.mapping.Shows(v); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
