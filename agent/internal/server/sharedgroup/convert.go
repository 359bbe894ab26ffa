package sharedgroup

import (
	"fmt"
	"time"

	"quarry.storage/quarry/agent/internal/server/sharedstatus"
	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Bounds of what a request may hold. LVM has no more segments in a volume that anybody could read.
const (
	maxTags    = 64
	maxRanges  = 10000
	maxReaders = 1000
	maxTimeout = time.Hour
)

// toStatus gives an error its code. What is a refusal says so.
func toStatus(err error) error { return sharedstatus.Told(err) }

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func positive(field string, n uint64) error {
	if n == 0 {
		return fmt.Errorf("%w: %s is not set", sharedlun.ErrInvalid, field)
	}
	return nil
}

// validText bounds what names something: a WWID, a serial number, a digest, a type of filesystem.
func validText(field, text string) error {
	if len(text) > sharedlun.MaxIdentity {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are taken", sharedlun.ErrInvalid, field, len(text), sharedlun.MaxIdentity)
	}
	return nil
}

// fromRef reads which group is meant; known is true where its UUID has to be told.
func fromRef(r *agentv1.SharedGroupRef, known bool) (sharedlun.Ref, error) {
	lun := r.GetLun()
	out := sharedlun.Ref{
		Lun:      sharedlun.Identity{WWID: lun.GetWwid(), Serial: lun.GetSerial(), SizeBytes: lun.GetSizeBytes()},
		OwnerUID: r.GetOwnerUid(), UUID: r.GetUuid(),
	}
	if err := first(validText("wwid", out.Lun.WWID), validText("serial", out.Lun.Serial)); err != nil {
		return out, err
	}
	if known || out.UUID != "" {
		return out, out.Check()
	}
	return out, out.CheckOwner()
}

func fromCredential(c *agentv1.Credential) (sharedlun.Credential, error) {
	out := sharedlun.Credential{Key: c.GetKey(), Unfenced: c.GetUnfenced()}
	if (out.Key == 0) != out.Unfenced {
		return out, fmt.Errorf("%w: a node has a key, or is unfenced", sharedlun.ErrInvalid)
	}
	return out, nil
}

func fromMandate(m *agentv1.Mandate) (sharedlun.Mandate, error) {
	cred, err := fromCredential(m.GetCredential())
	out := sharedlun.Mandate{Credential: cred, Epoch: m.GetEpoch(), Timeout: time.Duration(m.GetTimeoutMilliseconds()) * time.Millisecond}
	if most := maxTimeout.Milliseconds(); m.GetTimeoutMilliseconds() <= 0 || m.GetTimeoutMilliseconds() > most {
		return out, fmt.Errorf("%w: timeout_milliseconds is %d, it has to be between 1 and %d", sharedlun.ErrInvalid, m.GetTimeoutMilliseconds(), most)
	}
	return out, first(err, positive("epoch", out.Epoch))
}

// fromChange reads which change is meant. What it asks for is looked at where it is decided on.
func fromChange(req *agentv1.ChangeSharedGroupRequest) (sharedlun.Change, error) {
	switch c := req.GetChange().(type) {
	case *agentv1.ChangeSharedGroupRequest_TakeOver_:
		return sharedlun.Change{TakeOver: true}, nil
	case *agentv1.ChangeSharedGroupRequest_Create:
		create := &sharedlun.Create{
			Name: c.Create.GetName(), SizeBytes: c.Create.GetSizeBytes(), Tags: c.Create.GetTags(), HeldBy: c.Create.GetHeldBy(),
			Origin: fromOrigin(c.Create.GetOrigin()), Snapshot: c.Create.GetSnapshot(),
		}
		return sharedlun.Change{Create: create}, bounded("tags", len(create.Tags), maxTags)
	case *agentv1.ChangeSharedGroupRequest_Grow:
		return sharedlun.Change{Grow: &sharedlun.Grow{Name: c.Grow.GetName(), UUID: c.Grow.GetUuid(), SizeBytes: c.Grow.GetSizeBytes()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Remove:
		remove := &sharedlun.Remove{Name: c.Remove.GetName(), UUID: c.Remove.GetUuid(), Boots: fromBoots(c.Remove.GetBoots())}
		return sharedlun.Change{Remove: remove}, bounded("boots", len(remove.Boots), maxReaders)
	case *agentv1.ChangeSharedGroupRequest_Hold:
		return sharedlun.Change{Hold: &sharedlun.Hold{Name: c.Hold.GetName(), UUID: c.Hold.GetUuid(), Node: c.Hold.GetNode()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Leave:
		l := c.Leave
		return sharedlun.Change{Leave: &sharedlun.Hold{Name: l.GetName(), UUID: l.GetUuid(), Node: l.GetNode(), ReadyBytes: l.GetReadyBytes()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Release:
		r := c.Release
		return sharedlun.Change{Release: &sharedlun.Release{
			Hold: sharedlun.Hold{Name: r.GetName(), UUID: r.GetUuid(), Node: r.GetNode()}, FencedBootID: r.GetFencedBootId(),
		}}, nil
	case *agentv1.ChangeSharedGroupRequest_Forget:
		forget := &sharedlun.Forget{Name: c.Forget.GetName(), UUID: c.Forget.GetUuid(), Boots: fromBoots(c.Forget.GetBoots())}
		return sharedlun.Change{Forget: forget}, bounded("boots", len(forget.Boots), maxReaders)
	case *agentv1.ChangeSharedGroupRequest_Ready:
		return sharedlun.Change{Ready: &sharedlun.Ready{Name: c.Ready.GetName(), UUID: c.Ready.GetUuid(), Bytes: c.Ready.GetReadyBytes()}}, nil
	}
	return fromUse(req)
}

// fromUse reads a change that says who may use a volume for the first time, or how much of a copy is there.
func fromUse(req *agentv1.ChangeSharedGroupRequest) (sharedlun.Change, error) {
	switch c := req.GetChange().(type) {
	case *agentv1.ChangeSharedGroupRequest_Making:
		return sharedlun.Change{Making: &sharedlun.Hold{Name: c.Making.GetName(), UUID: c.Making.GetUuid(), Node: c.Making.GetNode()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Copied:
		return sharedlun.Change{Copied: &sharedlun.Copied{Name: c.Copied.GetName(), UUID: c.Copied.GetUuid(), Bytes: c.Copied.GetCopiedBytes()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Void:
		return sharedlun.Change{Void: &sharedlun.Void{Name: c.Void.GetName(), UUID: c.Void.GetUuid()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Used:
		return sharedlun.Change{Used: &sharedlun.Hold{Name: c.Used.GetName(), UUID: c.Used.GetUuid(), Node: c.Used.GetNode()}}, nil
	}
	return sharedlun.Change{}, fmt.Errorf("%w: no change", sharedlun.ErrInvalid)
}

func fromVolume(v *agentv1.SharedVolume) (sharedlun.Volume, error) {
	out := sharedlun.Volume{
		Name: v.GetName(), UUID: v.GetUuid(), SizeBytes: v.GetSizeBytes(), HeldBy: v.GetHeldBy(), Leaving: v.GetLeaving(), ReadyBytes: v.GetReadyBytes(),
		Tags: v.GetTags(), CreatedUnix: v.GetCreatedUnixSeconds(), Readers: fromBoots(v.GetReaders()),
		MakingOn: v.GetMakingOn(), Used: v.GetUsed(), Origin: fromOrigin(v.GetOrigin()), CopiedBytes: v.GetCopiedBytes(), Snapshot: v.GetSnapshot(), Void: v.GetVoid(),
	}
	if err := first(bounded("ranges", len(v.GetRanges()), maxRanges), bounded("readers", len(v.GetReaders()), maxReaders)); err != nil {
		return out, err
	}
	for _, r := range v.GetRanges() {
		out.Ranges = append(out.Ranges, sharedlun.Range{Start: r.GetStartBytes(), Size: r.GetSizeBytes()})
	}
	if out.ReadyBytes < 0 || out.ReadyBytes > out.SizeBytes {
		return out, fmt.Errorf("%w: ready_bytes is %d, the volume has %d", sharedlun.ErrInvalid, out.ReadyBytes, out.SizeBytes)
	}
	return out, first(sharedlun.CheckName(out.Name), sharedlun.CheckUUID("volume", out.UUID), out.CheckTable())
}

func toGroup(g sharedlun.Group) *agentv1.SharedGroup {
	out := &agentv1.SharedGroup{
		Uuid: g.UUID, Name: g.Name, OwnerUid: g.OwnerUID, Epoch: g.Epoch, Sequence: g.Sequence, SizeBytes: g.SizeBytes, FreeBytes: g.FreeBytes,
		ExtentBytes: g.ExtentBytes,
	}
	for _, v := range g.Volumes {
		out.Volumes = append(out.Volumes, &agentv1.SharedVolume{
			Name: v.Name, Uuid: v.UUID, SizeBytes: v.SizeBytes, Ranges: toRanges(v.Ranges), HeldBy: v.HeldBy, Leaving: v.Leaving,
			ReadyBytes: v.ReadyBytes, Tags: v.Tags, CreatedUnixSeconds: v.CreatedUnix, Readers: toBoots(v.Readers),
			MakingOn: v.MakingOn, Used: v.Used, Origin: toOrigin(v.Origin), CopiedBytes: v.CopiedBytes, Snapshot: v.Snapshot, Void: v.Void,
		})
	}
	return out
}

func fromOrigin(o *agentv1.CopyOrigin) sharedlun.Origin {
	return sharedlun.Origin{Name: o.GetName(), UUID: o.GetUuid(), Bytes: o.GetBytes()}
}

// toOrigin is unset for a volume that is no copy.
func toOrigin(o sharedlun.Origin) *agentv1.CopyOrigin {
	if o == (sharedlun.Origin{}) {
		return nil
	}
	return &agentv1.CopyOrigin{Name: o.Name, Uuid: o.UUID, Bytes: o.Bytes}
}

func bounded(what string, n, most int) error {
	if n > most {
		return fmt.Errorf("%w: %d %s, at most %d are taken", sharedlun.ErrInvalid, n, what, most)
	}
	return nil
}

func fromBoots(in []*agentv1.Boot) []sharedlun.Boot {
	var out []sharedlun.Boot
	for _, b := range in {
		out = append(out, sharedlun.Boot{Node: b.GetNode(), ID: b.GetBootId()})
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

func toRanges(in []sharedlun.Range) []*agentv1.Range {
	var out []*agentv1.Range
	for _, r := range in {
		out = append(out, &agentv1.Range{StartBytes: r.Start, SizeBytes: r.Size})
	}
	return out
}

func toMapping(m sharedlun.Mapping) *agentv1.Mapping {
	return &agentv1.Mapping{
		VolumeUuid: m.VolumeUUID, Device: m.Device, Part: parts[m.Part], Ranges: toRanges(m.Ranges), InUse: m.InUse, Cut: m.Cut, Suspended: m.Suspended,
	}
}

// parts of volumes as they are told.
var parts = map[sharedlun.Part]agentv1.Mapping_Part{sharedlun.PartNew: agentv1.Mapping_PART_NEW, sharedlun.PartSource: agentv1.Mapping_PART_SOURCE}
