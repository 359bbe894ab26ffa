package iscsitest

import (
	"context"
	"slices"

	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/pkg/sharedlun"
)

// GroupUUID is what the first group is called.
const GroupUUID = "Ab3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ"

// Contents reads the LUN.
func (s *SAN) Contents(_ context.Context, name string, ref sharedlun.Ref) (c sharedlun.Contents, err error) {
	err = s.onLUN(name, "contents", ref.Lun, func(n *node, l *LUN) error {
		c = sharedlun.Contents{Promised: n.promised, Content: l.Content}
		if l.group != nil && l.group.OwnerUID == ref.OwnerUID {
			c.Group = l.copied()
		} else if l.group != nil {
			c.Content = "The LUN carries group " + l.group.Name + "."
		}
		if c.Content != "" {
			c.Digest = "v1:" + c.Content
		}
		return nil
	})
	return c, err
}

// Mappings lists the devices on a node. Nothing of the LUN is needed for it.
func (s *SAN) Mappings(_ context.Context, name string, ref sharedlun.Ref) (out []sharedlun.Mapping, other string, err error) {
	err = s.call(name, "mappings", func(n *node) error {
		if n.swapped {
			other = "path sdb through " + name + ": another LUN than " + ref.Lun.WWID
		}
		for uuid := range n.mapped {
			n.cut[uuid] = n.cut[uuid] || n.swapped
			out = append(out, sharedlun.Mapping{VolumeUUID: uuid, Device: "/dev/mapper/" + uuid, Cut: n.cut[uuid], InUse: n.open[uuid]})
		}
		return nil
	})
	return out, other, err
}

// Map makes the device of a volume that is the node's.
func (s *SAN) Map(
	_ context.Context, name string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, _ uint64,
) (m sharedlun.Mapping, err error) {
	err = s.onLUN(name, "map", ref.Lun, func(n *node, l *LUN) error {
		g := l.copied()
		if g == nil || g.UUID != ref.UUID {
			return fault(decide.FaultPrecondition, name, "MapVolume", "", "the LUN has another group")
		}
		if now := g.Volume(v.Name); now == nil || now.UUID != v.UUID || now.HeldBy != name || now.Leaving {
			return fault(decide.FaultPrecondition, name, "MapVolume", "", "the volume is not this node's")
		}
		if why := l.refuses(name, c); why != "" {
			return fault(decide.FaultPrecondition, name, "MapVolume", "", "%s", why)
		}
		for other, o := range s.nodes {
			// What is mapped on a node that cannot write is a leftover.
			if other != name && o.mapped[v.UUID] && l.keys[other] != 0 {
				s.violations = append(s.violations, v.Name+" is mapped on "+name+" and "+other)
			}
		}
		n.mapped[v.UUID] = true
		delete(n.cut, v.UUID)
		m = sharedlun.Mapping{VolumeUUID: v.UUID, Device: "/dev/mapper/" + v.UUID}
		return nil
	})
	return m, err
}

// Unmap removes the device of a volume. One that is open stays, and returns errors if it is to be cut.
func (s *SAN) Unmap(_ context.Context, name string, _ sharedlun.Ref, uuid string, _ uint64, cut bool) error {
	return s.call(name, "unmap", func(n *node) error {
		if n.mapped[uuid] && n.open[uuid] {
			n.cut[uuid] = n.cut[uuid] || cut
			return fault(decide.FaultPrecondition, name, "UnmapVolume", "", "the device is open")
		}
		delete(n.mapped, uuid)
		delete(n.cut, uuid)
		return nil
	})
}

// Promise promises an epoch.
func (s *SAN) Promise(_ context.Context, name string, ref sharedlun.Ref, epoch uint64) (promised uint64, err error) {
	err = s.call(name, "promise", func(n *node) error {
		if err := sharedlun.CheckUUID("group", ref.UUID); err != nil {
			return fault(decide.FaultInvalid, name, "PromiseEpoch", "", "%v", err)
		}
		n.promised = max(n.promised, epoch)
		promised = n.promised
		return nil
	})
	return promised, err
}

// refuses says why a node may not write to the LUN with what it shows; empty when it may. A key counts on a LUN that is reserved: otherwise it keeps nobody out.
func (l *LUN) refuses(name string, c sharedlun.Credential) string {
	switch {
	case c.Unfenced && l.reserved:
		return "the LUN is reserved"
	case !c.Unfenced && (l.keys[name] != c.Key || c.Key == 0):
		return "the key is not registered"
	case !c.Unfenced && !l.reserved:
		return "nobody has reserved the LUN"
	}
	return ""
}

// writing runs a change, if the node may make it.
func (s *SAN) writing(name, call string, ref sharedlun.Ref, w sharedlun.Mandate, effect func(l *LUN) error) error {
	return s.onLUN(name, call, ref.Lun, func(n *node, l *LUN) error {
		if w.Epoch < n.promised {
			return fault(decide.FaultPrecondition, name, call, "", "the epoch is old")
		}
		if why := l.refuses(name, w.Credential); why != "" {
			return fault(decide.FaultPrecondition, name, call, "", "%s", why)
		}
		return effect(l)
	})
}

// Create makes the group.
func (s *SAN) Create(_ context.Context, name string, ref sharedlun.Ref, w sharedlun.Mandate, group, wipe string) (g sharedlun.Group, err error) {
	err = s.writing(name, "create", ref, w, func(l *LUN) error {
		switch {
		case l.group != nil && (l.group.OwnerUID != ref.OwnerUID || len(l.group.Volumes) > 0):
			return fault(decide.FaultPrecondition, name, "CreateSharedGroup", "", "the LUN carries a group")
		case l.group == nil && l.Content != "" && wipe != "v1:"+l.Content:
			return fault(decide.FaultPrecondition, name, "CreateSharedGroup", "", "the LUN is not empty")
		case l.group == nil:
			l.Content = ""
			l.group = &sharedlun.Group{
				UUID: GroupUUID, Name: group, OwnerUID: ref.OwnerUID, Epoch: w.Epoch, Sequence: 1, SizeBytes: 1 << 30, FreeBytes: 1 << 29, ExtentBytes: 4 << 20,
			}
		}
		g = *l.copied()
		return nil
	})
	return g, err
}

// Remove removes a group without volumes.
func (s *SAN) Remove(_ context.Context, name string, ref sharedlun.Ref, w sharedlun.Mandate) error {
	return s.writing(name, "remove", ref, w, func(l *LUN) error {
		switch {
		case l.group == nil:
			return nil
		case len(l.group.Volumes) > 0 || l.group.UUID != ref.UUID || l.group.Epoch != w.Epoch:
			return fault(decide.FaultPrecondition, name, "RemoveSharedGroup", "", "the group has volumes, or is another one")
		}
		l.group = nil
		return nil
	})
}

// Change makes one change: those that the engine asks for.
func (s *SAN) Change(
	_ context.Context, name string, ref sharedlun.Ref, w sharedlun.Mandate, sequence uint64, c sharedlun.Change,
) (g sharedlun.Group, err error) {
	err = s.writing(name, "change", ref, w, func(l *LUN) error {
		if l.group == nil || l.group.UUID != ref.UUID {
			return fault(decide.FaultPrecondition, name, "ChangeSharedGroup", "", "the LUN has another group")
		}
		if w.Epoch < l.group.Epoch || !c.TakeOver && w.Epoch != l.group.Epoch {
			return fault(decide.FaultPrecondition, name, "ChangeSharedGroup", "", "the epoch is old")
		}
		if sequence != l.group.Sequence {
			return fault(decide.FaultBusy, name, "ChangeSharedGroup", "", "the group changed since")
		}
		if err := s.apply(l, w.Epoch, c); err != nil {
			return err
		}
		l.group.Sequence++
		g = *l.copied()
		return nil
	})
	return g, err
}

func (s *SAN) apply(l *LUN, epoch uint64, c sharedlun.Change) error {
	of := func(h sharedlun.Hold) *sharedlun.Volume {
		i := slices.IndexFunc(l.group.Volumes, func(v sharedlun.Volume) bool { return v.Name == h.Name && v.UUID == h.UUID && v.HeldBy == h.Node })
		if i < 0 {
			return nil
		}
		return &l.group.Volumes[i]
	}
	switch {
	case c.TakeOver:
		l.group.Epoch = epoch
	case c.Leave != nil && of(*c.Leave) != nil:
		of(*c.Leave).Leaving = true
	case c.Release != nil && of(c.Release.Hold) != nil:
		v := of(c.Release.Hold)
		if n := s.nodes[v.HeldBy]; n != nil && n.mapped[v.UUID] && l.keys[v.HeldBy] != 0 {
			s.violations = append(s.violations, v.Name+" was released while "+v.HeldBy+" may write to it")
		}
		if boot := c.Release.FencedBootID; boot != "" {
			v.Readers = append(slices.Clone(v.Readers), sharedlun.Boot{Node: v.HeldBy, ID: boot})
		}
		v.HeldBy, v.Leaving = "", false
	case c.Forget != nil:
		l.forget(*c.Forget)
	default:
		return fault(decide.FaultInvalid, "", "ChangeSharedGroup", "", "not a change of this model: %+v", c)
	}
	return nil
}

// forget takes nodes off the readers of a volume.
func (l *LUN) forget(f sharedlun.Forget) {
	for i := range l.group.Volumes {
		if v := &l.group.Volumes[i]; v.UUID == f.UUID {
			v.Readers = slices.DeleteFunc(slices.Clone(v.Readers), func(b sharedlun.Boot) bool { return slices.Contains(f.Boots, b) })
		}
	}
}

// Show has the target show one LUN to a node, and no other, and every other node the first one.
func (s *SAN) Show(name string, l *LUN) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		if n.shown == nil {
			n.shown = s.luns[0]
		}
	}
	s.nodes[name].shown = l
}

// Give gives a volume to a node. As all that changes a LUN itself, it is called by Edit, or by Strike.
func (l *LUN) Give(name, node string) {
	for i := range l.group.Volumes {
		if v := &l.group.Volumes[i]; v.Name == name {
			v.HeldBy, v.Leaving = node, false
		}
	}
	l.group.Sequence++
}

// Rewind makes the group an older one, as somebody does who brings metadata of before back.
func (l *LUN) Rewind() { l.group.Sequence = 1 }

// Rename makes the group another one.
func (l *LUN) Rename() { l.group.UUID = "Zb3dEf-1234-5678-9abc-DEFG-hijk-LMNOPQ" }
