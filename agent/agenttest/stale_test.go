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
