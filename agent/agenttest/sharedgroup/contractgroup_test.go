package sharedgroup

import (
	"errors"
	"strings"

	"quarry.storage/quarry/pkg/sharedlun"
)

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
	_, err = c.A.Agent().Create(c.Context(), sharedlun.Ref{Lun: c.Lun, OwnerUID: other.OwnerUID}, "another", c.mandate(c.A), "")
	c.want(err, sharedlun.ErrNotClean, "")
}

// lifeEnds: a group with a volume stays, and an empty one leaves an empty LUN.
func (c *check) lifeEnds() {
	first := c.group
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 1}})
	c.want(c.A.Agent().Remove(c.Context(), c.ref, c.mandate(c.A)), sharedlun.ErrInUse, "1 volumes")
	c.change(sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: c.volume("v").UUID}})
	c.must(c.A.Agent().Remove(c.Context(), c.ref, c.mandate(c.A)))
	if seen, err := c.A.Agent().Get(c.Context(), c.ref); err != nil || seen != (sharedlun.Contents{}) {
		c.Errorf("removed: %+v, %v", seen, err)
	}
	c.must(c.A.Agent().Remove(c.Context(), c.ref, c.mandate(c.A)))
	_, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.A), "")
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
	c.change(c.grow("a", 13*mib))
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
		c.grow("a", mib),
		{Remove: &sharedlun.Remove{Name: "gone", UUID: a.UUID}},
		c.release("a"),
	} {
		c.change(again)
	}
	if c.group.Sequence != before {
		c.Errorf("what holds already changed the group from %d to %d", before, c.group.Sequence)
	}
	c.want(c.try(c.A, sharedlun.Change{Create: &sharedlun.Create{Name: "a", SizeBytes: 5 * mib}}), sharedlun.ErrExists, "bytes")
	c.want(c.try(c.A, sharedlun.Change{Create: &sharedlun.Create{Name: "c", SizeBytes: c.group.FreeBytes + 1}}), sharedlun.ErrNoSpace, "")
	c.want(c.try(c.A, c.grow("gone", mib)), sharedlun.ErrNotFound, "gone")
}

// heldAndReady: a volume that a node holds is no other node's, and stays.
func (c *check) heldAndReady(a, b sharedlun.Volume) {
	c.change(sharedlun.Change{Hold: c.hold("a", "n1")})
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("a", "n2")}), sharedlun.ErrExists, "n1")
	c.want(c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "a", UUID: a.UUID}}), sharedlun.ErrHeld, "n1")
	c.change(c.ready("a", 8*mib))
	c.change(c.ready("a", 16*mib))
	c.change(c.ready("a", 8*mib))
	if v := c.volume("a"); v.Unready() || v.HeldBy != "n1" || strings.Join(v.Tags, " ") != "b=2 z=1" {
		c.Errorf("ready: %+v", v)
	}
	c.want(c.try(c.A, c.release("a")), sharedlun.ErrHeld, "not leaving")
	c.leave("a")
	c.want(c.try(c.A, sharedlun.Change{Hold: c.hold("a", "n1")}), sharedlun.ErrHeld, "leaving")
	c.change(c.release("a"))
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
		_, err = c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.A), digest)
		c.want(err, sharedlun.ErrNotClean, seen.Content)
	}
	g, err := c.B.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.B), seen.Digest)
	c.must(err)
	if len(g.Volumes) > 0 || g.OwnerUID != contractOwner {
		c.Errorf("made: %+v", g)
	}
}

// readers: what was taken from a node by a fence stays until that node has another boot.
func readers(c *check) {
	v := c.made()
	release := sharedlun.Change{Release: &sharedlun.Release{Hold: *c.hold("v", "n1"), FencedBootID: "boot-1"}}
	c.want(c.try(c.A, release), sharedlun.ErrHeld, "not leaving")
	c.leave("v")
	c.change(release)
	c.change(release)
	if got := c.volume("v"); got.HeldBy != "" || got.Leaving || len(got.Readers) != 1 || got.Readers[0] != (sharedlun.Boot{Node: "n1", ID: "boot-1"}) {
		c.Fatalf("released by a fence: %+v", got)
	}
	// Another node may have it, and leave it as it likes.
	c.change(sharedlun.Change{Hold: c.hold("v", "n2")})
	c.change(sharedlun.Change{Leave: c.hold("v", "n2")})
	c.change(sharedlun.Change{Release: &sharedlun.Release{Hold: *c.hold("v", "n2"), FencedBootID: "boot-7"}})
	remove := func(boots ...sharedlun.Boot) error {
		return c.try(c.A, sharedlun.Change{Remove: &sharedlun.Remove{Name: "v", UUID: v.UUID, Boots: boots}})
	}
	n1, n2 := sharedlun.Boot{Node: "n1", ID: "boot-2"}, sharedlun.Boot{Node: "n2", ID: "boot-8"}
	c.want(remove(), sharedlun.ErrHeld, "node n1")
	c.want(remove(n1), sharedlun.ErrHeld, "node n2")
	c.want(remove(n2), sharedlun.ErrHeld, "node n1")
	c.want(remove(n1, sharedlun.Boot{Node: "n2", ID: "boot-7"}), sharedlun.ErrHeld, "may still read")
	c.want(remove(n1, sharedlun.Boot{Node: "n2"}), sharedlun.ErrInvalid, "boot")
	// By a person's word exactly that boot reads no more.
	forget := func(boots ...sharedlun.Boot) error {
		return c.try(c.A, sharedlun.Change{Forget: &sharedlun.Forget{Name: "v", UUID: v.UUID, Boots: boots}})
	}
	c.want(forget(sharedlun.Boot{Node: "n1"}), sharedlun.ErrInvalid, "boot")
	for range 2 {
		c.must(forget(sharedlun.Boot{Node: "n1", ID: "boot-1"}, sharedlun.Boot{Node: "n2", ID: "boot-8"}))
	}
	if got := c.volume("v"); len(got.Readers) != 1 || got.Readers[0] != (sharedlun.Boot{Node: "n2", ID: "boot-7"}) {
		c.Fatalf("forgotten: %+v", got)
	}
	c.want(remove(), sharedlun.ErrHeld, "node n2")
	c.must(remove(n2))
	if len(c.group.Volumes) > 0 {
		c.Errorf("removed: %+v", c.group)
	}
}

// namesakes: a request that means a volume of before does nothing to another one that has its name.
func namesakes(c *check) {
	before := c.made()
	c.leave("v")
	c.change(c.release("v"))
	late := []sharedlun.Change{
		{Hold: c.hold("v", "n1")},
		{Leave: c.hold("v", "n1")},
		c.release("v"), c.ready("v", 4*mib), c.grow("v", 64*mib),
		{Remove: &sharedlun.Remove{Name: "v", UUID: before.UUID}},
	}
	c.change(late[len(late)-1])
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 8 * mib}})
	sequence := c.group.Sequence
	for _, change := range late {
		c.want(c.try(c.A, change), sharedlun.ErrExists, before.UUID)
	}
	seen, err := c.A.Agent().Get(c.Context(), c.ref)
	c.must(err)
	if seen.Group.Sequence != sequence {
		c.Errorf("a late request changed %+v", seen.Group)
	}
}

// madeAndHeld: a volume is made and held in one change, and marked as leaving and ready in one: at no instant it looks like one that somebody attached.
func madeAndHeld(c *check) {
	c.made()
	create := sharedlun.Change{Create: &sharedlun.Create{Name: "w", SizeBytes: 8 * mib, Tags: []string{"x=1"}, HeldBy: "n1"}}
	sequence := c.group.Sequence
	for range 2 {
		c.change(create)
	}
	if w := c.volume("w"); w.HeldBy != "n1" || w.Leaving || w.ReadyBytes != 0 || len(w.Tags) != 1 || c.group.Sequence != sequence+1 {
		c.Fatalf("made and held: %+v, by sequence number %d from %d", w, c.group.Sequence, sequence)
	}
	other := *create.Create
	other.HeldBy = "n2"
	c.want(c.try(c.A, sharedlun.Change{Create: &other}), sharedlun.ErrExists, "does not hold")
	leave := c.hold("w", "n1")
	leave.ReadyBytes = 8 * mib
	for range 2 {
		c.change(sharedlun.Change{Leave: leave})
	}
	if w := c.volume("w"); w.HeldBy != "n1" || !w.Leaving || w.ReadyBytes != 8*mib || c.group.Sequence != sequence+2 {
		c.Fatalf("leaving and ready: %+v, by sequence number %d from %d", w, c.group.Sequence, sequence)
	}
	c.change(c.release("w"))
	c.want(c.try(c.A, sharedlun.Change{Leave: leave}), sharedlun.ErrNotFound, "held by node n1")
}
