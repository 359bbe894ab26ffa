package sharedgroup_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"quarry.storage/quarry/agent/agenttest"
	model "quarry.storage/quarry/agent/agenttest/sharedgroup"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

const (
	mib   = 1 << 20
	owner = "0f3b2c1d-1111-2222-3333-444455556666"
)

// wire is an agent over a model LUN, with the group as it was last told.
type wire struct {
	*testing.T
	agentv1.SharedGroupServiceClient
	lun   *model.LUN
	node  *model.Node
	ref   *agentv1.SharedGroupRef
	group *agentv1.SharedGroup
}

func newWire(t *testing.T) *wire {
	san := model.NewSAN()
	lun := san.AddLUN("lun1", 500*mib)
	lun.Reserve(0xa)
	node := san.AddNode(t, 0xa)
	a := agenttest.New(t, agenttest.Options{SharedGroups: node})
	id := lun.Identity()
	return &wire{
		T: t, SharedGroupServiceClient: agentv1.NewSharedGroupServiceClient(a.Dial(t)), lun: lun, node: node,
		ref: &agentv1.SharedGroupRef{Lun: &agentv1.LunIdentity{Wwid: id.WWID, Serial: id.Serial, SizeBytes: id.SizeBytes}, OwnerUid: owner},
	}
}

func cred() *agentv1.Credential { return &agentv1.Credential{Key: 0xa} }

func mandate(change ...func(*agentv1.Mandate)) *agentv1.Mandate {
	w := &agentv1.Mandate{Epoch: 1, Credential: cred(), TimeoutMilliseconds: 60000}
	for _, c := range change {
		c(w)
	}
	return w
}

func (w *wire) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// want wants a code, and that the agent says of each but UNAVAILABLE that it changed nothing.
func (w *wire) want(err error, code codes.Code) {
	w.Helper()
	if status.Code(err) != code {
		w.Errorf("%v, want %s", err, code)
	}
	says := slices.ContainsFunc(status.Convert(err).Details(), func(d any) bool { _, is := d.(*agentv1.Unchanged); return is })
	if says == (code == codes.Unavailable) {
		w.Errorf("%v: it says that nothing was changed: %v", err, says)
	}
}

// TestService_unknown: of what was killed the agent does not say that it changed nothing.
func TestService_unknown(t *testing.T) {
	w := newWire(t)
	w.create()
	w.node.Kill(true)
	w.want(w.change(makeV(8*mib)), codes.Unavailable)
}

func (w *wire) create() {
	w.Helper()
	resp, err := w.CreateSharedGroup(w.Context(), &agentv1.CreateSharedGroupRequest{Group: w.ref, Mandate: mandate(), Name: "g"})
	w.must(err)
	w.group = resp.GetGroup()
	w.ref.Uuid = w.group.GetUuid()
}

// change makes a change on the group as it was last told.
func (w *wire) change(req *agentv1.ChangeSharedGroupRequest) error {
	req.Group, req.Mandate, req.Sequence = w.ref, mandate(), w.group.GetSequence()
	resp, err := w.ChangeSharedGroup(w.Context(), req)
	if err == nil {
		w.group = resp.GetGroup()
	}
	return err
}

func (w *wire) readyV(bytes int64) *agentv1.ChangeSharedGroupRequest {
	return &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Ready{
		Ready: &agentv1.ChangeSharedGroupRequest_ReadyVolume{Name: "v", Uuid: w.uuid(), ReadyBytes: bytes},
	}}
}

// uuid is that of the first volume.
func (w *wire) uuid() string {
	if all := w.group.GetVolumes(); len(all) > 0 {
		return all[0].GetUuid()
	}
	return ""
}

func makeV(size int64) *agentv1.ChangeSharedGroupRequest {
	return &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Create{
		Create: &agentv1.ChangeSharedGroupRequest_CreateVolume{Name: "v", SizeBytes: size, Tags: []string{"x=1"}},
	}}
}

func (w *wire) holdV(node string) *agentv1.ChangeSharedGroupRequest {
	return &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Hold{Hold: &agentv1.ChangeSharedGroupRequest_HoldVolume{Name: "v", Uuid: w.uuid(), Node: node}}}
}

// TestService_life goes through every call, and compares what it tells with what is on the LUN.
func TestService_life(t *testing.T) {
	w := newWire(t)
	empty, err := w.GetSharedGroup(t.Context(), &agentv1.GetSharedGroupRequest{Group: w.ref})
	w.must(err)
	if diff := cmp.Diff(&agentv1.GetSharedGroupResponse{}, empty, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	w.create()
	w.must(w.change(makeV(8 * mib)))
	w.must(w.change(w.holdV("n1")))
	v := w.lun.Group().Volumes[0]
	want := &agentv1.SharedVolume{
		Name: "v", Uuid: v.UUID, SizeBytes: 8 * mib, Ranges: []*agentv1.Range{{StartBytes: v.Ranges[0].Start, SizeBytes: 8 * mib}}, HeldBy: "n1",
		Tags: []string{"x=1"}, CreatedUnixSeconds: v.CreatedUnix,
	}
	if diff := cmp.Diff(want, w.group.GetVolumes()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		p, err := w.ZeroVolume(t.Context(), &agentv1.ZeroVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Credential: cred()})
		w.must(err)
		if p.GetDone() && p.GetDoneBytes() == 8*mib && p.GetTotalBytes() == 8*mib {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("never done: %v", p)
		}
	}
	w.must(w.change(w.readyV(8 * mib)))
	mapped, err := w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Sequence: w.group.GetSequence(), Credential: cred()})
	w.must(err)
	list, err := w.ListMappings(t.Context(), &agentv1.ListMappingsRequest{Group: w.ref})
	w.must(err)
	if diff := cmp.Diff([]*agentv1.Mapping{mapped.GetMapping()}, list.GetMappings(), protocmp.Transform()); diff != "" || !cmp.Equal(mapped.GetMapping().GetRanges(), want.GetRanges(), protocmp.Transform()) {
		t.Errorf("%v %s", mapped, diff)
	}
	w.firstUse()
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Grow{
		Grow: &agentv1.ChangeSharedGroupRequest_GrowVolume{Name: "v", Uuid: w.uuid(), SizeBytes: 12 * mib},
	}}))
	if v := w.group.GetVolumes()[0]; v.GetSizeBytes() != 12*mib || v.GetReadyBytes() != 8*mib {
		t.Errorf("grown: %v", v)
	}
	w.ends(v.UUID)
}

// TestCopyVolume: a copy, its progress and its end reach the LUN, and come back as they are there.
func TestCopyVolume(t *testing.T) {
	w := newWire(t)
	w.create()
	w.must(w.change(makeV(8 * mib)))
	w.must(w.change(w.readyV(4 * mib)))
	w.must(w.change(w.readyV(8 * mib)))
	v := w.group.GetVolumes()[0]
	origin := &agentv1.CopyOrigin{Name: "v", Uuid: v.GetUuid(), Bytes: 8 * mib}
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Create{
		Create: &agentv1.ChangeSharedGroupRequest_CreateVolume{Name: "copy", SizeBytes: 12 * mib, Origin: origin, Snapshot: true},
	}}))
	copied := w.group.GetVolumes()[0]
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Hold{
		Hold: &agentv1.ChangeSharedGroupRequest_HoldVolume{Name: "copy", Uuid: copied.GetUuid(), Node: "n1"},
	}}))
	copied = w.group.GetVolumes()[0]
	open := w.node.DelayZeroing()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		p, err := w.CopyVolume(t.Context(), &agentv1.CopyVolumeRequest{Group: w.ref, Volume: copied, Credential: cred(), BytesPerSecond: 1 << 40})
		w.must(err)
		if open != nil && w.node.Copies(copied.GetUuid()) {
			w.parts(copied.GetUuid())
			open()
			open = nil
		}
		if p.GetDone() && p.GetDoneBytes() == 12*mib && p.GetTotalBytes() == 12*mib {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("never done: %v", p)
		}
	}
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Copied{
		Copied: &agentv1.ChangeSharedGroupRequest_CopiedVolume{Name: "copy", Uuid: copied.GetUuid(), CopiedBytes: 4 * mib},
	}}))
	want := &agentv1.SharedVolume{
		Name: "copy", Uuid: copied.GetUuid(), SizeBytes: 12 * mib, Ranges: copied.GetRanges(), HeldBy: "n1", CreatedUnixSeconds: copied.GetCreatedUnixSeconds(),
		Origin: origin, CopiedBytes: 4 * mib, Snapshot: true,
	}
	if diff := cmp.Diff(want, w.group.GetVolumes()[0], protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	for name, req := range map[string]*agentv1.CopyVolumeRequest{
		"no rate":   {Group: w.ref, Volume: copied, Credential: cred()},
		"no origin": {Group: w.ref, Volume: v, Credential: cred(), BytesPerSecond: 1},
		"no volume": {Group: w.ref, Credential: cred(), BytesPerSecond: 1},
		"no key":    {Group: w.ref, Volume: copied, BytesPerSecond: 1},
	} {
		if _, err := w.CopyVolume(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// parts wants both devices of a copying to be told, apart from those that volumes show.
func (w *wire) parts(uuid string) {
	w.Helper()
	list, err := w.ListMappings(w.Context(), &agentv1.ListMappingsRequest{Group: w.ref})
	w.must(err)
	var got []agentv1.Mapping_Part
	for _, m := range list.GetParts() {
		if got = append(got, m.GetPart()); m.GetVolumeUuid() != uuid || !m.GetInUse() || m.GetCut() {
			w.Errorf("%v", m)
		}
	}
	if len(list.GetMappings()) > 0 || !slices.Equal(got, []agentv1.Mapping_Part{agentv1.Mapping_PART_NEW, agentv1.Mapping_PART_SOURCE}) {
		w.Errorf("%v", list)
	}
}

// firstUse has the first filesystem of the volume made, and lets pods see it.
func (w *wire) firstUse() {
	w.Helper()
	format := func() (*agentv1.FormatVolumeResponse, error) {
		return w.FormatVolume(w.Context(), &agentv1.FormatVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Credential: cred(), FsType: "xfs"})
	}
	_, err := format()
	w.want(err, codes.FailedPrecondition)
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Making{
		Making: &agentv1.ChangeSharedGroupRequest_MakingVolume{Name: "v", Uuid: w.uuid(), Node: "n1"},
	}}))
	if on := w.group.GetVolumes()[0].GetMakingOn(); on != "n1" {
		w.Errorf("making on %q", on)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		r, err := format()
		w.must(err)
		if r.GetDone() {
			break
		}
		if time.Now().After(end) {
			w.Fatal("never done")
		}
	}
	if got := w.lun.Filesystem("v"); got != "xfs" {
		w.Errorf("it has %q", got)
	}
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Used{
		Used: &agentv1.ChangeSharedGroupRequest_UsedVolume{Name: "v", Uuid: w.uuid(), Node: "n1"},
	}}))
	if !w.group.GetVolumes()[0].GetUsed() {
		w.Error("it is not used")
	}
}

// ends removes the volume and the group, and gives the LUN up.
func (w *wire) ends(volume string) {
	w.Helper()
	_, err := w.UnmapVolume(w.Context(), &agentv1.UnmapVolumeRequest{Group: w.ref, VolumeUuid: volume, Sequence: w.group.GetSequence()})
	w.must(err)
	release := &agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Release{
		Release: &agentv1.ChangeSharedGroupRequest_ReleaseVolume{Name: "v", Uuid: volume, Node: "n1"},
	}}
	w.want(w.change(release), codes.FailedPrecondition)
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Leave{
		Leave: &agentv1.ChangeSharedGroupRequest_LeaveVolume{Name: "v", Uuid: volume, Node: "n1"},
	}}))
	if v := w.group.GetVolumes()[0]; !v.GetLeaving() || v.GetHeldBy() != "n1" {
		w.Errorf("leaving: %v", v)
	}
	w.must(w.change(release))
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Remove{
		Remove: &agentv1.ChangeSharedGroupRequest_RemoveVolume{Name: "v", Uuid: volume},
	}}))
	w.must(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_TakeOver_{TakeOver: &agentv1.ChangeSharedGroupRequest_TakeOver{}}}))
	_, err = w.RemoveSharedGroup(w.Context(), &agentv1.RemoveSharedGroupRequest{Group: w.ref, Mandate: mandate()})
	w.must(err)
	_, err = w.PromiseEpoch(w.Context(), &agentv1.PromiseEpochRequest{Group: w.ref, Epoch: 2})
	w.must(err)
	_, err = w.CreateSharedGroup(w.Context(), &agentv1.CreateSharedGroupRequest{Group: w.ref, Mandate: mandate(), Name: "g"})
	w.want(err, codes.FailedPrecondition)
}

func TestService_codes(t *testing.T) {
	w := newWire(t)
	w.create()
	w.must(w.change(makeV(8 * mib)))
	w.must(w.change(w.holdV("n1")))
	w.want(w.change(makeV(16*mib)), codes.AlreadyExists)
	w.want(w.change(w.holdV("n2")), codes.AlreadyExists)
	big := makeV(1 << 40)
	big.GetCreate().Name = "w"
	w.want(w.change(big), codes.ResourceExhausted)
	w.want(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Grow{
		Grow: &agentv1.ChangeSharedGroupRequest_GrowVolume{Name: "gone", Uuid: w.uuid(), SizeBytes: 1},
	}}), codes.NotFound)
	w.want(w.change(&agentv1.ChangeSharedGroupRequest{Change: &agentv1.ChangeSharedGroupRequest_Remove{
		Remove: &agentv1.ChangeSharedGroupRequest_RemoveVolume{Name: "v", Uuid: w.group.GetVolumes()[0].GetUuid()},
	}}), codes.FailedPrecondition)
	w.group.Sequence--
	w.want(w.change(w.holdV("n2")), codes.Aborted)
	w.group.Sequence++
	w.must(w.change(w.readyV(8 * mib)))
	_, err := w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Sequence: w.group.GetSequence(), Credential: cred()})
	w.must(err)
	_, err = w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Sequence: w.group.GetSequence() - 1, Credential: cred()})
	w.want(err, codes.Aborted)
	moved := proto.CloneOf(w.group.GetVolumes()[0])
	moved.Ranges[0].StartBytes += 4 * mib
	_, err = w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: moved, Sequence: w.group.GetSequence(), Credential: cred()})
	w.want(err, codes.Aborted)
	w.lun.Preempt(0xa)
	w.want(w.change(w.holdV("n2")), codes.FailedPrecondition)
	w.lun.Reserve(0xa)
	w.lun.Swap("other")
	w.want(w.change(w.holdV("n2")), codes.FailedPrecondition)
}

// TestService_invalid: every part that is required, or bounded, is looked at before anything happens.
func TestService_invalid(t *testing.T) {
	w := newWire(t)
	w.create()
	w.must(w.change(makeV(8 * mib)))
	before := w.lun.Group()
	for name, edit := range map[string]func(*agentv1.Mandate){
		"no epoch":        func(wr *agentv1.Mandate) { wr.Epoch = 0 },
		"no key":          func(wr *agentv1.Mandate) { wr.Credential.Key = 0 },
		"no credential":   func(wr *agentv1.Mandate) { wr.Credential = nil },
		"a key too many":  func(wr *agentv1.Mandate) { wr.Credential.Unfenced = true },
		"no time":         func(wr *agentv1.Mandate) { wr.TimeoutMilliseconds = 0 },
		"less than none":  func(wr *agentv1.Mandate) { wr.TimeoutMilliseconds = -1 },
		"too much of it":  func(wr *agentv1.Mandate) { wr.TimeoutMilliseconds = 1 << 62 },
		"more than an hr": func(wr *agentv1.Mandate) { wr.TimeoutMilliseconds = 3600001 },
	} {
		_, err := w.RemoveSharedGroup(t.Context(), &agentv1.RemoveSharedGroupRequest{Group: w.ref, Mandate: mandate(edit)})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a writer with %s: %v", name, err)
		}
	}
	for name, edit := range map[string]func(*agentv1.SharedGroupRef){
		"no LUN":             func(r *agentv1.SharedGroupRef) { r.Lun = nil },
		"no WWID":            func(r *agentv1.SharedGroupRef) { r.Lun.Wwid = "" },
		"no serial number":   func(r *agentv1.SharedGroupRef) { r.Lun.Serial = "" },
		"a long one":         func(r *agentv1.SharedGroupRef) { r.Lun.Serial = string(make([]byte, 513)) },
		"no size":            func(r *agentv1.SharedGroupRef) { r.Lun.SizeBytes = 0 },
		"no owner":           func(r *agentv1.SharedGroupRef) { r.OwnerUid = "" },
		"a path as an owner": func(r *agentv1.SharedGroupRef) { r.OwnerUid = "../../etc" },
		"no group":           func(r *agentv1.SharedGroupRef) { r.Uuid = "" },
		"no UUID of a group": func(r *agentv1.SharedGroupRef) { r.Uuid = "g" },
	} {
		ref := proto.CloneOf(w.ref)
		edit(ref)
		_, err := w.ListMappings(t.Context(), &agentv1.ListMappingsRequest{Group: ref})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a group with %s: %v", name, err)
		}
	}
	for name, edit := range map[string]func(*agentv1.SharedVolume){
		"no name":            func(v *agentv1.SharedVolume) { v.Name = "" },
		"no UUID":            func(v *agentv1.SharedVolume) { v.Uuid = "" },
		"no ranges":          func(v *agentv1.SharedVolume) { v.Ranges = nil },
		"too many ranges":    func(v *agentv1.SharedVolume) { v.Ranges = make([]*agentv1.Range, 10001) },
		"half a sector":      func(v *agentv1.SharedVolume) { v.Ranges[0].StartBytes = 100 },
		"another size":       func(v *agentv1.SharedVolume) { v.SizeBytes++ },
		"less than nothing":  func(v *agentv1.SharedVolume) { v.Ranges[0].StartBytes = -512 },
		"too much ready":     func(v *agentv1.SharedVolume) { v.ReadyBytes = v.GetSizeBytes() + 1 },
		"less than no ready": func(v *agentv1.SharedVolume) { v.ReadyBytes = -1 },
	} {
		v := proto.CloneOf(w.group.GetVolumes()[0])
		edit(v)
		_, err := w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: v, Sequence: 9, Credential: cred()})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("a volume with %s: %v", name, err)
		}
	}
	w.invalidCalls(t.Context())
	if diff := cmp.Diff(before, w.lun.Group()); diff != "" {
		t.Error(diff)
	}
}

// invalidCalls are requests that lack what only one call needs.
func (w *wire) invalidCalls(ctx context.Context) {
	v, uuid := w.group.GetVolumes()[0], w.group.GetVolumes()[0].GetUuid()
	calls := map[string]func() error{
		"a change that is none": func() error { return w.change(&agentv1.ChangeSharedGroupRequest{}) },
		"too many tags": func() error {
			req := makeV(mib)
			req.GetCreate().Tags = make([]string, 65)
			return w.change(req)
		},
		"no sequence number": func() error {
			_, err := w.ChangeSharedGroup(ctx, &agentv1.ChangeSharedGroupRequest{Group: w.ref, Mandate: mandate(), Change: w.holdV("n1").GetChange()})
			return err
		},
		"a name that is an option": func() error {
			_, err := w.CreateSharedGroup(ctx, &agentv1.CreateSharedGroupRequest{Group: w.ref, Mandate: mandate(), Name: "--yes"})
			return err
		},
		"a long digest": func() error {
			_, err := w.CreateSharedGroup(ctx, &agentv1.CreateSharedGroupRequest{Group: w.ref, Mandate: mandate(), Name: "g", WipeDigest: string(make([]byte, 257))})
			return err
		},
		"no epoch": func() error {
			_, err := w.PromiseEpoch(ctx, &agentv1.PromiseEpochRequest{Group: w.ref})
			return err
		},
		"a mapping on no number": func() error {
			_, err := w.MapVolume(ctx, &agentv1.MapVolumeRequest{Group: w.ref, Volume: v})
			return err
		},
		"an unmapping on no number": func() error {
			_, err := w.UnmapVolume(ctx, &agentv1.UnmapVolumeRequest{Group: w.ref, VolumeUuid: uuid})
			return err
		},
		"an unmapping of nothing": func() error {
			_, err := w.UnmapVolume(ctx, &agentv1.UnmapVolumeRequest{Group: w.ref, Sequence: 9})
			return err
		},
		"a filesystem on nothing": func() error {
			_, err := w.FormatVolume(ctx, &agentv1.FormatVolumeRequest{Group: w.ref, FsType: "ext4"})
			return err
		},
		"zeroing nothing": func() error {
			_, err := w.ZeroVolume(ctx, &agentv1.ZeroVolumeRequest{Group: w.ref})
			return err
		},
	}
	for name, call := range calls {
		if err := call(); status.Code(err) != codes.InvalidArgument {
			w.Errorf("%s: %v", name, err)
		}
	}
}

// TestListMappings_otherLun: who asks for devices is told that they stand on another LUN, and that they return errors.
func TestListMappings_otherLun(t *testing.T) {
	w := newWire(t)
	w.create()
	w.must(w.change(makeV(8 * mib)))
	w.must(w.change(w.holdV("n1")))
	w.must(w.change(w.readyV(8 * mib)))
	_, err := w.MapVolume(t.Context(), &agentv1.MapVolumeRequest{Group: w.ref, Volume: w.group.GetVolumes()[0], Sequence: w.group.GetSequence(), Credential: cred()})
	w.must(err)
	for _, swapped := range []bool{false, true} {
		if swapped {
			w.lun.Swap("other")
		}
		list, err := w.ListMappings(t.Context(), &agentv1.ListMappingsRequest{Group: w.ref})
		w.must(err)
		if m := list.GetMappings(); len(m) != 1 || m[0].GetCut() != swapped || m[0].GetSuspended() || strings.Contains(list.GetOtherLun(), `"other"`) != swapped {
			t.Errorf("swapped: %t, %v", swapped, list)
		}
	}
}
