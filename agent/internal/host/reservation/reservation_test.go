package reservation

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"quarry.storage/quarry/pkg/sharedlun"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v, want %v", err, kind)
	}
}

// listed checks which keys the target has.
func listed(t *testing.T, tool *Tool, path string, want ...uint64) {
	t.Helper()
	data, err := tool.list(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := parseKeys(data)
	if err != nil || !slices.Equal(keys, want) {
		t.Errorf("%x, %v, want %x", keys, err, want)
	}
}

const (
	keyA, keyB, keyC = 0xa1, 0xb1, 0xc1
)

// journey is what a target does, whether it is real or not. a and b are the paths of two hosts.
func journey(t *testing.T, tool *Tool, a, b []string, write func(device string) error) {
	ctx := t.Context()
	read := func(keys []uint64, kind uint32) {
		t.Helper()
		for _, path := range []string{a[0], b[1]} {
			r, err := tool.Read(ctx, path)
			must(t, err)
			if !r.Supported || !slices.Equal(r.Keys, keys) || r.Type != kind || r.Holder != 0 {
				t.Errorf("%s: %+v, want keys %x, type %d", path, r, keys, kind)
			}
		}
	}
	read(nil, 0)
	want(t, tool.Confirm(ctx, a[0], keyA), ErrConflict)
	if tool.Reserve(ctx, a[0], keyA) == nil {
		t.Error("a path without a key reserves the LUN")
	}
	for range 2 {
		for _, path := range a {
			must(t, tool.Register(ctx, path, keyA, 0))
		}
	}
	must(t, tool.Reserve(ctx, a[0], keyA))
	want(t, write(b[0]), unix.EBADE)
	read([]uint64{keyA}, allHold)
	// It stays as long as one path has a key, whichever reserved it.
	must(t, tool.Unregister(ctx, a[0], keyA))
	read([]uint64{keyA}, allHold)
	want(t, write(b[0]), unix.EBADE)
	must(t, tool.Unregister(ctx, a[1], keyA))
	read(nil, 0)
	must(t, write(b[0]))
	for _, path := range a {
		must(t, tool.Register(ctx, path, keyA, 0))
	}
	must(t, tool.Register(ctx, b[0], keyB, 0))
	must(t, tool.Confirm(ctx, a[1], keyA))
	want(t, tool.Confirm(ctx, a[1], keyB), ErrConflict)
	want(t, tool.Confirm(ctx, b[1], keyB), ErrConflict)
	want(t, tool.Register(ctx, a[0], keyC, 0), ErrConflict)
	want(t, tool.Register(ctx, a[0], keyC, keyB), ErrConflict)
	want(t, tool.Register(ctx, a[0], 0, keyA), sharedlun.ErrInvalid)
	read([]uint64{keyA, keyB}, 0)
	listed(t, tool, b[1], keyA, keyB)

	must(t, tool.Reserve(ctx, a[0], keyA))
	must(t, tool.Reserve(ctx, a[0], keyA))
	must(t, tool.Reserve(ctx, b[0], keyB))
	if tool.Reserve(ctx, b[1], keyB) == nil {
		t.Error("a path without a key reserves the LUN")
	}
	read([]uint64{keyA, keyB}, allHold)
	for _, path := range []string{a[0], a[1], b[0]} {
		must(t, write(path))
	}

	want(t, tool.Preempt(ctx, b[1], keyB, keyA), ErrConflict)
	want(t, tool.Preempt(ctx, b[0], keyB, keyC), ErrConflict)
	want(t, tool.Preempt(ctx, b[0], keyB, keyB), sharedlun.ErrInvalid)
	must(t, tool.Preempt(ctx, b[0], keyB, keyA))
	read([]uint64{keyB}, allHold)
	for _, path := range a {
		want(t, write(path), unix.EBADE)
		want(t, tool.Confirm(ctx, path, keyA), ErrConflict)
	}
	must(t, write(b[0]))

	must(t, tool.Register(ctx, a[0], keyC, keyA))
	must(t, tool.Register(ctx, a[0], keyA, keyC))
	must(t, write(a[0]))
	for range 2 {
		must(t, tool.Unregister(ctx, a[0], keyA))
	}
	read([]uint64{keyB}, allHold)
	must(t, tool.Unregister(ctx, b[0], keyB))
	read(nil, 0)
}

// conversion begins with a reservation of type 5 that an earlier version left. a and b are the paths of two hosts, hold lets a path hold it.
func conversion(t *testing.T, tool *Tool, a, b []string, hold func(device string, key uint64)) {
	ctx := t.Context()
	kind := func(kind uint32, holder uint64, keys ...uint64) {
		t.Helper()
		r, err := tool.Read(ctx, b[0])
		if err != nil || r.Type != kind || r.Holder != holder || !slices.Equal(r.Keys, keys) {
			t.Errorf("%+v, %v, want type %d of %#x, and keys %x", r, err, kind, holder, keys)
		}
	}
	for _, path := range a {
		must(t, tool.Register(ctx, path, keyA, 0))
	}
	must(t, tool.Register(ctx, b[0], keyB, 0))
	hold(a[0], keyA)
	kind(sharedlun.WriteExclusiveRegistrantsOnly, keyA, keyA, keyB)
	want(t, tool.Reserve(ctx, a[0], keyA), ErrConflict)
	want(t, tool.Convert(ctx, a[0], keyB), ErrConflict)
	want(t, tool.Convert(ctx, a[0], 0), sharedlun.ErrInvalid)
	must(t, tool.Convert(ctx, a[1], keyA))
	kind(allHold, 0, keyA, keyB)
	want(t, tool.Confirm(ctx, a[0], keyA), ErrConflict)
	must(t, tool.Confirm(ctx, a[1], keyA))
	must(t, tool.Unregister(ctx, a[1], keyA))
	kind(allHold, 0, keyB)

	// A node that is fenced while it holds the reservation alone leaves it to all.
	must(t, tool.Unregister(ctx, b[0], keyB))
	must(t, tool.Register(ctx, a[0], keyA, 0))
	must(t, tool.Register(ctx, b[0], keyB, 0))
	hold(a[0], keyA)
	must(t, tool.Preempt(ctx, b[0], keyB, keyA))
	kind(allHold, 0, keyB)
}

func TestConversion(t *testing.T) {
	f := &fakeTarget{keys: map[string]uint64{}}
	conversion(t, &Tool{send: f.send}, []string{"a0", "a1"}, []string{"b0", "b1"}, func(device string, _ uint64) {
		f.reserve(device, sharedlun.WriteExclusiveRegistrantsOnly)
	})
}

// TestOneHolder: a reservation that ends with its one holder keeps nobody out, so that such a target counts as one without.
func TestOneHolder(t *testing.T) {
	for _, silent := range []bool{false, true} {
		f := &fakeTarget{keys: map[string]uint64{}, oneHolder: true, silent: silent}
		tool := &Tool{send: f.send}
		// One that does not tell its types is believed until it refuses.
		if r, err := tool.Read(t.Context(), "a0"); err != nil || r.Supported != silent {
			t.Errorf("%+v, %v", r, err)
		}
		must(t, tool.Register(t.Context(), "a0", keyA, 0))
		want(t, tool.Reserve(t.Context(), "a0", keyA), sharedlun.ErrNoReservations)
	}
}

func TestJourney(t *testing.T) {
	for name, change := range map[string]func(*fakeTarget){
		"plainly":                func(*fakeTarget) {},
		"with events":            func(f *fakeTarget) { f.attentions = 2 },
		"without capabilities":   func(f *fakeTarget) { f.noCapabilities = true },
		"without a list of them": func(f *fakeTarget) { f.silent = true },
		"with persistence":       func(f *fakeTarget) { f.persists = true },
		"with descriptor sense":  func(f *fakeTarget) { f.attentions, f.descriptor = 1, true },
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeTarget{keys: map[string]uint64{}}
			change(f)
			journey(t, &Tool{send: f.send}, []string{"a0", "a1"}, []string{"b0", "b1"}, f.write)
			if f.persisted != f.persists {
				t.Errorf("asked to keep: %v, the target can: %v", f.persisted, f.persists)
			}
		})
	}
}

func TestRead_unsupported(t *testing.T) {
	f := &fakeTarget{unsupported: true}
	tool := &Tool{send: f.send}
	if r, err := tool.Read(t.Context(), "a0"); err != nil || r.Supported {
		t.Errorf("%+v, %v", r, err)
	}
	want(t, tool.Register(t.Context(), "a0", keyA, 0), sharedlun.ErrNoReservations)
	want(t, tool.Reserve(t.Context(), "a0", keyA), sharedlun.ErrNoReservations)
	want(t, tool.Preempt(t.Context(), "a0", keyA, keyB), sharedlun.ErrNoReservations)
}

// TestRead_many reads a list that does not fit at first.
func TestRead_many(t *testing.T) {
	f := &fakeTarget{keys: map[string]uint64{}}
	for i := range 1000 {
		f.keys[fmt.Sprintf("p%d", i)] = uint64(i%900 + 1)
	}
	r, err := (&Tool{send: f.send}).Read(t.Context(), "p0")
	if err != nil || len(r.Keys) != 900 || r.Keys[899] != 900 {
		t.Errorf("%d keys, %v", len(r.Keys), err)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		r    reply
		err  error
		want error
	}{
		"the device is gone":    {err: unix.ENODEV, want: unix.ENODEV},
		"no answer of the host": {r: reply{host: 1}, want: ErrPath},
		"the driver timed out":  {r: reply{driver: 6}, want: ErrPath},
		"busy":                  {r: reply{status: statusBusy}, want: ErrPath},
		"a status of others":    {r: reply{status: 0x40}, want: ErrPath},
		"no sense":              {r: reply{status: statusCheckCondition}, want: ErrPath},
		"events for ever":       {r: reply{status: statusCheckCondition, sense: sense(keyUnitAttention, 0x2a, false)}, want: ErrPath},
		"a short answer":        {r: reply{data: make([]byte, 4)}, want: sharedlun.ErrUnread},
		"not ready":             {r: reply{status: statusCheckCondition, sense: sense(keyNotReady, 4, false)}, want: ErrPath},
		"aborted":               {r: reply{status: statusCheckCondition, sense: sense(keyAborted, 0x29, true)}, want: ErrPath},
		"a part is not known":   {r: reply{status: statusCheckCondition, sense: sense(keyIllegalRequest, codeInvalidField, false)}, want: sharedlun.ErrRefused},
	} {
		tool := &Tool{send: func(string, command) (reply, error) { return c.r, c.err }}
		_, err := tool.Read(t.Context(), "a0")
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What the target refuses for another reason is neither a conflict nor a target without reservations.
	tool := &Tool{send: func(string, command) (reply, error) {
		return reply{status: statusCheckCondition, sense: sense(keyIllegalRequest, 0x26, false)}, nil
	}}
	err := tool.Reserve(t.Context(), "a0", keyA)
	if !errors.Is(err, sharedlun.ErrRefused) || errors.Is(err, ErrConflict) || errors.Is(err, sharedlun.ErrNoReservations) || errors.Is(err, ErrPath) {
		t.Errorf("%v", err)
	}
}

// TestOther: a LUN is another one only if it says so.
func TestOther(t *testing.T) {
	recorded := sharedlun.Identity{WWID: "naa.1", Serial: "s1", SizeBytes: 1 << 30}
	for name, c := range map[string]struct {
		seen  Identity
		other bool
	}{
		"the recorded one":                  {Identity{[]string{"t10.MODEL", "naa.1"}, "s1", 1 << 30}, false},
		"one that shrank":                   {Identity{[]string{"naa.1"}, "s1", 1}, false},
		"another WWID":                      {Identity{[]string{"t10.MODEL", "naa.2"}, "s1", 1 << 30}, true},
		"another serial number":             {Identity{[]string{"naa.1"}, "s2", 1 << 30}, true},
		"no name at all":                    {Identity{nil, "", 0}, false},
		"no WWID":                           {Identity{nil, "s1", 1 << 30}, false},
		"no WWID and another serial number": {Identity{nil, "s2", 1 << 30}, true},
		"no serial number":                  {Identity{[]string{"naa.1"}, "", 1 << 30}, false},
		"no serial number and another WWID": {Identity{[]string{"naa.2"}, "", 1 << 30}, true},
	} {
		err := c.seen.Other(recorded)
		if errors.Is(err, sharedlun.ErrOtherLun) != c.other || (err != nil) != c.other {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIdentify_disconnected: a target answers for a number under which nothing is. That is no other LUN.
func TestIdentify_disconnected(t *testing.T) {
	for qualifier, want := range map[byte]error{0: nil, 1: sharedlun.ErrUnread, 3: sharedlun.ErrUnread} {
		tool := &Tool{send: func(_ string, c command) (reply, error) {
			if c.cdb[0] != opInquiry {
				return reply{data: make([]byte, capacityBytes)}, nil
			}
			return reply{data: []byte{qualifier << qualifierShift, c.cdb[2], 0, 4, 'x', 'x', 'x', 'x'}}, nil
		}}
		if _, err := tool.Identify(t.Context(), "/dev/sdb"); !errors.Is(err, want) {
			t.Errorf("qualifier %d: %v, want %v", qualifier, err, want)
		}
	}
}
