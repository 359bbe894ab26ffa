package agenttest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestZero_restoredMetadata: older metadata of LVM comes back, in which a volume still has to be zeroed that was used since. The agent leaves it
// as it is, over a restart too. A call that grows the volume is refused. One that makes it does not change that while something has the volume open.
func TestZero_restoredMetadata(t *testing.T) {
	const precious = "precious"
	a := agenttest.New(t, agenttest.Options{})
	a.AddDisks(0, "sdb")
	a.AddGroup("vg", "uid", "sdb")
	create := func() error {
		_, err := agentv1.NewLogicalVolumeServiceClient(a.Dial(t)).CreateLogicalVolume(t.Context(), &agentv1.CreateLogicalVolumeRequest{
			Group: "vg", OwnerUid: "uid", Name: "raw", Id: "id", SizeBytes: 20 << 20, Zeroing: agentv1.Zeroing_ZEROING_ALL,
		})
		return err
	}
	var err error
	for range 20 {
		if err = create(); status.Code(err) != codes.Aborted {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	a.WriteVolume("vg", "raw", precious)
	a.Unzero("vg", "raw")
	still := func(when string) {
		t.Helper()
		// Long enough for an agent that zeroes at sight: it begins within some hundred milliseconds.
		time.Sleep(time.Second)
		if got := a.ReadVolume("vg", "raw"); !slices.Contains(got, precious) {
			t.Fatalf("%s the volume holds %q", when, got)
		}
	}
	still("after the metadata came back")
	a.Restart(t)
	still("after a restart of the agent")
	_, err = agentv1.NewLogicalVolumeServiceClient(a.Dial(t)).ResizeLogicalVolume(t.Context(), &agentv1.ResizeLogicalVolumeRequest{
		Group: "vg", OwnerUid: "uid", Name: "raw", Id: "id", SizeBytes: 40 << 20, Zeroing: agentv1.Zeroing_ZEROING_ALL,
	})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "a person takes these tags off") {
		t.Errorf("growth of a volume that is new by its tags: %v", err)
	}
	still("after its growth was asked for")
	a.OpenVolume("vg", "raw")
	if err := create(); status.Code(err) != codes.Aborted {
		t.Errorf("call on a volume that is open: %v", err)
	}
	still("after a call while it is open")
}
