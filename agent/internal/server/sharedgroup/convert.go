package sharedgroup

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/pkg/sharedlun"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Bounds of what a request may hold. LVM has no more segments in a volume that anybody could read.
const (
	maxIdentity = 512
	maxDigest   = 256
	maxTags     = 64
	maxRanges   = 10000
	maxTimeout  = time.Hour
)

// codeOf are the codes of errors, in the order in which they are looked for. What is in none is left to the map of all services.
var codeOf = []struct {
	err  error
	code codes.Code
}{
	{sharedlun.ErrInvalid, codes.InvalidArgument},
	{sharedlun.ErrBusy, codes.Aborted},
	{sharedlun.ErrMoved, codes.Aborted},
	{sharedlun.ErrUnknown, codes.Unavailable},
	{sharedlun.ErrUnread, codes.Aborted},
	{sharedlun.ErrNoSpace, codes.ResourceExhausted},
	{sharedlun.ErrExists, codes.AlreadyExists},
	{sharedlun.ErrOtherLun, codes.FailedPrecondition},
	{sharedlun.ErrOldEpoch, codes.FailedPrecondition},
	{sharedlun.ErrNoKey, codes.FailedPrecondition},
	{sharedlun.ErrNoReservations, codes.FailedPrecondition},
	{sharedlun.ErrRebooted, codes.FailedPrecondition},
	{sharedlun.ErrNotClean, codes.FailedPrecondition},
	{sharedlun.ErrHeld, codes.FailedPrecondition},
	{sharedlun.ErrInUse, codes.FailedPrecondition},
	{sharedlun.ErrMisfit, codes.FailedPrecondition},
	{sharedlun.ErrNotFound, codes.NotFound},
}

func toStatus(err error) error {
	for _, c := range codeOf {
		if errors.Is(err, c.err) {
			return status.Error(c.code, err.Error())
		}
	}
	return err
}

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

func validText(field, text string, most int) error {
	if len(text) > most {
		return fmt.Errorf("%w: %s has %d bytes, at most %d are taken", sharedlun.ErrInvalid, field, len(text), most)
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
	if err := first(validText("wwid", out.Lun.WWID, maxIdentity), validText("serial", out.Lun.Serial, maxIdentity)); err != nil {
		return out, err
	}
	if known || out.UUID != "" {
		return out, out.Check()
	}
	return out, out.CheckOwner()
}

func fromWriter(w *agentv1.Writer) (sharedlun.Writer, error) {
	out := sharedlun.Writer{
		Epoch: w.GetEpoch(), Key: w.GetKey(), Unfenced: w.GetUnfenced(), Timeout: time.Duration(w.GetTimeoutMilliseconds()) * time.Millisecond,
	}
	most := maxTimeout.Milliseconds()
	switch {
	case w.GetTimeoutMilliseconds() <= 0 || w.GetTimeoutMilliseconds() > most:
		return out, fmt.Errorf("%w: timeout_milliseconds is %d, it has to be between 1 and %d", sharedlun.ErrInvalid, w.GetTimeoutMilliseconds(), most)
	case (out.Key == 0) != out.Unfenced:
		return out, fmt.Errorf("%w: a writer has a key, or is unfenced", sharedlun.ErrInvalid)
	}
	return out, positive("epoch", out.Epoch)
}

// fromChange reads which change is meant. What it asks for is looked at where it is decided on.
func fromChange(req *agentv1.ChangeSharedGroupRequest) (sharedlun.Change, error) {
	switch c := req.GetChange().(type) {
	case *agentv1.ChangeSharedGroupRequest_TakeOver_:
		return sharedlun.Change{TakeOver: true}, nil
	case *agentv1.ChangeSharedGroupRequest_Create:
		create := &sharedlun.Create{Name: c.Create.GetName(), SizeBytes: c.Create.GetSizeBytes(), Tags: c.Create.GetTags()}
		if len(create.Tags) > maxTags {
			return sharedlun.Change{}, fmt.Errorf("%w: %d tags, at most %d are taken", sharedlun.ErrInvalid, len(create.Tags), maxTags)
		}
		return sharedlun.Change{Create: create}, nil
	case *agentv1.ChangeSharedGroupRequest_Grow:
		return sharedlun.Change{Grow: &sharedlun.Grow{Name: c.Grow.GetName(), SizeBytes: c.Grow.GetSizeBytes()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Remove:
		return sharedlun.Change{Remove: &sharedlun.Remove{Name: c.Remove.GetName(), UUID: c.Remove.GetUuid()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Hold:
		return sharedlun.Change{Hold: &sharedlun.Hold{Name: c.Hold.GetName(), Node: c.Hold.GetNode()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Leave:
		return sharedlun.Change{Leave: &sharedlun.Hold{Name: c.Leave.GetName(), Node: c.Leave.GetNode()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Release:
		return sharedlun.Change{Release: &sharedlun.Hold{Name: c.Release.GetName(), Node: c.Release.GetNode()}}, nil
	case *agentv1.ChangeSharedGroupRequest_Ready:
		return sharedlun.Change{Ready: &sharedlun.Ready{Name: c.Ready.GetName(), Bytes: c.Ready.GetReadyBytes()}}, nil
	}
	return sharedlun.Change{}, fmt.Errorf("%w: no change", sharedlun.ErrInvalid)
}

func fromVolume(v *agentv1.SharedVolume) (sharedlun.Volume, error) {
	out := sharedlun.Volume{
		Name: v.GetName(), UUID: v.GetUuid(), SizeBytes: v.GetSizeBytes(), HeldBy: v.GetHeldBy(), Leaving: v.GetLeaving(), ReadyBytes: v.GetReadyBytes(),
		Tags: v.GetTags(), CreatedUnix: v.GetCreatedUnixSeconds(),
	}
	if len(v.GetRanges()) > maxRanges {
		return out, fmt.Errorf("%w: %d ranges, at most %d are taken", sharedlun.ErrInvalid, len(v.GetRanges()), maxRanges)
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
			Name: v.Name, Uuid: v.UUID, SizeBytes: v.SizeBytes, Ranges: toRanges(v.Ranges), HeldBy: v.HeldBy, Leaving: v.Leaving, Unready: v.Unready(),
			ReadyBytes: v.ReadyBytes, Tags: v.Tags, CreatedUnixSeconds: v.CreatedUnix,
		})
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
	return &agentv1.Mapping{VolumeUuid: m.VolumeUUID, Device: m.Device, Ranges: toRanges(m.Ranges), InUse: m.InUse}
}
