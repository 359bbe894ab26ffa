package sharedgroup

import (
	"testing"

	"quarry.storage/quarry/agent/internal/sharedgroup/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// making is a volume that is mapped on n1, which may make its first filesystem.
func making(t *testing.T) (*check, *LUN, *Node, *Node) {
	t.Helper()
	l, a, b := model(t)
	c := &check{T: t, Site: Site{A: a, B: b, Lun: l.Identity()}, ref: sharedlun.Ref{Lun: l.Identity(), OwnerUID: contractOwner}, epoch: 1}
	c.mapped()
	c.change(sharedlun.Change{Making: c.hold("v", "n1")})
	return c, l, a, b
}

// TestFormat_killed: what a program leaves that was killed is written over by the next call, also after a start of the agent.
func TestFormat_killed(t *testing.T) {
	for _, restart := range []bool{false, true} {
		c, l, a, _ := making(t)
		a.KillFormat()
		var err error
		for done := false; err == nil; done, err = c.format(a) {
			if done {
				t.Fatal("it was not killed")
			}
		}
		c.want(err, sharedlun.ErrUnknown, "killed")
		if restart {
			a.Restart(t)
		}
		if l.Filesystem("v") != "" {
			t.Error("a program that was killed made a filesystem")
		}
		c.formatted()
		if got := l.Filesystem("v"); got != "ext4" || l.Damage() != "" {
			t.Errorf("it has %q: %s", got, l.Damage())
		}
	}
}

// TestFormat_unmapped: an order to unmap a volume ends the making of its filesystem, on a node that was fenced as well, and the next node writes over what is left.
func TestFormat_unmapped(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		c, l, a, b := making(t)
		release := a.DelayZeroing()
		defer release()
		for range 2 {
			if done, err := c.format(a); done || err != nil {
				t.Fatalf("%t, %v", done, err)
			}
		}
		c.leave("v")
		if fenced {
			l.Preempt(a.Key())
		}
		c.must(a.Unmap(t.Context(), c.ref, c.uuid("v"), c.group.Sequence, fenced))
		if l.Filesystem("v") != "" {
			t.Error("the making went on")
		}
		c.epoch++
		for _, change := range []sharedlun.Change{{TakeOver: true}, c.release("v"), {Hold: c.hold("v", "n2")}, {Making: c.hold("v", "n2")}} {
			c.must(c.try(b, change))
		}
		_, err := b.Map(t.Context(), c.ref, c.cred(b), c.volume("v"), c.group.Sequence)
		c.must(err)
		_, err = c.format(a)
		c.want(err, sharedlun.ErrHeld, "n2")
		c.A = b
		c.formatted()
		if got := l.Filesystem("v"); got != "ext4" || l.Damage() != "" {
			t.Errorf("it has %q: %s", got, l.Damage())
		}
	}
}

// TestFormat_remains: whatever an earlier user of the place left there is written over. It is no content of the volume, for no pod saw that.
func TestFormat_remains(t *testing.T) {
	for _, left := range []decide.VolumeContent{
		{Type: "linux_raid_member"}, {Type: "zfs_member"}, {Type: "xfs", UUID: "another one's"}, {Type: "xfs", UUID: "another one's", Unfinished: true}, {Unknown: true},
	} {
		c, l, _, _ := making(t)
		l.san.mu.Lock()
		l.files[l.group.Volume("v").Ranges[0].Start] = left
		l.san.mu.Unlock()
		c.formatted()
		if got := l.Filesystem("v"); got != "ext4" || l.Damage() != "" {
			t.Errorf("%+v: it has %q: %s", left, got, l.Damage())
		}
	}
}
