package sharedgroup

import (
	"time"

	"quarry.storage/quarry/pkg/filesystem"
	"quarry.storage/quarry/pkg/sharedlun"
)

// format asks a node once for the first filesystem of the volume "v".
func (c *check) format(m Member) (done bool, err error) {
	return m.Agent().Format(c.Context(), c.ref, c.cred(m), c.volume("v"), filesystem.Ext4)
}

// formatted asks A until the volume "v" has its first filesystem.
func (c *check) formatted() {
	c.Helper()
	c.idle()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		done, err := c.format(c.A)
		c.must(err)
		if done {
			return
		}
		if time.Now().After(end) {
			c.Fatal("it is never done")
		}
	}
}

// firstUse: the LUN says who makes the first filesystem of a volume, and that nobody makes one any more.
func firstUse(c *check) {
	v := c.mapped()
	_, err := c.format(c.A)
	c.want(err, sharedlun.ErrHeld, `lets node ""`)
	c.want(c.try(c.A, sharedlun.Change{Making: c.hold("v", "n2")}), sharedlun.ErrHeld, "n1")
	c.change(sharedlun.Change{Making: c.hold("v", "n1")})
	c.change(sharedlun.Change{Making: c.hold("v", "n1")})
	if v := c.volume("v"); v.MakingOn != "n1" || v.Used {
		c.Errorf("making: %+v", v)
	}
	_, err = c.format(c.B)
	c.want(err, sharedlun.ErrHeld, "n1")
	// What looks like the remains of a program that was killed is written over.
	c.must(c.A.Write(v.UUID, 0))
	c.formatted()
	if c.A.Blank(v.UUID, 0, 4*mib) {
		c.Error("no filesystem was made")
	}
	c.formatted()
	c.change(sharedlun.Change{Used: c.hold("v", "n1")})
	c.change(sharedlun.Change{Used: c.hold("v", "n1")})
	if v := c.volume("v"); v.MakingOn != "" || !v.Used || v.HeldBy != "n1" {
		c.Errorf("used: %+v", v)
	}
	c.want(c.try(c.A, sharedlun.Change{Making: c.hold("v", "n1")}), sharedlun.ErrMisfit, "was used")
	c.formatted()
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// firstUseEnded: what was used is done even if nothing is on it, and what is not mapped, or leaves, gets no filesystem.
func firstUseEnded(c *check) {
	v := c.mapped()
	c.change(sharedlun.Change{Making: c.hold("v", "n1")})
	_, err := c.A.Agent().Format(c.Context(), c.ref, c.cred(c.A), v, "vfat")
	c.want(err, sharedlun.ErrInvalid, "vfat")
	_, err = c.A.Agent().Format(c.Context(), c.ref, c.cred(c.B), v, filesystem.Ext4)
	c.want(err, sharedlun.ErrNoKey, "")
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
	_, err = c.format(c.A)
	c.want(err, sharedlun.ErrMisfit, "not mapped")
	c.leave("v")
	_, err = c.format(c.A)
	c.want(err, sharedlun.ErrHeld, "being taken")
	for _, late := range []sharedlun.Change{{Making: c.hold("v", "n1")}, {Used: c.hold("v", "n1")}} {
		c.want(c.try(c.A, late), sharedlun.ErrHeld, "leaving true")
	}
	c.change(c.release("v"))
	c.change(sharedlun.Change{Hold: c.hold("v", "n1")})
	if v := c.volume("v"); v.MakingOn != "n1" {
		c.Errorf("it is forgotten who made its filesystem: %+v", v)
	}
	c.change(sharedlun.Change{Used: c.hold("v", "n1")})
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), c.volume("v"), c.group.Sequence)
	c.must(err)
	c.formatted()
	if !c.A.Blank(v.UUID, 0, 8*mib) {
		c.Error("a filesystem was made on a volume that was used")
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}

// firstUseOverSeveral: remains that contradict each other are remains. On a volume that was used they stay.
func firstUseOverSeveral(c *check) {
	v := c.mapped()
	c.change(sharedlun.Change{Making: c.hold("v", "n1")})
	c.must(c.A.Contradict(v.UUID))
	c.formatted()
	if c.A.Several(v.UUID) {
		c.Error("no filesystem was made")
	}
	c.must(c.A.Contradict(v.UUID))
	c.change(sharedlun.Change{Used: c.hold("v", "n1")})
	c.formatted()
	if !c.A.Several(v.UUID) {
		c.Error("a filesystem was made on a volume that was used")
	}
	c.must(c.A.Agent().Unmap(c.Context(), c.ref, v.UUID, c.group.Sequence, false))
}
