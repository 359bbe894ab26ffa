package iscsi_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/csi/frame/frametest"
	"quarry.storage/quarry/controller/internal/csi/iscsi"
	"quarry.storage/quarry/controller/internal/decide"
	"quarry.storage/quarry/controller/internal/san"
	"quarry.storage/quarry/pkg/sharedlun"
)

// fill has something written into a volume that nobody has.
func (s *suite) fill(id string) {
	s.t.Helper()
	if _, err := s.publish(id, "n2"); err != nil {
		s.t.Fatal(err)
	}
	uuid := s.volume(nameOf(id)).UUID
	for _, at := range []int64{0, extent} {
		if err := s.nodes["n2"].Write(uuid, at); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := s.unpublish(id, "n2"); err != nil {
		s.t.Fatal(err)
	}
}

func nameOf(id string) string {
	_, name, _ := strings.Cut(id, "/")
	return name
}

func (s *suite) snapshot(name, of string) (*csi.Snapshot, error) {
	r, err := s.CreateSnapshot(s.t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: of})
	return r.GetSnapshot(), err
}

// from gives a request the content of a snapshot or a volume.
func from(r *csi.CreateVolumeRequest, id string) *csi.CreateVolumeRequest {
	if strings.Contains(id, "/snap-") {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id}}}
	} else {
		r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id}}}
	}
	return r
}

// still lets the agents stand still while they zero and copy, until the function that it returns is called.
func (s *suite) still() (goOn func()) {
	var all []func()
	for _, n := range s.nodes {
		all = append(all, n.DelayZeroing())
	}
	return func() {
		for _, one := range all {
			one()
		}
	}
}

// soon is for calls that have no time to wait.
func (s *suite) soon() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

// TestSnapshot_ofAttached: a volume that a node has is not copied, nothing is made, and the error says what is waited for.
func TestSnapshot_ofAttached(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	if _, err := s.publish(id, "n2"); err != nil {
		t.Fatal(err)
	}
	_, err := s.snapshot("s", id)
	wantCode(t, err, codes.FailedPrecondition)
	_, cloneErr := s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id))
	wantCode(t, cloneErr, codes.FailedPrecondition)
	for _, err := range []error{err, cloneErr} {
		if err == nil || !strings.Contains(err.Error(), "attached to node n2") || !strings.Contains(err.Error(), "tried again by itself") {
			t.Error(err)
		}
	}
	if n := len(s.lun.Group().Volumes); n != 1 {
		t.Errorf("%d volumes are there", n)
	}
	if err := s.unpublish(id, "n2"); err != nil {
		t.Fatal(err)
	}
	if made, err := s.snapshot("s", id); err != nil || !made.GetReadyToUse() || made.GetSourceVolumeId() != id || made.GetSizeBytes() != 8*mib || !made.GetCreationTime().IsValid() {
		t.Errorf("%v, %v", made, err)
	}
}

// TestSnapshot_whileItIsMade: until a snapshot is whole, its volume is neither attached nor removed, and nothing is restored from it; all of that says how far it is, and goes on.
func TestSnapshot_whileItIsMade(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.fill(id)
	goOn := s.still()
	r, err := s.CreateSnapshot(s.soon(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	made := r.GetSnapshot()
	if err != nil || made.GetReadyToUse() || made.GetSnapshotId() == "" {
		t.Fatalf("%v, %v", made, err)
	}
	s.wantWaiting(id, made.GetSnapshotId())
	s.want(nameOf(id), "", 8*mib, 8*mib, nil)
	goOn()
	before := s.lun.Content(nameOf(id))
	if _, err := s.publish(id, "n1"); err != nil {
		t.Fatal(err)
	}
	if err := s.nodes["n1"].Write(s.volume(nameOf(id)).UUID, 0); err != nil {
		t.Fatal(err)
	}
	made, err = s.snapshot("s", id)
	if err != nil || !made.GetReadyToUse() {
		t.Fatalf("%v, %v", made, err)
	}
	if got := s.lun.Content(nameOf(made.GetSnapshotId())); !slices.Equal(got, before) {
		t.Errorf("it has %v, the volume had %v", got, before)
	}
	s.wantRestored(made.GetSnapshotId(), before)
	_, err = s.publish(made.GetSnapshotId(), "n1")
	wantCode(t, err, codes.NotFound)
}

// wantWaiting wants calls about a volume that is being copied, and about the copy, to say how far that is.
func (s *suite) wantWaiting(id, snapshot string) {
	s.t.Helper()
	_, attachErr := s.ControllerPublishVolume(s.soon(), &csi.ControllerPublishVolumeRequest{VolumeId: id, NodeId: "n1", VolumeCapability: access()})
	_, deleteErr := s.DeleteVolume(s.soon(), &csi.DeleteVolumeRequest{VolumeId: id})
	_, restoreErr := s.CreateVolume(s.soon(), from(s.request("r", 8*mib), snapshot))
	for what, err := range map[string]error{"attach": attachErr, "delete": deleteErr, "restore": restoreErr} {
		wantCode(s.t, err, codes.Aborted)
		if err == nil || !strings.Contains(err.Error(), "is being copied to "+nameOf(snapshot)) || !strings.Contains(err.Error(), "of 8Mi are done") {
			s.t.Errorf("%s: %v", what, err)
		}
	}
	list, err := s.ListSnapshots(s.t.Context(), &csi.ListSnapshotsRequest{SnapshotId: snapshot})
	if err != nil || len(list.GetEntries()) != 1 || list.GetEntries()[0].GetSnapshot().GetReadyToUse() {
		s.t.Errorf("%v, %v", list, err)
	}
}

// wantRestored restores a snapshot into a larger volume. Whether its volume is attached has nothing to do with that.
func (s *suite) wantRestored(snapshot string, content []int) {
	t := s.t
	t.Helper()
	restored, err := s.CreateVolume(t.Context(), from(s.request("r", 12*mib), snapshot))
	if err != nil || restored.GetVolume().GetCapacityBytes() != 12*mib || restored.GetVolume().GetContentSource() == nil {
		t.Fatalf("%v, %v", restored, err)
	}
	if got := s.lun.Content(nameOf(restored.GetVolume().GetVolumeId())); !slices.Equal(got, append(content, 0)) {
		t.Errorf("the restored volume has %v, the snapshot %v", got, content)
	}
}

// TestSnapshot_deletedWhileItIsMade: the copying ends first, and the volume is free at once.
func TestSnapshot_deletedWhileItIsMade(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	defer s.still()()
	r, err := s.CreateSnapshot(s.soon(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	uuid := s.volume(nameOf(r.GetSnapshot().GetSnapshotId())).UUID
	if _, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: r.GetSnapshot().GetSnapshotId()}); err != nil {
		t.Fatal(err)
	}
	for name, n := range s.nodes {
		if n.Copies(uuid) {
			t.Errorf("node %s copies on", name)
		}
	}
	if _, err := s.publish(id, "n3"); err != nil {
		t.Error(err)
	}
}

// TestSnapshot_nodeDies: a node that dies while it copies is fenced as one that has the volume, before another one goes on. Until then nobody gets the volume.
func TestSnapshot_nodeDies(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.fill(id)
	before := s.lun.Content(nameOf(id))
	goOn := s.still()
	r, err := s.CreateSnapshot(s.soon(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	name := nameOf(r.GetSnapshot().GetSnapshotId())
	dead := s.volume(name).HeldBy
	other := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[dead]
	s.silence(dead)
	_, err = s.publish(id, other)
	wantCode(t, err, codes.Unavailable)
	if v := s.volume(name); v.HeldBy != dead || !v.Copying() || s.volume(nameOf(id)).HeldBy != "" {
		t.Errorf("nobody fenced node %s: %+v", dead, v)
	}
	s.fleet.set(dead, func(m *san.Member) { m.Fenced = true })
	s.lun.Preempt(s.nodes[dead].Key())
	goOn()
	if _, err := s.publish(id, other); err != nil {
		t.Fatal(err)
	}
	if got := s.lun.Content(name); !slices.Equal(got, before) {
		t.Errorf("it has %v, the volume had %v", got, before)
	}
	if v := s.volume(name); v.Copying() || len(v.Readers) != 1 || v.Readers[0].Node != dead {
		t.Errorf("%+v", v)
	}
	// The node may read still what lies there.
	_, err = s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: r.GetSnapshot().GetSnapshotId()})
	wantCode(t, err, codes.FailedPrecondition)
	// It was to read the volume, too, and is a reader of the copy only.
	if err := s.unpublish(id, other); err != nil {
		t.Fatal(err)
	}
	_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	if s.volume(nameOf(id)) == nil {
		t.Error("the volume is gone, and a fenced node may read it")
	}
}

// TestSnapshot_deletedOfDeadNode: a snapshot that is deleted while a dead node fills it holds its volume up no longer, and goes once the node is fenced, and was booted. The volume is removed only then, too.
func TestSnapshot_deletedOfDeadNode(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.fill(id)
	goOn := s.still()
	r, err := s.CreateSnapshot(s.soon(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	handle := r.GetSnapshot().GetSnapshotId()
	dead := s.volume(nameOf(handle)).HeldBy
	other := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[dead]
	s.silence(dead)
	remove := func() error {
		_, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: handle})
		return err
	}
	wantCode(t, remove(), codes.Unavailable)
	if v := s.volume(nameOf(handle)); v == nil || !v.Void || v.HeldBy != dead {
		t.Fatalf("%+v", v)
	}
	// Its volume goes on. It may be read there, so that it is not removed.
	if _, err := s.publish(id, other); err != nil {
		t.Fatal(err)
	}
	if err := s.nodes[other].Write(s.volume(nameOf(id)).UUID, 0); err != nil {
		t.Error(err)
	}
	if err := s.unpublish(id, other); err != nil {
		t.Fatal(err)
	}
	goOn()
	_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	// Nobody gets a snapshot of two moments.
	_, err = s.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	wantCode(t, err, codes.Unavailable)
	wantCode(t, remove(), codes.Unavailable)
	s.fleet.set(dead, func(m *san.Member) { m.Fenced = true })
	s.lun.Preempt(s.nodes[dead].Key())
	wantCode(t, remove(), codes.FailedPrecondition)
	if v := s.volume(nameOf(handle)); v == nil || v.HeldBy != "" || len(v.Readers) != 1 || v.ReadyBytes != 0 {
		t.Errorf("%+v", v)
	}
	_, err = s.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
}

// TestSnapshot_goesOn: how far a copy is, is on the LUN once much of it is done, and a node that takes over begins there.
func TestSnapshot_goesOn(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	goOn := s.still()
	r, err := s.CreateSnapshot(s.soon(), &csi.CreateSnapshotRequest{Name: "s", SourceVolumeId: id})
	if err != nil {
		t.Fatal(err)
	}
	name := nameOf(r.GetSnapshot().GetSnapshotId())
	on := s.volume(name).HeldBy
	s.fleet.set(on, func(m *san.Member) { m.Maintenance = true })
	goOn()
	if made, err := s.snapshot("s", id); err != nil || !made.GetReadyToUse() {
		t.Errorf("from a node under maintenance: %v, %v", made, err)
	}
	if got, want := s.lun.Content(name), s.lun.Content(nameOf(id)); !slices.Equal(got, want) {
		t.Errorf("it has %v, the volume %v", got, want)
	}
}

// TestClone_refused: what is asked for has to be what was made, and its source has to be there.
func TestClone_refused(t *testing.T) {
	s := newSuite(t)
	a, b := s.create("a", 8*mib).GetVolumeId(), s.create("b", 8*mib).GetVolumeId()
	made, err := s.snapshot("s", a)
	if err != nil {
		t.Fatal(err)
	}
	limited := from(s.request("l", 4*mib), a)
	limited.CapacityRange.LimitBytes = 4 * mib
	if _, err := s.CreateVolume(t.Context(), from(s.request("c", 4*mib), a)); err != nil {
		t.Fatal(err)
	}
	s.want(sharedlun.Name("c"), "", 8*mib, 8*mib, nil)
	other := sharedlun.ID{Group: "Othere-1234-5678-9abc-DEFG-hijk-LMNOPQ", Name: nameOf(a)}.String()
	for what, c := range map[string]struct {
		req  *csi.CreateVolumeRequest
		want codes.Code
	}{
		"the same":                 {from(s.request("c", 4*mib), a), codes.OK},
		"another source":           {from(s.request("c", 4*mib), b), codes.AlreadyExists},
		"a snapshot of it":         {from(s.request("c", 4*mib), made.GetSnapshotId()), codes.AlreadyExists},
		"no source":                {s.request("c", 8*mib), codes.AlreadyExists},
		"a source of what is none": {from(s.request("b", 8*mib), a), codes.AlreadyExists},
		"a limit below the source": {limited, codes.OutOfRange},
		"a source that is gone":    {from(s.request("g", 8*mib), a+"x"), codes.NotFound},
		"a source elsewhere":       {from(s.request("g", 8*mib), other), codes.InvalidArgument},
		"more than there is":       {from(s.request("g", 1000*mib), a), codes.ResourceExhausted},
	} {
		_, err := s.CreateVolume(t.Context(), c.req)
		if c.want == codes.OK && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		wantCode(t, err, c.want)
	}
	_, err = s.snapshot("s", b)
	wantCode(t, err, codes.AlreadyExists)
	_, err = s.snapshot("t", a+"x")
	wantCode(t, err, codes.NotFound)
	// A copy that is whole needs its source no more.
	if _, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: made.GetSnapshotId()}); err != nil {
		t.Error(err)
	}
	if err := s.remove(a); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateVolume(t.Context(), from(s.request("c", 4*mib), a)); err != nil {
		t.Errorf("asked for again, without its source: %v", err)
	}
	for _, v := range s.lun.Group().Volumes {
		if v.Name == sharedlun.SnapshotName("t") || v.Name == sharedlun.Name("g") || v.Name == sharedlun.Name("l") {
			t.Errorf("what was refused is there: %+v", v)
		}
	}
}

// TestClone_use: a copy of a volume that pods have seen is never formatted, and one of a volume that nobody saw gets its first filesystem as any new one.
func TestClone_use(t *testing.T) {
	s := newSuite(t)
	used, fresh := s.create("used", 8*mib).GetVolumeId(), s.create("fresh", 8*mib).GetVolumeId()
	s.fill(used)
	for of, want := range map[string]bool{used: true, fresh: false} {
		r, err := s.CreateVolume(t.Context(), from(s.request("of-"+nameOf(of), 8*mib), of))
		if err != nil {
			t.Fatal(err)
		}
		if v := s.volume(nameOf(r.GetVolume().GetVolumeId())); v.Used != want {
			t.Errorf("the copy of %s: %+v", of, v)
		}
	}
}

// TestSnapshots lists snapshots, and no volumes; volumes, and no snapshots.
func TestSnapshots(t *testing.T) {
	s := newSuite(t)
	a, b := s.create("a", 8*mib).GetVolumeId(), s.create("b", 8*mib).GetVolumeId()
	ids := map[string]string{}
	for name, of := range map[string]string{"s1": a, "s2": a, "s3": b} {
		made, err := s.snapshot(name, of)
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = made.GetSnapshotId()
	}
	for what, c := range map[string]struct {
		req  *csi.ListSnapshotsRequest
		want []string
	}{
		"all":             {&csi.ListSnapshotsRequest{}, []string{"s1", "s2", "s3"}},
		"of one":          {&csi.ListSnapshotsRequest{SourceVolumeId: a}, []string{"s1", "s2"}},
		"one":             {&csi.ListSnapshotsRequest{SnapshotId: ids["s3"]}, []string{"s3"}},
		"one of another":  {&csi.ListSnapshotsRequest{SnapshotId: ids["s3"], SourceVolumeId: a}, nil},
		"a volume":        {&csi.ListSnapshotsRequest{SnapshotId: a}, nil},
		"one that is not": {&csi.ListSnapshotsRequest{SnapshotId: sharedlun.ID{Group: s.ref.UUID, Name: sharedlun.SnapshotName("s4")}.String()}, nil},
	} {
		r, err := s.ListSnapshots(t.Context(), c.req)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		var got, want []string
		for _, e := range r.GetEntries() {
			got = append(got, e.GetSnapshot().GetSnapshotId())
		}
		for _, name := range c.want {
			want = append(want, ids[name])
		}
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	s.wantApart(a, ids["s1"])
}

// wantApart wants snapshots and volumes to be listed, found and deleted apart from each other.
func (s *suite) wantApart(a, snapshot string) {
	t := s.t
	t.Helper()
	page, err := s.ListSnapshots(t.Context(), &csi.ListSnapshotsRequest{MaxEntries: 1})
	if err != nil || len(page.GetEntries()) != 1 || page.GetNextToken() == "" {
		t.Errorf("one of them: %v, %v", page, err)
	}
	volumes, err := s.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	if err != nil || len(volumes.GetEntries()) != 2 {
		t.Errorf("volumes: %v, %v", volumes, err)
	}
	one, err := s.GetSnapshot(t.Context(), &csi.GetSnapshotRequest{SnapshotId: snapshot})
	if err != nil || one.GetSnapshot().GetSourceVolumeId() != a {
		t.Errorf("%v, %v", one, err)
	}
	if err := s.remove(snapshot); err != nil {
		t.Errorf("no volume of that handle is a volume that is gone: %v", err)
	}
	if s.volume(nameOf(snapshot)) == nil {
		t.Error("a snapshot was deleted as a volume")
	}
}

// withoutCopies are agents of an earlier version: they know of no copies.
type withoutCopies struct{ iscsi.Nodes }

func (o withoutCopies) Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, c sharedlun.Change) (sharedlun.Group, error) {
	if c.Create != nil {
		plain := *c.Create
		plain.Origin, plain.Snapshot = sharedlun.Origin{}, false
		c.Create = &plain
	}
	return o.Nodes.Change(ctx, node, ref, m, sequence, c)
}

// TestSnapshot_olderAgent: an agent that does not know of copies makes an empty volume. It is not taken for one, and does not stay.
func TestSnapshot_olderAgent(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/2", withoutCopies{s.calls}), s.cache)
	_, err := s.snapshot("s", id)
	wantCode(t, err, codes.Unavailable)
	_, err = s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id))
	wantCode(t, err, codes.Unavailable)
	if all := s.lun.Group().Volumes; len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

// dying loses every change but those that make volumes, as a driver that dies behind them.
type dying struct{ iscsi.Nodes }

func (o dying) Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, c sharedlun.Change) (sharedlun.Group, error) {
	if c.Create == nil && !c.TakeOver {
		return sharedlun.Group{}, errors.New("the driver was killed")
	}
	return o.Nodes.Change(ctx, node, ref, m, sequence, c)
}

// TestSnapshot_olderAgentKilled: what an agent of an earlier version made in place of a copy does not take the name for ever, even if the driver died before it could remove it. What
// somebody has seen, or may see, is another volume of the name.
func TestSnapshot_olderAgentKilled(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/2", dying{withoutCopies{s.calls}}), s.cache)
	if _, err := s.snapshot("s", id); err == nil {
		t.Fatal("a snapshot was made")
	}
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/3", dying{withoutCopies{s.calls}}), s.cache)
	if _, err := s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id)); err == nil {
		t.Fatal("a clone was made")
	}
	left := 0
	for _, v := range s.lun.Group().Volumes {
		if v.Origin.Name == "" && v.ReadyBytes == 0 {
			left++
		}
	}
	if left != 2 {
		t.Fatalf("the driver died too late: %+v", s.lun.Group().Volumes)
	}
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/4", s.calls), s.cache)
	made, err := s.snapshot("s", id)
	if err != nil || !made.GetReadyToUse() {
		t.Errorf("%v, %v", made, err)
	}
	if _, err := s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id)); err != nil {
		t.Error(err)
	}
	for _, v := range s.lun.Group().Volumes {
		if v.Name != nameOf(id) && v.Origin.Name != nameOf(id) {
			t.Errorf("%+v", v)
		}
	}
	// A volume that was made for a claim of its own is left alone.
	plain := nameOf(s.create("c", 8*mib).GetVolumeId())
	_, err = s.CreateVolume(t.Context(), from(s.request("c", 8*mib), id))
	wantCode(t, err, codes.AlreadyExists)
	if v := s.volume(plain); v == nil || v.ReadyBytes != 8*mib {
		t.Errorf("%+v", v)
	}
}

// failing are agents of which some calls fail.
type failing struct {
	iscsi.Nodes
	call string
	err  error
}

func (f failing) Copy(
	ctx context.Context, node string, ref sharedlun.Ref, c sharedlun.Credential, v sharedlun.Volume, discard bool, rate int64,
) (sharedlun.Progress, error) {
	if f.call == "copy" {
		return sharedlun.Progress{}, f.err
	}
	return f.Nodes.Copy(ctx, node, ref, c, v, discard, rate)
}

func (f failing) Change(ctx context.Context, node string, ref sharedlun.Ref, m sharedlun.Mandate, sequence uint64, c sharedlun.Change) (sharedlun.Group, error) {
	g, err := f.Nodes.Change(ctx, node, ref, m, sequence, c)
	if f.call == "create" && c.Create != nil {
		return sharedlun.Group{}, f.err
	}
	return g, err
}

func (f failing) Contents(ctx context.Context, node string, ref sharedlun.Ref) (sharedlun.Contents, error) {
	if f.call == "read" {
		return sharedlun.Contents{}, f.err
	}
	return f.Nodes.Contents(ctx, node, ref)
}

// TestCopy_goesOn: as long as a copy is on the LUN, or may be, no code says that nothing is left of it: the sidecars forget what was deleted meanwhile, and it would hold its origin.
func TestCopy_goesOn(t *testing.T) {
	fault := func(kind decide.FaultKind) error { return &decide.Fault{Kind: kind, Message: "struck"} }
	refusal := func(kind decide.FaultKind) error { return &san.Refusal{Err: fault(kind)} }
	for name, c := range map[string]struct {
		call string
		err  error
		want codes.Code
	}{
		"the node cannot copy":                     {"copy", refusal(decide.FaultPrecondition), codes.Aborted},
		"the node has no connection":               {"copy", fault(decide.FaultUnavailable), codes.Unavailable},
		"the node says something else":             {"copy", fault(decide.FaultInternal), codes.Aborted},
		"the node says nothing that has a meaning": {"copy", errors.New("struck"), codes.Aborted},
		"it was made, and nobody says so":          {"create", fault(decide.FaultInternal), codes.Unavailable},
		"the group is not read":                    {"read", refusal(decide.FaultPrecondition), codes.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSuite(t)
			id := s.create("a", 8*mib).GetVolumeId()
			s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/2", failing{s.calls, c.call, c.err}), s.cache)
			_, err := s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id))
			wantCode(t, err, c.want)
			if !strings.Contains(status.Convert(err).Message(), "struck") {
				t.Errorf("nobody says why: %v", err)
			}
			if _, err := s.snapshot("s", id); err != nil {
				wantCode(t, err, c.want)
			} else if c.call != "copy" {
				t.Error("a snapshot was made")
			}
			if _, err = s.snapshot("s", id); c.call == "copy" {
				wantCode(t, err, c.want)
			}
		})
	}
}

// TestCopy_over: what is known not to be on the LUN is over, so that nobody asks for it any more.
func TestCopy_over(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	s.create("taken", 8*mib)
	_, err := s.CreateVolume(t.Context(), from(s.request("taken", 8*mib), id))
	wantCode(t, err, codes.AlreadyExists)
	_, err = s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id+"x"))
	wantCode(t, err, codes.NotFound)
	s.Served = frametest.Serve(t, iscsi.Driver(), s.backend("csi/2", failing{s.calls, "create", &san.Refusal{Err: &decide.Fault{Kind: decide.FaultNoRoom}}}), s.cache)
	_, err = s.CreateVolume(t.Context(), s.request("c", 8*mib))
	wantCode(t, err, codes.ResourceExhausted)
}

// TestCopy_iscsiIsRemoved: a copy that is on the LUN is made to its end even if its Iscsi is being removed: a finished one is deleted with its claim. None is begun.
func TestCopy_iscsiIsRemoved(t *testing.T) {
	s := newSuite(t)
	id := s.create("a", 8*mib).GetVolumeId()
	goOn := s.still()
	_, err := s.CreateVolume(s.soon(), from(s.request("b", 8*mib), id))
	wantCode(t, err, codes.Aborted)
	goOn()
	s.cache.iscsis[0].DeletionTimestamp = new(metav1.Now())
	made, err := s.CreateVolume(t.Context(), from(s.request("b", 8*mib), id))
	if err != nil {
		t.Fatal(err)
	}
	if v := s.volume(nameOf(made.GetVolume().GetVolumeId())); v == nil || v.Copying() {
		t.Errorf("%+v", v)
	}
	_, err = s.CreateVolume(t.Context(), from(s.request("c", 8*mib), id))
	wantCode(t, err, codes.FailedPrecondition)
}
