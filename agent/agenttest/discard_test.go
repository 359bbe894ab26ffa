package agenttest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	"quarry.storage/quarry/agent/internal/plan"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// discarder is an agent with a volume that is full of a text.
type discarder struct {
	*agenttest.Agent
	t *testing.T
}

const gone = "of a tenant that left"

func newDiscarder(t *testing.T) discarder {
	t.Helper()
	d := discarder{agenttest.New(t, agenttest.Options{}), t}
	d.AddDisks(0, "sdb")
	d.AddGroup("vg", "uid", "sdb")
	d.create("v1")
	d.WriteVolume("vg", "v1", gone)
	return d
}

func (d discarder) volumes() agentv1.LogicalVolumeServiceClient {
	return agentv1.NewLogicalVolumeServiceClient(d.Dial(d.t))
}

// create makes a volume that is not zeroed, so that it shows what is on the disk.
func (d discarder) create(name string) {
	d.t.Helper()
	_, err := d.volumes().CreateLogicalVolume(d.t.Context(), &agentv1.CreateLogicalVolumeRequest{
		Group: "vg", OwnerUid: "uid", Name: name, Id: "id-" + name, SizeBytes: 600 << 20,
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d discarder) remove(discard bool) error {
	_, err := d.volumes().DeleteLogicalVolume(d.t.Context(), &agentv1.DeleteLogicalVolumeRequest{
		Group: "vg", OwnerUid: "uid", Name: "v1", Id: "id-v1", Discard: discard,
	})
	return err
}

// TestDiscard: the disk keeps nothing of a volume that was to be discarded, and all of one that was not.
func TestDiscard(t *testing.T) {
	for _, discard := range []bool{false, true} {
		d := newDiscarder(t)
		if err := d.remove(discard); err != nil {
			t.Fatal(err)
		}
		d.create("v2")
		if kept := slices.Contains(d.ReadVolume("vg", "v2"), gone); kept == discard {
			t.Errorf("discarded %t: the disk keeps what was written: %t", discard, kept)
		}
	}
}

// TestDiscard_refused: a volume that is not removed keeps what it holds.
func TestDiscard_refused(t *testing.T) {
	d := newDiscarder(t)
	d.OpenVolume("vg", "v1")
	if err := d.remove(true); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("an open volume: %v", err)
	}
	d.CloseVolume("vg", "v1")
	_, err := d.volumes().DeleteLogicalVolume(t.Context(), &agentv1.DeleteLogicalVolumeRequest{
		Group: "vg", OwnerUid: "uid", Name: "v1", Id: "another", Discard: true,
	})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("a volume of another id: %v", err)
	}
	if got := d.ReadVolume("vg", "v1"); !slices.Equal(got, []string{gone}) {
		t.Errorf("it holds %q", got)
	}
}

// TestDiscard_unsupported: a disk that cannot discard keeps no volume from being removed.
func TestDiscard_unsupported(t *testing.T) {
	d := newDiscarder(t)
	// The first step says on the volume that its removal began.
	d.FailAt(2, errors.New("operation not supported"))
	if err := d.remove(true); err != nil {
		t.Fatal(err)
	}
	if left := d.Volumes("vg"); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	d.create("v2")
	if !slices.Contains(d.ReadVolume("vg", "v2"), gone) {
		t.Error("the disk discarded: nothing was refused")
	}
}

// TestDiscard_killed: an agent that dies while it discards leaves a volume with holes, which does not grow and is not given to anybody, also after the
// agent was started anew. Its removal goes on, from wherever it was.
func TestDiscard_killed(t *testing.T) {
	for name, steps := range map[string]int{"before the first discard": 1, "after it": 2} {
		t.Run(name, func(t *testing.T) {
			d := newDiscarder(t)
			d.CrashAfter(steps)
			if err := d.remove(true); err == nil {
				t.Fatal("removed by an agent that died before")
			}
			d.Restart(t)
			if left := d.Volumes("vg"); len(left) != 1 || !left[0].Removing {
				t.Fatalf("left: %+v", left)
			}
			_, err := d.volumes().ResizeLogicalVolume(t.Context(), &agentv1.ResizeLogicalVolumeRequest{
				Group: "vg", OwnerUid: "uid", Name: "v1", Id: "id-v1", SizeBytes: 700 << 20,
			})
			if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), plan.TagRemoving) {
				t.Errorf("grown: %v", err)
			}
			_, err = d.volumes().CreateLogicalVolume(t.Context(), &agentv1.CreateLogicalVolumeRequest{
				Group: "vg", OwnerUid: "uid", Name: "v1", Id: "id-v1", SizeBytes: 600 << 20,
			})
			if status.Code(err) != codes.FailedPrecondition {
				t.Errorf("made again: %v", err)
			}
			if err := d.remove(true); err != nil {
				t.Fatal(err)
			}
			d.create("v2")
			if slices.Contains(d.ReadVolume("vg", "v2"), gone) {
				t.Error("the disk keeps what was written")
			}
		})
	}
}
