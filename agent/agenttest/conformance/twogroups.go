package conformance

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	agentv1 "quarry.storage/quarry/proto/agent/v1"
)

// Activating is a node whose volumes can be activated as for a pod, and of which a group can be deactivated as by a reboot.
type Activating interface {
	Node
	Activate(t *testing.T, group, name string) error
}

// TwoGroups runs what a node does with two groups of one name, and is no part of Run: the model knows groups by their names.
func TwoGroups(t *testing.T, node Activating) {
	run(t, node, []behaviour{{"two groups of one name serve what they hold", func(s *suite) { twoGroupsServe(s, node) }}})
}

// twoGroupsServe makes a group on a disk, takes that disk away, makes the group anew on another one, and brings the first disk back. Both groups
// serve what they hold, and nothing else is done until there is one.
func twoGroupsServe(s *suite, node Activating) {
	if !s.Activates() {
		s.Skip("this kernel has no device-mapper, so nothing can be activated; make conformance runs it on one that has")
	}
	first, second := s.Disks()[0], s.Disks()[1]
	s.must("ensure the first", s.ensure(groupName, owner, s.clean(first)))
	_, err := s.create(volumeSpec("v1", 20))
	s.must("create v1", err)
	node.Deactivate(s.T, groupName)
	s.Detach(s.T, first)
	for deadline := time.Now().Add(settleTimeout); s.group() != nil; time.Sleep(settlePause) {
		if time.Now().After(deadline) {
			s.Fatalf("the group is seen without its disk: %v", s.group())
		}
	}
	s.must("ensure the second", s.ensure(groupName, owner, s.clean(second)))
	_, err = s.create(volumeSpec("v2", 20))
	s.must("create v2", err)
	s.Attach(s.T, first)
	for _, path := range []string{first, second} {
		s.settled(path, func(d *agentv1.Device) bool { return d.GetOwnerUid() == owner && d.GetVolumeGroup() == groupName })
	}
	resp, err := s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
	s.must("list", err)
	if len(resp.GetGroups()) != 2 || resp.GetGroups()[0].GetUuid() == resp.GetGroups()[1].GetUuid() {
		s.Fatalf("groups: %v", resp.GetGroups())
	}

	s.refusesAnythingNew(first, second)
	for _, name := range []string{"v1", "v2"} {
		s.must("activate "+name, node.Activate(s.T, groupName, name))
		_, err := s.create(volumeSpec(name, 20))
		s.must("create again "+name, err)
		s.OpenVolume(s.T, groupName, name)()
		s.must("delete "+name, s.delete(name))
	}
	resp, err = s.groups().ListVolumeGroups(s.ctx(), &agentv1.ListVolumeGroupsRequest{})
	s.must("list", err)
	for _, g := range resp.GetGroups() {
		if len(g.GetLogicalVolumes()) != 0 {
			s.Errorf("%s is left", g.GetLogicalVolumes())
		}
	}
}

// refusesAnythingNew wants new volumes, growth and changes of the groups to be refused without an effect.
func (s *suite) refusesAnythingNew(first, second string) {
	s.Helper()
	before := s.Steps()
	_, err := s.create(volumeSpec("v3", 4))
	s.refused("create", err, codes.PermissionDenied, before)
	_, err = s.volumes().ResizeLogicalVolume(s.ctx(), &agentv1.ResizeLogicalVolumeRequest{
		Group: groupName, OwnerUid: owner, Name: "v2", Id: "node/v2", SizeBytes: 40 * mib,
	})
	s.refused("resize", err, codes.PermissionDenied, before)
	s.refused("ensure", s.ensure(groupName, owner, identity(s.device(first)), identity(s.device(second))), codes.AlreadyExists, before)
	s.refused("remove", s.remove(groupName, owner), codes.PermissionDenied, before)
}

// anotherUUID is that of a group that is not on the node.
const anotherUUID = "another-group-uuid"

// groupIsTheOneMeant: a call that names the UUID of another group than the one of that name changes nothing, and none makes a group in the
// place of one that is not there. One that names the right UUID does what it does without.
func groupIsTheOneMeant(s *suite) {
	a, b := s.clean(s.Disks()[0]), s.clean(s.Disks()[1])
	before := s.Steps()
	s.refused("a group that is not there", s.ensureMeant(anotherUUID, a), codes.FailedPrecondition, before)
	s.must("ensure", s.ensure(groupName, owner, a))
	before = s.Steps()
	for call, do := range s.meaning(anotherUUID, b) {
		s.refused(call, do(), codes.FailedPrecondition, before)
	}
	uuid := s.group().GetUuid()
	s.must("extend", s.ensureMeant(uuid, a, b))
	_, err := s.groups().ReduceVolumeGroup(s.ctx(), &agentv1.ReduceVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, GroupUuid: uuid, Devices: []*agentv1.DeviceIdentity{b},
	})
	s.must("reduce", err)
	_, err = s.groups().RemoveVolumeGroup(s.ctx(), &agentv1.RemoveVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, GroupUuid: uuid, Devices: []*agentv1.DeviceIdentity{a},
	})
	s.must("remove", err)
}

func (s *suite) ensureMeant(uuid string, devices ...*agentv1.DeviceIdentity) error {
	_, err := s.groups().EnsureVolumeGroup(s.ctx(), &agentv1.EnsureVolumeGroupRequest{
		Name: groupName, OwnerUid: owner, GroupUuid: uuid, Devices: devices,
	})
	return err
}

// meaning are the calls that change a group or what is in it, each for the group with a UUID.
func (s *suite) meaning(uuid string, device *agentv1.DeviceIdentity) map[string]func() error {
	groups, volumes := s.groups(), s.volumes()
	return map[string]func() error{
		"EnsureVolumeGroup": func() error { return s.ensureMeant(uuid, device) },
		"ReduceVolumeGroup": func() error {
			_, err := groups.ReduceVolumeGroup(s.ctx(), &agentv1.ReduceVolumeGroupRequest{
				Name: groupName, OwnerUid: owner, GroupUuid: uuid, Devices: []*agentv1.DeviceIdentity{device},
			})
			return err
		},
		"ForgetMissingDevice": func() error {
			_, err := groups.ForgetMissingDevice(s.ctx(), &agentv1.ForgetMissingDeviceRequest{
				Name: groupName, OwnerUid: owner, GroupUuid: uuid, PhysicalVolumes: []string{"pv"},
			})
			return err
		},
		"MoveExtents": func() error {
			_, err := groups.MoveExtents(s.ctx(), &agentv1.MoveExtentsRequest{Name: groupName, OwnerUid: owner, GroupUuid: uuid, Device: device})
			return err
		},
		"RemoveVolumeGroup": func() error {
			_, err := groups.RemoveVolumeGroup(s.ctx(), &agentv1.RemoveVolumeGroupRequest{Name: groupName, OwnerUid: owner, GroupUuid: uuid})
			return err
		},
		"CreateLogicalVolume": func() error {
			req := volumeSpec("v1", 4)
			req.GroupUuid = uuid
			_, err := s.create(req)
			return err
		},
		"DeleteLogicalVolume": func() error {
			_, err := volumes.DeleteLogicalVolume(s.ctx(), &agentv1.DeleteLogicalVolumeRequest{
				Group: groupName, OwnerUid: owner, GroupUuid: uuid, Name: "v1", Id: "node/v1",
			})
			return err
		},
		"ResizeLogicalVolume": func() error {
			_, err := volumes.ResizeLogicalVolume(s.ctx(), &agentv1.ResizeLogicalVolumeRequest{
				Group: groupName, OwnerUid: owner, GroupUuid: uuid, Name: "v1", Id: "node/v1", SizeBytes: 8 * mib,
			})
			return err
		},
		"EnsureThinPool": func() error {
			_, err := volumes.EnsureThinPool(s.ctx(), &agentv1.EnsureThinPoolRequest{
				Group: groupName, OwnerUid: owner, GroupUuid: uuid, Name: "pool", SizeBytes: 8 * mib,
			})
			return err
		},
		"RepairThinPool": func() error {
			_, err := volumes.RepairThinPool(s.ctx(), &agentv1.RepairThinPoolRequest{
				Group: groupName, OwnerUid: owner, GroupUuid: uuid, Name: "pool", RepairDigest: "v1:d",
			})
			return err
		},
	}
}
