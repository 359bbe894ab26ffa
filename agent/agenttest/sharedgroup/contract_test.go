package sharedgroup

import (
	"errors"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest/turn"
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
	// Contradict leaves two filesystems on the device of a volume, which Several reports: nobody can say which one it is.
	Contradict(volume string) error
	Several(volume string) bool
	// Open opens the device of a volume until closing is called.
	Open(volume string) (closing func(), err error)
}

var _ Member = (*Node)(nil)

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

// turns is how many runs on a real kernel share the cases.
const turns = 3

// Contract holds the service to what the controller relies on, over the tools of a site.
func Contract(t *testing.T, site func(t *testing.T) Site) {
	for i, c := range []struct {
		name string
		run  func(*check)
	}{
		{"the life of a group", life},
		{"changes of volumes", volumes},
		{"what is on the LUN stays", content},
		{"epochs", epochsHold},
		{"who may not write", refused},
		{"devices", mappings},
		{"late orders", lateOrders},
		{"a volume of another node", notMine},
		{"a device that grows in use", growth},
		{"a device of a fenced node", fencedDevice},
		{"a device without a key", keyless},
		{"a device on another LUN", otherLun},
		{"readers", readers},
		{"another one of the name", namesakes},
		{"made and held in one change", madeAndHeld},
		{"zeroing", zeroing},
		{"zeroing what is new", zeroingNew},
		{"zeroing beside a device", zeroingBeside},
		{"zeroing what holds nothing", zeroingRefused},
		{"copies", copies},
		{"copies that are refused", copiesRefused},
		{"copies that go on", copiesGoOn},
		{"copies that are ended", copiesEnd},
		{"copies that nobody wants", copiesVoid},
		{"snapshots", snapshots},
		{"the first filesystem", firstUse},
		{"a filesystem is ended", firstUseEnded},
		{"a filesystem over several", firstUseOverSeveral},
		{"requests that are not valid", invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn.Share(t, i, turns)
			s := site(t)
			c.run(&check{T: t, Site: s, ref: sharedlun.Ref{Lun: s.Lun, OwnerUID: contractOwner}, epoch: 1})
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

func (c *check) mandate(m Member) sharedlun.Mandate {
	return sharedlun.Mandate{Epoch: c.epoch, Credential: c.cred(m), Timeout: time.Minute}
}

func (c *check) cred(m Member) sharedlun.Credential { return sharedlun.Credential{Key: m.Key()} }

// uuid is that of a volume of the last answer; of one that is not there it is one that no volume has.
func (c *check) uuid(name string) string {
	if v := c.group.Volume(name); v != nil {
		return v.UUID
	}
	return "Absent-1234-5678-9abc-DEFG-hijk-LMNOPQ"
}

func (c *check) hold(name, node string) *sharedlun.Hold {
	return &sharedlun.Hold{Name: name, UUID: c.uuid(name), Node: node}
}

// release takes a volume from A.
func (c *check) release(name string) sharedlun.Change {
	return sharedlun.Change{Release: &sharedlun.Release{Hold: *c.hold(name, "n1")}}
}

func (c *check) ready(name string, bytes int64) sharedlun.Change {
	return sharedlun.Change{Ready: &sharedlun.Ready{Name: name, UUID: c.uuid(name), Bytes: bytes}}
}

func (c *check) grow(name string, bytes int64) sharedlun.Change {
	return sharedlun.Change{Grow: &sharedlun.Grow{Name: name, UUID: c.uuid(name), SizeBytes: bytes}}
}

// create makes the group through A.
func (c *check) create() {
	c.Helper()
	g, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.A), "")
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
	g, err := m.Agent().Change(c.Context(), c.ref, c.mandate(m), c.group.Sequence, change)
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
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	return c.volume("v")
}

// readied is made, and all of the volume is ready.
func (c *check) readied() sharedlun.Volume {
	c.Helper()
	v := c.made()
	c.change(c.ready("v", v.SizeBytes))
	return c.volume("v")
}

// moves makes a change that has nothing to do with any volume that is there.
func (c *check) moves() {
	c.Helper()
	c.change(sharedlun.Change{Create: &sharedlun.Create{Name: "beside", SizeBytes: 4 * mib}})
}

// leave marks a volume that A holds as leaving it.
func (c *check) leave(name string) {
	c.Helper()
	c.change(sharedlun.Change{Leave: c.hold(name, "n1")})
	if v := c.volume(name); !v.Leaving || v.HeldBy != "n1" {
		c.Errorf("leaving: %+v", v)
	}
}

// mapped is readied, and mapped on A.
func (c *check) mapped() sharedlun.Volume {
	c.Helper()
	v := c.readied()
	_, err := c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
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
