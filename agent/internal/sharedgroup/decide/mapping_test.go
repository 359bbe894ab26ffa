package decide

import (
	"errors"
	"slices"
	"testing"

	"quarry.storage/quarry/pkg/sharedlun"
)

const lun = "8:16"

func ranges(parts ...int64) []sharedlun.Range {
	var out []sharedlun.Range
	for i := 0; i < len(parts); i += 2 {
		out = append(out, sharedlun.Range{Start: parts[i] * mib, Size: parts[i+1] * mib})
	}
	return out
}

func TestMap(t *testing.T) {
	have := func(change func(*Mapped)) *Mapped {
		m := &Mapped{VolumeUUID: uuidA, Path: "/dev/x", Ranges: ranges(4, 8), Lun: lun, Live: true, Linear: true}
		change(m)
		return m
	}
	as := func(r []sharedlun.Range) func(*Mapped) { return func(m *Mapped) { m.Ranges = r } }
	both := func(a, b func(*Mapped)) func(*Mapped) { return func(m *Mapped) { a(m); b(m) } }
	inUse := func(m *Mapped) { m.InUse = true }
	for name, c := range map[string]struct {
		have *Mapped
		want []sharedlun.Range
		do   Action
		err  error
	}{
		"no device":                             {nil, ranges(4, 8), Load, nil},
		"the device":                            {have(func(*Mapped) {}), ranges(4, 8), Keep, nil},
		"the device, in use":                    {have(inUse), ranges(4, 8), Keep, nil},
		"the same in more parts":                {have(as(ranges(4, 4, 8, 4))), ranges(4, 8), Keep, nil},
		"in more parts than the same":           {have(func(*Mapped) {}), ranges(4, 2, 6, 6), Keep, nil},
		"growing at its end":                    {have(inUse), ranges(4, 12), Load, nil},
		"growing elsewhere":                     {have(inUse), ranges(4, 8, 40, 4), Load, nil},
		"growing in front of itself":            {have(inUse), ranges(0, 4, 4, 8), Keep, sharedlun.ErrMisfit},
		"shrinking":                             {have(func(*Mapped) {}), ranges(4, 4), Keep, sharedlun.ErrMisfit},
		"losing a part":                         {have(as(ranges(4, 8, 40, 4))), ranges(4, 8), Keep, sharedlun.ErrMisfit},
		"moving":                                {have(func(*Mapped) {}), ranges(8, 8), Keep, sharedlun.ErrMisfit},
		"moving a part":                         {have(as(ranges(4, 8, 40, 4))), ranges(4, 8, 44, 4), Keep, sharedlun.ErrMisfit},
		"growing in the middle":                 {have(as(ranges(4, 8, 40, 4))), ranges(4, 12, 40, 4), Keep, sharedlun.ErrMisfit},
		"the end of the LUN":                    {nil, ranges(92, 8), Load, nil},
		"past the end of the LUN":               {nil, ranges(93, 8), Keep, sharedlun.ErrMisfit},
		"past all numbers":                      {nil, []sharedlun.Range{{Start: 1<<63 - 512, Size: 1024}}, Keep, sharedlun.ErrMisfit},
		"made, and no table was loaded":         {have(func(m *Mapped) { *m = Mapped{VolumeUUID: uuidA} }), ranges(4, 8), Load, nil},
		"made, and the table is not live":       {have(func(m *Mapped) { *m = Mapped{VolumeUUID: uuidA, Pending: true} }), ranges(4, 8), Load, nil},
		"another table was loaded":              {have(both(inUse, func(m *Mapped) { m.Pending = true })), ranges(4, 8), Load, nil},
		"it was suspended":                      {have(both(inUse, func(m *Mapped) { m.Suspended = true })), ranges(4, 8), Load, nil},
		"it has no node":                        {have(func(m *Mapped) { m.Path = "" }), ranges(4, 8), Load, nil},
		"it returns errors":                     {have(func(m *Mapped) { m.Linear, m.Cut, m.Ranges = false, true, nil }), ranges(4, 8), Renew, nil},
		"it returns errors, and is open":        {have(both(inUse, func(m *Mapped) { m.Linear, m.Cut, m.Ranges = false, true, nil })), ranges(4, 8), Keep, sharedlun.ErrMisfit},
		"it has a table of others, and is open": {have(both(inUse, func(m *Mapped) { m.Linear = false })), ranges(4, 8), Keep, sharedlun.ErrMisfit},
		"the LUN came back as another device":   {have(func(m *Mapped) { m.Lun = "8:32" }), ranges(4, 8), Renew, nil},
		"it is open on a device that is gone":   {have(both(inUse, func(m *Mapped) { m.Lun = "8:32" })), ranges(4, 8), Keep, sharedlun.ErrMisfit},
	} {
		do, err := Map(c.have, uuidA, c.want, lun, 100*mib)
		if do != c.do || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v", name, do, err)
		}
	}
}

func TestZero(t *testing.T) {
	// The device shows the first 4 MiB, which are ready, and may be in use.
	shown := Mapped{VolumeUUID: uuidA, Path: "/dev/x", Ranges: ranges(1, 4), Lun: lun, Live: true, Linear: true, InUse: true}
	for name, c := range map[string]struct {
		volume func(*sharedlun.Volume)
		device func(*Mapped)
		err    error
	}{
		"a volume of which the end is new":  {nil, nil, nil},
		"all of it is ready":                {func(v *sharedlun.Volume) { v.ReadyBytes = v.SizeBytes }, nil, sharedlun.ErrMoved},
		"more of it is ready by now":        {func(v *sharedlun.Volume) { v.ReadyBytes = 0 }, nil, sharedlun.ErrMoved},
		"it is larger by now":               {func(v *sharedlun.Volume) { v.SizeBytes = 4 * mib }, nil, sharedlun.ErrMoved},
		"it lies elsewhere":                 {func(v *sharedlun.Volume) { v.Ranges = ranges(40, 8) }, nil, sharedlun.ErrMoved},
		"another one of the name":           {func(v *sharedlun.Volume) { v.UUID = uuidB }, nil, sharedlun.ErrNotFound},
		"one that is not there":             {func(v *sharedlun.Volume) { v.Name = "gone" }, nil, sharedlun.ErrNotFound},
		"a device of less than is ready":    {nil, func(m *Mapped) { m.Ranges = ranges(1, 2) }, nil},
		"a device of what is ready in two":  {nil, func(m *Mapped) { m.Ranges = ranges(1, 2, 3, 2) }, nil},
		"a device of more than is ready":    {nil, func(m *Mapped) { m.Ranges = ranges(1, 6) }, sharedlun.ErrMisfit},
		"a device of all":                   {nil, func(m *Mapped) { m.Ranges = held.Ranges }, sharedlun.ErrMisfit},
		"another table":                     {nil, func(m *Mapped) { m.Ranges = ranges(2, 4) }, sharedlun.ErrMisfit},
		"a device with a table of others":   {nil, func(m *Mapped) { m.Linear = false }, sharedlun.ErrMisfit},
		"a device that only returns errors": {nil, func(m *Mapped) { m.Linear, m.Cut = false, true }, nil},
		"a device that is suspended":        {nil, func(m *Mapped) { m.Suspended = true }, sharedlun.ErrMisfit},
		"a device with another one loaded":  {nil, func(m *Mapped) { m.Pending = true }, sharedlun.ErrMisfit},
		"a device without a table":          {nil, func(m *Mapped) { m.Live, m.Linear = false, false }, nil},
	} {
		v, dev := held, shown
		if c.volume != nil {
			c.volume(&v)
		}
		if c.device != nil {
			c.device(&dev)
		}
		if err := Zero(group, v, "n1", &dev); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Zero(group, held, "n1", nil); err != nil {
		t.Errorf("not mapped: %v", err)
	}
	if err := Zero(group, held, "n2", nil); !errors.Is(err, sharedlun.ErrHeld) {
		t.Errorf("another node's: %v", err)
	}
	if err := Zero(group, leaving, "n1", nil); !errors.Is(err, sharedlun.ErrHeld) {
		t.Errorf("leaving: %v", err)
	}
	ready := group
	ready.Volumes = []sharedlun.Volume{{Name: "a", UUID: uuidA, SizeBytes: mib, ReadyBytes: mib, HeldBy: "n1"}}
	if err := Zero(ready, ready.Volumes[0], "n1", nil); !errors.Is(err, sharedlun.ErrInvalid) {
		t.Errorf("nothing to zero: %v", err)
	}
}

func TestShown(t *testing.T) {
	v := sharedlun.Volume{Name: "v", SizeBytes: 12 * mib, Ranges: ranges(4, 8, 40, 4)}
	for ready, want := range map[int64][]sharedlun.Range{2: ranges(4, 2), 8: ranges(4, 8), 9: ranges(4, 8, 40, 1), 12: v.Ranges} {
		v.ReadyBytes = ready * mib
		if got, err := Shown(v); err != nil || !slices.Equal(got, want) {
			t.Errorf("%d MiB ready: %v, %v", ready, got, err)
		}
	}
	v.ReadyBytes = 0
	if got, err := Shown(v); !errors.Is(err, sharedlun.ErrMisfit) {
		t.Errorf("nothing ready: %v, %v", got, err)
	}
}

func TestBehind(t *testing.T) {
	all := ranges(4, 8, 40, 4)
	for bytes, want := range map[int64][]sharedlun.Range{
		0: all, 2: ranges(6, 6, 40, 4), 8: ranges(40, 4), 9: ranges(41, 3), 12: nil,
	} {
		if got := Behind(all, bytes*mib); !slices.Equal(got, want) {
			t.Errorf("behind %d MiB: %v, want %v", bytes, got, want)
		}
	}
}
