package sharedgroup

import "quarry.storage/quarry/pkg/sharedlun"

func epochsHold(c *check) {
	c.create()
	c.want(c.try(c.A, sharedlun.Change{TakeOver: true}), nil, "")
	c.epoch = 2
	hold := sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 4 * mib}}
	c.want(c.try(c.B, hold), sharedlun.ErrOldEpoch, "take it over")
	c.want(c.try(c.B, sharedlun.Change{TakeOver: true}), nil, "")
	if c.group.Epoch != 2 {
		c.Fatalf("taken over: %+v", c.group)
	}
	c.epoch = 1
	c.want(c.try(c.A, hold), sharedlun.ErrOldEpoch, "epoch 2")
	_, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.A), "")
	c.want(err, sharedlun.ErrOldEpoch, "")
	c.want(c.A.Agent().Remove(c.Context(), c.ref, c.mandate(c.A)), sharedlun.ErrOldEpoch, "")
	c.epoch = 2
	c.want(c.try(c.B, hold), nil, "")
	// The other node gives the group up, and keeps its word over a start of the agent.
	for _, asked := range []uint64{3, 3, 2} {
		promised, err := c.B.Agent().Promise(c.Context(), c.ref, asked)
		c.must(err)
		if promised != 3 {
			c.Errorf("asked to yield to %d it promised %d", asked, promised)
		}
	}
	if seen, err := c.B.Agent().Get(c.Context(), c.ref); err != nil || seen.Promised != 3 {
		c.Errorf("promised: %+v, %v", seen, err)
	}
	c.B.Restart(c)
	grow := c.grow("v", 8*mib)
	c.want(c.try(c.B, grow), sharedlun.ErrOldEpoch, "promised")
	c.want(c.try(c.A, grow), nil, "")
	c.epoch = 3
	c.want(c.try(c.B, sharedlun.Change{TakeOver: true}), nil, "")
	c.group.Sequence--
	c.want(c.try(c.B, c.grow("v", 12*mib)), sharedlun.ErrMoved, "")
	c.want(c.try(c.B, c.grow("v", 8*mib)), nil, "")
	c.epoch = 4
	c.group.Sequence--
	c.want(c.try(c.B, sharedlun.Change{TakeOver: true}), sharedlun.ErrMoved, "")
}

func refused(c *check) {
	c.create()
	make := sharedlun.Change{Create: &sharedlun.Create{Name: "v", SizeBytes: 4 * mib}}
	stolen := c.mandate(c.A)
	stolen.Key = c.B.Key()
	_, err := c.A.Agent().Change(c.Context(), c.ref, stolen, c.group.Sequence, make)
	c.want(err, sharedlun.ErrNoKey, "")
	c.Preempt(c.A.Key())
	c.want(c.try(c.A, make), sharedlun.ErrNoKey, "")
	_, err = c.A.Agent().Create(c.Context(), c.ref, contractGroup, c.mandate(c.A), "")
	c.want(err, sharedlun.ErrNoKey, "")
	c.want(c.A.Agent().Remove(c.Context(), c.ref, c.mandate(c.A)), sharedlun.ErrNoKey, "")
	c.want(c.try(c.B, make), nil, "")
	other := c.ref
	other.UUID = c.volume("v").UUID
	_, err = c.B.Agent().Change(c.Context(), other, c.mandate(c.B), c.group.Sequence, make)
	c.want(err, sharedlun.ErrNotFound, "")
	c.want(c.B.Agent().Remove(c.Context(), other, c.mandate(c.B)), sharedlun.ErrNotClean, "")
	v := c.volume("v")
	c.Swap()
	c.want(c.try(c.B, make), sharedlun.ErrOtherLun, "")
	_, err = c.B.Agent().Get(c.Context(), c.ref)
	c.want(err, sharedlun.ErrOtherLun, "")
	_, err = c.A.Agent().Map(c.Context(), c.ref, c.cred(c.A), v, c.group.Sequence)
	c.want(err, sharedlun.ErrOtherLun, "")
	if all := c.mappings(); len(all) > 0 {
		c.Errorf("mapped from another LUN: %+v", all)
	}
}

func invalid(c *check) {
	c.create()
	for name, change := range map[string]sharedlun.Change{
		"nothing":             {},
		"two changes":         {TakeOver: true, Ready: &sharedlun.Ready{Name: "v", Bytes: 1}},
		"an option as a name": {Create: &sharedlun.Create{Name: "--yes", SizeBytes: mib}},
		"no size":             {Create: &sharedlun.Create{Name: "v"}},
		"a mark as a tag":     {Create: &sharedlun.Create{Name: "v", SizeBytes: mib, Tags: []string{sharedlun.TagReady + "4194304"}}},
		"an option as a tag":  {Create: &sharedlun.Create{Name: "v", SizeBytes: mib, Tags: []string{"-f"}}},
		"no UUID":             {Remove: &sharedlun.Remove{Name: "v"}},
		"an option as a node": {Hold: &sharedlun.Hold{Name: "v", Node: "-n"}},
		"less than nothing":   {Grow: &sharedlun.Grow{Name: "v", SizeBytes: -1}},
	} {
		c.want(c.try(c.A, change), sharedlun.ErrInvalid, "")
		if c.Failed() {
			c.Fatal(name)
		}
	}
	w := c.mandate(c.A)
	w.Timeout = 0
	_, err := c.A.Agent().Create(c.Context(), c.ref, contractGroup, w, "")
	c.want(err, sharedlun.ErrInvalid, "")
	_, err = c.A.Agent().Create(c.Context(), c.ref, "../x", c.mandate(c.A), "")
	c.want(err, sharedlun.ErrInvalid, "")
	_, err = c.A.Agent().Promise(c.Context(), c.ref, 0)
	c.want(err, sharedlun.ErrInvalid, "")
	bad := c.ref
	bad.OwnerUID = "../../x"
	_, err = c.A.Agent().Promise(c.Context(), bad, 1)
	c.want(err, sharedlun.ErrInvalid, "")
}
