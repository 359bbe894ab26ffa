package agenttest_test

import (
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestStale: a disk drops off and comes back. What nobody has open works again by itself; what is open is named until it is closed.
func TestStale(t *testing.T) {
	const group, owner = "vg", "6d1f8f3e-0000-4000-8000-000000000001"
	a := agenttest.New(t, agenttest.Options{NodeName: "node-1"})
	a.AddDisks(100<<30, "sdb")
	a.AddGroup(group, owner, "sdb")
	conn := a.Dial(t)
	volumes := agentv1.NewLogicalVolumeServiceClient(conn)
	for _, name := range []string{"open", "closed"} {
		_, err := volumes.CreateLogicalVolume(t.Context(), &agentv1.CreateLogicalVolumeRequest{
			Group: group, OwnerUid: owner, Name: name, Id: "node-1/" + name, SizeBytes: 1 << 30,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	unhealthy := func() (out []string) {
		r, err := volumes.ListLogicalVolumes(t.Context(), &agentv1.ListLogicalVolumesRequest{Group: group})
		if err != nil {
			return []string{err.Error()}
		}
		for _, v := range r.GetVolumes() {
			if v.GetHealth() != "" {
				out = append(out, v.GetName())
			}
		}
		return out
	}
	await := func(what string, want ...string) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !slices.Equal(unhealthy(), want); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not well are %v, want %v", what, unhealthy(), want)
			}
		}
	}
	a.OpenVolume(group, "open")
	a.Unplug("sdb")
	a.Plug("sdb")
	await("one is open", "open")
	a.CloseVolume(group, "open")
	await("nobody has one open")
}
