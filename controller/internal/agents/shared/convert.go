package shared

import (
	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func toIdentity(i sharedlun.Identity) *agentv1.LunIdentity {
	return &agentv1.LunIdentity{Wwid: i.WWID, Serial: i.Serial, SizeBytes: i.SizeBytes}
}

func identityOf(i *agentv1.LunIdentity) sharedlun.Identity {
	return sharedlun.Identity{WWID: i.GetWwid(), Serial: i.GetSerial(), SizeBytes: i.GetSizeBytes()}
}

func toTarget(t sharedlun.Target) *agentv1.Target {
	return &agentv1.Target{Iqn: t.IQN, Portals: t.Portals}
}

func refOf(r sharedlun.Ref) *agentv1.SharedGroupRef {
	return &agentv1.SharedGroupRef{Lun: toIdentity(r.Lun), OwnerUid: r.OwnerUID, Uuid: r.UUID}
}

func credentialOf(c sharedlun.Credential) *agentv1.Credential {
	return &agentv1.Credential{Key: c.Key, Unfenced: c.Unfenced}
}

func mandateOf(m sharedlun.Mandate) *agentv1.Mandate {
	return &agentv1.Mandate{Epoch: m.Epoch, Credential: credentialOf(m.Credential), TimeoutMilliseconds: m.Timeout.Milliseconds()}
}

// setChange puts a change into a request. One without a field leaves it empty, which the agent refuses.
func setChange(r *agentv1.ChangeSharedGroupRequest, c sharedlun.Change) {
	switch {
	case c.TakeOver:
		r.Change = &agentv1.ChangeSharedGroupRequest_TakeOver_{TakeOver: &agentv1.ChangeSharedGroupRequest_TakeOver{}}
	case c.Create != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Create{Create: &agentv1.ChangeSharedGroupRequest_CreateVolume{
			Name: c.Create.Name, SizeBytes: c.Create.SizeBytes, Tags: c.Create.Tags, HeldBy: c.Create.HeldBy,
			Origin: toOrigin(c.Create.Origin), Snapshot: c.Create.Snapshot,
		}}
	case c.Grow != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Grow{Grow: &agentv1.ChangeSharedGroupRequest_GrowVolume{
			Name: c.Grow.Name, Uuid: c.Grow.UUID, SizeBytes: c.Grow.SizeBytes,
		}}
	case c.Remove != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Remove{Remove: &agentv1.ChangeSharedGroupRequest_RemoveVolume{
			Name: c.Remove.Name, Uuid: c.Remove.UUID, Boots: toBoots(c.Remove.Boots),
		}}
	case c.Hold != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Hold{Hold: &agentv1.ChangeSharedGroupRequest_HoldVolume{
			Name: c.Hold.Name, Uuid: c.Hold.UUID, Node: c.Hold.Node,
		}}
	case c.Leave != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Leave{Leave: &agentv1.ChangeSharedGroupRequest_LeaveVolume{
			Name: c.Leave.Name, Uuid: c.Leave.UUID, Node: c.Leave.Node, ReadyBytes: c.Leave.ReadyBytes,
		}}
	case c.Release != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Release{Release: &agentv1.ChangeSharedGroupRequest_ReleaseVolume{
			Name: c.Release.Name, Uuid: c.Release.UUID, Node: c.Release.Node, FencedBootId: c.Release.FencedBootID,
		}}
	case c.Ready != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Ready{Ready: &agentv1.ChangeSharedGroupRequest_ReadyVolume{
			Name: c.Ready.Name, Uuid: c.Ready.UUID, ReadyBytes: c.Ready.Bytes,
		}}
	case c.Forget != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Forget{Forget: &agentv1.ChangeSharedGroupRequest_ForgetReaders{
			Name: c.Forget.Name, Uuid: c.Forget.UUID, Boots: toBoots(c.Forget.Boots),
		}}
	default:
		setUse(r, c)
	}
}

// setUse puts a change into a request that says who may use a volume for the first time, or how it is with a copy.
func setUse(r *agentv1.ChangeSharedGroupRequest, c sharedlun.Change) {
	switch {
	case c.Making != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Making{Making: &agentv1.ChangeSharedGroupRequest_MakingVolume{
			Name: c.Making.Name, Uuid: c.Making.UUID, Node: c.Making.Node,
		}}
	case c.Used != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Used{Used: &agentv1.ChangeSharedGroupRequest_UsedVolume{
			Name: c.Used.Name, Uuid: c.Used.UUID, Node: c.Used.Node,
		}}
	case c.Copied != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Copied{Copied: &agentv1.ChangeSharedGroupRequest_CopiedVolume{
			Name: c.Copied.Name, Uuid: c.Copied.UUID, CopiedBytes: c.Copied.Bytes,
		}}
	case c.Void != nil:
		r.Change = &agentv1.ChangeSharedGroupRequest_Void{Void: &agentv1.ChangeSharedGroupRequest_VoidVolume{Name: c.Void.Name, Uuid: c.Void.UUID}}
	}
}

func groupOf(g *agentv1.SharedGroup) sharedlun.Group {
	out := sharedlun.Group{
		UUID: g.GetUuid(), Name: g.GetName(), OwnerUID: g.GetOwnerUid(), Epoch: g.GetEpoch(), Sequence: g.GetSequence(),
		SizeBytes: g.GetSizeBytes(), FreeBytes: g.GetFreeBytes(), ExtentBytes: g.GetExtentBytes(),
	}
	for _, v := range g.GetVolumes() {
		out.Volumes = append(out.Volumes, volumeOf(v))
	}
	return out
}

func volumeOf(v *agentv1.SharedVolume) sharedlun.Volume {
	out := sharedlun.Volume{
		Name: v.GetName(), UUID: v.GetUuid(), SizeBytes: v.GetSizeBytes(), Ranges: rangesOf(v.GetRanges()), HeldBy: v.GetHeldBy(),
		Leaving: v.GetLeaving(), ReadyBytes: v.GetReadyBytes(), CreatedUnix: v.GetCreatedUnixSeconds(),
		MakingOn: v.GetMakingOn(), Used: v.GetUsed(), Origin: originOf(v.GetOrigin()), CopiedBytes: v.GetCopiedBytes(), Snapshot: v.GetSnapshot(), Void: v.GetVoid(),
	}
	for _, tag := range v.GetTags() {
		// An agent of an earlier version does not know the marks of copies.
		if !out.Mark(tag) {
			out.Tags = append(out.Tags, tag)
		}
	}
	for _, b := range v.GetReaders() {
		out.Readers = append(out.Readers, sharedlun.Boot{Node: b.GetNode(), ID: b.GetBootId()})
	}
	return out
}

func toBoots(in []sharedlun.Boot) []*agentv1.Boot {
	var out []*agentv1.Boot
	for _, b := range in {
		out = append(out, &agentv1.Boot{Node: b.Node, BootId: b.ID})
	}
	return out
}

func toVolume(v sharedlun.Volume) *agentv1.SharedVolume {
	out := &agentv1.SharedVolume{
		Name: v.Name, Uuid: v.UUID, SizeBytes: v.SizeBytes, HeldBy: v.HeldBy, Leaving: v.Leaving,
		ReadyBytes: v.ReadyBytes, Tags: v.Tags, CreatedUnixSeconds: v.CreatedUnix, Readers: toBoots(v.Readers),
		MakingOn: v.MakingOn, Used: v.Used, Origin: toOrigin(v.Origin), CopiedBytes: v.CopiedBytes, Snapshot: v.Snapshot, Void: v.Void,
	}
	for _, r := range v.Ranges {
		out.Ranges = append(out.Ranges, &agentv1.Range{StartBytes: r.Start, SizeBytes: r.Size})
	}
	return out
}

// toOrigin is unset for a volume that is no copy.
func toOrigin(o sharedlun.Origin) *agentv1.CopyOrigin {
	if o == (sharedlun.Origin{}) {
		return nil
	}
	return &agentv1.CopyOrigin{Name: o.Name, Uuid: o.UUID, Bytes: o.Bytes}
}

func originOf(o *agentv1.CopyOrigin) sharedlun.Origin {
	return sharedlun.Origin{Name: o.GetName(), UUID: o.GetUuid(), Bytes: o.GetBytes()}
}

func rangesOf(ranges []*agentv1.Range) []sharedlun.Range {
	out := make([]sharedlun.Range, 0, len(ranges))
	for _, r := range ranges {
		out = append(out, sharedlun.Range{Start: r.GetStartBytes(), Size: r.GetSizeBytes()})
	}
	return out
}

func mappingOf(m *agentv1.Mapping) sharedlun.Mapping {
	return sharedlun.Mapping{VolumeUUID: m.GetVolumeUuid(), Device: m.GetDevice(), Ranges: rangesOf(m.GetRanges()), InUse: m.GetInUse(), Cut: m.GetCut(), Suspended: m.GetSuspended()}
}

// partOf is a device through which a volume is zeroed or copied. Of one of an unknown kind it is known that nobody sees it, and not that it only reads.
func partOf(m *agentv1.Mapping) sharedlun.Mapping {
	out := mappingOf(m)
	if out.Part = sharedlun.PartNew; m.GetPart() == agentv1.Mapping_PART_SOURCE {
		out.Part = sharedlun.PartSource
	}
	return out
}

func reservationOf(r *agentv1.Reservation) sharedlun.Reservation {
	return sharedlun.Reservation{
		Supported: r.GetSupported(), Keys: r.GetKeys(), Type: r.GetType(), Holder: r.GetHolder(),
	}
}

// states of a session. One that is not known is down.
var states = map[agentv1.IscsiSession_State]sharedlun.SessionState{
	agentv1.IscsiSession_STATE_NONE: sharedlun.SessionNone, agentv1.IscsiSession_STATE_UP: sharedlun.SessionUp,
}

func seenOf(sessions []*agentv1.IscsiSession, luns []*agentv1.Lun) sharedlun.Seen {
	var out sharedlun.Seen
	for _, s := range sessions {
		state, known := states[s.GetState()]
		if !known {
			state = sharedlun.SessionDown
		}
		out.Sessions = append(out.Sessions, sharedlun.Session{Portal: s.GetPortal(), State: state, Message: s.GetMessage(), Unserved: s.GetUnserved()})
	}
	for _, l := range luns {
		one := sharedlun.Lun{
			Identity: identityOf(l.GetIdentity()), Number: l.GetNumber(), Device: l.GetDevice(), ReadOnly: l.GetReadOnly(),
			Users: l.GetUsers(), UsersError: l.GetUsersError(),
		}
		for _, p := range l.GetPaths() {
			one.Paths = append(one.Paths, sharedlun.Path{Portal: p.GetPortal(), Device: p.GetDevice(), Session: p.GetSession(), Up: p.GetUp(), Target: p.GetTarget()})
		}
		out.Luns = append(out.Luns, one)
	}
	return out
}
