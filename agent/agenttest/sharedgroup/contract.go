package sharedgroup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/internal/sharedgroup"
	"quarry.storage/quarry/pkg/sharedlun"
)

// Member is a node that sees the LUN.
type Member interface {
	// Agent is the service as it runs now; Restart starts it again.
	Agent() *sharedgroup.Service
	Restart(t testing.TB)
	Key() uint64
	// Write writes something through the device of a volume, and Blank reports whether a reader finds zeroes between two offsets.
	Write(volume string, at int64) error
	Blank(volume string, from, to int64) bool
	// Open opens the device of a volume until closing is called.
	Open(volume string) (closing func(), err error)
}

// Site is one empty LUN with two nodes that see it, for one case of the contract. It is reserved, and both nodes have their keys registered.
type Site struct {
	A, B Member
	Lun  sharedlun.Identity
	// Soil puts something of others on the LUN; Swap puts another LUN in its place; Preempt removes a registration.
	Soil, Swap func()
	Preempt    func(key uint64)
}

const (
	contractOwner = "0f3b2c1d-1111-2222-3333-444455556666"
	contractGroup = "shared-1"
	mib           = 1 << 20
)

// Contract holds the service to what the controller relies on, over the tools of a site.
func Contract(t *testing.T, site func(t *testing.T) Site) {
	for name, run := range map[string]func(*check){
		"the life of a group":         life,
		"changes of volumes":          volumes,
		"what is on the LUN stays":    content,
		"epochs":                      epochsHold,
		"who may not write":           refused,
		"devices":                     mappings,
		"late orders":                 lateOrders,
		"a volume of another node":    notMine,
		"a device that grows in use":  growth,
		"a device of a fenced node":   fencedDevice,
		"zeroing":                     zeroing,
		"zeroing what is new":         zeroingNew,
		"zeroing what holds nothing":  zeroingRefused,
		"requests that are not valid": invalid,
	} {
		t.Run(name, func(t *testing.T) {
			s := site(t)
			run(&check{T: t, Site: s, ref: sharedlun.Ref{Lun: s.Lun, OwnerUID: contractOwner}, epoch: 1})
		})
	}
}

// check is one case, with the group as the last answer told it.
type check struct {
	*testing.T
	Site
	ref   sharedlun.Ref
	epoch uint64
	group sharedlun.Group
}

func (c *check) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func (c *check) want(err, want error, says string) {
	c.Helper()
	if !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), says) {
		c.Errorf("%v, want %v saying %q", err, want, says)
	}
}

func (c *check) writer(m Member) sharedlun.Writer {
	return sharedlun.Writer{Epoch: c.epoch, Key: m.Key(), Timeout: time.Minute}
}

// create makes the group through A.
func (c *check) create() {
	c.Helper()
	g, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.writer(c.A), "")
	c.must(err)
	c.group, c.ref.UUID = g, g.UUID
}

// change makes a change through A that has to be taken.
func (c *check) change(change sharedlun.Change) {
	c.Helper()
	c.must(c.try(c.A, change))
}

// try makes a change that was decided on the last answer.
func (c *check) try(m Member, change sharedlun.Change) error {
	g, err := m.Agent().Change(c.Context(), c.ref, c.writer(m), c.group.Sequence, change)
	if err == nil {
		c.group = g
	}
	return err
}

// volume is a volume of the last answer.
func (c *check) volume(name string) sharedlun.Volume {
	c.Helper()
	v := c.group.Volume(name)
	if v == nil {
		c.Fatalf("no volume %s in %+v", name, c.group)
	}
	return *v
}

// made makes the group and a volume of 8 MiB that A holds.
func (c *check) made() sharedlun.Volume {
	c.Helper()
	c.create()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Hold: &sharedlun.Hold{Name: "v", Node: "n1"}})
	return c.volume("v")
}

// leave marks a volume that A holds as leaving it.
func (c *check) leave(name string) {
	c.Helper()
	c.change(sharedlun.Change{Leave: &sharedlun.Hold{Name: name, Node: "n1"}})
	if v := c.volume(name); !v.Leaving || v.HeldBy != "n1" {
		c.Errorf("leaving: %+v", v)
	}
}

// mapped is made, and mapped on A.
func (c *check) mapped() sharedlun.Volume {
	c.Helper()
	v := c.made()
	_, err := c.A.Agent().Map(c.Context(), c.ref, v, c.group.Sequence)
	c.must(err)
	return v
}

// mappings of A.
func (c *check) mappings() []sharedlun.Mapping {
	c.Helper()
	all, err := c.A.Agent().Mappings(c.Context(), c.ref)
	c.must(err)
	return all
}

func life(c *check) {
	seen, err := c.A.Agent().Get(c.Context(), c.ref)
	c.must(err)
	if seen.Group != nil || seen.Content != "" || seen.Digest != "" {
		c.Fatalf("an empty LUN: %+v", seen)
	}
	c.create()
	if g := c.group; g.Name != contractGroup || g.OwnerUID != contractOwner || g.Epoch != 1 || g.Sequence == 0 || g.FreeBytes != g.SizeBytes ||
		g.ExtentBytes <= 0 || len(g.Volumes) > 0 {
		c.Errorf("made: %+v", g)
	}
	first := c.group
	c.create()
	if c.group.UUID != first.UUID || c.group.Sequence != first.Sequence {
		c.Errorf("made again: %+v, before %+v", c.group, first)
	}
	seen, err = c.B.Agent().Get(c.Context(), c.ref)
	c.must(err)
	if seen.Group == nil || seen.Group.UUID != c.ref.UUID {
		c.Fatalf("the other node sees %+v", seen)
	}
	c.lifeBesideOthers()
	c.lifeEnds()
}

// lifeBesideOthers: another owner sees that the LUN is taken, and takes it not.
func (c *check) lifeBesideOthers() {
	other := c.ref
	other.OwnerUID = "00000000-1111-2222-3333-444455556666"
	seen, err := c.A.Agent().Get(c.Context(), other)
	if err != nil || seen.Group != nil || seen.Content == "" || seen.Digest == "" {
		c.Errorf("another owner sees %+v, %v", seen, err)
	}
	_, err = c.A.Agent().Create(c.Context(), sharedlun.Ref{Lun: c.Lun, OwnerUID: other.OwnerUID}, "another", c.writer(c.A), "")
	c.want(err, sharedlun.ErrNotClean, "")
}

// lifeEnds: a group with a volume stays, and an empty one leaves an empty LUN.
func (c *check) lifeEnds() {
	first := c.group
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 1}})
	c.want(c.A.Agent().Remove(c.Context(), c.ref, c.writer(c.A)), sharedlun.ErrInUse, "1 volumes")
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: c.volume("v").UUID}})
	c.must(c.A.Agent().Remove(c.Context(), c.ref, c.writer(c.A)))
	if seen, err := c.A.Agent().Get(c.Context(), c.ref); err != nil || seen != (sharedlun.Contents{}) {
		c.Errorf("removed: %+v, %v", seen, err)
	}
	c.must(c.A.Agent().Remove(c.Context(), c.ref, c.writer(c.A)))
	_, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.writer(c.A), "")
	c.want(err, sharedlun.ErrNotFound, first.UUID)
	c.ref.UUID = ""
	c.create()
	if c.group.UUID == first.UUID {
		c.Error("a new group has the UUID of an old one")
	}
}

func volumes(c *check) {
	c.create()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 5 * mib, Tags: []string{"z=1", "b=2"}}})
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "b", SizeBytes: 8 * mib}})
	c.change(sharedlun.Change{Grow: &sharedlun.Grow{Name: "a", SizeBytes: 13 * mib}})
	a, b := c.volume("a"), c.volume("b")
	if a.SizeBytes != 16*mib || b.SizeBytes != 8*mib || len(a.Ranges) != 2 || len(b.Ranges) != 1 || strings.Join(a.Tags, " ") != "b=2 z=1" {
		c.Errorf("%+v, %+v", a, b)
	}
	if !a.Unready() || a.ReadyBytes != 0 || a.HeldBy != "" || a.UUID == b.UUID || a.CreatedUnix <= 0 {
		c.Errorf("a new volume: %+v", a)
	}
	c.must(errors.Join(a.CheckTable(), b.CheckTable()))
	if free := c.group.SizeBytes - 24*mib; c.group.FreeBytes != free {
		c.Errorf("%d bytes are free, want %d", c.group.FreeBytes, free)
	}
	c.holdsAlready(a)
	c.heldAndReady(a, b)
}

// holdsAlready: what holds changes nothing, and what cannot be is refused.
func (c *check) holdsAlready(a sharedlun.Volume) {
	before := c.group.Sequence
	for _, again := range []sharedlun.Change{
		{Create: &sharedlun.Create{Name: "b", SizeBytes: 6 * mib}},
		{Grow: &sharedlun.Grow{Name: "a", SizeBytes: mib}},
		{Remove: &sharedlun.Remove{Name: "gone", UUID: a.UUID}},
		{Release: &sharedlun.Hold{Name: "a", Node: "n1"}},
	} {
		c.change(again)
	}
	if c.group.Sequence != before {
		c.Errorf("what holds already changed the group from %d to %d", before, c.group.Sequence)
	}
	c.want(c.try(c.A, sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 5 * mib}}), sharedlun.ErrExists, "bytes")
	c.want(c.try(c.A, sharedlun.Change{Create: &sharedlun.Create{Name: "c", SizeBytes: c.group.FreeBytes + 1}}), sharedlun.ErrNoSpace, "")
	c.want(c.try(c.A, sharedlun.Change{Grow: &sharedlun.Grow{Name: "gone", SizeBytes: mib}}), sharedlun.ErrNotFound, "gone")
}

// heldAndReady: a volume that a node holds is no other node's, and stays.
func (c *check) heldAndReady(a, b sharedlun.Volume) {
	c.change(sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", Node: "n1"}})
	c.want(c.try(c.A, sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", Node: "n2"}}), sharedlun.ErrExists, "n1")
	c.want(c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: a.UUID}}), sharedlun.ErrHeld, "n1")
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "a", Bytes: 8 * mib}})
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "a", Bytes: 16 * mib}})
	c.change(sharedlun.Change{Ready: &sharedlun.Ready{Name: "a", Bytes: 8 * mib}})
	if v := c.volume("a"); v.Unready() || v.HeldBy != "n1" || strings.Join(v.Tags, " ") != "b=2 z=1" {
		c.Errorf("ready: %+v", v)
	}
	c.want(c.try(c.A, sharedlun.Change{Release: &sharedlun.Hold{Name: "a", Node: "n1"}}), sharedlun.ErrHeld, "not leaving")
	c.leave("a")
	c.want(c.try(c.A, sharedlun.Change{Hold: &sharedlun.Hold{Name: "a", Node: "n1"}}), sharedlun.ErrHeld, "leaving")
	c.change(sharedlun.Change{Release: &sharedlun.Hold{Name: "a", Node: "n1"}})
	if v := c.volume("a"); v.HeldBy != "" || v.Leaving || strings.Join(v.Tags, " ") != "b=2 z=1" {
		c.Errorf("released: %+v", v)
	}
	c.want(c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: b.UUID}}), sharedlun.ErrExists, a.UUID)
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: a.UUID}})
	if c.group.Volume("a") != nil || len(c.group.Volumes) != 1 {
		c.Errorf("removed: %+v", c.group)
	}
}

func content(c *check) {
	c.Soil()
	seen, err := c.A.Agent().Get(c.Context(), c.ref)
	c.must(err)
	if seen.Group != nil || seen.Content == "" || seen.Digest == "" {
		c.Fatalf("a LUN with something on it: %+v", seen)
	}
	for _, digest := range []string{"", "v1:00"} {
		_, err = c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.writer(c.A), digest)
		c.want(err, sharedlun.ErrNotClean, seen.Content)
	}
	g, err := c.B.Agent().Create(c.Context(), c.ref, contractGroup, c.writer(c.B), seen.Digest)
	c.must(err)
	if len(g.Volumes) > 0 || g.OwnerUID != contractOwner {
		c.Errorf("made: %+v", g)
	}
}
