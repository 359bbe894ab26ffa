package conformance

import (
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"quarry.storage/quarry/pkg/refusal"
	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

func describesNode(s *suite) {
	resp, err := agentv1.NewNodeServiceClient(s.Conn(s.T)).GetNode(s.ctx(), &agentv1.GetNodeRequest{})
	s.must("GetNode", err)
	if resp.GetNodeName() == "" || resp.GetAgentVersion() == "" || resp.GetKernelRelease() == "" || resp.GetBootId() == "" {
		s.Errorf("node: %v", resp)
	}
	if resp.GetLvmVersion() == "" || resp.GetLvmError() != "" {
		s.Errorf("LVM: %v", resp)
	}
}

func emptyDiskIsClean(s *suite) {
	for _, path := range s.Disks() {
		id := s.clean(path)
		if id.GetDigest() == "" || id.GetSizeBytes() <= 0 {
			s.Errorf("device %s: %v", path, id)
		}
		if again := s.clean(path); !proto.Equal(id, again) {
			s.Errorf("device %s is described as %v, then as %v", path, id, again)
		}
	}
}

func wipeCleans(s *suite) {
	s.clean(s.Disks()[0])
	if d := s.device(s.Disks()[0]); d.GetWipeable() {
		s.Errorf("a clean disk is reported as one to wipe: %v", d)
	}
	id := s.dirty(s.Disks()[0])
	if d := s.device(s.Disks()[0]); !d.GetWipeable() {
		s.Errorf("a dirty disk is not reported as one to wipe: %v", d)
	}
	s.must("wipe", s.wipe(id))
	now := s.clean(id.GetPath())
	if now.GetDigest() == id.GetDigest() {
		s.Error("the digest did not change")
	}
	before := s.Steps()
	s.must("wipe again", s.wipe(id))
	if n := s.Steps() - before; n != 0 {
		s.Errorf("wipe again made %d changes", n)
	}
	s.must("ensure", s.ensure(groupName, owner, now))
}

func wipeRefusesAnother(s *suite) {
	id := s.dirty(s.Disks()[0])
	before := s.Steps()
	for name, change := range map[string]func(*agentv1.DeviceIdentity){
		"serial": func(d *agentv1.DeviceIdentity) { d.Serial += "x" },
		"size":   func(d *agentv1.DeviceIdentity) { d.SizeBytes++ },
		"digest": func(d *agentv1.DeviceIdentity) { d.Digest += "x" },
	} {
		other := proto.CloneOf(id)
		change(other)
		s.refused("wipe with another "+name, s.wipe(other), codes.FailedPrecondition, before)
	}
	none := proto.CloneOf(id)
	none.Digest = ""
	s.refused("wipe without a digest", s.wipe(none), codes.InvalidArgument, before)
	absent := proto.CloneOf(id)
	absent.Path = "/dev/disk/by-id/quarry-absent"
	s.refused("wipe an absent disk", s.wipe(absent), codes.NotFound, before)
	if d := s.device(id.GetPath()); d.GetDigest() != id.GetDigest() {
		s.Errorf("the disk changed: %v", d)
	}
}

func wipeRefusesOwned(s *suite) {
	a := s.clean(s.Disks()[0])
	s.must("ensure", s.ensure(groupName, owner, a))
	if d := s.device(a.GetPath()); d.GetWipeable() {
		s.Errorf("a disk of ours is reported as one to wipe: %v", d)
	}
	before := s.Steps()
	s.refused("wipe", s.wipe(identity(s.device(a.GetPath()))), codes.FailedPrecondition, before)
	s.holds(a.GetPath())
}

// inspectSeesNow: what the agent tells of a disk is of when it tested the disk, and nothing tells of a program that opens it later. An inspection looks at that moment.
func inspectSeesNow(s *suite) {
	id := s.clean(s.Disks()[0])
	closes := s.OpenDisk(s.T, id.GetPath())
	d, err := s.inspect(id)
	s.must("inspect a disk that is open", err)
	if len(d.GetRefusals()) != 1 || d.GetRefusals()[0].GetReason() != refusal.Busy || d.GetDigest() != id.GetDigest() {
		s.Errorf("a disk that a program has open: %v", d)
	}
	if d := s.device(id.GetPath()); len(d.GetRefusals()) > 0 {
		s.Logf("What is observed says so as well: %v", d.GetRefusals())
	}
	closes()
	before := s.Steps()
	d, err = s.inspect(id)
	s.must("inspect a disk that was closed", err)
	if !proto.Equal(identity(d), id) || len(d.GetRefusals()) > 0 || s.Steps() != before {
		s.Errorf("a disk that nobody has open any more: %v, after %d changes", d, s.Steps()-before)
	}
	dirty := s.dirty(id.GetPath())
	d, err = s.inspect(dirty)
	s.must("inspect a dirty disk", err)
	if d.GetDigest() != dirty.GetDigest() || len(d.GetRefusals()) == 0 {
		s.Errorf("a dirty disk: %v", d)
	}
}

func inspectRefusesAnother(s *suite) {
	id := s.clean(s.Disks()[0])
	for name, row := range map[string]struct {
		change func(*agentv1.DeviceIdentity)
		want   codes.Code
	}{
		"another serial number": {func(d *agentv1.DeviceIdentity) { d.Serial += "x" }, codes.FailedPrecondition},
		"another size":          {func(d *agentv1.DeviceIdentity) { d.SizeBytes++ }, codes.FailedPrecondition},
		"another digest":        {func(d *agentv1.DeviceIdentity) { d.Digest += "x" }, codes.FailedPrecondition},
		"an absent disk":        {func(d *agentv1.DeviceIdentity) { d.Path = "/dev/disk/by-id/quarry-absent" }, codes.NotFound},
		"no size":               {func(d *agentv1.DeviceIdentity) { d.SizeBytes = 0 }, codes.InvalidArgument},
		"no digest":             {func(d *agentv1.DeviceIdentity) { d.Digest = "" }, codes.OK},
	} {
		other := proto.CloneOf(id)
		row.change(other)
		if d, err := s.inspect(other); status.Code(err) != row.want {
			s.Errorf("%s: %v, %v, want code %s", name, d, err, row.want)
		}
	}
	if _, err := s.inspect(nil); status.Code(err) != codes.InvalidArgument {
		s.Errorf("no device: %v", err)
	}
}

// openDiskIsLeftAlone: a program that has a disk open keeps nobody from opening it exclusively, and may open it when the agent has found
// nobody. The message names the program.
func openDiskIsLeftAlone(s *suite) {
	clean, dirty := s.clean(s.Disks()[0]), s.dirty(s.Disks()[1])
	for _, path := range s.Disks()[:2] {
		closeIt := s.OpenDisk(s.T, path)
		defer closeIt()
	}
	before := s.Steps()
	for what, err := range map[string]error{"ensure": s.ensure(groupName, owner, clean), "wipe": s.wipe(dirty)} {
		s.refused(what, err, codes.FailedPrecondition, before)
		if text := status.Convert(err).Message(); !strings.Contains(text, refusal.Busy+": The device is in use by process ") {
			s.Errorf("%s: the message does not name the program: %s", what, text)
		}
	}
	d := s.settled(clean.GetPath(), func(d *agentv1.Device) bool { return refusedFor(d, refusal.Busy) })
	if text := d.GetRefusals()[0].GetMessage(); !strings.HasPrefix(text, "The device is in use by process ") {
		s.Errorf("the device: %s", text)
	}
}

func watchShowsChange(s *suite) {
	id := s.clean(s.Disks()[0])
	stream, err := s.devices().WatchDevices(s.ctx(), &agentv1.WatchDevicesRequest{})
	s.must("WatchDevices", err)
	if _, err := stream.Recv(); err != nil {
		s.Fatalf("first message: %v", err)
	}
	groups, err := s.groups().WatchVolumeGroups(s.ctx(), &agentv1.WatchVolumeGroupsRequest{})
	s.must("WatchVolumeGroups", err)
	if _, err := groups.Recv(); err != nil {
		s.Fatalf("first message: %v", err)
	}
	s.must("ensure", s.ensure(groupName, owner, id))
	for seen := false; !seen; {
		resp, err := stream.Recv()
		s.must("watch devices", err)
		for _, d := range resp.GetDevices() {
			seen = seen || d.GetPath() == id.GetPath() && d.GetVolumeGroup() == groupName
		}
	}
	for seen := false; !seen; {
		resp, err := groups.Recv()
		s.must("watch groups", err)
		for _, g := range resp.GetGroups() {
			seen = seen || g.GetName() == groupName
		}
	}
}

func identity(d *agentv1.Device) *agentv1.DeviceIdentity {
	return &agentv1.DeviceIdentity{
		Path: d.GetPath(), Wwn: d.GetWwn(), Serial: d.GetSerial(), SizeBytes: d.GetSizeBytes(), Digest: d.GetDigest(),
	}
}

func refusedFor(d *agentv1.Device, reason string) bool {
	for _, r := range d.GetRefusals() {
		if r.GetReason() == reason {
			return true
		}
	}
	return false
}
