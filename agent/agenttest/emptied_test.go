package agenttest_test

import (
	"slices"
	"testing"
	"time"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// TestEmptied: an agent that dies when pvmove has moved everything leaves LVM's own volume. It is no volume of anybody, and the next agent removes it.
func TestEmptied(t *testing.T) {
	const group, owner = "vg", "6d1f8f3e-0000-4000-8000-000000000001"
	a := agenttest.New(t, agenttest.Options{NodeName: "node-1"})
	a.AddDisks(1<<30, "sdb", "sdc")
	a.AddGroup(group, owner, "sdb", "sdc")
	groups, volumes := agentv1.NewVolumeGroupServiceClient(a.Dial(t)), agentv1.NewLogicalVolumeServiceClient(a.Dial(t))
	_, err := volumes.CreateLogicalVolume(t.Context(), &agentv1.CreateLogicalVolumeRequest{
		Group: group, OwnerUid: owner, Name: "v", Id: "node-1/v", SizeBytes: 64 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	devices, err := agentv1.NewDeviceServiceClient(a.Dial(t)).ListDevices(t.Context(), &agentv1.ListDevicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(devices.GetDevices(), func(d *agentv1.Device) bool { return d.GetKernelName() == "sdb" })
	d := devices.GetDevices()[i]
	a.CrashBefore(3)
	if _, err := groups.MoveExtents(t.Context(), &agentv1.MoveExtentsRequest{Name: group, OwnerUid: owner, Device: &agentv1.DeviceIdentity{
		Path: d.GetPath(), Wwn: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest(),
	}}); err == nil {
		t.Fatal("the agent did not die")
	}
	if got := a.Groups()[0].Volumes; !slices.Equal(got, []string{"pvmove0", "v"}) {
		t.Fatalf("volumes %v", got)
	}
	a.Restart(t)
	r, err := agentv1.NewLogicalVolumeServiceClient(a.Dial(t)).ListLogicalVolumes(t.Context(), &agentv1.ListLogicalVolumesRequest{Group: group})
	if err != nil || len(r.GetVolumes()) != 1 {
		t.Errorf("volumes %v, %v", r.GetVolumes(), err)
	}
	for deadline := time.Now().Add(10 * time.Second); len(a.Groups()[0].Volumes) != 1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("volumes %v", a.Groups()[0].Volumes)
		}
	}
}
