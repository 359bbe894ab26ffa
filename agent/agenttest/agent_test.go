package agenttest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"quarry.storage/quarry/agent/agenttest"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func TestAgent_listsDisks(t *testing.T) {
	for name, opts := range map[string]agenttest.Options{"port": {}, "memory": {Network: &agenttest.Network{}}} {
		t.Run(name, func(t *testing.T) {
			a := agenttest.New(t, opts)
			path := a.AddDisk(agenttest.Disk{Name: "sdb"})
			client := agentv1.NewDeviceServiceClient(a.Dial(t))
			if d := onlyDevice(t, client); d.GetPath() != path || len(d.GetRefusals()) != 0 {
				t.Errorf("device: %v", d)
			}
		})
	}
}

// TestAgent_tellsUdevOfItsChanges: udev misses that the agent closes the disk. Nevertheless a disk that was given back is clean, and
// udev knows of one that was taken.
func TestAgent_tellsUdevOfItsChanges(t *testing.T) {
	a := agenttest.New(t, agenttest.Options{Network: &agenttest.Network{}})
	a.AddDisk(agenttest.Disk{Name: "sdb"})
	a.Deafen("sdb")
	conn := a.Dial(t)
	devices, groups := agentv1.NewDeviceServiceClient(conn), agentv1.NewVolumeGroupServiceClient(conn)
	d := onlyDevice(t, devices)
	id := &agentv1.DeviceIdentity{Path: d.GetPath(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest()}
	ids := []*agentv1.DeviceIdentity{id}
	if _, err := groups.EnsureVolumeGroup(t.Context(), &agentv1.EnsureVolumeGroupRequest{Name: "g", OwnerUid: "u", Devices: ids}); err != nil {
		t.Fatal(err)
	}
	if got := a.Udev("sdb")["ID_FS_TYPE"]; got != "LVM2_member" {
		t.Errorf("to udev a disk that was taken is %q", got)
	}
	if _, err := groups.RemoveVolumeGroup(t.Context(), &agentv1.RemoveVolumeGroupRequest{Name: "g", OwnerUid: "u", Devices: ids}); err != nil {
		t.Fatal(err)
	}
	if d := onlyDevice(t, devices); len(d.GetRefusals()) > 0 {
		t.Errorf("a disk that was given back is refused: %v", d.GetRefusals())
	}
	a.Format("sdb", "ext4", "", "")
	if diff := cmp.Diff(map[string]string{}, a.Udev("sdb")); diff != "" {
		t.Errorf("udev knows what it was not told (-want +got):\n%s", diff)
	}
	id.Digest = onlyDevice(t, devices).GetDigest()
	if _, err := devices.WipeDevice(t.Context(), &agentv1.WipeDeviceRequest{Device: id}); err != nil {
		t.Fatal(err)
	}
	if d = onlyDevice(t, devices); len(d.GetRefusals()) > 0 {
		t.Errorf("a disk that was wiped is refused: %v", d.GetRefusals())
	}
}

// TestAgent_interruptedWipeOfADiskInUseSince: the approval of a wipe covers what was on the disk when it was given, and nothing later.
func TestAgent_interruptedWipeOfADiskInUseSince(t *testing.T) {
	for name, c := range map[string]struct {
		since func(*agenttest.Agent)
		want  codes.Code
	}{
		"nothing happened": {func(*agenttest.Agent) {}, codes.OK},
		"it was used":      {func(a *agenttest.Agent) { a.Format("sdb", "zfs_member", "", "") }, codes.FailedPrecondition},
	} {
		a := agenttest.New(t, agenttest.Options{})
		a.AddDisk(agenttest.Disk{Name: "sdb"})
		a.Format("sdb", "ext4", "", "")
		d := onlyDevice(t, agentv1.NewDeviceServiceClient(a.Dial(t)))
		id := &agentv1.DeviceIdentity{Path: d.GetPath(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest()}
		wipe := func() error {
			_, err := agentv1.NewDeviceServiceClient(a.Dial(t)).WipeDevice(t.Context(), &agentv1.WipeDeviceRequest{Device: id})
			return err
		}
		a.CrashAfter(1)
		if err := wipe(); err == nil {
			t.Fatalf("%s: the wipe was not interrupted", name)
		}
		a.Restart(t)
		c.since(a)
		if err := wipe(); status.Code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
		d = onlyDevice(t, agentv1.NewDeviceServiceClient(a.Dial(t)))
		if clean := len(d.GetRefusals()) == 0; clean != (c.want == codes.OK) {
			t.Errorf("%s: %v", name, d.GetRefusals())
		}
		id.Digest = d.GetDigest()
		if err := wipe(); err != nil {
			t.Errorf("%s, and approved anew: %v", name, err)
		}
	}
}

// onlyDevice is the one device of the node.
func onlyDevice(t *testing.T, client agentv1.DeviceServiceClient) *agentv1.Device {
	t.Helper()
	resp, err := client.ListDevices(t.Context(), &agentv1.ListDevicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.GetDevices()) != 1 {
		t.Fatalf("devices: %v", resp.GetDevices())
	}
	return resp.GetDevices()[0]
}
